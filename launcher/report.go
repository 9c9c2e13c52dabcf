package launcher

import (
	"fmt"
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
	where := "host " + w.hostOf(e.Rank)
	if names := w.plan.Ranks[e.Rank].GPUNames; names != nil {
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
		w.end.text = w.end.Err.Error()
		w.tell(w.end.text)
	}
	switch {
	case w.end.Reason != "":
		w.end.text = "stopped: " + w.end.Reason
		w.tell(w.end.text)
	case w.end.Cause != nil:
		w.end.text = w.describe(*w.end.Cause)
		w.tell(w.end.text)
	}
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
