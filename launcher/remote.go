package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fpmrun/fpmrun/collective/state"
)

// remote is a node whose ranks an agent runs, seen from the head.
type remote struct {
	hello
	link *link
	lost error // why it is not there any more
	over bool  // nothing of the attempt is left there
}

// String is how people are told of it.
func (r *remote) String() string { return fmt.Sprintf("node %d (host %s)", r.Node, r.Host) }

// letter is something that an agent said, or, with an error, that it is lost.
type letter struct {
	from *remote
	toHead
	err error
}

// newRemote takes an authenticated connection over.
func (c *cluster) newRemote(conn net.Conn) {
	r := &remote{hello: hello{Node: -1}}
	ready := make(chan struct{})
	r.link = newLink(conn, func(text []byte) {
		<-ready
		l := letter{from: r}
		if text == nil {
			l.err = r.link.ended()
		} else if err := json.Unmarshal(text, &l.toHead); err != nil {
			r.link.end(fmt.Errorf("launcher: a message that is none: %w", err))
			return
		}
		select {
		case c.inbox <- l:
		case <-c.over:
		}
	})
	close(ready)
}

// attach makes the streams of a rank that runs on another node. What its agent sends goes through pipes, as if the rank were
// here.
func (j *job) attach(r Rank, s Streams, _ *os.File) error {
	at := j.plan.part.cluster.nodes[r.Node]
	attempt := j.plan.options.attempt
	for k := range 2 {
		read, fd, err := outputPipe()
		if err != nil {
			return fmt.Errorf("launcher: pipe for rank %d: %w", r.Rank, err)
		}
		if err := unix.SetNonblock(fd, true); err != nil {
			return errors.Join(err, unix.Close(fd))
		}
		flow := flowOf(attempt, r.Rank, 1+k)
		at.link.expect(flow)
		go at.link.drain(flow, os.NewFile(uintptr(fd), "output of a rank elsewhere"))
		if err := j.addStream(r.Rank, k, read); err != nil {
			return err
		}
	}
	choice := j.plan.options.Stdin
	if s.In == nil || choice != StdinAll && choice != r.Rank || !readable(s.In) {
		return nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("launcher: standard input of rank %d: %w", r.Rank, err)
	}
	j.stdin, j.sent = append(j.stdin, write), append(j.sent, read)
	go func() {
		_ = at.link.pump(flowOf(attempt, r.Rank, 0), read)
		read.Close() // so that what is written there fails
	}()
	return nil
}

// cluster is the other nodes of the job; nil on one node.
func (w *watch) cluster() *cluster { return w.plan.part.cluster }

// letters is what the agents say; nil on one node.
func (w *watch) letters() <-chan letter {
	if c := w.cluster(); c != nil {
		return c.inbox
	}
	return nil
}

// nodeOf is the other node that a rank runs on; nil when it runs here.
func (w *watch) nodeOf(rank int) *remote {
	if c := w.cluster(); c != nil {
		return c.nodes[w.plan.Ranks[rank].Node]
	}
	return nil
}

// hostOf is the name of the host that a rank runs on.
func (w *watch) hostOf(rank int) string {
	if r := w.nodeOf(rank); r != nil {
		return r.Host
	}
	return w.host
}

// nodeNumber is the number of a rank's node; nil on one node.
func (w *watch) nodeNumber(rank int) *int {
	if w.cluster() == nil {
		return nil
	}
	return &w.plan.Ranks[rank].Node
}

// doubtful reports whether a rank that another one blames may be lost with its node: it lives as far as is known here, and its
// agent has missed a heartbeat.
func (w *watch) doubtful(rank int) bool {
	if !w.lives(rank) {
		return false
	}
	r := w.nodeOf(rank)
	return r != nil && r.lost == nil && r.link.quiet() > 2*beatInterval
}

// onNode names a rank's host where there are several.
func (w *watch) onNode(rank int) string {
	if w.cluster() == nil {
		return ""
	}
	return ", host " + w.hostOf(rank)
}

