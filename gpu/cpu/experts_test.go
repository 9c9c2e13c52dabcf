package cpu

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/gpu"
)

// expertWorlds starts dp engines of tp workers each that share one set of experts.
func expertWorlds(t testing.TB, cfg gpu.Config, dp, tp int) []*world {
	t.Helper()
	members := newGroups(dp * tp)
	worlds := make([]*world, dp)
	for d := range worlds {
		worlds[d] = startEach(t, cfg, tp, func(c *gpu.Config, r int) { c.EP = members[d*tp+r] })
	}
	return worlds
}

// Experts spread over the workers of several engines give each engine the logits that it has alone, whatever the
// others compute meanwhile, nothing included.
func TestExpertParallelEqualsOne(t *testing.T) {
	for _, f := range families {
		g := geometry(t, f.name, f.overrides)
		if g.Experts == nil {
			continue
		}
		cfg := config(g)
		cfg.Threads = 1
		ref := &reference{g: g, src: cfg.Weights, t: t}
		for _, size := range []struct{ dp, tp int }{{1, 2}, {2, 1}, {2, 2}, {4, 1}} {
			t.Run(fmt.Sprintf("%s/dp%d/tp%d", f.name, size.dp, size.tp), func(t *testing.T) {
				worlds := expertWorlds(t, cfg, size.dp, size.tp)
				held := 0
				for _, w := range worlds {
					for _, e := range w.engines {
						held += e.shard.experts
					}
				}
				if held != g.Experts.Count {
					t.Errorf("the members hold %d experts together, want %d", held, g.Experts.Count)
				}
				prompts := make([][]uint32, size.dp)
				tables := make([][]int32, size.dp)
				wants := make([][][]float64, size.dp)
				for d, w := range worlds {
					prompts[d] = prompt(g, d+1, 24+5*d)
					tables[d] = w.open(nil, len(prompts[d])).Blocks()
					wants[d] = ref.logits(prompts[d], cfg.MaxModelLen)
				}
				// Prefill of all but two tokens everywhere, then one engine after the other decodes alone.
				steps := make([]*gpu.Step, size.dp)
				for d, p := range prompts {
					steps[d] = &gpu.Step{Rows: []gpu.Row{{Tokens: p[:len(p)-2], Blocks: tables[d]}}}
				}
				together(t, worlds, steps)
				for d, w := range worlds {
					w.near(fmt.Sprintf("prefill on engine %d", d), 0, wants[d][len(prompts[d])-3], 1e-5)
				}
				for d, w := range worlds {
					for at := len(prompts[d]) - 2; at < len(prompts[d]); at++ {
						for other := range steps {
							steps[other] = &gpu.Step{}
						}
						steps[d] = &gpu.Step{Rows: []gpu.Row{{Tokens: prompts[d][at : at+1], Computed: at, Blocks: tables[d]}}}
						together(t, worlds, steps)
						w.near(fmt.Sprintf("decode at %d on engine %d", at, d), 0, wants[d][at], 1e-5)
					}
				}
			})
		}
	}
}

// together runs one step on each world.
func together(t *testing.T, worlds []*world, steps []*gpu.Step) {
	t.Helper()
	for d, w := range worlds {
		w.enqueue(steps[d])
	}
	for _, w := range worlds {
		w.await()
	}
}

func TestExpertParallelRefusals(t *testing.T) {
	moe := geometry(t, "mixtral-8x7b", mixtralCut)
	for _, c := range []struct {
		name string
		cfg  gpu.Config
		ep   int
		want string
	}{
		{"dense", config(geometry(t, "tiny", "")), 2, "no experts"},
		{"more members than experts", config(moe), 6, "5 experts are fewer than ep 6"},
	} {
		c.cfg.EP = newGroups(c.ep)[0]
		if _, err := New(c.cfg); !errors.Is(err, gpu.ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want gpu.ErrConfig with %q", c.name, err, c.want)
		}
	}
	if err := Check(moe, 1, 6); !errors.Is(err, gpu.ErrConfig) {
		t.Errorf("Check with 6 members for 5 experts: %v", err)
	}
	e := start(t, config(moe), 1).engines[0]
	if err := e.Enqueue(&gpu.Step{}); err == nil || !strings.Contains(err.Error(), "want 1 to 4") {
		t.Errorf("a step without rows outside an expert-parallel group: %v", err)
	}
}

// A member that brings more rows than this one's limits allow is an error, not memory that grows.
func TestExpertParallelLimitsDiffer(t *testing.T) {
	g := geometry(t, "mixtral-8x7b", mixtralCut)
	members := newGroups(2)
	engines := make([]*Engine, 2)
	for r := range engines {
		cfg := config(g)
		cfg.EP = members[r]
		cfg.MaxBatchedTokens = []int{96, 4}[r]
		var err error
		if engines[r], err = New(cfg); err != nil {
			t.Fatal(err)
		}
		defer engines[r].Close()
	}
	for r, e := range engines {
		if err := e.Enqueue(&gpu.Step{Rows: []gpu.Row{{Tokens: prompt(g, 1, []int{90, 1}[r]), Blocks: []int32{1, 2, 3, 4, 5, 6}}}}); err != nil {
			t.Fatal(err)
		}
	}
	var out gpu.Output
	if err := engines[1].Await(t.Context(), &out); err == nil || !strings.Contains(err.Error(), "--max-num-batched-tokens") {
		t.Errorf("Await: %v, want an error naming --max-num-batched-tokens", err)
	}
	members[0].hub.fail()
	if err := engines[0].Await(t.Context(), &out); !errors.Is(err, errBroken) {
		t.Errorf("Await of the other member: %v, want %v", err, errBroken)
	}
}

// Each expert sees its tokens in order, and no other rows.
func TestExpertRowsAreSorted(t *testing.T) {
	x := &experts{count: 3, ids: []int32{2, 0, 0, 3, 2, 3}, place: make([]int32, 6), rows: make([]int, 4)}
	x.cfg.topK = 2
	x.sort()
	if want := []int{2, 0, 2, 2}; !slices.Equal(x.rows, want) {
		t.Errorf("rows per expert %v, want %v", x.rows, want)
	}
	if want := []int32{2, 0, 1, 4, 3, 5}; !slices.Equal(x.place, want) {
		t.Errorf("places %v, want %v", x.place, want)
	}
}
