package main

import (
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"

	"modeldock.io/internal/elastic"
	"modeldock.io/internal/elastic/simulate"
	"modeldock.io/internal/modelspec"
)

// policyFile overrides a bundle; what it leaves out is the bundle's.
type policyFile struct {
	Name              string   `json:"name"`
	Base              string   `json:"base"` // reference-hpa, or a workload: online, batch
	Min               *int     `json:"min"`
	Max               *int     `json:"max"`
	Target            *float64 `json:"target"`      // of the first metric
	LeadSeconds       *float64 `json:"leadSeconds"` // start-up that it is fitted to; 0: to none
	IdleSeconds       *float64 `json:"idleSeconds"`
	UpWindowSeconds   *float64 `json:"upWindowSeconds"`
	DownWindowSeconds *float64 `json:"downWindowSeconds"`
	SmoothSeconds     *float64 `json:"smoothSeconds"`
}

// readPolicy takes the name of a bundle or of a file.
func (f simulateFlags) readPolicy(name string, class modelspec.Class, trace []simulate.Request) (simulate.Policy, error) {
	file := policyFile{Name: name, Base: name}
	if _, err := os.Stat(name); err == nil {
		data, err := os.ReadFile(name)
		file = policyFile{Name: filepath.Base(name), Base: string(modelspec.WorkloadOnline)}
		if err == nil {
			err = yaml.UnmarshalStrict(data, &file)
		}
		if err != nil {
			return simulate.Policy{}, usage("read policy %s: %v", name, err)
		}
	}
	p := simulate.Policy{Name: file.Name}
	switch file.Base {
	case "clairvoyant":
		return simulate.Clairvoyant(trace, f.base, time.Second), nil
	case "reference-hpa":
		p.Spec, p.Period = elastic.Reference(), 15*time.Second // the controller's own
	case string(modelspec.WorkloadOnline), string(modelspec.WorkloadBatch):
		bundle := elastic.For(class, modelspec.Workload(file.Base), f.base.Concurrency)
		bundle.Min, bundle.Max = f.least, f.most
		lead := f.base.ColdStart
		seconds(&lead, file.LeadSeconds)
		p = simulate.Own(file.Name, bundle.Paced(lead))
		p.Period, p.Asleep, p.Fitted = f.every, f.asleep, file.fitted(bundle, lead)
	default:
		return p, usage("policy %s is neither a file nor reference-hpa, online, batch or clairvoyant; its base is %q", name, file.Base)
	}
	file.override(&p.Spec)
	if s := p.Spec; s.Min < 0 || s.Max < max(1, s.Min) || s.Metrics[0].Target <= 0 {
		return p, usage("policy %s: min %d, max %d and target %g; it must be 0 ≤ min ≤ max, max ≥ 1, target > 0", name, s.Min, s.Max, s.Metrics[0].Target)
	}
	return p, nil
}

// fitted is the policy where replicas sleep; lead is what it takes a start for.
func (f policyFile) fitted(bundle elastic.Spec, lead time.Duration) func(elastic.Ladder) elastic.Spec {
	return func(l elastic.Ladder) elastic.Spec {
		l.Start = lead
		s := bundle.PacedFor(l)
		f.override(&s)
		return s
	}
}

func (f policyFile) override(s *elastic.Spec) {
	if f.Min != nil {
		s.Min = *f.Min
	}
	if f.Max != nil {
		s.Max = *f.Max
	}
	if f.Target != nil {
		s.Metrics[0].Target = *f.Target
	}
	seconds(&s.Idle, f.IdleSeconds)
	seconds(&s.Behavior.Up.Window, f.UpWindowSeconds)
	seconds(&s.Behavior.Down.Window, f.DownWindowSeconds)
	seconds(&s.Smooth, f.SmoothSeconds)
}

func seconds(to *time.Duration, v *float64) {
	if v != nil {
		*to = time.Duration(*v * float64(time.Second))
	}
}
