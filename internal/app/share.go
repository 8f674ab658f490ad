package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/delivery/remote"
)

// What the process that runs the models tells controllers beside its target.
const (
	pathNodes   = "/nodes"
	pathTraffic = "/traffic"
	pathStamp   = "/stamp"
)

// stampCall reads, and where Seq is given raises, an incarnation's stamp.
type stampCall struct {
	Incarnation string
	Seq         int64
}

// settleHere binds a shared ledger to this data directory: a second one would
// start every model once more.
func (p *platform) settleHere(ctx context.Context, ledger *sqlledger.Ledger) error {
	instance, err := os.ReadFile(filepath.Join(p.dir.path, "instance"))
	if err != nil {
		return fmt.Errorf("identify the data directory: %w", err)
	}
	here := strings.TrimSpace(string(instance)) + " " + hostname() + ":" + p.dir.path
	home, err := ledger.Home(ctx, here, p.opts.MoveHere)
	if err != nil {
		return err
	}
	// The instance decides: host and path are for people, and may change.
	if id, where, _ := strings.Cut(home, " "); id != strings.TrimSpace(string(instance)) {
		return fmt.Errorf("the models of this database run with data directory %s: to add a management API there, start `modeldock controller`; if nothing runs there any more, bind the database to %s with --move-here", where, p.dir.path)
	}
	return nil
}

// share serves the target to controllers, if the ledger is shared with them.
func (p *platform) share(ctx context.Context) (stop func(), err error) {
	if p.shared == nil {
		return func() {}, nil
	}
	listener, err := remote.Listen(ctx, p.dir.path)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/target/", p.shared.Handler())
	mux.HandleFunc("GET "+pathNodes, func(w http.ResponseWriter, r *http.Request) {
		nodes, err := fleet{p.machine}.Nodes(r.Context())
		if err != nil {
			remote.Fail(w, err)
			return
		}
		remote.Answer(w, nodes)
	})
	mux.HandleFunc("GET "+pathTraffic, func(w http.ResponseWriter, _ *http.Request) {
		remote.Answer(w, viewOf(p.table, p.gateway, p.directory.snapshot()))
	})
	mux.HandleFunc("POST "+pathStamp, p.serveStamp)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return func() {
		p.shared.Close()
		_ = server.Close()
	}, nil
}

// serveStamp keeps the stamps of all processes in the one file.
func (p *platform) serveStamp(w http.ResponseWriter, r *http.Request) {
	var call stampCall
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&call)
	if err == nil && call.Seq > 0 {
		err = p.files.raise(r.Context(), call.Incarnation, call.Seq)
	}
	if err != nil {
		remote.Fail(w, fmt.Errorf("keep the ledger's stamp: %w", err))
		return
	}
	call.Seq = p.files.of(call.Incarnation)
	remote.Answer(w, call)
}
