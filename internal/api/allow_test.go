package api

import (
	"errors"
	"strings"
	"testing"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery/engine"
	"modeldock.io/internal/modelspec"
)

func TestAllowLists(t *testing.T) {
	t.Parallel()
	model := func(engine modelspec.Engine, source string) modelspec.Model {
		m := modelspec.Default("x")
		m.Engine, m.Source = engine, source
		return m
	}
	simulated := model(modelspec.EngineSimulated, "")
	withEnv := simulated
	withEnv.Env = map[string]string{"LD_PRELOAD": "/tmp/x.so"}
	for name, c := range map[string]struct {
		allow []string
		model modelspec.Model
		args  []string
		field string // empty: allowed
	}{
		"the simulated engine needs nothing": {nil, simulated, nil, ""},
		"another engine does":                {nil, model(modelspec.EngineOllama, "tiny"), nil, "model.engine"},
		"its name opens it":                  {[]string{"ollama"}, model(modelspec.EngineOllama, "tiny"), nil, ""},
		"another letter case does not":       {[]string{"Ollama", "OLLAMA"}, model(modelspec.EngineOllama, "tiny"), nil, "model.engine"},
		"nor does another engine's name":     {[]string{"vllm"}, model(modelspec.EngineOllama, "tiny"), nil, "model.engine"},
		"everything":                         {[]string{"*"}, model(modelspec.EngineCustom, "file:///etc/passwd"), []string{"--x"}, ""},
		"a star inside opens nothing":        {[]string{"oll*", "file://*"}, model(modelspec.EngineOllama, "tiny"), nil, "model.engine"},
		"environment":                        {[]string{"ollama"}, withEnv, nil, "model.env"},
		"environment allowed":                {[]string{"env"}, withEnv, nil, ""},
		"arguments":                          {nil, simulated, []string{"--lora"}, "model.args"},
		"arguments allowed":                  {[]string{"args"}, simulated, []string{"--lora"}, ""},
		"source without a prefix":            {[]string{"ollama"}, model(modelspec.EngineOllama, "file:///models/a.gguf"), nil, "model.source"},
		"source under its prefix":            {[]string{"ollama", "file:///models/"}, model(modelspec.EngineOllama, "file:///models/a.gguf"), nil, ""},
		"folder without a slash":             {[]string{"ollama", "file:///models"}, model(modelspec.EngineOllama, "file:///models/a.gguf"), nil, ""},
		"whole source":                       {[]string{"ollama", "file:///m/a.gguf"}, model(modelspec.EngineOllama, "file:///m/a.gguf"), nil, ""},
		"a whole scheme":                     {[]string{"ollama", "hf://"}, model(modelspec.EngineOllama, "hf://org/m"), nil, ""},
		"a folder that begins like it":       {[]string{"ollama", "file:///models"}, model(modelspec.EngineOllama, "file:///models-of-others/a"), nil, "model.source"},
		"climbing out":                       {[]string{"ollama", "file:///models/"}, model(modelspec.EngineOllama, "file:///models/../etc/passwd"), nil, "model.source"},
		"climbing out in escapes":            {[]string{"ollama", "file:///models/"}, model(modelspec.EngineOllama, "file:///models/%2e%2e/etc/passwd"), nil, "model.source"},
		"climbing out in half escapes":       {[]string{"ollama", "file:///models/"}, model(modelspec.EngineOllama, "file:///models/.%2E/etc/passwd"), nil, "model.source"},
		"a broken escape":                    {[]string{"ollama", "file:///models/"}, model(modelspec.EngineOllama, "file:///models/%zz"), nil, "model.source"},
		"another letter case of the scheme":  {[]string{"ollama", "file:///models/"}, model(modelspec.EngineOllama, "FILE:///models/a"), nil, "model.source"},
		"a name of the library":              {[]string{"ollama"}, model(modelspec.EngineOllama, "library/tiny:1b"), nil, ""},
		"a registry of its own":              {[]string{"ollama"}, model(modelspec.EngineOllama, "169.254.169.254/latest/meta-data"), nil, "model.source"},
		"the hub by its address":             {[]string{"ollama", "image:hf.co/org"}, model(modelspec.EngineOllama, "hf.co/org/tiny"), nil, "model.source"},
		"a registry with a wrong scheme":     {[]string{"ollama", "hf://"}, model(modelspec.EngineOllama, "http:/evil.example/x"), nil, "model.source"},
		"a registry that is allowed":         {[]string{"ollama", "registry.example/"}, model(modelspec.EngineOllama, "registry.example/team/tiny"), nil, ""},
		"a registry that begins like it":     {[]string{"ollama", "registry.example"}, model(modelspec.EngineOllama, "registry.example.evil/team/tiny"), nil, "model.source"},
		"a prefix of the scheme alone":       {[]string{"ollama", "file"}, model(modelspec.EngineOllama, "file:///etc/passwd"), nil, "model.source"},
		"an empty entry":                     {[]string{"ollama", ""}, model(modelspec.EngineOllama, "file:///etc/passwd"), nil, "model.source"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := checkAllowed(budget.Tenant{Name: "team-a", Engines: c.allow}, c.model, c.args, false)
			var p *problem
			switch {
			case c.field == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.field != "" && (!errors.As(err, &p) || p.status != 403 || p.field != c.field):
				t.Errorf("got %v, want 403 for %s", err, c.field)
			}
		})
	}
}

