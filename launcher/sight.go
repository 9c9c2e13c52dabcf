package launcher

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fpmrun/fpmrun/collective/state"
)

// sight is what can be seen of a rank on its own host.
type sight struct {
	Rank       int     `json:"rank"`
	Process    string  `json:"process"`              // in words
	Unreadable string  `json:"unreadable,omitempty"` // why its state page could not be read
	Foreign    bool    `json:"foreign,omitempty"`    // it does not use the collective library
	Phase      string  `json:"phase,omitempty"`
	Op         string  `json:"op,omitempty"` // collective operation that it is in
	Seq        uint64  `json:"seq,omitempty"`
	Since      float64 `json:"since,omitempty"` // seconds in it
	Waiting    int     `json:"waiting"`         // rank that it waits for; -1: none
}

// viewer looks at ranks and remembers the CPU time that they had used the last time.
type viewer struct {
	folder *folder
	cpu    map[int]time.Duration // by rank
}

// see looks at ranks, at their processes only in full.
func (v *viewer) see(live map[int]int, full bool) []sight {
	var list []sight
	for _, rank := range slices.Sorted(maps.Keys(live)) {
		s := v.page(rank)
		if full {
			p := inspect(live[rank])
			before, reported := v.cpu[rank]
			if !reported {
				before = -1
			}
			v.cpu[rank] = p.cpu
			s.Process = p.describe(before)
		}
		list = append(list, s)
	}
	return list
}

// page is what a rank's state page says.
func (v *viewer) page(rank int) sight {
	s := sight{Rank: rank, Waiting: -1}
	snap, err := v.folder.state(rank)
	switch {
	case err != nil:
		s.Unreadable = err.Error()
	case snap.PID == 0:
		s.Foreign = true
	case len(snap.Current) == 0:
		s.Phase = snap.Phase.String()
	default:
		op := snap.Current[len(snap.Current)-1]
		s.Phase, s.Op, s.Seq, s.Since, s.Waiting = snap.Phase.String(), op.Op, op.Seq, time.Since(op.Since).Seconds(), op.Waiting
	}
	return s
}

// words say it; last is the rank's last output in words.
func (s *sight) words(last string) string {
	switch {
	case s.Unreadable != "":
		return fmt.Sprintf("%s, state page unreadable: %s", s.Process, s.Unreadable)
	case s.Foreign:
		return s.Process + ", does not use the collective library; " + last
	case s.Op == "":
		return fmt.Sprintf("%s, %s, in no collective operation; %s", s.Process, s.Phase, last)
	}
	text := fmt.Sprintf("%s, in %s #%d for %.1fs", s.Process, s.Op, s.Seq, s.Since)
	if s.Waiting >= 0 {
		text += fmt.Sprintf(", waiting for rank %d", s.Waiting)
	}
	return text
}

// blamed is the rank that a rank's last collective error names, or -1.
func (f *folder) blamed(rank int) int {
	snap, err := f.state(rank)
	if err != nil || snap.ErrKind == state.KindNone {
		return -1
	}
	return snap.Blamed
}

// joined reports whether a rank has found the others, and the process that did.
func (f *folder) joined(rank int) (pid int, ok bool) {
	snap, err := f.state(rank)
	if err != nil || snap.Phase != state.Joined && snap.Phase != state.Left {
		return 0, false
	}
	return snap.PID, true
}
