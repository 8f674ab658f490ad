package api

import (
	"errors"
	"strings"
	"time"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

// submissionOf fills in the defaults of a submit body. What belongs to parts
// that are not built yet is refused here, unless it spells out a default.
func submissionOf(tenant string, in openapi.Submit) (budget.Submission, error) {
	sub := budget.Submission{
		Ref:      budget.Ref{Tenant: tenant, ID: in.Id},
		Cost:     in.Cost,
		Priority: in.Priority,
		Pool:     value(in.Pool, budget.DefaultPool),
		TTL:      budget.DefaultTTL,
		Model:    modelspec.Default(in.Id),
	}
	if in.TtlSeconds != nil {
		if *in.TtlSeconds < 1 || *in.TtlSeconds > int64(budget.MaxTTL/time.Second) {
			return sub, invalid("ttlSeconds", "ttlSeconds must be an integer from 1 to %d; got %d", int64(budget.MaxTTL/time.Second), *in.TtlSeconds)
		}
		sub.TTL = time.Duration(*in.TtlSeconds) * time.Second
	}
	if in.Model != nil {
		overlay(&sub.Model, *in.Model)
	}
	return sub, sub.Validate()
}

func overlay(m *modelspec.Model, in openapi.Model) {
	set(&m.Name, in.Name)
	set(&m.Version, in.Version)
	if in.Class != nil {
		m.Class = modelspec.Class(*in.Class)
	}
	if in.Workload != nil {
		m.Workload = modelspec.Workload(*in.Workload)
	}
	if in.Engine != nil {
		m.Engine = modelspec.Engine(*in.Engine)
	}
	set(&m.Image, in.Image)
	set(&m.Source, in.Source)
	m.Args, m.Command = value(in.Args, nil), value(in.Command, nil)
	m.Env = value(in.Env, nil)
	set(&m.Port, in.Port)
	set(&m.HealthPath, in.HealthPath)
	set(&m.GPUMemory, in.GpuMemoryMiB)
	set(&m.GPUs, in.Gpus)
	if in.Replicas != nil {
		set(&m.Replicas.Min, in.Replicas.Min)
		m.Replicas.Max = max(1, m.Replicas.Min)
		set(&m.Replicas.Max, in.Replicas.Max)
	}
	if in.Traffic != nil {
		set(&m.Traffic.Weight, in.Traffic.Weight)
	}
	if in.Cache != nil {
		m.Cache = mergedCache(m.Cache, *in.Cache)
	}
	if in.ColdStart != nil {
		m.ColdStart = mergedColdStart(m.ColdStart, *in.ColdStart)
	}
	if in.Scaling != nil {
		m.Scaling = mergedScaling(m.Scaling, *in.Scaling).Canonical()
	}
}

// mergedCache fills in how long answers are kept where the cache is on.
func mergedCache(now modelspec.Cache, in openapi.CachePolicy) modelspec.Cache {
	set(&now.Enabled, in.Enabled)
	set(&now.TTLSeconds, in.TtlSeconds)
	if now.Enabled && now.TTLSeconds == 0 && in.TtlSeconds == nil {
		now.TTLSeconds = modelspec.DefaultCacheSeconds
	}
	return now
}

func mergedColdStart(now modelspec.ColdStart, in openapi.ColdStart) modelspec.ColdStart {
	set(&now.TimeoutSeconds, in.TimeoutSeconds)
	set(&now.MaxWaiting, in.MaxWaiting)
	return now
}

func modelWire(m modelspec.Model) openapi.Model {
	class, workload, engine := openapi.ModelClass(m.Class), openapi.ModelWorkload(m.Workload), openapi.ModelEngine(m.Engine)
	return openapi.Model{
		Name: &m.Name, Version: &m.Version, Class: &class, Workload: &workload, Engine: &engine,
		Image: some(m.Image), Source: some(m.Source), HealthPath: some(m.HealthPath), Port: some(m.Port),
		Args: list(m.Args), Command: list(m.Command), Env: env(m.Env),
		GpuMemoryMiB: &m.GPUMemory, Gpus: &m.GPUs,
		Replicas:  &openapi.Replicas{Min: &m.Replicas.Min, Max: &m.Replicas.Max},
		Traffic:   &openapi.TrafficShare{Weight: &m.Traffic.Weight},
		Cache:     &openapi.CachePolicy{Enabled: &m.Cache.Enabled, TtlSeconds: some(m.Cache.TTLSeconds)},
		ColdStart: &openapi.ColdStart{TimeoutSeconds: &m.ColdStart.TimeoutSeconds, MaxWaiting: &m.ColdStart.MaxWaiting},
		Scaling:   scalingWire(m.Scaling),
	}
}

func set[T any](dst *T, v *T) {
	if v != nil {
		*dst = *v
	}
}

func value[T any](v *T, otherwise T) T {
	if v == nil {
		return otherwise
	}
	return *v
}

// some returns nil for the zero value, which is then left out.
func some[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func list[T any](v []T) *[]T {
	if len(v) == 0 {
		return nil
	}
	return &v
}

// withoutSecrets masks what a conflict would tell of an environment variable.
func withoutSecrets(err error) error {
	var c *budget.ConflictError
	if !errors.As(err, &c) || !strings.HasPrefix(c.Field, "model.env") {
		return err
	}
	return &budget.ConflictError{Ref: c.Ref, Field: c.Field, Have: "*** as it was first submitted", Got: "a different one"}
}

// env shows the names of variables and hides their values: they may be secrets.
func env(v map[string]string) *map[string]string {
	if len(v) == 0 {
		return nil
	}
	masked := make(map[string]string, len(v))
	for k := range v {
		masked[k] = "***"
	}
	return &masked
}
