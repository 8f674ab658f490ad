package modelspec_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"modeldock.io/internal/modelspec"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"a": true, "7": true, "demo-a": true, "A.b_c-9": true, strings.Repeat("a", 128): true,
		"": false, strings.Repeat("a", 129): false, "-a": false, "a-": false, ".a": false, "a.": false, "_": false, "a b": false, "a/b": false,
		"ä": false, "a\n": false, "\na": false, "a\x00b": false, "..": false,
	} {
		if modelspec.ValidName(name) != ok {
			t.Errorf("%q: valid is %v", name, !ok)
		}
		err := modelspec.CheckName("id", name)
		var field *modelspec.FieldError
		if (err == nil) != ok || (err != nil && (!errors.As(err, &field) || field.Field != "id")) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := modelspec.CheckName("id", strings.Repeat("ä", 5000)); len(err.Error()) > 300 || !utf8.ValidString(err.Error()) {
		t.Errorf("the message has %d bytes: %q", len(err.Error()), err)
	}
}

func TestDefaultIsTheContracts(t *testing.T) {
	t.Parallel()
	m := modelspec.Default("demo")
	if err := m.Validate(); err != nil {
		t.Fatalf("the default is refused: %v", err)
	}
	text, err := json.Marshal(m)
	want := `{"name":"demo","version":"v1","class":"llm","workload":"online","engine":"simulated","gpuMemoryMiB":4096,"gpus":1,` +
		`"replicas":{"min":1,"max":1},"traffic":{"weight":100},"coldStart":{"timeoutSeconds":120,"maxWaiting":1000},"cache":{"enabled":false}}`
	// This text is hashed: another spelling would turn every repeated submit
	// into a conflict.
	if err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}

func TestValidateNamesTheField(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*modelspec.Model)
		field  string // empty: valid
	}{
		"name":                    {func(m *modelspec.Model) { m.Name = "a b" }, "model.name"},
		"version":                 {func(m *modelspec.Model) { m.Version = "" }, "model.version"},
		"class":                   {func(m *modelspec.Model) { m.Class = "LLM" }, "model.class"},
		"workload":                {func(m *modelspec.Model) { m.Workload = "night" }, "model.workload"},
		"engine":                  {func(m *modelspec.Model) { m.Engine = "magic" }, "model.engine"},
		"memory 0":                {func(m *modelspec.Model) { m.GPUMemory = 0 }, "model.gpuMemoryMiB"},
		"memory 1":                {func(m *modelspec.Model) { m.GPUMemory = 1 }, ""},
		"memory at its bound":     {func(m *modelspec.Model) { m.GPUMemory = modelspec.MaxGPUMemory }, ""},
		"memory beyond":           {func(m *modelspec.Model) { m.GPUMemory = modelspec.MaxGPUMemory + 1 }, "model.gpuMemoryMiB"},
		"no card":                 {func(m *modelspec.Model) { m.GPUs = 0 }, "model.gpus"},
		"too many cards":          {func(m *modelspec.Model) { m.GPUs = 65 }, "model.gpus"},
		"sleeping":                {func(m *modelspec.Model) { m.Replicas.Min = 0 }, ""},
		"negative replicas":       {func(m *modelspec.Model) { m.Replicas.Min = -1 }, "model.replicas.min"},
		"no replica":              {func(m *modelspec.Model) { m.Replicas = modelspec.Replicas{} }, "model.replicas.max"},
		"max below min":           {func(m *modelspec.Model) { m.Replicas = modelspec.Replicas{Min: 3, Max: 2} }, "model.replicas.max"},
		"too many replicas":       {func(m *modelspec.Model) { m.Replicas.Max = 1001 }, "model.replicas.max"},
		"weight 0":                {func(m *modelspec.Model) { m.Traffic.Weight = 0 }, ""},
		"weight beyond":           {func(m *modelspec.Model) { m.Traffic.Weight = 1001 }, "model.traffic.weight"},
		"no waiting at all":       {func(m *modelspec.Model) { m.ColdStart.MaxWaiting = 0 }, ""},
		"no time to start":        {func(m *modelspec.Model) { m.ColdStart.TimeoutSeconds = 0 }, "model.coldStart.timeoutSeconds"},
		"waiting beyond":          {func(m *modelspec.Model) { m.ColdStart.MaxWaiting = modelspec.MaxWaiting + 1 }, "model.coldStart.maxWaiting"},
		"port beyond":             {func(m *modelspec.Model) { m.Port = 65536 }, "model.port"},
		"custom without command":  {func(m *modelspec.Model) { m.Engine = modelspec.EngineCustom }, "model.command"},
		"custom":                  {func(m *modelspec.Model) { m.Engine, m.Command = modelspec.EngineCustom, []string{"serve"} }, ""},
		"command of a preset":     {func(m *modelspec.Model) { m.Command = []string{"serve"} }, "model.command"},
		"health path":             {func(m *modelspec.Model) { m.HealthPath = "/v1/health-check_x.y" }, ""},
		"health path with query":  {func(m *modelspec.Model) { m.HealthPath = "/health?x=1" }, "model.healthPath"},
		"health path is a host":   {func(m *modelspec.Model) { m.HealthPath = "evil/" }, "model.healthPath"},
		"health path, two lines":  {func(m *modelspec.Model) { m.HealthPath = "/a\n" }, "model.healthPath"},
		"too many arguments":      {func(m *modelspec.Model) { m.Args = make([]string, 257) }, "model.args"},
		"a long argument":         {func(m *modelspec.Model) { m.Args = []string{strings.Repeat("x", 8193)} }, "model.args"},
		"an argument with a NUL":  {func(m *modelspec.Model) { m.Args = []string{"a\x00b"} }, "model.args"},
		"environment":             {func(m *modelspec.Model) { m.Env = map[string]string{"_A1": "x=y\nz"} }, ""},
		"environment name":        {func(m *modelspec.Model) { m.Env = map[string]string{"A=B": "x"} }, "model.env"},
		"environment with a NUL":  {func(m *modelspec.Model) { m.Env = map[string]string{"A": "\x00"} }, "model.env"},
		"source on two lines":     {func(m *modelspec.Model) { m.Source = "hf://a\nb" }, "model.source"},
		"a source without an end": {func(m *modelspec.Model) { m.Source = strings.Repeat("x", 4097) }, "model.source"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := modelspec.Default("demo")
			c.change(&m)
			err := m.Validate()
			var field *modelspec.FieldError
			switch {
			case c.field == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.field != "" && (!errors.As(err, &field) || field.Field != c.field || !strings.Contains(field.Message, c.field)):
				t.Errorf("got %v, want one for %s that names it", err, c.field)
			}
		})
	}
}

// Every admission pays for one replica at least, so that a sleeping model can
// always wake.
func TestFundedReplicas(t *testing.T) {
	t.Parallel()
	for least, want := range map[int]int{0: 1, 1: 1, 2: 2, 1000: 1000} {
		if got := (modelspec.Replicas{Min: least, Max: 1000}).Funded(); got != want {
			t.Errorf("min %d funds %d, want %d", least, got, want)
		}
	}
}
