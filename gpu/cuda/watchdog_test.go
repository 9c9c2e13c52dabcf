//go:build linux && cgo

package cuda

import (
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fpmrun/fpmrun/gpu"
)

// A step that never ends is an error that names it, and with the device's help the command after which it hangs.
func TestStuckStepIsNamed(t *testing.T) {
	const step = `step 1, of 41 tokens in 2 rows without a graph, has not ended after [0-9.]+m?s: the GPU is stuck; `
	for _, c := range []struct{ progress, want string }{
		{"", step + `--debug-progress tells where it is`},
		{"1", step + `the last command that ended is "sampling"`},
	} {
		got := fake(t, "FAKE_FAIL=publish", "FAKE_LEAST=1", "FAKE_PROGRESS="+c.progress)
		if !regexp.MustCompile(c.want).MatchString(got) {
			t.Errorf("got %s\nwant %s", got, c.want)
		}
	}
}

// With the device's help the host knows of every command that it ended, in a graph too; what a step computes stays the same.
func TestProgress(t *testing.T) {
	needGPU(t)
	var logits [2][][]uint32
	for i := range logits {
		cfg := graphs(t, "FULL")
		cfg.Progress = i == 1
		e := openEngine(t, cfg)
		logits[i], _ = run(t, e, fiveRows(cfg))
		if err := e.machine.synchronize(); err != nil { // the ids are here before the last word is
			t.Fatal(err)
		}
		if p := e.watchdog.progress; cfg.Progress && (p.String() != `the last command that ended is "ids to the host"` || len(p.names) < 10) {
			t.Errorf("%s, of %d", p, len(p.names))
		}
	}
	if !slices.EqualFunc(logits[0], logits[1], slices.Equal) {
		t.Error("the logits differ")
	}
}

// The deadline is 20 times what is expected, and never below the least.
func TestLimitOfAStep(t *testing.T) {
	cfg := configuration(geometry(t, "llama-3.1-8b", ""))
	w := newWatchdog(&cfg)
	f := flight{step: &gpu.Step{Rows: []gpu.Row{{Computed: 1024}}}, program: &program{shape: shape{gpu.GraphFull, 8, 8}}, serial: 7, tokens: 1, rows: 1}
	for _, c := range []struct {
		name        string
		least, last time.Duration
		want        time.Duration
	}{
		{"a fast step", stepLimit, time.Millisecond, stepLimit},
		{"a slow step", stepLimit, 2 * time.Second, 40 * time.Second},
		{"the first step, by its floor of 3.26 ms", 0, 0, 65 * time.Millisecond},
	} {
		w.least = c.least
		f.program.took = c.last
		if got := w.limit(&f).Round(5 * time.Millisecond); got != c.want {
			t.Errorf("%s may take %v, want %v", c.name, got, c.want)
		}
	}
	w.abort = new(uint32)
	if got := w.stuck(&f, time.Second).Error(); *w.abort != 1 || !strings.Contains(got, "step 7, of 1 tokens in 1 rows in the FULL graph of 8 tokens") {
		t.Errorf("%s; the device is told %d", got, *w.abort)
	}
}

// A chain with a block more than there are multiprocessors waits for ever, for the last block has no place until another one ends. The host's word ends it.
func TestAbortEndsAWaitingChain(t *testing.T) {
	e := openEngine(t, configuration(geometry(t, "tiny", "{}")))
	links, _ := e.fewLinks(0)
	p := planFew(sizes(links), 1, e.device.few())
	p.blocks = e.device.Multiprocessors + 1
	b := &builder{m: e.machine, functions: e.functions}
	e.products(b, "a chain that waits", 1, links, p)
	program, err := b.build()
	if err != nil {
		t.Fatal(err)
	}
	defer program.free()
	const wait = 200 * time.Millisecond
	begin := time.Now()
	time.AfterFunc(wait, func() { atomic.StoreUint32(e.watchdog.abort, 1) })
	if err := program.run(e.machine); err != nil {
		t.Fatal(err)
	}
	if err := e.machine.synchronize(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < wait {
		t.Errorf("it did not wait: it took %v", took)
	}
}
