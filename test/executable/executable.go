// Package executable writes programs that tests run.
package executable

import (
	"os"
	"syscall"
)

// Write makes a file that can be executed at once. While it is open for
// writing no other goroutine may fork: its child would hold the file open
// until it executes something itself, and to run the file meanwhile would
// fail with "text file busy".
func Write(path string, content []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, content, 0o755)
}
