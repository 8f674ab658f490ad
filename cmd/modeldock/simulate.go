package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
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
	Target            *float64 `json:"target"` // of the first metric
	IdleSeconds       *float64 `json:"idleSeconds"`
	UpWindowSeconds   *float64 `json:"upWindowSeconds"`
	DownWindowSeconds *float64 `json:"downWindowSeconds"`
}

type simulateFlags struct {
	trace, model, csv string
	class             string
	policies          []string
	seed              uint64
	rate              float64
	base              simulate.Model
}

func (c *cli) simulateCommand() *cobra.Command {
	f := simulateFlags{base: simulate.DefaultModel()}
	cmd := &cobra.Command{
		Use:   "simulate --trace FILE [--policy FILE]…",
		Short: "Replay a trace through the autoscaler, policies side by side",
		Long: "Replays arrivals through the same decisions that scale models, with a clock of its own.\n" +
			"Without --policy it compares reference-hpa with the online and the batch bundle.",
		Example: "  modeldock simulate --trace bench/traces/AzureLLMInferenceTrace_code.csv --cold-start 60s",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return c.simulate(f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.trace, "trace", "", "CSV of Azure's, Mooncake's or ServeGen's form (required)")
	fl.StringVar(&f.model, "model", "", "YAML or JSON file with the model: its class and GPUs")
	fl.StringVar(&f.class, "class", "llm", "llm, vision or recommender, unless --model says")
	fl.StringArrayVar(&f.policies, "policy", nil, "YAML file with a policy, or reference-hpa, online, batch (repeatable)")
	fl.StringVar(&f.csv, "csv", "", "write the replicas over time to this file")
	fl.Uint64Var(&f.seed, "seed", 1, "for traces of rates")
	fl.Float64Var(&f.rate, "rate", 1, "share of the requests to replay, 0 to 1, spread evenly")
	fl.DurationVar(&f.base.ColdStart, "cold-start", f.base.ColdStart, "from a decision to a ready replica")
	fl.IntVar(&f.base.Concurrency, "concurrency", 0, "requests that a replica serves at once (default: the class's)")
	fl.DurationVar(&f.base.FirstChunk, "first-chunk", f.base.FirstChunk, "time to the first chunk of an empty prompt")
	fl.Float64Var(&f.base.PromptRate, "prompt-rate", f.base.PromptRate, "prompt tokens per second")
	fl.DurationVar(&f.base.PerToken, "per-token", f.base.PerToken, "time per token of an answer")
	fl.DurationVar(&f.base.Objective, "objective", f.base.Objective, "a later first chunk counts as late")
	_ = cmd.MarkFlagRequired("trace")
	return cmd
}

func (c *cli) simulate(f simulateFlags) error {
	class, err := f.readModel()
	if err != nil {
		return err
	}
	file, err := os.Open(f.trace)
	if err != nil {
		return usage("open the trace: %v", err)
	}
	defer func() { _ = file.Close() }()
	trace, err := simulate.Read(file, f.seed)
	if err != nil {
		return usage("%s: %v", f.trace, err)
	}
	if !(f.rate > 0 && f.rate <= 1) {
		return usage("--rate must be above 0 and at most 1; got %g", f.rate)
	}
	trace = simulate.Thin(trace, f.rate)
	if len(f.policies) == 0 {
		f.policies = []string{"reference-hpa", string(modelspec.WorkloadOnline), string(modelspec.WorkloadBatch)}
	}
	var results []simulate.Result
	for _, name := range f.policies {
		p, err := readPolicy(name, class, f.base.Concurrency)
		if err != nil {
			return err
		}
		r, err := simulate.Run(trace, f.base, p)
		if err != nil {
			return failed(err)
		}
		results = append(results, r)
	}
	if f.csv != "" {
		if err := writeCSV(f.csv, results); err != nil {
			return failed(err)
		}
	}
	return c.showSimulation(filepath.Base(f.trace), results)
}

// readModel takes class and cards from the model's file.
func (f *simulateFlags) readModel() (modelspec.Class, error) {
	var m struct {
		Class modelspec.Class `json:"class"`
		GPUs  int             `json:"gpus"`
	}
	if f.model != "" {
		data, err := os.ReadFile(f.model)
		if err == nil {
			err = yaml.Unmarshal(data, &m)
		}
		if err != nil {
			return "", usage("read the model: %v", err)
		}
	}
	if m.Class == "" {
		m.Class = modelspec.Class(f.class)
	}
	switch m.Class {
	case modelspec.ClassLLM, modelspec.ClassVision, modelspec.ClassRecommender:
	default:
		return "", usage("the class must be llm, vision or recommender; got %q", m.Class)
	}
	f.base.GPUs = max(1, m.GPUs)
	if f.base.Concurrency == 0 {
		f.base.Concurrency = elastic.Concurrency(m.Class)
	}
	return m.Class, nil
}

// readPolicy takes the name of a bundle or of a file.
func readPolicy(name string, class modelspec.Class, concurrency int) (simulate.Policy, error) {
	f := policyFile{Name: name, Base: name}
	if _, err := os.Stat(name); err == nil {
		data, err := os.ReadFile(name)
		f = policyFile{Name: filepath.Base(name), Base: string(modelspec.WorkloadOnline)}
		if err == nil {
			err = yaml.UnmarshalStrict(data, &f)
		}
		if err != nil {
			return simulate.Policy{}, usage("read policy %s: %v", name, err)
		}
	}
	p := simulate.Policy{Name: f.Name, Period: 5 * time.Second}
	switch f.Base {
	case "reference-hpa":
		p.Spec, p.Period = elastic.Reference(), 15*time.Second // the controller's own
	case string(modelspec.WorkloadOnline), string(modelspec.WorkloadBatch):
		p.Spec = elastic.For(class, modelspec.Workload(f.Base), concurrency)
		p.Spec.Min = 0
	default:
		return p, usage("policy %s is neither a file nor reference-hpa, online or batch; its base is %q", name, f.Base)
	}
	f.override(&p.Spec)
	if s := p.Spec; s.Min < 0 || s.Max < max(1, s.Min) || s.Metrics[0].Target <= 0 {
		return p, usage("policy %s: min %d, max %d and target %g; it must be 0 ≤ min ≤ max, max ≥ 1, target > 0", name, s.Min, s.Max, s.Metrics[0].Target)
	}
	return p, nil
}

func (f policyFile) override(s *elastic.Spec) {
	seconds := func(to *time.Duration, v *float64) {
		if v != nil {
			*to = time.Duration(*v * float64(time.Second))
		}
	}
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
}

func writeCSV(name string, results []simulate.Result) error {
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write the timeline: %w", err)
	}
	err = simulate.CSV(file, results)
	if closed := file.Close(); err == nil && closed != nil {
		err = fmt.Errorf("write the timeline: %w", closed)
	}
	return err
}

