package supervise

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

const (
	oomFile = "/proc/self/oom_score_adj"
	// engineOOMScore makes the kernel end an engine, and not the platform, when
	// the machine's memory is used up. It counts like half of that memory.
	engineOOMScore = 500
)

// offerToOOMKiller lets the next child inherit the engines' score, which only
// root can lower again where we are root. The function that it returns takes
// our own back.
func offerToOOMKiller(log *logFile) (restore func()) {
	nothing := func() {}
	raw, err := os.ReadFile(oomFile)
	if err != nil {
		return nothing // a system without it
	}
	own, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || own >= engineOOMScore {
		return nothing
	}
	if err := os.WriteFile(oomFile, []byte(strconv.Itoa(engineOOMScore)), 0); err != nil {
		log.Note(fmt.Sprintf("the kernel does not prefer this engine when memory is used up: %v", err))
		return nothing
	}
	return func() {
		if err := os.WriteFile(oomFile, []byte(strconv.Itoa(own)), 0); err != nil {
			log.Note(fmt.Sprintf("the supervisor keeps the engine's place when memory is used up: %v", err))
		}
	}
}
