package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/fpmrun/fpmrun/launcher/machine"
)

// EventVersion is the value of "v" in every event. It changes when a field changes its meaning; new fields and new kinds
// of events do not change it.
const EventVersion = 1

// Event is one line of the event stream, which docs/events.md describes. Fields that do not apply are left out.
type Event struct {
	Version int       `json:"v"`
	Time    time.Time `json:"time"`
	Event   string    `json:"event"` // start, joined, output-truncated, exit, victim, state, timeout or end
	RunID   string    `json:"run_id"`
	Attempt int       `json:"attempt"` // 0, and one more after each restart

	Rank    *int         `json:"rank,omitempty"`
	PID     int          `json:"pid,omitempty"`
	Host    string       `json:"host,omitempty"`
	Node    *int         `json:"node,omitempty"`    // of a job on several nodes: the number of the rank's
	CPUs    machine.CPUs `json:"cpus,omitempty"`    // that the rank is bound to
	GPUs    []string     `json:"gpus,omitempty"`    // UUIDs of the rank's own
	Seconds float64      `json:"seconds,omitempty"` // since the attempt began; of timeout, the limit

	Status  *int   `json:"status,omitempty"`  // exit status; 128 + signal for a killed rank
	Signal  int    `json:"signal,omitempty"`  // that killed the rank
	Stopped bool   `json:"stopped,omitempty"` // the rank ended after the launcher had signalled it
	Cause   *int   `json:"cause,omitempty"`   // rank that failed first
	Class   Class  `json:"class,omitempty"`   // of end
	Reason  string `json:"reason,omitempty"`  // of end; of exit, why the kernel killed the rank

	Text    string `json:"text,omitempty"` // last line on stderr; of state, the report's words
	Op      string `json:"op,omitempty"`   // collective operation that the rank is in
	Seq     uint64 `json:"seq,omitempty"`
	Waiting *int   `json:"waiting_for,omitempty"` // rank

	Stream string `json:"stream,omitempty"` // stdout or stderr
	Bytes  int64  `json:"bytes,omitempty"`  // that the console lost
	Lost   int    `json:"lost,omitempty"`   // events that nobody took in time
}

// maxEvents is how many events may wait for a reader that does not read; further ones are counted and lost.
const maxEvents = 1 << 16

// eventLog writes events in the order in which they happen, without making whoever tells them wait. A nil log drops
// them.
type eventLog struct {
	w    io.Writer
	done chan struct{}

	mu      sync.Mutex
	changed sync.Cond
	waiting [][]byte
	lost    int
	closed  bool
	err     error // the first one of writing; nothing is written after it
}

// newEventLog starts a log; nil for no writer.
func newEventLog(w io.Writer) *eventLog {
	if w == nil {
		return nil
	}
	l := &eventLog{w: w, done: make(chan struct{})}
	l.changed.L = &l.mu
	go l.write()
	return l
}

// add queues one event.
func (l *eventLog) add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) >= maxEvents && e.Event != "end" {
		l.lost++
		return
	}
	e.Lost = 0
	if e.Event == "end" {
		e.Lost = l.lost
	}
	line, err := json.Marshal(e)
	if err != nil {
		l.err = errors.Join(l.err, err)
		return
	}
	l.waiting = append(l.waiting, append(line, '\n'))
	l.changed.Signal()
}

func (l *eventLog) write() {
	defer close(l.done)
	for {
		l.mu.Lock()
		for len(l.waiting) == 0 && !l.closed {
			l.changed.Wait()
		}
		lines := l.waiting
		l.waiting = nil
		l.mu.Unlock()
		if len(lines) == 0 {
			return
		}
		for _, line := range lines {
			if _, err := l.w.Write(line); err != nil {
				l.fail(err)
				return
			}
		}
	}
}

// fail ends writing. That the reader went away is no error to speak of.
func (l *eventLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !errors.Is(err, syscall.EPIPE) {
		l.err = fmt.Errorf("launcher: --events: %w", err)
	}
}

// close lets the writer end once everything is written. done is closed then.
func (l *eventLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.changed.Signal()
}

// failure is why the log is not complete.
func (l *eventLog) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// event tells the event log what happened.
func (w *watch) event(kind string, rank int, e Event) {
	if w.events == nil {
		return
	}
	e.Version, e.Event, e.Time, e.RunID, e.Attempt = EventVersion, kind, time.Now().UTC(), w.plan.RunID, w.attempt
	if rank >= 0 {
		e.Rank = &rank
	}
	w.events.add(e)
}

// joinInterval is how often the ranks' state pages are read to tell who has joined.
const joinInterval = 50 * time.Millisecond

func (w *watch) lookForJoins() {
	for rank := range w.live {
		w.lookForJoin(rank)
	}
}

// lookForJoin tells once that a rank has found the others.
func (w *watch) lookForJoin(rank int) {
	if w.events == nil || w.joined[rank] || w.nodeOf(rank) != nil {
		return
	}
	if pid, ok := w.folder.joined(rank); ok {
		w.tellJoined(rank, pid)
	}
}

// tellJoined tells once that a rank has found the others.
func (w *watch) tellJoined(rank, pid int) {
	if !w.joined[rank] {
		w.joined[rank] = true
		w.event("joined", rank, Event{PID: pid, Seconds: time.Since(w.began).Seconds()})
	}
}

// exited tells that a rank has ended.
func (w *watch) exited(e Exit) {
	w.event("exit", e.Rank, Event{PID: e.PID, Status: &e.Status, Signal: int(e.Signal), Stopped: e.Stopped, Reason: e.Why, Seconds: e.After.Seconds()})
}

// tellEnd tells how the attempt ended.
func (w *watch) tellEnd() {
	e := Event{Status: &w.end.Status, Class: w.end.Class, Reason: w.end.Reason, Seconds: time.Since(w.began).Seconds()}
	if c := w.end.Cause; c != nil {
		e.Cause, e.Text = &c.Rank, c.Last
	}
	if w.end.Err != nil {
		e.Text = w.end.Err.Error()
	}
	w.event("end", -1, e)
}
