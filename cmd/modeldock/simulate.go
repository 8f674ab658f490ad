package main

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"modeldock.io/internal/app"
	"modeldock.io/internal/elastic"
	"modeldock.io/internal/elastic/simulate"
	"modeldock.io/internal/modelspec"
)

type simulateFlags struct {
	trace, model, csv, plot string
	class                   string
	every                   time.Duration
	policies                []string
	seed                    uint64
	rate                    float64
	match                   bool
	least, most, asleep     int
	base                    simulate.Model // zero: the class's
}

func (c *cli) simulateCommand() *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate --trace FILE [--policy FILE]…",
		Short: "Replay a trace through the autoscaler, policies side by side",
		Long: "Replays arrivals through the same decisions that scale models, with a clock of its own.\n" +
			"Without --policy it compares reference-hpa with the online and the batch bundle, fitted to --cold-start.\n" +
			"The policy clairvoyant knows the trace: a bound of what knowledge of the future is worth.",
		Example: "  modeldock simulate --trace bench/traces/AzureLLMInferenceTrace_code.csv --cold-start 60s",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return c.simulate(f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.trace, "trace", "", "CSV of Azure's, Mooncake's or ServeGen's form (required)")
	fl.StringVar(&f.model, "model", "", "YAML or JSON file with the model: its class and GPUs")
	fl.StringVar(&f.class, "class", "llm", "llm, vision or recommender, unless --model says; the next defaults are the class's")
	fl.StringArrayVar(&f.policies, "policy", nil, "YAML file with a policy, or reference-hpa, online, batch, clairvoyant (repeatable)")
	fl.BoolVar(&f.match, "match", false, "compare all policies with the first at its attainment and at its GPU-hours")
	fl.IntVar(&f.least, "min", 0, "least replicas of online and batch")
	fl.IntVar(&f.most, "max", 16, "most replicas of online and batch")
	fl.StringVar(&f.csv, "csv", "", "write the replicas over time to this file")
	fl.StringVar(&f.plot, "plot", "", "draw arrivals and replicas over time into this SVG file")
	fl.Uint64Var(&f.seed, "seed", 1, "for traces of rates")
	fl.Float64Var(&f.rate, "rate", 1, "share of the requests to replay, 0 to 1")
	fl.DurationVar(&f.base.Warmup, "warmup", 0, "begin of the trace that policies learn from and that counts in no figure")
	fl.DurationVar(&f.base.ColdStart, "cold-start", 0, "from a decision to a ready replica (60s, 30s, 10s)")
	fl.IntVar(&f.asleep, "asleep", 0, "replicas beyond the wanted ones that stay loaded in host memory, without a card, of all policies but reference-hpa and clairvoyant")
	fl.DurationVar(&f.base.Wake, "wake-time", 0, "from a decision to a ready replica, where one sleeps (3s)")
	fl.DurationVar(&f.base.Stop, "stop-time", 0, "from the decision to end a replica until its cards are free, if no stream takes longer")
	fl.DurationVar(&f.every, "scale-every", app.DefaultScalingOptions().Every, "how often online and batch are decided for, as the controller's flag")
	fl.IntVar(&f.base.Concurrency, "concurrency", 0, "requests that a replica serves at once (8, 16, 64)")
	fl.DurationVar(&f.base.FirstChunk, "first-chunk", 0, "time to the first chunk of an empty prompt (50ms, 300ms, 20ms)")
	fl.Float64Var(&f.base.PromptRate, "prompt-rate", 0, "prompt tokens per second (8000)")
	fl.DurationVar(&f.base.PerToken, "per-token", 0, "time per token of an answer (30ms, 0, 0)")
	fl.DurationVar(&f.base.Objective, "objective", 0, "a later first chunk counts as late (2s, 1s, 500ms)")
	_ = cmd.MarkFlagRequired("trace")
	return cmd
}

