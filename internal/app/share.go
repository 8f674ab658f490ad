package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/delivery/remote"
	"modeldock.io/internal/traffic"
)

// What the process that runs the models tells controllers beside its target.
const (
	pathNodes   = "/nodes"
	pathTraffic = "/traffic"
	pathStamp   = "/stamp"
	pathLoad    = "/load" // what gateways of other processes tell
	pathWake    = "/wake" // and ask
)

// maxLoad bounds what one gateway tells of all models.
const maxLoad = 64 << 20

// stampCall reads, and where Seq is given raises, an incarnation's stamp.
type stampCall struct {
	Incarnation string
	Seq         int64
	Home        string // of the answer: the incarnation that the machine runs for
}

// settleHere binds a shared ledger to this data directory, and holds it for
// this process: a second one would start every model once more.
func (p *platform) settleHere(ctx context.Context, ledger *sqlledger.Ledger) (err error) {
	if p.hold, err = ledger.HoldHome(ctx); errors.Is(err, sqlledger.ErrHomeHeld) {
		return fmt.Errorf("a `modeldock up` that lives runs the models of this database: to add a management API there, start `modeldock controller`; to move the models here, stop that one first: %w", err)
	} else if err != nil {
		return err
	}
	home, err := p.home(ctx, ledger, p.opts.MoveHere)
	if err != nil {
		return err
	}
	if home != "" {
		return fmt.Errorf("the models of this database run with data directory %s: to add a management API there, start `modeldock controller`; if nothing runs there any more, bind the database to %s with --move-here", home, p.dir.path)
	}
	p.atHome = func(ctx context.Context) error { return p.stillAtHome(ctx, ledger) }
	return nil
}

// home is empty if the ledger is bound to this data directory, else it names
// the one that it is bound to.
func (p *platform) home(ctx context.Context, ledger *sqlledger.Ledger, move bool) (string, error) {
	raw, err := os.ReadFile(filepath.Join(p.dir.path, "instance"))
	if err != nil {
		return "", fmt.Errorf("identify the data directory: %w", err)
	}
	instance := strings.TrimSpace(string(raw))
	home, err := ledger.Home(ctx, instance+" "+hostname()+":"+p.dir.path, move)
	if err != nil {
		return "", err
	}
	// The instance decides: host and path are for people, and may change.
	if id, where, _ := strings.Cut(home, " "); id != instance {
		return where, nil
	}
	return "", nil
}

// stillAtHome halts everything when the models were moved elsewhere, or when
// another process took the hold while the database was away.
func (p *platform) stillAtHome(ctx context.Context, ledger *sqlledger.Ledger) error {
	err := p.hold.Check(ctx)
	if errors.Is(err, sqlledger.ErrHomeHeld) {
		err = standstill("another `modeldock up` took the models of this database over; stop this one")
	} else if err == nil {
		var home string
		if home, err = p.home(ctx, ledger, false); err == nil && home != "" {
			err = standstill("the models of this database were moved to " + home + "; stop this one")
		}
	}
	var displaced standstill
	if errors.As(err, &displaced) {
		p.doubt.Halt(displaced.Error())
		p.health.report(ctx, "restore", displaced)
	}
	return err
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
	mux.HandleFunc("POST "+pathLoad, func(w http.ResponseWriter, r *http.Request) {
		var report loadReport
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxLoad)).Decode(&report); err != nil {
			remote.Fail(w, fmt.Errorf("read a gateway's loads: %w", err))
			return
		}
		p.loads.take(report)
		remote.Answer(w, struct{}{})
	})
	mux.HandleFunc("POST "+pathWake, func(w http.ResponseWriter, r *http.Request) {
		var call traffic.Wake
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&call)
		if err == nil {
			err = p.scaler.Wake(r.Context(), call)
		}
		if err != nil {
			remote.Fail(w, fmt.Errorf("wake a model: %w", err))
			return
		}
		remote.Answer(w, struct{}{})
	})
	server := sideServer(mux)
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
	call.Seq, call.Home = p.files.of(call.Incarnation), p.machine.Ledger()
	remote.Answer(w, call)
}
