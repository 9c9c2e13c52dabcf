package launcher

import (
	"fmt"
	"syscall"
	"time"
)

// Class says whose an exit status is, since a rank may exit with any.
type Class string

// The classes.
const (
	Success    Class = "success"     // 0
	ByRank     Class = "rank"        // of the rank that failed first
	ByTimeout  Class = "timeout"     // 124
	BySignal   Class = "signal"      // 128 + the signal that the launcher got
	NotStarted Class = "not-started" // 126 or 127
	ByLauncher Class = "launcher"    // 1, a failure of the launcher's own
)

// End is how a job ended.
type End struct {
	Status int    // exit status of the job
	Class  Class  // whose status it is
	Cause  *Exit  // the first cause of a failure; nil when every rank succeeded or none is to blame
	Reason string // why the launcher stopped the job, when it did: a signal or its timeout
	Exits  []Exit // of the ranks that ended, in the order of their ends
	Err    error  // the launcher's own failure

	text string // the last line about it
}

// Exit is how one rank ended.
type Exit struct {
	Rank    int
	PID     int
	Status  int            // exit status; 128 + the signal's number for a killed rank
	Signal  syscall.Signal // that killed it; 0 when it exited
	After   time.Duration  // since the job began
	Stopped bool           // after the launcher had signalled it: a victim
	Why     string         // the kernel killed it, where that is known: out of memory
	Last    string         // its last line on stderr
}

func (e Exit) failed() bool { return e.Status != 0 }

// how says it in words.
func (e Exit) how() string {
	if e.Signal != 0 {
		text := fmt.Sprintf("was killed by signal %d (%s)", int(e.Signal), e.Signal)
		if e.Why != "" {
			text += ", " + e.Why + ","
		}
		return text
	}
	return fmt.Sprintf("exited with status %d", e.Status)
}

// cause chooses the first cause among the ranks that failed in the window. blames tells the rank that a rank's last
// error names, or -1.
func cause(exits []Exit, blames func(rank int) int) *Exit {
	var best *Exit
	better := func(a, b *Exit) bool {
		x, y := blames(a.Rank) < 0 || blames(a.Rank) == a.Rank, blames(b.Rank) < 0 || blames(b.Rank) == b.Rank
		if x != y {
			return x
		}
		if (a.Signal != 0) != (b.Signal != 0) {
			return a.Signal != 0
		}
		return false // the earlier stays
	}
	for i := range exits {
		e := &exits[i]
		if !e.failed() || e.Stopped {
			continue
		}
		if best == nil || better(e, best) {
			best = e
		}
	}
	return best
}
