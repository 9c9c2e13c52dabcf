package launcher

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxLines is how many lines of the launcher's own may wait for a console that does not take them; further ones are lost.
const maxLines = 4096

// tell queues a line of the launcher's own for stderr. It never waits: a console that is stuck must not keep the ranks from
// being stopped.
func (w *watch) tell(line string) {
	select {
	case w.lines <- "fpmrun: " + line:
	default:
	}
}

// speak prints what tell queued.
func (w *watch) speak() {
	defer close(w.said)
	for line := range w.lines {
		w.stderr.say(line)
	}
}

// describe names a rank and how it ended.
func (w *watch) describe(e Exit) string {
	where := "host " + w.host
	if names := w.plan.Ranks[e.Rank].gpuNames; names != nil {
		where += ", " + strings.Join(names, ", ")
	}
	text := fmt.Sprintf("rank %d (pid %d, %s) %s after %.1fs", e.Rank, e.PID, where, e.how(), e.After.Seconds())
	if e.Last != "" {
		text += ": " + e.Last
	}
	return text
}

// lastWords prints who was stopped and, last, the cause.
func (w *watch) lastWords() {
	if w.end.Status == 0 {
		return
	}
	var victims []int
	for _, e := range w.end.Exits {
		if e.Stopped || w.end.Cause != nil && e.Rank != w.end.Cause.Rank && e.failed() {
			victims = append(victims, e.Rank)
		}
	}
	slices.Sort(victims)
	if len(victims) > 0 && (w.end.Cause != nil || w.end.Reason != "") {
		for _, rank := range victims {
			e := Event{}
			if w.end.Cause != nil {
				e.Cause = &w.end.Cause.Rank
			}
			w.event("victim", rank, e)
		}
		w.tell("stopped or failed because of it: rank " + strings.Trim(strings.ReplaceAll(fmt.Sprint(victims), " ", ", "), "[]"))
	}
	if w.end.Err != nil {
		w.tell(w.end.Err.Error())
	}
	switch {
	case w.end.Reason != "":
		w.tell("stopped: " + w.end.Reason)
	case w.end.Cause != nil:
		w.tell(w.describe(*w.end.Cause))
	}
}

// report prints what every rank that has not ended is doing.
func (w *watch) report() {
	ended := map[int]bool{}
	for _, e := range w.end.Exits {
		ended[e.Rank] = true
	}
	for rank := range w.plan.Ranks {
		pid, known := w.live[rank]
		switch {
		case ended[rank]:
		case !known:
			w.event("state", rank, Event{Text: beingStarted})
			w.tell(fmt.Sprintf("rank %d %s", rank, beingStarted))
		default:
			text, e := w.doing(rank)
			e.PID, e.Text = pid, text
			w.event("state", rank, e)
			w.tell(fmt.Sprintf("rank %d (pid %d) %s", rank, pid, text))
		}
	}
}

const beingStarted = "is being started"

// doing says what a rank waits for, as far as it can be known from outside.
func (w *watch) doing(rank int) (string, Event) {
	p := inspect(w.live[rank])
	before, reported := w.cpu[rank]
	if !reported {
		before = -1
	}
	w.cpu[rank] = p.cpu
	process := p.describe(before)
	snap, err := w.folder.state(rank)
	switch {
	case err != nil:
		return fmt.Sprintf("%s, state page unreadable: %v", process, err), Event{}
	case snap.PID == 0:
		return process + ", does not use the collective library; " + w.lastOutput(rank), Event{}
	case len(snap.Current) == 0:
		return fmt.Sprintf("%s, %s, in no collective operation; %s", process, snap.Phase, w.lastOutput(rank)), Event{}
	}
	op := snap.Current[len(snap.Current)-1]
	text := fmt.Sprintf("%s, in %s #%d for %.1fs", process, op.Op, op.Seq, time.Since(op.Since).Seconds())
	e := Event{Op: op.Op, Seq: op.Seq}
	if op.Waiting >= 0 {
		text += fmt.Sprintf(", waiting for rank %d", op.Waiting)
		e.Waiting = &op.Waiting
	}
	return text, e
}

// lastOutput is the last line of a rank and how long ago it was printed.
func (w *watch) lastOutput(rank int) string {
	text, at := w.streams[2*rank].lastLineAt()
	if text2, at2 := w.streams[2*rank+1].lastLineAt(); at2.After(at) {
		text, at = text2, at2
	}
	if at.IsZero() {
		return "it has printed nothing"
	}
	return fmt.Sprintf("last line %.1fs ago: %.80q", time.Since(at).Seconds(), text)
}

// liveness prints one line: how many ranks live, and the operation that most of them are in.
func (w *watch) liveness() {
	in := map[string]int{}
	for rank := range w.live {
		snap, err := w.folder.state(rank)
		if err == nil && len(snap.Current) > 0 {
			op := snap.Current[len(snap.Current)-1]
			in[fmt.Sprintf("%s #%d", op.Op, op.Seq)]++
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(in)) {
		parts = append(parts, fmt.Sprintf("%d in %s", in[name], name))
	}
	w.tell(fmt.Sprintf("%d of %d ranks alive; %s", len(w.live), len(w.plan.Ranks), strings.Join(parts, ", ")))
}
