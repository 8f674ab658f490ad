package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// slowFlush is put before the C library of a server: every flush takes a
// millisecond more, as on disks that really write.
const slowFlush = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
static int slow(const char *name, int fd) {
	int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
	usleep(1000);
	return real(fd);
}
int fsync(int fd) { return slow("fsync", fd); }
int fdatasync(int fd) { return slow("fdatasync", fd); }
`

// buildSlowFlush compiles it and returns the variable that loads it; empty
// where there is no C compiler.
func buildSlowFlush(ctx context.Context, dir string) (string, error) {
	cc, missing := exec.LookPath("cc")
	if missing != nil {
		return "", nil //nolint:nilerr // that there is no compiler is an answer
	}
	source, library := filepath.Join(dir, "slow_flush.c"), filepath.Join(dir, "slow_flush.so")
	if err := os.WriteFile(source, []byte(slowFlush), 0o600); err != nil {
		return "", fmt.Errorf("write the slow flush: %w", err)
	}
	if out, err := exec.CommandContext(ctx, cc, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl").CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the slow flush: %w: %s", err, out)
	}
	return "LD_PRELOAD=" + library, nil
}