// letter takes what an agent said.
func (w *watch) letter(l letter) {
	r := l.from
	mine := func(rank int) bool { // and has not ended
		return rank >= 0 && rank < len(w.plan.Ranks) && w.nodeOf(rank) == r && !w.gone[rank]
	}
	switch {
	case r.Node < 0 || w.cluster().nodes[r.Node] != r: // one that came too late
		if l.err == nil && l.Hello != nil {
			w.cluster().refuse(r, 1, "the job has started without it")
		}
	case l.err != nil:
		w.nodeLost(r, l.err)
	case l.Notice != nil && mine(l.Notice.Rank):
		if l.Blames != nil {
			w.blamed[l.Notice.Rank] = *l.Blames
		}
		w.notice(*l.Notice)
		w.gone[l.Notice.Rank] = l.Notice.Exited || l.Notice.Failed != 0
	case l.Joined != nil && mine(l.Joined.Rank):
		w.tellJoined(l.Joined.Rank, l.Joined.PID)
	case l.Sights != nil:
		w.sighted(r, l.Sights)
	case l.Signal != 0:
		w.signalled(l.Signal, " at "+r.String())
	case l.Failed != nil:
		if w.end.Err == nil {
			w.end.Err = fmt.Errorf("%v: %s", r, l.Failed.Text)
			w.end.Status, w.end.Class = max(l.Failed.Status, 1), ByLauncher
		}
		w.nodeEnded(r)
		w.stopOnce()
	case l.Done:
		r.over = true
	}
}

// nodeLost names a node as the cause and stops the job.
func (w *watch) nodeLost(r *remote, err error) {
	if r.lost != nil {
		return
	}
	r.lost, r.over = err, true
	if w.end.Err == nil && w.end.Reason == "" && !w.chose {
		w.end.Err = fmt.Errorf("%v was lost: %s; %s", r, lossText(err), ranksText(w.ranksOf(r)))
		w.end.Status, w.end.Class = 1, ByLauncher
	} else {
		w.tell(fmt.Sprintf("%v was lost, too: %s", r, lossText(err)))
	}
	w.nodeEnded(r)
	w.unanswered(r)
	w.stopOnce()
}

// nodeEnded takes the ranks of a node for dead: nothing will be heard of them.
func (w *watch) nodeEnded(r *remote) {
	for _, rank := range w.ranksOf(r) {
		if !w.gone[rank] {
			w.gone[rank] = true
			w.left--
			delete(w.live, rank)
			w.tellExit(rank, state.Exit{Status: int(syscall.SIGKILL), Signalled: true})
		}
	}
}

// ranksOf are the ranks of a node.
func (w *watch) ranksOf(r *remote) []int {
	var list []int
	for _, rank := range w.plan.Ranks {
		if rank.Node == r.Node {
			list = append(list, rank.Rank)
		}
	}
	return list
}

// stopOnce stops all ranks unless that was done.
func (w *watch) stopOnce() {
	if !w.stop && w.left > 0 {
		w.stopAll()
	}
	w.stop = true
}

// tellNodes says something to all agents. That one is lost is told where messages are read.
func (w *watch) tellNodes(m toAgent) {
	for _, r := range w.cluster().there() {
		_ = r.link.send(m)
	}
}

// tellExit tells the ranks that wait, here and on other nodes, that one has ended.
func (w *watch) tellExit(rank int, e state.Exit) {
	w.folder.job.SetExit(rank, e)
	from := w.nodeOf(rank)
	for _, r := range w.cluster().there() {
		if r != from {
			_ = r.link.send(toAgent{Exit: &exitOf{rank, e}}) // one that is lost is told of where messages are read
		}
	}
}

// lossText says in words how a node was lost.
func lossText(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return "its fpmrun is gone"
	}
	return err.Error()
}

// ranksText is its rank 3, or its ranks 4 to 7.
func ranksText(ranks []int) string {
	switch len(ranks) {
	case 0:
		return "it had no rank"
	case 1:
		return fmt.Sprintf("its rank %d with it", ranks[0])
	}
	return fmt.Sprintf("its ranks %d to %d with it", slices.Min(ranks), slices.Max(ranks))
}
