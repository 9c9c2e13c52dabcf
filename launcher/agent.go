package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/launcher/machine"
	"github.com/fpmrun/fpmrun/rank/env"
)

// AgentConfig says how an agent finds the head of its job.
type AgentConfig struct {
	Node     int               // this node, 0 to Nodes-1
	Nodes    int               // of the job
	Heads    []string          // host:port, all of which lead to the head
	Token    collective.Secret // that the head has, too
	Options  *Options          // of the job, where the agent was started with the same command line as the head; nil: the head sends them
	Command  []string          // see Nodes.Command
	Build    string            // version of this program
	Environ  []string          // of the ranks
	Siblings string            // see Options.Siblings
	Wait     time.Duration     // how long the head may take to answer; 0 is 2 min

	progress time.Duration // see progressInterval
}

// agent runs the ranks of one node for a head.
type agent struct {
	AgentConfig
	link    *link
	orders  chan toAgent
	gone    chan struct{} // closed when the link has ended, behind the last order
	signals chan os.Signal
	options Options // of the attempt
	at      *machine.Placement
	next    *Plan // what was laid out, and not started yet
	stderr  io.Writer
}

// LostError says that the head of a job is gone; the node's ranks were killed.
type LostError struct{ Err error }

func (e *LostError) Error() string { return "the head of the job was lost: " + lossText(e.Err) }

// Unwrap is why.
func (e *LostError) Unwrap() error { return e.Err }

// RefusedError says that the head did not take this agent in.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

// Serve runs the ranks of this node, as the head orders, and returns the job's exit status when nothing of it is left here. The
// error is a *LostError when the head is gone, a *RefusedError, collective.ErrToken, or a local failure; the status then is what to exit with. It starts a keeper
// as Run does.
func Serve(ctx context.Context, cfg AgentConfig, stderr io.Writer) (status int, err error) {
	a := &agent{AgentConfig: cfg, orders: make(chan toAgent), gone: make(chan struct{}), signals: make(chan os.Signal, 16), stderr: stderr}
	if a.progress == 0 {
		a.progress = progressInterval
	}
	for _, sig := range watched {
		if !signal.Ignored(sig) || sig == syscall.SIGPIPE {
			signal.Notify(a.signals, sig)
		}
	}
	defer signal.Stop(a.signals)
	var wrong error
	if cfg.Options != nil {
		if wrong = cfg.Options.Check(); wrong != nil { // the head has most likely found the same, and ended
			a.Wait = tellWait
		}
	}
	conn, err := a.connect(ctx)
	if err != nil {
		if wrong != nil {
			err = wrong
		}
		return statusOf(err), err
	}
	over := make(chan struct{})
	a.link = newLink(conn, func(text []byte) {
		if text == nil {
			close(a.gone)
			return
		}
		var m toAgent
		if err := json.Unmarshal(text, &m); err != nil {
			a.link.end(fmt.Errorf("launcher: a message that is none: %w", err))
			return
		}
		select {
		case a.orders <- m:
		case <-over:
		}
	})
	defer a.link.close()
	defer close(over)
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	if err := a.link.send(toHead{Hello: &hello{Version: linkVersion, Build: a.Build, Node: a.Node, Nodes: a.Nodes, Host: host, PID: os.Getpid(), Command: a.Command}}); err != nil {
		return 1, err
	}
	return a.serve(ctx)
}

// tellWait is how long an agent that cannot take part looks for a head to tell.
const tellWait = 2 * time.Second

// statusOf is the exit status for an error.
func statusOf(err error) int {
	var missing *NotFoundError
	var stopped interrupted
	switch {
	case errors.As(err, &missing):
		return missing.Status
	case errors.As(err, &stopped):
		return 128 + int(stopped.sig)
	}
	return 1
}

