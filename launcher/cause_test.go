package launcher

import (
	"syscall"
	"testing"
	"time"
)

func TestCause(t *testing.T) {
	exit := func(rank, status int, after time.Duration) Exit {
		return Exit{Rank: rank, Status: status, After: after}
	}
	killed := func(rank int, after time.Duration) Exit {
		return Exit{Rank: rank, Status: 139, Signal: syscall.SIGSEGV, After: after}
	}
	for _, c := range []struct {
		name   string
		exits  []Exit
		blames map[int]int
		want   int
	}{
		{"nobody failed", []Exit{exit(0, 0, 1), exit(1, 0, 2)}, nil, -1},
		{"the only one", []Exit{exit(0, 0, 1), exit(1, 7, 2)}, nil, 1},
		{"the first of two", []Exit{exit(2, 1, 1), exit(1, 7, 2)}, nil, 2},
		{"who blames another is a victim", []Exit{exit(2, 1, 1), exit(0, 7, 2)}, map[int]int{2: 0}, 0},
		{"seven victims end first", []Exit{exit(1, 1, 1), exit(2, 1, 2), exit(3, 1, 3), exit(0, 134, 4)}, map[int]int{1: 0, 2: 0, 3: 0}, 0},
		{"who blames itself is no victim", []Exit{exit(2, 1, 1), exit(0, 7, 2)}, map[int]int{2: 2}, 2},
		{"a signal precedes a status", []Exit{exit(2, 1, 1), killed(1, 2)}, nil, 1},
		{"a victim's signal does not", []Exit{killed(1, 1), exit(0, 3, 2)}, map[int]int{1: 0}, 0},
		{"all blame each other", []Exit{exit(1, 1, 1), exit(0, 2, 2)}, map[int]int{1: 0, 0: 1}, 1},
		{"who was stopped is never a cause", []Exit{{Rank: 0, Status: 143, Stopped: true}, exit(1, 5, 2)}, nil, 1},
	} {
		blames := func(rank int) int {
			if r, ok := c.blames[rank]; ok {
				return r
			}
			return -1
		}
		got := -1
		if e := cause(c.exits, blames); e != nil {
			got = e.Rank
		}
		if got != c.want {
			t.Errorf("%s: rank %d, want %d", c.name, got, c.want)
		}
	}
}
