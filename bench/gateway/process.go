package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// The cores of the two parties, where there are two.
const (
	serverCore = 0
	clientCore = 1
)

// residentMiB is VmRSS of a process.
func residentMiB(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	_, rest, found := strings.Cut(string(text), "VmRSS:")
	fields := strings.Fields(rest)
	if !found || len(fields) == 0 {
		return 0, errors.New("read memory: there is no VmRSS")
	}
	kib, err := strconv.ParseFloat(fields[0], 64)
	return kib / 1024, err
}
