package launcher

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// asking is a report that is being put together: the ranks of other nodes are seen by their agents.
type asking struct {
	full    bool // every rank's state; else one line of liveness
	missing map[*remote]bool
	seen    map[int]sight
	live    map[int]int  // rank -> pid, of those that lived when it began
	ended   map[int]bool // ranks that had ended
}

// ask begins a report. It is printed at once where all ranks are here.
func (w *watch) ask(full bool) {
	a := &asking{full: full, missing: map[*remote]bool{}, seen: map[int]sight{}, live: maps.Clone(w.live), ended: maps.Clone(w.gone)}
	for _, e := range w.end.Exits {
		a.ended[e.Rank] = true
	}
	here := maps.Clone(w.live)
	maps.DeleteFunc(here, func(rank, _ int) bool { return w.nodeOf(rank) != nil })
	for _, s := range w.viewer.see(here, full) {
		a.seen[s.Rank] = s
	}
	w.asked++
	for _, r := range w.cluster().there() {
		if r.link.send(toAgent{See: &glance{Number: w.asked, Full: full}}) == nil {
			a.missing[r] = true
		}
	}
	w.askings[w.asked] = a
	w.answered(w.asked)
}

// sighted adds what an agent saw.
func (w *watch) sighted(r *remote, s *sights) {
	a := w.askings[s.Number]
	if a == nil {
		return
	}
	delete(a.missing, r)
	for _, one := range s.Ranks {
		if w.nodeOf(one.Rank) == r {
			a.seen[one.Rank] = one
		}
	}
	w.answered(s.Number)
}

// answered prints a report that is complete.
func (w *watch) answered(number int) {
	a := w.askings[number]
	if len(a.missing) > 0 {
		return
	}
	delete(w.askings, number)
	if a.full {
		w.report(a)
	} else {
		w.liveness(a)
	}
}

// unanswered gives the reports up that wait for a node, or for any where r is nil: they are printed without it.
func (w *watch) unanswered(r *remote) {
	for _, number := range slices.Sorted(maps.Keys(w.askings)) {
		a := w.askings[number]
		if r == nil {
			clear(a.missing)
		}
		delete(a.missing, r)
		w.answered(number)
	}
}

const beingStarted = "is being started"

// report prints what every rank that had not ended is doing.
func (w *watch) report(a *asking) {
	for rank := range w.plan.Ranks {
		pid, known := a.live[rank]
		s, looked := a.seen[rank]
		switch {
		case a.ended[rank]:
		case !known:
			w.event("state", rank, Event{Text: beingStarted})
			w.tell(fmt.Sprintf("rank %d %s", rank, beingStarted))
		default:
			text, e := "could not be looked at", Event{PID: pid}
			if looked {
				text = s.words(w.lastOutput(rank))
				if s.Op != "" {
					e.Op, e.Seq = s.Op, s.Seq
				}
				if s.Op != "" && s.Waiting >= 0 {
					e.Waiting = &s.Waiting
				}
			}
			e.Text = text
			w.event("state", rank, e)
			w.tell(fmt.Sprintf("rank %d (pid %d%s) %s", rank, pid, w.onNode(rank), text))
		}
	}
}

// liveness prints one line: how many ranks live, and the operations that they are in.
func (w *watch) liveness(a *asking) {
	in := map[string]int{}
	for rank := range a.live {
		if s := a.seen[rank]; s.Op != "" {
			in[fmt.Sprintf("%s #%d", s.Op, s.Seq)]++
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(in)) {
		parts = append(parts, fmt.Sprintf("%d in %s", in[name], name))
	}
	w.tell(fmt.Sprintf("%d of %d ranks alive; %s", len(a.live), len(w.plan.Ranks), strings.Join(parts, ", ")))
}
