package cluster

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const auditPolicyFile = "audit-policy.yaml"

// auditPolicy writes one line per finished request.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
`

// AuditEvent is one request that the API server has answered.
type AuditEvent struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	UserAgent string `json:"userAgent"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		APIGroup    string `json:"apiGroup"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Received time.Time `json:"requestReceivedTimestamp"`
}

// Writes says whether the request asks for a change.
func (e AuditEvent) Writes() bool {
	switch e.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

func auditLog(dir string) string { return filepath.Join(dir, "logs", "audit.log") }

// Audit returns all requests answered so far, in the order of their answers.
// The cluster must have been started with AuditLog.
func (c *Cluster) Audit() ([]AuditEvent, error) {
	f, err := os.Open(auditLog(c.Dir))
	if err != nil {
		return nil, fmt.Errorf("open the audit log (was the cluster started with AuditLog?): %w", err)
	}
	defer func() { _ = f.Close() }() // it is only read
	var events []AuditEvent
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e AuditEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			// The API server may be in the midst of writing the last line.
			if !lines.Scan() {
				break
			}
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		events = append(events, e)
	}
	return events, lines.Err()
}
