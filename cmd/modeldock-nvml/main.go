//go:build cgo

// Command modeldock-nvml prints this machine's NVIDIA cards as JSON (account 2,
// for internal/device). It is a program of its own because NVIDIA's library
// needs cgo, which modeldock does without.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func main() {
	cards, err := inventory(nvml.New())
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(cards)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "modeldock-nvml:", err)
		os.Exit(1)
	}
}