// An image of one's own runs whatever is in it, under any engine's name.
func TestImagesAreAllowedByName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		allow []string
		image string
		ok    bool
	}{
		"none of one's own":     {nil, "", true},
		"nobody said so":        {nil, "registry.example/team/engine:1", false},
		"an engine's name":      {[]string{"simulated", "custom", "args", "env"}, "registry.example/team/engine:1", false},
		"the very image":        {[]string{"image:registry.example/team/engine:1"}, "registry.example/team/engine:1", true},
		"another tag":           {[]string{"image:registry.example/team/engine:1"}, "registry.example/team/engine:12", false},
		"any tag":               {[]string{"image:registry.example/team/engine"}, "registry.example/team/engine:2", true},
		"a digest":              {[]string{"image:registry.example/team/engine"}, "registry.example/team/engine@sha256:00", true},
		"what is below":         {[]string{"image:registry.example/team/"}, "registry.example/team/a/b:1", true},
		"up and down again":     {[]string{"image:registry.example/team"}, "registry.example/team/../other/x", false},
		"a word more":           {[]string{"image:registry.example/team"}, "registry.example/team/x y", false},
		"a neighbour":           {[]string{"image:registry.example/team"}, "registry.example/team-b/engine", false},
		"another port":          {[]string{"image:registry.example"}, "registry.example:5000/engine", false},
		"another registry":      {[]string{"image:registry.example/team/"}, "evil.example/registry.example/team/engine", false},
		"an empty entry":        {[]string{"image:"}, "evil.example/engine", false},
		"a source of that name": {[]string{"registry.example/team/"}, "registry.example/team/engine", false},
		"everything":            {[]string{"*"}, "evil.example/engine", true},
	} {
		m := modelspec.Default("x")
		m.Image = c.image
		err := checkAllowed(budget.Tenant{Name: "team-a", Engines: c.allow}, m, nil, false)
		var p *problem
		if c.ok && err != nil || !c.ok && (!errors.As(err, &p) || p.status != 403 || p.field != "model.image" || !strings.Contains(p.message, `"image:`+c.image+`"`)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the demonstration's tenants start with counts on loopback only.
func TestLoopbackEntryCountsOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	m := modelspec.Default("x")
	m.Engine, m.Source = modelspec.EngineCustom, "file:///models/a"
	m.Env = map[string]string{"A": "1"}
	tenant := budget.Tenant{Name: "team-a", Engines: []string{AllowOnLoopback}}
	if err := checkAllowed(tenant, m, []string{"--x"}, true); err != nil {
		t.Errorf("on loopback: %v", err)
	}
	if err := checkAllowed(tenant, m, nil, false); err == nil {
		t.Error("beyond loopback everything is still allowed")
	}
}

// What the refusal says an admin should do opens what was refused.
func TestRefusalsAreJudgedAtSubmitOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	submit := `{"id":"tiny","cost":1,"priority":1,"model":{"engine":"ollama","source":"hf://org/tiny"}}`
	b.ask(b.a, "POST", "/requests", submit).fails(403, "engine_not_allowed")
	b.ask(b.admin, "PUT", "/tenants/team-a/engines", `{"allow":["ollama"]}`).is(200)
	if e := b.ask(b.a, "POST", "/requests", submit).fails(403, "engine_not_allowed"); value(e.Field, "") != "model.source" {
		t.Errorf("field %q", value(e.Field, ""))
	}
	b.ask(b.admin, "PUT", "/tenants/team-a/engines", `{"allow":["ollama","hf://"]}`).is(200)
	b.ask(b.a, "POST", "/requests", submit).is(202)
	// The same submit stays the same answer after the list was taken away.
	b.ask(b.admin, "PUT", "/tenants/team-a/engines", `{"allow":[]}`).is(200)
	if r := read[openapi.Request](b.ask(b.a, "POST", "/requests", submit), 202); r.Submits != 2 {
		t.Errorf("submitted twice, counted %d", r.Submits)
	}
	for _, bad := range []string{`{"allow":[""]}`, `{}`, `{"allow":null}`, `{"allow":"*"}`} {
		b.ask(b.admin, "PUT", "/tenants/team-a/engines", bad).fails(400, "invalid_request")
	}
}

