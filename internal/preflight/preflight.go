// Package preflight looks, before an installation is started or upgraded,
// whether this program can work with what is there: database, Redis, API
// server, custom resource, rights and the versions that run. It belongs to no
// account, decides nothing for them, and leaves everything as it was.
package preflight

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Status is what a finding means for the one who is about to begin.
type Status string

// The statuses, from good to bad.
const (
	OK      Status = "ok"
	Pending Status = "pending" // the installation or upgrade itself does it
	Warning Status = "warning" // it works, and somebody should know
	Unknown Status = "unknown" // it could not be found out
	Broken  Status = "broken"  // it would fail, or harm
)

// Finding is one thing that was looked at.
type Finding struct {
	Part    string `json:"part"`
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Message string `json:"message"`
	Next    string `json:"next,omitempty"` // what to do; empty where nothing is to be done
}

// Report is everything that was found.
type Report struct {
	Ready    bool      `json:"ready"` // nothing is broken and nothing unknown
	Version  string    `json:"version"`
	Findings []Finding `json:"findings"`
}

// Has reports whether anything was found to be so.
func (r Report) Has(status Status) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Status == status })
}

// Options say what is looked at; what is empty is left out.
type Options struct {
	Version  string        // of this program
	Wait     time.Duration // for each part
	DSN      string        // of a MySQL or MariaDB database. A secret
	File     string        // or the file of a SQLite ledger
	RedisURL string        // may hold a secret
	Cluster  *Cluster
}

// Nothing reports that nothing was named to look at.
func (o Options) Nothing() bool {
	return o.DSN == "" && o.File == "" && o.RedisURL == "" && o.Cluster == nil
}

// look is one part at work. Its findings are ordered as they were made.
type look struct {
	part string
	all  []Finding
}

func (l *look) add(check string, status Status, message, next string) {
	l.all = append(l.all, Finding{l.part, check, status, message, next})
}

// Run looks at everything side by side; what is broken in one part keeps
// nobody from hearing of the others.
func Run(ctx context.Context, o Options) Report {
	var parts []func(context.Context) []Finding
	ledger := make(chan known, 1)
	switch {
	case o.DSN != "":
		parts = append(parts, func(ctx context.Context) []Finding { return database(ctx, o.DSN, ledger) })
	case o.File != "":
		parts = append(parts, func(ctx context.Context) []Finding { return file(ctx, o.File, ledger) })
	default:
		close(ledger)
	}
	if o.RedisURL != "" {
		parts = append(parts, func(ctx context.Context) []Finding { return sharedCounts(ctx, o.RedisURL) })
	}
	if o.Cluster != nil {
		parts = append(parts, func(ctx context.Context) []Finding { return o.Cluster.look(ctx, o.Version, ledger) })
	}
	found := make([][]Finding, len(parts))
	var all sync.WaitGroup
	for i, part := range parts {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, o.Wait)
			defer cancel()
			found[i] = part(ctx)
		})
	}
	all.Wait()
	r := Report{Version: o.Version, Findings: slices.Concat(found...)}
	r.Ready = !r.Has(Broken) && !r.Has(Unknown)
	return r
}
