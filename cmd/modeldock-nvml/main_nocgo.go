//go:build !cgo

// Command modeldock-nvml prints this machine's NVIDIA cards as JSON; built
// without cgo it can only say that it cannot.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "modeldock-nvml: built without cgo, so it cannot load NVIDIA's library: build it with CGO_ENABLED=1")
	os.Exit(1)
}
