package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
)

// source is what the Go command wrote into a program about its making.
type source struct{ *debug.BuildInfo }

func madeFrom(path string) (source, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return source{}, fmt.Errorf("read what %s is made of: %w", path, err)
	}
	return source{info}, nil
}

// revision is the commit, if the program knows it and was built from it alone.
func (s source) revision() string {
	settings := map[string]string{}
	for _, x := range s.Settings {
		settings[x.Key] = x.Value
	}
	if settings["vcs.modified"] == "true" {
		return ""
	}
	return settings["vcs.revision"]
}

// A CycloneDX 1.6 document, as far as it is used.
type (
	document struct {
		Format     string      `json:"bomFormat"`
		Version    string      `json:"specVersion"`
		Revision   int         `json:"version"`
		Metadata   metadata    `json:"metadata"`
		Components []component `json:"components"`
	}
	metadata struct {
		Component component `json:"component"`
	}
	component struct {
		Type    string `json:"type"`
		Name    string `json:"name"`
		Version string `json:"version"`
		URL     string `json:"purl"`
	}
)

// components lists every module in the program, and Go itself. It has neither a
// time nor a random number, so that equal programs have equal lists.
func (s source) components(version string) ([]byte, error) {
	d := document{
		Format: "CycloneDX", Version: "1.6", Revision: 1,
		Metadata: metadata{component{Type: "application", Name: s.Path, Version: version, URL: "pkg:golang/" + s.Path + "@" + version}},
	}
	toolchain := strings.TrimPrefix(s.GoVersion, "go")
	d.Components = append(d.Components, component{Type: "library", Name: "std", Version: toolchain, URL: "pkg:golang/std@" + toolchain})
	for _, m := range s.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		d.Components = append(d.Components, component{Type: "library", Name: m.Path, Version: m.Version, URL: "pkg:golang/" + m.Path + "@" + m.Version})
	}
	slices.SortFunc(d.Components, func(a, b component) int { return strings.Compare(a.Name, b.Name) })
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the list of components: %w", err)
	}
	return append(text, '\n'), nil
}
