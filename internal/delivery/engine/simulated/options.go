// Package simulated is an inference engine without a model (account 2): a
// real HTTP server with the OpenAI API, whose load time, speed, concurrency and
// failures are chosen by flags. It is for demonstrations and tests and says so
// in its model card (owned_by: modeldock-simulated).
package simulated

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"
)

// Subcommand is the hidden verb of the modeldock binary that calls Main.
const Subcommand = "engine-simulated"

// OwnedBy marks every model card of this engine.
const OwnedBy = "modeldock-simulated"

// Options is how the engine behaves. Zero failure fields mean that it does
// not fail.
type Options struct {
	Host  string
	Port  int
	Model string

	LoadTime    time.Duration // /health answers 503 for so long
	TTFT        time.Duration // time to first token
	TokenTime   time.Duration // time per further token
	Tokens      int           // tokens of an answer, unless the request asks for fewer
	Concurrency int           // requests that run at once; more wait
	MemoryMiB   int64         // shown in /metrics
	StopTime    time.Duration // at most so long for running requests after SIGTERM
	SleepMode   bool          // it can be put to sleep
	WakeDelay   time.Duration // from POST /wake_up until inference is served again

	FailLoad      string        // print this and exit with code 1 when the load time is over
	CrashAfter    int           // exit with code 1 in the middle of the n-th request
	CutAfter      int           // close the connection after n tokens of a stream
	ErrorAfter    int           // send an error event after n tokens of a stream
	IgnoreSIGTERM bool          // only SIGKILL ends it
	HangAfter     time.Duration // answer nothing any more, /health included, so long after loading
	FailSleep     bool          // POST /sleep answers 500
	FailWake      bool          // POST /wake_up answers 500
	StrayChild    bool          // start a child that leaves the process group and never ends

	idle bool // be that child
}

// ParseOptions reads the flags. Its errors and the help text go to out.
func ParseOptions(args []string, out io.Writer) (Options, error) {
	var o Options
	f := FlagSet(&o)
	f.SetOutput(out)
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q: every setting is a flag", f.Arg(0))
	case o.idle:
		return o, nil
	case o.Model == "":
		return o, errors.New("--model must name the model to serve")
	case o.Tokens < 1, o.Concurrency < 1:
		return o, fmt.Errorf("--tokens and --concurrency must be at least 1; got %d and %d", o.Tokens, o.Concurrency)
	case o.LoadTime < 0, o.TTFT < 0, o.TokenTime < 0, o.HangAfter < 0, o.StopTime < 0, o.WakeDelay < 0:
		return o, errors.New("times must not be negative")
	}
	return o, nil
}

// FlagSet defines every flag with its default; it is the one list of them.
func FlagSet(o *Options) *flag.FlagSet {
	f := flag.NewFlagSet(Subcommand, flag.ContinueOnError)
	f.StringVar(&o.Host, "host", "127.0.0.1", "address to listen on")
	f.IntVar(&o.Port, "port", 0, "port to listen on")
	f.StringVar(&o.Model, "model", "", "name of the model that is served")

	f.DurationVar(&o.LoadTime, "load-time", 200*time.Millisecond, "how long loading takes")
	f.DurationVar(&o.TTFT, "ttft", 20*time.Millisecond, "time to the first token")
	f.DurationVar(&o.TokenTime, "token-time", 5*time.Millisecond, "time per further token")
	f.IntVar(&o.Tokens, "tokens", 32, "tokens of an answer, unless the request asks for fewer; answers that are no stream of chat or completions have 100000 at most")
	f.IntVar(&o.Concurrency, "concurrency", 16, "requests that run at once; more wait")
	f.Int64Var(&o.MemoryMiB, "memory", 0, "MiB shown as used in /metrics")
	f.DurationVar(&o.StopTime, "stop-time", 30*time.Second, "how long running requests may take to finish after SIGTERM")

	f.BoolVar(&o.SleepMode, "enable-sleep-mode", false, "serve POST /sleep, POST /wake_up and GET /is_sleeping, as vLLM does: asleep, it pretends to use no device memory")
	f.DurationVar(&o.WakeDelay, "wake-delay", time.Second, "how long waking up takes")

	f.StringVar(&o.FailLoad, "fail-load", "", "fail to load: print this text and exit with code 1")
	f.IntVar(&o.CrashAfter, "crash-after", 0, "exit with code 1 in the middle of the n-th request")
	f.IntVar(&o.CutAfter, "cut-after", 0, "close the connection after n tokens of a stream")
	f.IntVar(&o.ErrorAfter, "error-after", 0, "send an error event after n tokens of a stream")
	f.BoolVar(&o.IgnoreSIGTERM, "ignore-sigterm", false, "do not end on SIGTERM")
	f.DurationVar(&o.HangAfter, "hang-after", 0, "answer nothing any more, so long after loading")
	f.BoolVar(&o.FailSleep, "fail-sleep", false, "answer POST /sleep with 500")
	f.BoolVar(&o.FailWake, "fail-wake", false, "answer POST /wake_up with 500")
	f.BoolVar(&o.StrayChild, "stray-child", false, "start a child that leaves the process group and never ends")
	f.BoolVar(&o.idle, "idle", false, "be such a child: serve nothing, never end")
	return f
}
