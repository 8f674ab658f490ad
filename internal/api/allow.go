package api

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery/engine"
	"modeldock.io/internal/modelspec"
)

// Entries of a tenant's engine allow list beside engine names and source
// prefixes such as "file:///models/".
const (
	allowEverything = "*"
	// AllowOnLoopback allows everything while only this machine can reach the
	// listener: what the demonstration's tenants start with.
	AllowOnLoopback = "loopback:*"
	allowEnv        = "env"
	allowArgs       = "args"
	// allowArg begins an entry with the name of one argument of engines:
	// "arg:--lora" opens --lora and --lora=x, "arg:--lora *" also the form whose
	// value is the next argument.
	allowArg = "arg:"
	// allowImage begins an entry with an image, or with the beginning of its name.
	allowImage = "image:"
)

// checkAllowed refuses what would run code or read files that an admin has
// not allowed this tenant: every engine but the simulated one, environment
// variables, arguments that neither the preset nor its list names, images that the tenant names
// itself, and sources by prefix.
func checkAllowed(t budget.Tenant, m modelspec.Model, argsOutside []string, onLoopback bool) error {
	everything := slices.Contains(t.Engines, allowEverything) || (onLoopback && slices.Contains(t.Engines, AllowOnLoopback))
	has := func(entry string) bool { return everything || slices.Contains(t.Engines, entry) }
	switch {
	case m.Engine != modelspec.EngineSimulated && !has(string(m.Engine)):
		return notAllowed("model.engine", t, "engine "+string(m.Engine), string(m.Engine))
	case m.Image != "" && !everything && !imageAllowed(t.Engines, m.Image):
		return notAllowed("model.image", t, "image "+m.Image, allowImage+m.Image)
	case len(m.Env) > 0 && !has(allowEnv):
		return notAllowed("model.env", t, "environment variables", allowEnv)
	case len(argsOutside) > 0 && !has(allowArgs):
		return notAllowed("model.args", t, "argument "+argsOutside[0]+", which is outside the preset's list", entryFor(argsOutside[0]))
	case leadsElsewhere(m) && !everything && !sourceAllowed(t.Engines, m.Source):
		return sourceNotAllowed(t, m.Source)
	}
	return nil
}

// allowedArgs are the arguments that a list opens by name, and whether the
// next argument may be their value.
func allowedArgs(allow []string) map[string]bool {
	names := map[string]bool{}
	for _, e := range allow {
		if name, ok := strings.CutPrefix(e, allowArg); ok && strings.HasPrefix(name, "-") {
			name, valued := strings.CutSuffix(name, " *")
			names[name] = names[name] || valued
		}
	}
	return names
}

// entryFor is the narrowest entry that opens an argument.
func entryFor(arg string) string {
	if !strings.HasPrefix(arg, "-") {
		return allowArgs
	}
	name, _, _ := strings.Cut(arg, "=")
	return allowArg + name
}

// leadsElsewhere reports whether a source says itself where weights come from.
// A name that an engine looks up in a library of its own does not.
func leadsElsewhere(m modelspec.Model) bool {
	return strings.Contains(m.Source, "://") || engine.NamesRegistry(m)
}

// sourceAllowed reports whether source stands under one of the allowed
// prefixes. A prefix ends at a slash: file:///models does not open
// file:///models-of-others. Neither does anything that climbs out again by
// "..", also where that is written in percent escapes, which are undone later.
func sourceAllowed(allow []string, source string) bool {
	plain, err := url.PathUnescape(source)
	if err != nil || strings.Contains(plain, "..") || strings.ContainsRune(plain, 0) {
		return false
	}
	return slices.ContainsFunc(allow, func(e string) bool {
		rest, under := strings.CutPrefix(source, e)
		return under && strings.Contains(e, "/") && !strings.HasPrefix(e, allowImage) && (rest == "" || strings.HasSuffix(e, "/") || strings.HasPrefix(rest, "/"))
	})
}

// imageAllowed reports whether an image is one of the allowed ones, or stands
// under one of their prefixes: image:registry.example/team opens its tags,
// digests and what is below, and neither registry.example/team-b nor another
// port of the host.
func imageAllowed(allow []string, image string) bool {
	// No reference to an image has these; what a runtime makes of them is unknown.
	if strings.Contains(image, "..") || strings.ContainsFunc(image, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return false
	}
	return slices.ContainsFunc(allow, func(e string) bool {
		name, named := strings.CutPrefix(e, allowImage)
		rest, under := strings.CutPrefix(image, name)
		if !named || !under || name == "" {
			return false
		}
		tag := strings.HasPrefix(rest, ":") && !strings.Contains(rest, "/")
		return rest == "" || tag || strings.HasSuffix(name, "/") || strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, "@")
	})
}

// sourceNotAllowed suggests no more than the folder that was asked for.
func sourceNotAllowed(t budget.Tenant, source string) error {
	plain, err := url.PathUnescape(source)
	if err != nil || strings.Contains(plain, "..") {
		return &problem{http.StatusForbidden, "engine_not_allowed",
			"source " + source + " leaves its folder by \"..\" or is not well escaped; name the file by its own path", "model.source"}
	}
	return notAllowed("model.source", t, "source "+source, source[:strings.LastIndex(source, "/")+1])
}

func notAllowed(field string, t budget.Tenant, what, entry string) error {
	return &problem{http.StatusForbidden, "engine_not_allowed",
		"tenant " + t.Name + " may not use " + what + "; an admin can allow it with PUT /tenants/" + t.Name + `/engines {"allow":` + asList(append(slices.Clone(t.Engines), entry)) + "}", field}
}

// asList spells a whole allow list, because a PUT replaces it.
func asList(entries []string) string {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // it is for people to read
	_ = e.Encode(entries)  // strings can always be
	return strings.TrimSpace(text.String())
}

// checkPool refuses a pool that was not given to the tenant; "default" is
// given to all.
func checkPool(t budget.Tenant, pool string) error {
	if pool == budget.DefaultPool || slices.Contains(t.Pools, pool) || slices.Contains(t.Pools, allowEverything) {
		return nil
	}
	return &problem{http.StatusForbidden, "pool_not_allowed",
		"tenant " + t.Name + " was not given pool " + pool + "; an admin can give it with PUT /tenants/" + t.Name + `/pools {"allow":["` + pool + `"]}`, "pool"}
}
