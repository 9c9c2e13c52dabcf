package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// watched are the signals that the front handles.
var watched = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGPIPE}

// session is what all attempts of a job share.
type session struct {
	signals <-chan os.Signal
	events  *eventLog
	limit   *limit // of the whole job
	restore func() // gives the signals back
	attempt int
}

// Run starts a plan and returns when nothing of it is left. A job that fails because of its ranks is started again, with
// a new run id, token and ports, as often as the plan allows; the last attempt counts. Signals that this process gets
// while it runs go to the ranks. The caller's stderr gets one line that names the cause of a failure.
func Run(ctx context.Context, p *Plan, s Streams) End {
	c := newSession(s)
	defer c.restore()
	c.limit = newLimit(p.options.Timeout)
	return c.close(c.attempts(ctx, p, s), s.Err)
}

// Lead runs a job over several nodes, as their head: it waits until agents of all other nodes are here, plans the job with them, and
// goes on as Run does. o.Nodes says how many there are and how they find this one; this one must be node 0.
func Lead(ctx context.Context, o Options, s Streams) End {
	c := newSession(s)
	defer c.restore()
	if o.Nodes.Step {
		o.Nodes.Rendezvous, o.Nodes.Token = ":0", []byte(newToken())
	}
	cluster, err := newCluster(ctx, o, func(line string) { fmt.Fprintf(s.Err, "fpmrun: %s\n", line) })
	if err == nil && o.Nodes.Step {
		cluster.step, err = startStep(&o, cluster.ln.Addr(), s.Err)
	}
	if err != nil {
		if cluster != nil {
			cluster.close(End{Status: 1})
		}
		fmt.Fprintf(s.Err, "fpmrun: %v\n", err)
		return c.close(End{Status: 1, Class: ByLauncher, Err: err}, s.Err)
	}
	end := c.lead(ctx, cluster, s)
	cluster.close(end)
	return c.close(end, s.Err)
}

// lead gathers the nodes and runs the job.
func (c *session) lead(ctx context.Context, nodes *cluster, s Streams) End {
	err := nodes.gather(ctx, c)
	c.limit = newLimit(nodes.options.Timeout)
	var p *Plan
	if err == nil {
		p, err = nodes.plan(ctx, c, 0)
	}
	if err != nil {
		return planningFailed(err, s.Err)
	}
	return c.attempts(ctx, p, s)
}

// planningFailed says why a job over several nodes has no plan.
func planningFailed(err error, stderr io.Writer) End {
	end := exitOfPlanning(err)
	end.text = err.Error()
	if end.Class == BySignal {
		end.text = "stopped: " + end.Reason
	}
	for line := range strings.SplitSeq(end.text, "\n") {
		fmt.Fprintf(stderr, "fpmrun: %s\n", line)
	}
	return end
}

// newSession takes the signals and the event stream over.
func newSession(s Streams) *session {
	signals := make(chan os.Signal, 16)
	for _, sig := range watched {
		if !signal.Ignored(sig) || sig == syscall.SIGPIPE {
			signal.Notify(signals, sig)
		}
	}
	return &session{signals: signals, events: newEventLog(s.Events), limit: &limit{}, restore: func() { signal.Stop(signals) }}
}

// attempts runs a plan, and again as often as it may.
func (c *session) attempts(ctx context.Context, p *Plan, s Streams) End {
	defer c.limit.stop()
	for {
		end := c.run(ctx, p, s)
		if end.Class != ByRank || c.attempt >= p.options.Restarts {
			return end
		}
		c.attempt++
		fmt.Fprintf(s.Err, "fpmrun: starting all ranks again, restart %d of %d\n", c.attempt, p.options.Restarts)
		next, err := c.again(ctx, p)
		if err != nil {
			return planningFailed(err, s.Err)
		}
		p = next
	}
}

// again is a plan for the next attempt.
func (c *session) again(ctx context.Context, p *Plan) (*Plan, error) {
	if nodes := p.part.cluster; nodes != nil {
		return nodes.plan(ctx, c, c.attempt)
	}
	o := p.options
	o.attempt++
	return NewPlan(o) //nolint:contextcheck // the inventory has a deadline of its own
}

// outputDir is the folder of an attempt's output files: those of earlier attempts stay.
func (o *Options) outputDir() string {
	if o.attempt == 0 || o.OutputDir == "" {
		return o.OutputDir
	}
	return filepath.Join(o.OutputDir, fmt.Sprintf("restart-%d", o.attempt))
}

// run makes one attempt.
func (c *session) run(ctx context.Context, p *Plan, s Streams) End {
	if c.attempt == 0 {
		for _, line := range append(slices.Clone(p.Warnings), p.bindings...) {
			fmt.Fprintf(s.Err, "fpmrun: %s\n", line)
		}
	}
	j, err := start(p, s)
	if err == nil && p.part.cluster != nil {
		err = p.part.cluster.depart(p, s)
	}
	if err != nil {
		fmt.Fprintf(s.Err, "fpmrun: %v\n", err)
		return End{Status: 1, Class: ByLauncher, Err: err, text: err.Error()}
	}
	w := newWatch(j, c)
	go w.speak()
	w.copyOutput()
	if len(j.stdin) > 0 {
		go j.feed(s.In)
	}
	w.loop(ctx)
	return w.finish()
}

// eventsGrace is how long a job that was stopped waits for the reader of its events.
const eventsGrace = time.Second

// close ends the event log. A job that was stopped, or is now, does not wait for ever for a reader that does not read.
func (c *session) close(end End, stderr io.Writer) End {
	if c.events == nil {
		return end
	}
	c.events.close()
	over := &limit{}
	if end.Class == BySignal || end.Class == ByTimeout {
		over = newLimit(eventsGrace)
	}
	for written := false; !written; {
		select {
		case <-c.events.done:
			written = true
		case <-over.C:
			return end
		case sig := <-c.signals:
			if s := sig.(syscall.Signal); ends(s) { // the job itself has ended
				return end
			}
		}
	}
	if err := c.events.failure(); err != nil {
		fmt.Fprintf(stderr, "fpmrun: %v\n", err)
		end.Err = errors.Join(end.Err, err)
		if end.Status == 0 {
			end.Status, end.Class = 1, ByLauncher
		}
	}
	return end
}
