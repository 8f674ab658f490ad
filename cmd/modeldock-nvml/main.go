//go:build cgo

// Command modeldock-nvml prints this machine's NVIDIA cards as JSON (account 2,
// for internal/device): once, or with --every a line at each interval until its
// standard input ends. It is a program of its own because NVIDIA's library
// needs cgo, which modeldock does without.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func main() {
	every := flag.Duration("every", 0, "print again at this interval until standard input ends; 0: once")
	flag.Parse()
	if err := show(nvml.New(), *every, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "modeldock-nvml:", err)
		os.Exit(1)
	}
}

// show prints the cards, again and again if asked to. An error ends it: who
// started it starts it anew, with a library that is loaded afresh.
func show(lib nvml.Interface, every time.Duration, in io.Reader, out io.Writer) error {
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return fmt.Errorf("load NVIDIA's library: %s", nvml.ErrorString(ret))
	}
	defer func() { _ = lib.Shutdown() }() // the process ends anyway
	ended := make(chan struct{})
	ill := &faults{}
	if every > 0 {
		ill = watchFaults(lib)
		go func() {
			defer close(ended)
			_, _ = io.Copy(io.Discard, in)
		}()
	}
	for {
		cards, err := inventory(lib)
		if err == nil {
			ill.mark(cards)
			err = json.NewEncoder(out).Encode(cards)
		}
		if err != nil || every <= 0 {
			return err
		}
		ill.wait(every)
		select {
		case <-ended:
			return nil
		default:
		}
	}
}