// check refuses times and counts that nothing can have; 0 is what is usual.
func (f simulateFlags) check() error {
	var wrong []string
	for name, negative := range map[string]bool{
		"--asleep": f.asleep < 0, "--wake-time": f.base.Wake < 0, "--cold-start": f.base.ColdStart < 0, "--stop-time": f.base.Stop < 0,
		"--first-chunk": f.base.FirstChunk < 0, "--per-token": f.base.PerToken < 0, "--objective": f.base.Objective < 0,
		"--prompt-rate": f.base.PromptRate < 0, "--concurrency": f.base.Concurrency < 0,
	} {
		if negative {
			wrong = append(wrong, name)
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return usage("%s must not be negative", strings.Join(wrong, ", "))
	}
	if f.match && len(f.policies) == 1 {
		return usage("--match compares policies with the first one; name at least two with --policy")
	}
	return nil
}

func (c *cli) simulate(f simulateFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	class, err := f.readModel()
	if err != nil {
		return err
	}
	file, err := os.Open(f.trace)
	if err != nil {
		return usage("open the trace: %v", err)
	}
	defer func() { _ = file.Close() }()
	trace, err := simulate.Read(file, f.seed, f.rate)
	if err != nil {
		return usage("%s: %v", f.trace, err)
	}
	if len(f.policies) == 0 {
		f.policies = []string{"reference-hpa", string(modelspec.WorkloadOnline), string(modelspec.WorkloadBatch)}
	}
	var policies []simulate.Policy
	for _, name := range f.policies {
		p, err := f.readPolicy(name, class, trace)
		if err != nil {
			return err
		}
		policies = append(policies, p)
	}
	doc := simulation{Trace: filepath.Base(f.trace)}
	for _, p := range policies {
		r, err := simulate.Run(trace, f.base, p)
		if err != nil {
			return failed(err)
		}
		doc.Policies = append(doc.Policies, r)
	}
	if f.match {
		if doc.Matches, err = f.matches(trace, policies); err != nil {
			return failed(err)
		}
	}
	if err := f.draw(trace, doc.Policies); err != nil {
		return failed(err)
	}
	return c.showSimulation(doc)
}

// matches compares every policy but the first with it.
func (f simulateFlags) matches(trace []simulate.Request, policies []simulate.Policy) ([]simulate.Match, error) {
	var all []simulate.Match
	for _, p := range policies[1:] {
		dial := func(percent int) simulate.Policy {
			p := p
			p.Spec = f.dialled(p.Spec, percent)
			if fitted := p.Fitted; fitted != nil {
				p.Fitted = func(l elastic.Ladder) elastic.Spec { return f.dialled(fitted(l), percent) }
			}
			return p
		}
		if p.Plan != nil {
			dial = simulate.ClairvoyantDial(trace, f.base)
		}
		m, err := simulate.Against(trace, f.base, policies[0], dial)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// dialled is a policy with another load per replica.
func (f simulateFlags) dialled(s elastic.Spec, percent int) elastic.Spec {
	s.Metrics = append(s.Metrics[:0:0], s.Metrics...)
	s.Metrics[0].Target = max(1, float64(f.base.Concurrency*percent)/100)
	for i := range s.Metrics[1:] { // or memory would say what the dial does not
		s.Metrics[i+1].Target = max(s.Metrics[i+1].Target, float64(percent))
	}
	return s
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
	usual := simulate.DefaultModel(m.Class)
	f.base.ColdStart = cmp.Or(f.base.ColdStart, usual.ColdStart)
	f.base.Wake = cmp.Or(f.base.Wake, usual.Wake)
	f.base.Concurrency = cmp.Or(f.base.Concurrency, usual.Concurrency)
	f.base.FirstChunk = cmp.Or(f.base.FirstChunk, usual.FirstChunk)
	f.base.PromptRate = cmp.Or(f.base.PromptRate, usual.PromptRate)
	f.base.PerToken = cmp.Or(f.base.PerToken, usual.PerToken)
	f.base.Objective = cmp.Or(f.base.Objective, usual.Objective)
	return m.Class, nil
}
