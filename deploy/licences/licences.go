package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// part is something of others that we give away with a program of ours.
type part struct {
	kind     string // "go" or "npm"
	name     string
	version  string
	licences []string // SPDX names, in order; empty: none was recognised
}

// allowed are the licences of parts: they ask for a notice at most. MPL-2.0 asks
// for the sources of its own files, which its modules are.
func allowed() []string {
	return []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "OFL-1.1", "Unicode-3.0", "Unlicense", "Zlib", "blessing"}
}

// marks are sentences that only the text of one licence has.
func marks() [][2]string {
	return [][2]string{
		{"Apache License Version 2.0", "Apache-2.0"},
		{"Mozilla Public License Version 2.0", "MPL-2.0"},
		{"Mozilla Public License, version 2.0", "MPL-2.0"},
		{"GNU GENERAL PUBLIC LICENSE", "GPL"},
		{"GNU LESSER GENERAL PUBLIC LICENSE", "LGPL"},
		{"GNU AFFERO GENERAL PUBLIC LICENSE", "AGPL"},
		{"Permission is hereby granted, free of charge, to any person obtaining a copy", "MIT"},
		{"Permission to use, copy, modify, and/or distribute this software for any purpose", "ISC"},
		{"Permission to use, copy, modify, and distribute this software for any purpose", "ISC"},
		{"Neither the name", "BSD-3-Clause"},
		{"names of its contributors may not be used to endorse", "BSD-3-Clause"},
		{"Redistribution and use in source and binary forms", "BSD-2-Clause"},
		{"The author disclaims copyright to this source code", "blessing"},
		{"This is free and unencumbered software released into the public domain", "Unlicense"},
	}
}

// recognise names the licences that a text consists of.
func recognise(text string) (found []string) {
	text = strings.Join(strings.Fields(text), " ")
	for _, m := range marks() {
		if strings.Contains(text, m[0]) && !slices.Contains(found, m[1]) {
			found = append(found, m[1])
		}
	}
	// The longer licence has the shorter one's sentence, too.
	if slices.Contains(found, "BSD-3-Clause") {
		found = slices.DeleteFunc(found, func(l string) bool { return l == "BSD-2-Clause" })
	}
	slices.Sort(found)
	return found
}

// module is one line of `go list`.
type module struct {
	Path, Version, Dir string
	Main               bool
	Replace            *module
}

// goParts are the modules that are linked into the programs of a module of ours.
func goParts(ctx context.Context, folder string, packages ...string) ([]part, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}"}, packages...)...)
	cmd.Dir = folder
	linked, err := output(cmd)
	if err != nil {
		return nil, fmt.Errorf("list what %v of %s are made of: %w", packages, folder, err)
	}
	names := strings.Fields(string(linked))
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "modeldock.io" })
	cmd = exec.CommandContext(ctx, "go", append([]string{"list", "-m", "-json"}, names...)...)
	cmd.Dir = folder
	text, err := output(cmd)
	if err != nil {
		return nil, fmt.Errorf("find the modules of %s: %w", folder, err)
	}
	var parts []part
	for dec := json.NewDecoder(strings.NewReader(string(text))); ; {
		var m module
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			return parts, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the modules of %s: %w", folder, err)
		}
		if m.Replace != nil {
			m = *m.Replace
		}
		found, err := licencesIn(m.Dir)
		if err != nil {
			return nil, fmt.Errorf("find the licence of %s: %w", m.Path, err)
		}
		parts = append(parts, part{"go", m.Path, m.Version, found})
	}
}

func output(cmd *exec.Cmd) ([]byte, error) {
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, errs.String())
	}
	return out, nil
}

// licencesIn reads the files of a module that say under which terms it is.
func licencesIn(folder string) (found []string, err error) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		name := strings.ToUpper(f.Name())
		if f.IsDir() || !strings.HasPrefix(name, "LICENSE") && !strings.HasPrefix(name, "LICENCE") && !strings.HasPrefix(name, "COPYING") || strings.HasSuffix(name, "-LOGO") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			return nil, err
		}
		found = append(found, recognise(string(text))...)
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// npmParts are the packages that the console is bundled from; what only builds
// or tests it is given to nobody.
func npmParts(lockFile string) ([]part, error) {
	text, err := os.ReadFile(lockFile)
	if err != nil {
		return nil, fmt.Errorf("read the console's packages: %w", err)
	}
	var lock struct {
		Packages map[string]struct {
			Version, License string
			Dev              bool
		}
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, fmt.Errorf("read the console's packages: %w", err)
	}
	var parts []part
	for path, p := range lock.Packages {
		if path == "" || p.Dev {
			continue
		}
		found := part{"npm", path[strings.LastIndex(path, "node_modules/")+len("node_modules/"):], p.Version, nil}
		if p.License != "" {
			found.licences = []string{p.License}
		}
		parts = append(parts, found)
	}
	return parts, nil
}

// refused says what is wrong with a part; empty if nothing is.
func (p part) refused() string {
	if len(p.licences) == 0 {
		return "no licence was recognised"
	}
	for _, l := range p.licences {
		if !slices.Contains(allowed(), l) {
			return l + " is not among the allowed ones"
		}
	}
	return ""
}