// serve follows the head's orders to the end of the job.
func (a *agent) serve(ctx context.Context) (int, error) {
	for {
		select {
		case m := <-a.orders:
			switch {
			case m.Refused != nil:
				return m.Refused.Status, &RefusedError{m.Refused.Text}
			case m.End != nil:
				return a.ended(m.End), nil
			case m.Ask != nil:
				a.answer(a.count(m.Ask)) //nolint:contextcheck // the inventory has a deadline of its own
			case m.Lay != nil:
				a.answer(a.lay(m.Lay))
			case m.Go != nil:
				end, err := a.run(ctx, m.Go)
				if err != nil {
					return 1, err
				}
				if end != nil {
					return a.ended(end), nil
				}
			case m.Finish: // of an attempt that did not begin here
				a.answer(toHead{Done: true}, nil)
			}
		case <-a.gone:
			return 1, &LostError{a.link.ended()}
		case sig := <-a.signals:
			a.passOn(sig)
		case <-ctx.Done():
			return 1, context.Cause(ctx)
		}
	}
}

// ended says how the job ended.
func (a *agent) ended(e *ending) int {
	if e.Text != "" && a.Options != nil {
		fmt.Fprintf(a.stderr, "fpmrun: the job on node 0: %s\n", e.Text)
	}
	return e.Status
}

// passOn tells the head of a signal, which concerns the whole job. One of the terminal that stops programs is dropped, since
// an agent that stops is lost.
func (a *agent) passOn(sig os.Signal) {
	switch s := sig.(syscall.Signal); s {
	case syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGPIPE:
	default:
		_ = a.link.send(toHead{Signal: s}) // a link that has ended is seen where orders are read
	}
}

// answer tells the head the result of an order, or why there is none.
func (a *agent) answer(m toHead, err error) {
	if err != nil {
		var missing *NotFoundError
		f := &failure{Status: 2, Text: err.Error()}
		if errors.As(err, &missing) {
			f.Status = missing.Status
		}
		m = toHead{Failed: f}
	}
	_ = a.link.send(m) // a link that has ended is seen where orders are read
}

// count finds out how many ranks of each program this node has.
func (a *agent) count(m *ask) (toHead, error) {
	switch {
	case a.Options != nil:
		a.options = *a.Options
	case m.Options != nil:
		a.options = *m.Options
	default:
		return toHead{}, errors.New("launcher: the head sent no options")
	}
	o := &a.options
	o.Environ, o.Siblings, o.attempt = a.Environ, a.Siblings, m.Attempt
	o.OutputDir, o.Files, o.Show, o.Timestamp, o.Tag = "", nil, nil, false, false // the head's business
	if m.Counts != nil {
		if len(m.Counts) != len(o.Segments) {
			return toHead{}, fmt.Errorf("launcher: %d counts for %d programs", len(m.Counts), len(o.Segments))
		}
		o.give(m.Counts)
	} else {
		var counts []int
		for _, s := range o.Segments {
			counts = append(counts, s.Ranks)
		}
		o.give(counts) // a list of its own, which place may change
	}
	var err error
	if a.at, err = o.place(); err != nil {
		return toHead{}, err
	}
	counted, err := o.counts()
	return toHead{Counted: counted}, err
}

// lay plans the node's ranks.
func (a *agent) lay(m *lay) (toHead, error) {
	p, err := a.options.lay(a.at, m.layout, m.RunID)
	if err != nil {
		return toHead{}, err
	}
	a.next = p
	answer := &planned{Ranks: p.Ranks, Warnings: p.Warnings, Bindings: p.bindings}
	if m.Host != "" {
		host, err := a.meetAt(m.Host)
		if err != nil {
			return toHead{}, err
		}
		if p.part.ports, err = reserve(host); err != nil {
			return toHead{}, err
		}
		answer.meet(p.part.ports)
	}
	return toHead{Planned: answer}, nil
}

// meetAt is the address of this node that the ranks meet on: that of the interface that was asked for, else the one that the head
// sees, else, where head and agent share a host, what the head says.
func (a *agent) meetAt(told string) (string, error) {
	if iface := a.options.iface(); iface != "" {
		host, err := env.AddressOn(iface)
		if err != nil {
			return "", fmt.Errorf("--iface %s: %w", iface, err)
		}
		return host, nil
	}
	host, _, err := net.SplitHostPort(a.link.conn.LocalAddr().String())
	if ip := net.ParseIP(host); err == nil && ip != nil && !ip.IsLoopback() {
		return host, nil
	}
	return told, nil
}
