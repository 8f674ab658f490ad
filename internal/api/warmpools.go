package api

import (
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/elastic"
	"modeldock.io/internal/elastic/scaler"
	"modeldock.io/internal/modelspec"
)

// ListWarmPools answers what pools keep ready, and what that costs.
func (s handlers) ListWarmPools(c *gin.Context) {
	if !who(c).readsAll() {
		s.fail(c, forbidden("only an admin or viewer key may read what pools keep ready"))
		return
	}
	all, err := s.Scaling.WarmPools(c.Request.Context())
	if err != nil {
		s.fail(c, err)
		return
	}
	s.unread.Works()
	out := openapi.WarmPoolList{Items: []openapi.WarmPool{}}
	for _, rep := range all {
		out.Items = append(out.Items, warmWire(rep))
	}
	c.JSON(http.StatusOK, out)
}

// PutWarmPool replaces what a pool keeps ready.
func (s handlers) PutWarmPool(c *gin.Context, pool string) {
	if !s.adminOnly(c) {
		return
	}
	var in openapi.WarmPoolSettings
	if err := body(c, &in); err != nil {
		s.fail(c, err)
		return
	}
	p, err := s.Ledger.SetWarm(c.Request.Context(), pool, warmOf(in))
	s.audit(c, "", err, warmAudit(in))
	if err != nil {
		s.fail(c, err)
		return
	}
	rep := scaler.WarmReport{Pool: pool}
	if p.Warm != nil {
		rep.Settings = *p.Warm
	}
	all, err := s.Scaling.WarmPools(c.Request.Context())
	if err != nil {
		s.fail(c, err)
		return
	}
	for _, other := range all {
		if other.Pool == pool {
			rep = other
		}
	}
	c.JSON(http.StatusOK, warmWire(rep))
}

func warmAudit(in openapi.WarmPoolSettings) string {
	return fmt.Sprintf("%g GPU-hours a day for %d classes", value(in.GpuHoursPerDay, 0), len(value(in.Classes, nil)))
}

func warmOf(in openapi.WarmPoolSettings) modelspec.WarmPool {
	out := modelspec.WarmPool{GPUHoursPerDay: value(in.GpuHoursPerDay, 0), TimeZone: value(in.TimeZone, "")}
	for _, c := range value(in.Classes, nil) {
		class := modelspec.WarmClass{
			Class: modelspec.Class(c.Class), Hot: value(c.Hot, 0), Buffers: value(c.Buffers, 0), GPUMemory: value(c.GpuMemoryMiB, 0), GPUs: value(c.Gpus, 0),
		}
		for _, s := range value(c.Schedules, nil) {
			schedule := modelspec.WarmSchedule{From: s.From, To: s.To, Hot: value(s.Hot, 0), Buffers: value(s.Buffers, 0)}
			for _, d := range value(s.Days, nil) {
				schedule.Days = append(schedule.Days, string(d))
			}
			class.Schedules = append(class.Schedules, schedule)
		}
		out.Classes = append(out.Classes, class)
	}
	return out
}

func warmSettings(p modelspec.WarmPool) openapi.WarmPoolSettings {
	classes := []openapi.WarmClass{}
	for _, c := range p.Classes {
		class := openapi.WarmClass{
			Class: openapi.WarmClassClass(c.Class), Hot: &c.Hot, Buffers: &c.Buffers, GpuMemoryMiB: some(c.GPUMemory), Gpus: some(c.GPUs),
		}
		var schedules []openapi.WarmSchedule
		for _, s := range c.Schedules {
			var days []openapi.WarmScheduleDays
			for _, d := range s.Days {
				days = append(days, openapi.WarmScheduleDays(d))
			}
			schedules = append(schedules, openapi.WarmSchedule{Days: list(days), From: s.From, To: s.To, Hot: &s.Hot, Buffers: &s.Buffers})
		}
		class.Schedules = list(schedules)
		classes = append(classes, class)
	}
	return openapi.WarmPoolSettings{GpuHoursPerDay: &p.GPUHoursPerDay, TimeZone: some(p.TimeZone), Classes: &classes}
}

func warmWire(rep scaler.WarmReport) openapi.WarmPool {
	d := rep.Day
	out := openapi.WarmPool{
		Pool: rep.Pool, Settings: warmSettings(rep.Settings), Day: d.Day, SpentToday: d.GPUHours(), Left: max(0, rep.Settings.GPUHoursPerDay-d.GPUHours()),
		Activations: openapi.Activations{Hot: d.Counts[elastic.ActivatedHot], Warm: d.Counts[elastic.ActivatedWarm], Cold: d.Counts[elastic.ActivatedCold]},
		Classes:     []openapi.WarmServed{},
	}
	if p99, known := d.P99(); known {
		seconds := p99.Seconds()
		out.P99ActivationSeconds = &seconds
	}
	for _, c := range rep.Plan.Classes {
		served := openapi.WarmServed{
			Class: openapi.WarmServedClass(c.Class), Hot: openapi.WarmCount{Wanted: c.Hot.Wanted, Kept: c.Hot.Kept},
			Buffers: openapi.WarmCount{Wanted: c.Buffers.Wanted, Kept: c.Buffers.Kept}, Why: some(c.Why),
		}
		ready := d.Buffers[c.Class]
		served.Buffers.Ready = &ready
		if c.Buffers.Wanted > 0 && !rep.Buffered {
			served.Buffers.Kept = 0
			served.Why = some("room is kept on a cluster whose Pods ask for cards (controller --gpu), and not here")
		}
		out.Classes = append(out.Classes, served)
	}
	if g := rep.Next; g != nil {
		out.WhatTheNextHourBuys = &openapi.WarmGain{Class: openapi.WarmGainClass(g.Class), Activations: g.Activations, Seconds: g.Seconds, Message: g.Message}
	}
	return out
}
