// Command showenv prints which cards its container was told, as JSON, and
// stays until it is ended.
package main

import (
	"encoding/json"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	told := map[string]string{}
	for _, name := range []string{"MODELDOCK_CARD", "NVIDIA_VISIBLE_DEVICES"} {
		told[name] = os.Getenv(name)
	}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		os.Exit(1)
	}
	<-ended
}
