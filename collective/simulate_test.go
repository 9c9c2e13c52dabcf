package collective

import (
	"errors"
	"math/bits"
	"testing"
	"time"
)

// log2 is ceil(log2 n).
func log2(n int) int { return bits.Len(uint(n - 1)) }

// Rounds and bytes follow the formulas in docs/protocol.md, up to 4,096 ranks.
func TestFormulas(t *testing.T) {
	limits := Thresholds{}.orDefault()
	for _, n := range []int{1, 2, 3, 5, 8, 13, 16, 17, 100, 255, 1000, 4096} {
		power := 1 << (bits.Len(uint(n)) - 1)
		folded := 0
		if n != power {
			folded = 2
		}
		const short = 64
		// Broadcast: root to each in small groups, else a tree.
		spread := log2(n)
		if n <= limits.Flat {
			spread = n - 1
		}
		pieces := 4 // of 1 MiB in a chain
		if n == 2 {
			pieces = 1
		}
		for _, c := range []struct {
			op     string
			bytes  int
			upTo   int // ranks
			rounds int
			most   int // bytes that one rank sends
			peers  int
		}{
			{"barrier", 0, 4096, log2(n), 0, 2 * log2(n)},
			{"broadcast", short, 4096, spread, short * spread, max(spread, 1)},
			{"broadcast", 1 << 20, 17, max(n-2, 0) + pieces*min(n-1, 1), 1 << 20, 2},
			{"reduce", short, 4096, log2(n), short, log2(n)},
			{"allreduce", short, 4096, log2(power) + folded, short * (log2(power) + folded/2), log2(n) + 1},
			{"allreduce", 64 << 12, 100, 2 * (n - 1), 2 * 64 << 12, 2},
			{"allgather", short, 1000, log2(n), short * (n - 1), 2 * log2(n)},
			{"allgather", 16 << 10, 100, n - 1, 16 << 10 * (n - 1), 2},
			{"reducescatter", short, 255, n - 1, short * (n - 1), 2},
			{"alltoall", short, 255, n - 1, short * (n - 1), n - 1},
			{"gather", short, 4096, log2(n), n * (short + 2), log2(n)},
			{"scatter", short, 1000, log2(n), n * (short + 2), log2(n)},
		} {
			if n > c.upTo {
				continue
			}
			got, err := Simulate(c.op, n, c.bytes, Model{}, Thresholds{})
			if err != nil {
				t.Fatal(err)
			}
			if got.Rounds != c.rounds || got.Bytes > int64(c.most) || got.Peers > c.peers {
				t.Errorf("%s of %d bytes, %d ranks: %+v, want %d rounds, at most %d bytes and %d peers", c.op, c.bytes, n, got, c.rounds, c.most, c.peers)
			}
		}
	}
}

// The clock: a tree of messages one after the other, and a ring limited by bandwidth.
func TestSimulatedTime(t *testing.T) {
	got, err := Simulate("barrier", 1000, 0, Model{Latency: 10 * time.Microsecond, Overhead: time.Microsecond}, Thresholds{})
	if want := 10 * 11 * time.Microsecond; err != nil || got.Time != want {
		t.Errorf("barrier of 1000 ranks: %v, want %v (%v)", got.Time, want, err)
	}
	const size = 8 << 20
	got, err = Simulate("allreduce", 4, size, Model{Bandwidth: 1e9}, Thresholds{})
	want := time.Duration(2 * 3 * size / 4) // at a byte a nanosecond
	if err != nil || got.Time < want || got.Time > want+want/100 {
		t.Errorf("allreduce of 8 MiB by 4 ranks: %v, want %v (%v)", got.Time, want, err)
	}
	again, err := Simulate("allreduce", 4, size, Model{Bandwidth: 1e9}, Thresholds{})
	if err != nil || again != got {
		t.Errorf("the same simulation again: %+v, was %+v (%v)", again, got, err)
	}
	if _, err := Simulate("scan", 4, 8, Model{}, Thresholds{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("unknown operation: %v", err)
	}
	if _, err := Simulate("barrier", 0, 8, Model{}, Thresholds{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("no ranks: %v", err)
	}
}
