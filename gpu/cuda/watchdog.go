//go:build linux && cgo

package cuda

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fpmrun/fpmrun/gpu"
)

// A step counts as stuck when it takes longer than stepLimit and longer than patience times what it should.
const (
	stepLimit = 30 * time.Second
	patience  = 20
)

// watchdog says when a step is stuck, and where.
type watchdog struct {
	least    time.Duration // stepLimit but in tests
	roofline *gpu.Roofline
	progress *progress // nil without --debug-progress
	abort    *uint32   // in pinned memory: kernels that wait for other blocks look at it once in a while, and go on when it is not 0
	at       ptr       // the same for the device
}

func newWatchdog(cfg *gpu.Config) watchdog {
	return watchdog{least: stepLimit, roofline: gpu.NewRoofline(cfg.Geometry, gpu.H200, 1, 2)}
}

// limit is how long a step may take: by the last time of its shape, or where there was none by its floor on an H200.
func (w *watchdog) limit(f *flight) time.Duration {
	last := f.program.took
	if last == 0 {
		last = w.roofline.Floor(f.step)
	}
	return max(w.least, patience*last)
}

// watch makes the word by which kernels learn that the host gives up.
func (w *watchdog) watch(m *machine) (err error) {
	w.abort, w.at, err = m.hostWord()
	return err
}

// stuck gives a step up that has not ended in time, and describes it.
func (w *watchdog) stuck(f *flight, limit time.Duration) error {
	atomic.StoreUint32(w.abort, 1)
	graph := "without a graph"
	if run := f.program.shape; run.mode != gpu.GraphNone {
		graph = fmt.Sprintf("in the %s graph of %d tokens", run.mode, run.tokens)
	}
	where := "--debug-progress tells where it is"
	if w.progress != nil {
		where = w.progress.String()
	}
	return fmt.Errorf("cuda: step %d, of %d tokens in %d rows %s, has not ended after %v: the GPU is stuck; %s", f.serial, f.tokens, f.rows, graph, limit, where)
}

// progress is how far the device is in its commands: after each of them it writes a number to host memory.
type progress struct {
	word  *uint32 // in pinned memory: the last command that ended, from 1
	at    ptr     // the same for the device
	names []string
	known map[string]uint32
}

func newProgress(m *machine) (*progress, error) {
	word, at, err := m.hostWord()
	if err != nil {
		return nil, err
	}
	return &progress{word: word, at: at, known: map[string]uint32{}}, nil
}

// mark adds what tells that the command before has ended.
func (p *progress) mark(b *builder, purpose string) {
	number, ok := p.known[purpose]
	if !ok {
		p.names = append(p.names, purpose)
		number = uint32(len(p.names))
		p.known[purpose] = number
	}
	list := *b
	list.progress = nil
	kernel(&list, "mark", "progress: "+purpose, [3]int{1, 1, 1}, 32, markArgs{host: p.at, number: number})
	b.commands = list.commands
}

// String says what ended last.
func (p *progress) String() string {
	number := atomic.LoadUint32(p.word)
	if number == 0 || int(number) > len(p.names) {
		return "no command has ended"
	}
	return fmt.Sprintf("the last command that ended is %q", p.names[number-1])
}
