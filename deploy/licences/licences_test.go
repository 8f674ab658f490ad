package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestRecognise(t *testing.T) {
	t.Parallel()
	ours, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	bsd2 := "Redistribution and use in source and binary\nforms, with or without modification, are permitted"
	for text, want := range map[string][]string{
		string(ours): {"Apache-2.0"}, bsd2: {"BSD-2-Clause"}, bsd2 + " Neither the\n name of the author": {"BSD-3-Clause"},
		"Permission is hereby granted, free of charge,\n to any person obtaining a copy of": {"MIT"},
		"GNU GENERAL PUBLIC LICENSE Version 3":                                              {"GPL"}, "All rights reserved.": nil,
	} {
		if got := recognise(text); !slices.Equal(got, want) {
			t.Errorf("%.60q is %v, not %v", text, got, want)
		}
	}
}

// What may not be given away is named, with its reason.
func TestJudge(t *testing.T) {
	t.Parallel()
	good := part{"go", "a", "v1", []string{"MIT"}}
	if err := judge([]part{good}); err != nil {
		t.Error(err)
	}
	err := judge([]part{good, {"npm", "b", "2", []string{"AGPL-3.0"}}, {"go", "c", "v3", nil}, {"go", "d", "v4", []string{"MIT", "GPL"}}})
	for _, says := range []string{"3 of 4", "npm b 2: AGPL-3.0", "go c v3: no licence", "go d v4: GPL"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("it does not say %q: %v", says, err)
		}
	}
}

// Everything that is in our programs and in the console may be given away.
func TestEveryLicenceIsAllowed(t *testing.T) {
	t.Parallel()
	parts, err := all(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := judge(parts); err != nil {
		t.Error(err)
	}
	var list bytes.Buffer
	if err := write(&list, parts); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"\ngo,github.com/gin-gonic/gin,v", "\ngo,modernc.org/sqlite,v", "\nnpm,vue,"} {
		if !strings.Contains(list.String(), line) {
			t.Errorf("the list lacks %q", line)
		}
	}
	if len(parts) < 100 {
		t.Errorf("only %d parts:\n%s", len(parts), list.String())
	}
}
