package local

import (
	"cmp"
	"fmt"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/local/procfs"
)

// portTaken is the end of a start whose port somebody else listens on.
func portTaken(port int, holder string) outcome {
	return outcome{reason: delivery.PortTaken, exitCode: -1,
		message: fmt.Sprintf("port %d was taken by %s before the engine listened on it; that process was left alone, and the next start has another port", port, cmp.Or(holder, "another process, which is gone"))}
}

// countTaken tells bad luck from somebody who keeps taking ports: the first
// time is made good at once, the next ones are failed starts like others.
func (s *slot) countTaken(r *run, out *outcome) {
	if !r.readyAt.IsZero() {
		s.taken = 0
	}
	if out.reason == delivery.PortTaken {
		s.taken++
		out.again = s.taken == 1
	}
}

// strangerOn names who holds a port, for people; empty if nobody does.
func strangerOn(port int) string {
	uid, listening, err := procfs.PortUser(port)
	if err != nil || !listening {
		return ""
	}
	if pid := procfs.PortHolder(port); pid != 0 {
		return fmt.Sprintf("another process (pid %d, uid %d)", pid, uid)
	}
	return fmt.Sprintf("another process (uid %d)", uid)
}
