package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/cmd/internal/flagvalue"
	"github.com/fpmrun/fpmrun/stream"
)

func watchCommand() *cli.Command {
	count, timeout := &flagvalue.Count{Low: 1}, new(flagvalue.Duration)
	return &cli.Command{
		Name:  "watch",
		Usage: "print the records of live streams as they come, until interrupted",
		Description: "An address is tcp://HOST:PORT; DP rank r of fpmbench --stream-port 20380 is at port 20380 + r. A publisher may start later, and start again.\n" +
			"Records go to standard output, one a line; what else happens (subscribed, absent, lost messages) to standard error.",
		ArgsUsage: "ADDRESS...",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print a JSON object a line"},
			&cli.GenericFlag{Name: "count", DefaultText: "no limit", Value: count, Usage: "end after `N` records of all publishers together"},
			&cli.GenericFlag{Name: "timeout", DefaultText: "no limit", Value: timeout, Usage: "end after `D`, in seconds or as 15m; with --count, that so many did not come is an error"},
			&cli.BoolFlag{Name: "no-heartbeats", Usage: "neither print nor count records that say only that a publisher is alive"},
			&cli.StringFlag{Name: "prometheus", Usage: "serve counts and the last records at `ADDR`, path /metrics, in Prometheus's text format; a port alone is on the loopback interface"},
		},
		Action: func(c *cli.Context) error { return watch(c.Context, c, count.Value, time.Duration(*timeout)) },
	}
}

// errEnough ends a watch that has seen what it was to see.
var errEnough = errors.New("enough")

func watch(ctx context.Context, c *cli.Context, count int, timeout time.Duration) (err error) {
	addresses, err := watched(c.Args().Slice())
	if err != nil {
		return err
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	w := &watcher{out: c.App.Writer, talk: c.App.ErrWriter, json: c.Bool("json"), silent: c.Bool("no-heartbeats"), count: count}
	if given := c.String("prometheus"); given != "" {
		w.gauges = newGauges()
		server, err := w.gauges.serve(ctx, given)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		fmt.Fprintf(w.talk, "fpmstat: metrics at http://%s/metrics\n", server.Addr)
	}
	switch err = w.read(ctx, addresses); {
	case errors.Is(err, errEnough):
		return nil
	case errors.Is(err, context.DeadlineExceeded) && count > 0:
		return fmt.Errorf("watch: %d of %d records came within %v", w.seen, count, timeout)
	case errors.Is(err, context.DeadlineExceeded):
		return nil
	}
	return err
}

// watched are the publishers' addresses as HOST:PORT.
func watched(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, usage("watch: no address given; want tcp://HOST:PORT such as tcp://127.0.0.1:%d", stream.DefaultPort)
	}
	var addresses []string
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			return nil, usage("watch: %s stands behind an address; flags come first", arg)
		}
		address, err := stream.ParseAddress(arg)
		if err != nil {
			return nil, usage("watch: %w", err)
		}
		if slices.Contains(addresses, address) {
			return nil, usage("watch: %s is given twice; give it once", arg)
		}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

// watcher prints what publishers send.
type watcher struct {
	out, talk io.Writer
	json      bool
	silent    bool    // of heartbeats
	count     int     // records to see; 0 is no limit
	gauges    *gauges // nil: nobody scrapes

	mu     sync.Mutex
	seen   int
	headed bool
}

// read reads all publishers until ctx ends or one of the readers does, for whatever reason.
func (w *watcher) read(ctx context.Context, addresses []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var readers sync.WaitGroup
	for _, address := range addresses {
		readers.Go(func() {
			reader := stream.Reader{Address: address}
			cancel(reader.Read(ctx, w.event))
		})
	}
	readers.Wait()
	return context.Cause(ctx)
}

// event takes in what one of the readers tells.
func (w *watcher) event(e stream.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count > 0 && w.seen == w.count {
		return errEnough // another publisher's record was the last
	}
	w.gauges.event(e)
	say := func(format string, args ...any) {
		fmt.Fprintf(w.talk, "fpmstat: tcp://%s: %s\n", e.Address, fmt.Sprintf(format, args...))
	}
	if e.Restarted {
		say("the publisher has started anew")
	}
	if e.Lost > 0 {
		say("%d messages before number %d did not come", e.Lost, e.Sequence)
	}
	switch e.Kind {
	case stream.Subscribed:
		say("subscribed")
	case stream.Absent:
		if errors.Is(e.Err, io.EOF) {
			say("the publisher has ended; waiting for another")
			break
		}
		say("no publisher (%v); trying on", e.Err)
	case stream.Skipped:
		say("message %d is passed over: %v", e.Sequence, e.Err)
	case stream.Received:
		return w.record(e)
	}
	return nil
}

// record prints a record, and ends the watch when it is the last.
func (w *watcher) record(e stream.Event) error {
	if w.silent && stream.Heartbeat(e.Record) {
		return nil
	}
	show := w.line
	if w.json {
		show = w.object
	}
	if err := show(e); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	if w.seen++; w.seen == w.count {
		return errEnough
	}
	return nil
}

// object prints a record as a JSON object.
func (w *watcher) object(e stream.Event) error {
	return json.NewEncoder(w.out).Encode(struct {
		Address   string       `json:"address"`
		Sequence  uint64       `json:"sequence"`
		Lost      uint64       `json:"lost"` // before this one
		Heartbeat bool         `json:"heartbeat"`
		Record    artifact.FPM `json:"record"`
	}{"tcp://" + e.Address, e.Sequence, e.Lost, stream.Heartbeat(e.Record), e.Record})
}

const (
	watchHead = "%7s %10s %12s   %12s %10s %10s   %11s %10s   %15s %14s   %s\n"
	watchLine = "%7d %10d %12s   %12d %10d %10d   %11d %10d   %15d %14d   %s\n"
)

// line prints a record as a row of a table, whose head stands before the first.
func (w *watcher) line(e stream.Event) error {
	if !w.headed {
		w.headed = true
		if _, err := fmt.Fprintf(w.out, watchHead, "DP rank", "sequence", "time, ms", "prefill reqs", "new tokens", "KV tokens", "decode reqs", "KV tokens", "waiting prefill", "waiting decode", "worker"); err != nil {
			return err
		}
	}
	r := e.Record
	took := fmt.Sprintf("%.3f", float64(r.WallTime)*1e3)
	if stream.Heartbeat(r) {
		took = "heartbeat"
	}
	s, q := r.Scheduled, r.Queued
	_, err := fmt.Fprintf(w.out, watchLine, r.DPRank, e.Sequence, took, s.NumPrefillRequests, s.SumPrefillTokens, s.SumPrefillKVTokens, s.NumDecodeRequests, s.SumDecodeKVTokens,
		q.NumPrefillRequests, q.NumDecodeRequests, printable(r.WorkerID))
	return err
}

// printable is a name for a terminal: what a publisher sends must not move the cursor.
func printable(name string) string {
	if name == "" {
		return "-"
	}
	quoted := fmt.Sprintf("%+q", name)
	if quoted == `"`+name+`"` {
		return name
	}
	return quoted
}
