package engine

import (
	"encoding/json"
	"fmt"
)

// Sleeper is how an engine that stays loaded in host memory is put to sleep
// and woken. Its requests are for the control plane alone: gateways relay
// none of these paths.
type Sleeper struct {
	SleepPath string // POST: weights to host memory, the rest is dropped
	WakePath  string // POST
	StatePath string // GET, see IsAsleep
	// ResidueMiB is what a sleeping engine keeps on each of its cards: the
	// context of its runtime.
	ResidueMiB int64

	args, env []string // of the start
}

// vllmResidue is what the CUDA context of a sleeping vLLM is counted with: it
// keeps that, and its compiled kernels, which take half of this or more.
const vllmResidue = 1024 // MiB

func vllmSleeper() *Sleeper {
	return &Sleeper{
		SleepPath: "/sleep?level=1", WakePath: "/wake_up", StatePath: "/is_sleeping", ResidueMiB: vllmResidue,
		args: []string{"--enable-sleep-mode"}, env: []string{"VLLM_SERVER_DEV_MODE=1"},
	}
}

// simulatedSleeper is vLLM's without a card to leave anything on.
func simulatedSleeper() *Sleeper {
	s := vllmSleeper()
	s.ResidueMiB, s.env = 0, nil
	return s
}

// enable has the engine started so that it can sleep.
func (s *Sleeper) enable(p *Plan) {
	p.Command, p.Env = append(p.Command, s.args...), append(p.Env, s.env...)
	p.Sleeper = s
}

// IsAsleep reads the answer to GET StatePath.
func (s *Sleeper) IsAsleep(answer []byte) (bool, error) {
	var state struct {
		Asleep *bool `json:"is_sleeping"`
	}
	if err := json.Unmarshal(answer, &state); err != nil || state.Asleep == nil {
		return false, fmt.Errorf("GET %s does not say whether it sleeps: %.80q", s.StatePath, answer)
	}
	return *state.Asleep, nil
}
