package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"modeldock.io/internal/api/openapi"
)

// submitFlags are the parts of a submission.
type submitFlags struct {
	id, pool, file                        string
	cost, ttl                             int64
	priority                              int
	name, version, engine, source, health string
	memory                                int64
	gpus                                  int
	args, command                         []string
	wait                                  bool
	timeout                               time.Duration
}

func (c *cli) submitCommand() *cobra.Command {
	var f submitFlags
	cmd := &cobra.Command{
		Use:   "submit --id ID [--cost N] [--priority N] [--model-file FILE | --model NAME --engine ENGINE --memory MIB]",
		Short: "Ask for a model to be served",
		Example: `  modeldock submit --id demo-a --wait
  modeldock submit --id tiny --engine ollama --source file:///models/tiny.gguf --memory 2048 --wait`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.submit(cmd, f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.id, "id", "", "id of the request, unique within the tenant (required)")
	fl.Int64Var(&f.cost, "cost", 1, "slots per replica")
	fl.IntVar(&f.priority, "priority", 50, "0 to 100, larger first")
	fl.StringVar(&f.pool, "pool", "", "pool to take the slots from")
	fl.Int64Var(&f.ttl, "ttl", 0, "seconds that it may wait")
	fl.StringVar(&f.file, "model-file", "", "YAML or JSON file with the whole model: what the API calls model, see docs/reference.md")
	fl.StringVar(&f.name, "model", "", "name to serve it under (default: the id)")
	fl.StringVar(&f.version, "model-version", "", "version of that name")
	fl.StringVar(&f.engine, "engine", "", "simulated, custom, llamacpp, ollama, vllm or sglang")
	fl.StringVar(&f.source, "source", "", "where the weights are, for example file:///models/tiny.gguf")
	fl.StringVar(&f.health, "health-path", "", "health check of a custom engine")
	fl.Int64Var(&f.memory, "memory", 0, "GPU memory per card, MiB")
	fl.IntVar(&f.gpus, "gpus", 0, "cards per replica")
	fl.StringArrayVar(&f.args, "arg", nil, "argument for the engine (repeatable)")
	fl.StringArrayVar(&f.command, "command", nil, "word of a custom engine's command (repeatable)")
	fl.BoolVar(&f.wait, "wait", false, "wait until the model is ready")
	fl.DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long --wait waits")
	_ = cmd.MarkFlagRequired("id")
	for _, part := range []string{"model", "model-version", "engine", "source", "health-path", "memory", "gpus", "arg", "command"} {
		cmd.MarkFlagsMutuallyExclusive("model-file", part) // the file holds the whole model
	}
	return cmd
}

func (c *cli) submit(cmd *cobra.Command, f submitFlags) error {
	conn, err := c.connect(false)
	if err != nil {
		return err
	}
	body := openapi.Submit{Id: f.id, Cost: f.cost, Priority: f.priority, Pool: opt(f.pool), TtlSeconds: opt(f.ttl), Tenant: conn.whose()}
	if body.Model, err = f.model(); err != nil {
		return err
	}
	doc, err := document202(conn.api.SubmitRequestWithResponse(cmd.Context(), body))
	if err != nil {
		return err
	}
	if f.wait {
		return c.waitReady(cmd.Context(), conn, f.id, f.timeout)
	}
	return c.printRequest(*doc)
}

// model returns nil where no flag speaks of one, so that the server's
// defaults apply.
func (f submitFlags) model() (*openapi.Model, error) {
	if f.file != "" {
		return documentFile[openapi.Model](f.file, "model")
	}
	m := openapi.Model{Name: opt(f.name), Version: opt(f.version), Source: opt(f.source), HealthPath: opt(f.health), GpuMemoryMiB: opt(f.memory), Gpus: opt(f.gpus)}
	if f.engine != "" {
		e := openapi.ModelEngine(f.engine)
		m.Engine = &e
	}
	if len(f.args) > 0 {
		m.Args = &f.args
	}
	if len(f.command) > 0 {
		m.Command = &f.command
	}
	if m == (openapi.Model{}) {
		return nil, nil
	}
	return &m, nil
}

// documentFile reads a whole document strictly; what says what it is.
func documentFile[T any](path, what string) (*T, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, usage("read the %s file: %v", what, err)
	}
	if data, err = yaml.YAMLToJSONStrict(data); err != nil {
		return nil, usage("%s is not valid YAML: %v", path, err)
	}
	doc := new(T)
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(doc); err != nil {
		return nil, usage("%s is no %s: %v", path, what, err)
	}
	return doc, nil
}

func opt[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func (c *cli) printRequest(r openapi.Request) error {
	return c.print(r, []string{r.Id}, requestTable([]openapi.Request{r}))
}

func requestTable(rs []openapi.Request) table {
	t := table{head: []string{"ID", "TENANT", "STATE", "REASON", "READY", "COST", "HELD", "PRIORITY", "MODEL", "ENGINE", "AGE", "MESSAGE"}}
	for _, r := range rs {
		replicas := r.FundedReplicas
		if replicas == 0 { // what it asks for, or had
			replicas = 1
			if r.Model.Replicas != nil && r.Model.Replicas.Min != nil {
				replicas = max(1, *r.Model.Replicas.Min)
			}
		}
		t.add(r.Id, r.Tenant, string(r.State), text(r.Reason), fmt.Sprintf("%d/%d", r.ReadyReplicas, replicas),
			fmt.Sprint(r.Cost), fmt.Sprint(r.Held), fmt.Sprint(r.Priority),
			text(r.Model.Name)+"@"+text(r.Model.Version), text(r.Model.Engine), ageOf(r.CreatedAt), text(r.Message))
	}
	return t
}