// What a refusal suggests opens that one argument, and no other.
func TestArgumentsAreAllowedByName(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.ArgsOutside = engine.ArgsOutsidePreset })
	submit := func(args string) answer {
		return b.ask(b.a, "POST", "/requests", `{"id":"tiny","cost":1,"priority":1,"model":{"engine":"vllm","source":"hf://org/tiny","args":[`+args+`]}}`)
	}
	allow := func(more string) {
		b.ask(b.admin, "PUT", "/tenants/team-a/engines", `{"allow":["vllm","hf://"`+more+`]}`).is(200)
	}
	allow("")
	if e := submit(`"--lora=/x"`).fails(403, "engine_not_allowed"); !strings.Contains(e.Message, `"arg:--lora"`) {
		t.Errorf("suggested: %s", e.Message)
	}
	allow(`,"arg:--lora"`)
	submit(`"--lora","/x"`).fails(403, "engine_not_allowed")
	submit(`"--lora=/x","--allowed-local-media-path=/"`).fails(403, "engine_not_allowed")
	allow(`,"arg:--lora *","arg:"`)
	submit(`"--lora","/x","--model=evil"`).fails(403, "engine_not_allowed")
	submit(`"--lora","/x"`).is(202)
}

func TestPoolsAreGiven(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.ask(b.admin, "PUT", "/pools/big", `{"cap":4}`).is(200)
	submit := func(id, pool string) answer {
		return b.ask(b.a, "POST", "/requests", `{"id":"`+id+`","cost":1,"priority":1,"pool":"`+pool+`"}`)
	}
	submit("one", "big").fails(403, "pool_not_allowed")
	submit("two", "default").is(202)
	b.ask(b.admin, "PUT", "/tenants/team-a/pools", `{"allow":["big"]}`).is(200)
	submit("one", "big").is(202)
	submit("three", "BIG").fails(403, "pool_not_allowed")
	b.ask(b.admin, "PUT", "/tenants/team-a/pools", `{"allow":["*"]}`).is(200)
	submit("three", "nowhere").fails(400, "invalid_request")
	for _, bad := range []string{`{"cap":-1}`, `{"cap":9007199254740993}`, `{"cap":"1"}`, `{}`} {
		b.ask(b.admin, "PUT", "/pools/big", bad).fails(400, "invalid_request")
		b.ask(b.admin, "PUT", "/tenants/team-a/quota", bad).fails(400, "invalid_request")
	}
	b.ask(b.admin, "PUT", "/pools/-x", `{"cap":1}`).fails(400, "invalid_request")
}

func TestEnvironmentIsMasked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.ask(b.admin, "PUT", "/tenants/team-a/engines", `{"allow":["env"]}`).is(200)
	submit := `{"id":"one","cost":1,"priority":1,"model":{"env":{"HF_TOKEN":"hf_secret"}}}`
	r := read[openapi.Request](b.ask(b.a, "POST", "/requests", submit), 202)
	if env := value(r.Model.Env, nil); env["HF_TOKEN"] != "***" {
		t.Errorf("env is %v", env)
	}
	stored, err := b.ledger.Get(t.Context(), budget.Ref{Tenant: "team-a", ID: "one"})
	b.ok(err)
	if stored.Model.Env["HF_TOKEN"] != "hf_secret" {
		t.Error("the masked value was stored")
	}
	e := b.ask(b.a, "POST", "/requests", `{"id":"one","cost":1,"priority":1,"model":{"env":{"HF_TOKEN":"zzz9"}}}`).fails(409, "conflict")
	if strings.Contains(e.Message, "hf_secret") || strings.Contains(e.Message, "zzz9") || value(e.Field, "") != "model.env.HF_TOKEN" {
		t.Errorf("field %q: %s", value(e.Field, ""), e.Message)
	}
	for _, row := range b.audits() {
		if strings.Contains(row.Result+row.What, "hf_secret") {
			t.Errorf("an audit row shows a secret: %+v", row)
		}
	}
}