func (c *cli) showSimulation(trace string, results []simulate.Result) error {
	doc := struct {
		Trace    string            `json:"trace"`
		Policies []simulate.Result `json:"policies"`
	}{trace, results}
	t := table{head: []string{"POLICY", "GPU-HOURS", "IN TIME", "LATE", "FIRST P50", "P95", "P99", "WAIT P99", "COLD", "TURNS"}}
	var names []string
	for _, r := range results {
		names = append(names, r.Name)
		t.add(r.Name, fmt.Sprintf("%.2f", r.GPUHours), fmt.Sprintf("%.2f %%", 100*r.Attainment), fmt.Sprint(r.Late),
			fmt.Sprintf("%.2f s", r.FirstChunk.P50), fmt.Sprintf("%.2f s", r.FirstChunk.P95), fmt.Sprintf("%.2f s", r.FirstChunk.P99),
			fmt.Sprintf("%.2f s", r.Wait.P99), fmt.Sprint(r.ColdStarts), fmt.Sprint(r.DirectionChanges))
	}
	if err := c.print(doc, names, t); err != nil || c.opts.output != "" && c.opts.output != "table" {
		return err
	}
	for _, r := range results {
		if err := r.Plot(c.out, 80); err != nil {
			return failed(err)
		}
	}
	return nil
}
