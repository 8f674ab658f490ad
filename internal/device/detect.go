package device

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Reader is the program that asks NVIDIA's library. It is a program of its
// own because it needs cgo, which modeldock itself does without, and because
// a driver that hangs or crashes then takes nothing down with it.
const Reader = "modeldock-nvml"

const (
	driverLibrary = "libnvidia-ml.so.1"
	readTimeout   = 20 * time.Second
)

// Options for Detect.
type Options struct {
	Node  string
	Cards string // description of simulated cards; empty: real ones if there are any, else DefaultCards
	File  string // with simulated cards, instead of Cards; read again and again, see FromFile
	// RealOnly makes it an error that there are no real cards, where others
	// would take simulated ones for real.
	RealOnly bool

	executable  string                       // beside which the reader is looked for; tests set it
	findLibrary func(context.Context) string // where the driver library is, or ""
}

// Detect decides which cards this machine places models on. Why in the result
// is one sentence for the log.
func Detect(ctx context.Context, o Options) (Inventory, error) {
	if o.File != "" {
		return FromFile(o.Node, o.File)
	}
	if o.Cards != "" {
		return simulatedBecause(o, o.Cards, "they were asked for by configuration")
	}
	if o.findLibrary == nil {
		o.findLibrary = findDriver
	}
	library := o.findLibrary(ctx)
	if library == "" {
		return simulatedBecause(o, DefaultCards, "no NVIDIA driver library ("+driverLibrary+") was found")
	}
	reader, err := findReader(o.executable)
	if err != nil {
		return simulatedBecause(o, DefaultCards, fmt.Sprintf("the NVIDIA driver is there (%s) but %v", library, err))
	}
	read := func(ctx context.Context) ([]Card, error) { return readCards(ctx, reader) }
	cards, err := read(ctx)
	if err != nil {
		return simulatedBecause(o, DefaultCards, fmt.Sprintf("the NVIDIA driver is there (%s) but its cards could not be read: %v", library, err))
	}
	if len(cards) == 0 {
		return simulatedBecause(o, DefaultCards, "the NVIDIA driver reports no card")
	}
	return Inventory{
		Cards: cards, Why: fmt.Sprintf("%d real cards, as %s reports them", len(cards), reader), read: read, follow: followReader(reader),
	}, nil
}

func simulatedBecause(o Options, description, why string) (Inventory, error) {
	if o.RealOnly && o.Cards == "" {
		return Inventory{}, fmt.Errorf("find the cards of this machine: %s", why)
	}
	inv, err := Simulated(o.Node, description)
	inv.Why = fmt.Sprintf("simulated cards (%s), because %s", description, why)
	return inv, err
}

// findDriver asks the dynamic linker's cache and looks into the usual folders.
func findDriver(ctx context.Context) string {
	if out, err := exec.CommandContext(ctx, "ldconfig", "-p").Output(); err == nil {
		for line := range bytes.Lines(out) {
			if _, path, ok := bytes.Cut(line, []byte("=> ")); ok && bytes.Contains(line, []byte(driverLibrary)) {
				return string(bytes.TrimSpace(path))
			}
		}
	}
	dirs := []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64"}
	dirs = append(dirs, filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))...)
	for _, dir := range dirs {
		path := filepath.Join(dir, driverLibrary)
		if _, err := os.Stat(path); err == nil { //nolint:gosec // whoever sets LD_LIBRARY_PATH starts this process
			return path
		}
	}
	return ""
}

func findReader(executable string) (string, error) {
	if executable == "" {
		executable, _ = os.Executable() // without it PATH is still there
	}
	beside := filepath.Join(filepath.Dir(executable), Reader)
	if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
		return beside, nil
	}
	path, err := exec.LookPath(Reader)
	if err != nil {
		return "", fmt.Errorf("%s, which reads the cards, is neither beside %s nor on PATH: build it with CGO_ENABLED=1 go build ./cmd/%s", Reader, executable, Reader)
	}
	return path, nil
}

func readCards(ctx context.Context, reader string) ([]Card, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, reader)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return nil, fmt.Errorf("run %s: %s", reader, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", reader, err)
	}
	var cards []Card
	if err := json.Unmarshal(out, &cards); err != nil {
		return nil, fmt.Errorf("read the output of %s: %w", reader, err)
	}
	return cards, nil
}
