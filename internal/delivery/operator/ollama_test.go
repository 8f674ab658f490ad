package operator

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"modeldock.io/test/executable"
)

// fakeOllama is a server that ends on SIGTERM, and a client that notes what it
// was asked for and has an answer once the server serves.
const fakeOllama = `#!/bin/sh
echo "$@" >>"$NOTES"
case "$1" in
serve) trap 'echo stopped >>"$NOTES"; exit 0' TERM; echo serves >>"$NOTES"; while :; do sleep 0.05; done ;;
list) grep -qx serves "$NOTES" ;;
show) exit 1 ;;
pull) exit "$PULL" ;;
esac
`

// startOllama runs the script of the container with another folder for /tmp.
func startOllama(t *testing.T, env ...string) (cmd *exec.Cmd, dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := executable.Write(filepath.Join(dir, "ollama"), []byte(fakeOllama)); err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command("/bin/sh", "-c", strings.ReplaceAll(ollamaScript, "/tmp/", dir+"/"), "start-ollama", "ollama", "serve")
	cmd.Env = append([]string{"PATH=" + dir + ":/usr/bin:/bin", "NOTES=" + filepath.Join(dir, "notes"), "PULL=0"}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	return cmd, dir
}

func waitFile(t *testing.T, name string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(name); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not appear", name)
		}
	}
}

func notes(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "notes"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestOllamaIsLoadedAndStops(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  []string
		want string
	}{
		"pulled":    {[]string{ollamaModel + "=hf.co/org/m; touch x"}, "pull hf.co/org/m; touch x\n"},
		"from file": {[]string{ollamaModel + "=tiny", ollamaFile + "=/models/a b.gguf"}, "create tiny -f "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, dir := startOllama(t, c.env...)
			waitFile(t, filepath.Join(dir, "modeldock-loaded"))
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // the server's own end is what counts
			if got := notes(t, dir); !strings.Contains(got, c.want) || !strings.Contains(got, "stopped") {
				t.Errorf("asked for:\n%s\nwant %q and a stop", got, c.want)
			}
		})
	}
}

func TestOllamaThatCannotLoadEnds(t *testing.T) {
	t.Parallel()
	cmd, dir := startOllama(t, ollamaModel+"=absent", "PULL=1")
	if err := cmd.Wait(); err == nil {
		t.Error("the script ended well although the pull failed")
	}
	if _, err := os.Stat(filepath.Join(dir, "modeldock-loaded")); err == nil {
		t.Error("it counts as loaded although the pull failed")
	}
}
