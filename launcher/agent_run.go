package launcher

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/fpmrun/fpmrun/collective/state"
	"github.com/fpmrun/fpmrun/launcher/keeper"
)

// attempt is one attempt of a job on an agent's node.
type attempt struct {
	*agent
	*job
	viewer  viewer
	live    map[int]int  // rank -> pid
	joined  map[int]bool // ranks whose join was told
	outputs sync.WaitGroup
}

// run starts the node's ranks and tells the head what happens to them, until it says that the attempt is over. It returns the
// end of the job where that was said meanwhile.
func (a *agent) run(ctx context.Context, d *departure) (*ending, error) {
	p := a.next
	a.next = nil
	if p == nil {
		return nil, errors.New("launcher: the head starts ranks that it has not laid out")
	}
	p.part.meeting, p.part.token, p.part.stdin, p.part.inputs = d.meeting, d.Token, d.Stdin, map[int]*os.File{}
	j, err := start(p, Streams{})
	if err != nil {
		a.answer(toHead{Failed: &failure{Status: 1, Text: err.Error()}}, nil)
		return nil, nil //nolint:nilerr // the head is told and ends the attempt
	}
	t := &attempt{agent: a, job: j, viewer: viewer{j.folder, map[int]time.Duration{}}, live: map[int]int{}, joined: map[int]bool{}}
	t.forward()
	end, err := t.loop(ctx, d.Events)
	if err == nil {
		end, err = t.finish(end)
	}
	if err != nil {
		t.abort()
	}
	return end, err
}

// forward sends what the ranks print, and gives them what comes for their inputs.
func (t *attempt) forward() {
	number := t.plan.options.attempt
	for i, s := range t.streams {
		t.outputs.Go(func() {
			if t.link.pump(flowOf(number, s.rank, 1+i%2), s.pipe) != nil {
				_, _ = io.Copy(io.Discard, s.pipe) // nobody wants it, and the rank must not wait for that
			}
		})
	}
	for rank, in := range t.plan.part.inputs {
		go t.link.drain(flowOf(number, rank, 0), in)
	}
}

// loop passes on what keeper and head say, until the head says that the attempt is over.
func (t *attempt) loop(ctx context.Context, events bool) (*ending, error) {
	var joins <-chan time.Time
	if events {
		ticker := time.NewTicker(joinInterval)
		defer ticker.Stop()
		joins = ticker.C
	}
	for {
		select {
		case <-t.told.some:
			list, lost := t.told.take()
			for _, n := range list {
				t.notice(n, events)
			}
			if lost != nil {
				t.keeperLost(lost)
			}
		case m := <-t.orders:
			if m.Finish || m.End != nil {
				return m.End, nil
			}
			t.obey(m)
		case <-joins:
			for rank := range t.live {
				t.lookForJoin(rank)
			}
		case sig := <-t.signals:
			t.passOn(sig)
		case <-t.gone:
			return nil, &LostError{t.link.ended()}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// notice tells the head what the keeper says, and what the rank's state page adds to it.
func (t *attempt) notice(n keeper.Notice, events bool) {
	m := toHead{Notice: &n}
	switch {
	case n.Failed != 0 || n.Stopped:
	case n.Exited:
		if events {
			t.lookForJoin(n.Rank)
		}
		blamed := t.folder.blamed(n.Rank)
		m.Blames = &blamed
		code := state.Exit{Status: n.Status.ExitStatus()}
		if n.Status.Signaled() {
			code = state.Exit{Status: int(n.Status.Signal()), Signalled: true}
		}
		t.folder.job.SetExit(n.Rank, code)
		delete(t.live, n.Rank)
	default:
		t.live[n.Rank] = n.PID
	}
	_ = t.link.send(m) // a link that has ended is seen where orders are read
}

// lookForJoin tells once that a rank has found the others.
func (t *attempt) lookForJoin(rank int) {
	if t.joined[rank] {
		return
	}
	if pid, ok := t.folder.joined(rank); ok {
		t.joined[rank] = true
		_ = t.link.send(toHead{Joined: &joined{rank, pid}})
	}
}

// obey carries an order out.
func (t *attempt) obey(m toAgent) {
	switch {
	case m.Signal != 0:
		_ = order(t.conn, keeper.Order{Signal: m.Signal}) // a keeper that is gone is seen where notices are read
	case m.Exit != nil:
		t.folder.job.SetExit(m.Exit.Rank, m.Exit.Exit)
	case m.See != nil:
		s := &sights{Number: m.See.Number, Ranks: t.viewer.see(maps.Clone(t.live), m.See.Full)}
		_ = t.link.send(toHead{Sights: s})
	case m.Pause:
		t.folder.job.Pause()
		t.link.bear(true)
	case m.Resume:
		t.folder.job.Resume()
		t.link.bear(false)
	}
}

// keeperLost kills the ranks after their keeper died.
func (t *attempt) keeperLost(err error) {
	for _, pid := range t.live {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	killMarked(t.plan.RunID)
	t.answer(toHead{Failed: &failure{Status: 1, Text: "the keeper of the ranks died: " + err.Error()}}, nil)
}

// finish kills what is left, sends the rest of the output, and says that the node is done.
func (t *attempt) finish(end *ending) (*ending, error) {
	_ = order(t.conn, keeper.Order{Finish: true})
	keeper := t.keeper.Wait()
	sent := make(chan struct{})
	go func() {
		t.outputs.Wait()
		close(sent)
	}()
	for waiting := true; waiting; {
		select {
		case <-sent:
			waiting = false
		case m := <-t.orders: // the link carries the output's credit only as long as orders are taken
			if m.End != nil {
				return m.End, errors.Join(t.cleanUp(), nil)
			}
		case sig := <-t.signals:
			t.passOn(sig)
		case <-t.gone:
			return nil, &LostError{t.link.ended()}
		}
	}
	for rank := range t.plan.part.inputs {
		t.link.cut(flowOf(t.plan.options.attempt, rank, 0))
	}
	err := t.cleanUp()
	if err == nil && keeper != nil {
		err = keeper
	}
	if err != nil {
		t.answer(toHead{Failed: &failure{Status: 1, Text: err.Error()}}, nil)
	}
	_ = t.link.sendLast(toHead{Done: true}) // a link that has ended is seen where orders are read
	return end, nil
}

// abort kills everything that is here: the keeper does so when its socket is closed.
func (t *attempt) abort() {
	_ = t.cleanUp()     // what cannot be removed is removed by the keeper
	_ = t.keeper.Wait() // it says why it ended
}
