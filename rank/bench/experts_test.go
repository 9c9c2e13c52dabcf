package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/cpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

const (
	expertPrompt = 20 // tokens
	expertSteps  = 64 // decode steps
)

// expertConfig is a small engine of the preset tiny-moe.
func expertConfig(t testing.TB) gpu.Config {
	t.Helper()
	g, err := model.Load("tiny-moe", nil)
	if err != nil {
		t.Fatal(err)
	}
	return gpu.Config{Geometry: g, Weights: model.Random(0, g), Blocks: 32, BlockSize: 16, MaxBatchedTokens: 32, MaxSeqs: 4, MaxModelLen: 128, Threads: 1}
}

// text is what one DP rank computes, and what an engine that has all experts makes of it: a prompt at once, then its greedy ids one by one.
type text struct {
	tokens []uint32    // (expertPrompt + expertSteps)
	greedy []uint32    // (1 + expertSteps): after the prompt and after each token
	logits [][]float32 // (1 + expertSteps, vocabulary)
}

// step is the k-th step of the text, given its tokens.
func (x *text) step(k int) *gpu.Step {
	row := gpu.Row{Tokens: x.tokens[:expertPrompt], Blocks: table(1, 8)}
	if k > 0 {
		at := expertPrompt + k - 1
		row.Tokens, row.Computed = x.tokens[at:at+1], at
	}
	return &gpu.Step{Rows: []gpu.Row{row}}
}

// newText computes the text of a DP rank without expert parallelism.
func newText(t *testing.T, cfg gpu.Config, rank int) *text {
	t.Helper()
	engine, err := cpu.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	x, random := &text{}, rand.New(rand.NewPCG(1, uint64(rank)))
	for range expertPrompt {
		x.tokens = append(x.tokens, random.Uint32N(uint32(cfg.Geometry.Vocab)))
	}
	var out gpu.Output
	for k := range 1 + expertSteps {
		if err := engine.Enqueue(x.step(k)); err != nil {
			t.Fatal(err)
		}
		if err := engine.Await(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		logits, _ := engine.Logits(0)
		x.logits, x.greedy = append(x.logits, slices.Clone(logits)), append(x.greedy, out.Sampled[0])
		x.tokens = append(x.tokens, out.Sampled[0])
	}
	return x
}

// distance is the length of the difference of two vectors over that of the second.
func distance(a, b []float32) float64 {
	var difference, length float64
	for i := range a {
		d := float64(a[i]) - float64(b[i])
		difference += d * d
		length += float64(b[i]) * float64(b[i])
	}
	return math.Sqrt(difference / length)
}

// Engines that share their experts over the collective layer compute what each would compute alone, and choose the same ids for 64 steps on the
// same text. Each DP rank begins a round later than the one before, so that every one is idle for some.
func TestExpertParallelOverCollectives(t *testing.T) {
	cfg := expertConfig(t)
	for _, c := range []struct{ dp, tp int }{{2, 1}, {1, 2}, {4, 1}, {2, 2}} {
		t.Run(fmt.Sprintf("dp%d tp%d", c.dp, c.tp), func(t *testing.T) {
			texts := make([]*text, c.dp)
			for d := range texts {
				texts[d] = newText(t, cfg, d)
			}
			eachRank(t, world(t, c.dp*c.tp), func(_ int, comm *collective.Comm) error {
				groups, err := NewGroups(t.Context(), comm, artifact.Sizes{TP: c.tp, PCP: 1, PP: 1}, StepLimit)
				if err != nil {
					return err
				}
				own := cfg
				own.TP, own.EP = groups.TensorGroup(), NewExpertGroup(groups.Experts)
				engine, err := cpu.New(own)
				if err != nil {
					return err
				}
				defer engine.Close()
				x := texts[groups.DPRank]
				var out gpu.Output
				worst := 0.0
				for round := range 1 + expertSteps + c.dp - 1 {
					k := round - groups.DPRank
					step := &gpu.Step{}
					if k >= 0 && k <= expertSteps {
						step = x.step(k)
					}
					if err := engine.Enqueue(step); err != nil {
						return err
					}
					if err := engine.Await(t.Context(), &out); err != nil {
						return err
					}
					if len(step.Rows) == 0 {
						continue
					}
					if out.Sampled[0] != x.greedy[k] {
						return fmt.Errorf("step %d: greedy id %d, alone %d", k, out.Sampled[0], x.greedy[k])
					}
					logits, first := engine.Logits(0)
					worst = max(worst, distance(logits, x.logits[k][first:first+len(logits)]))
				}
				if !(worst <= 1e-5) {
					return fmt.Errorf("relative distance %.3g to the logits of one engine alone, want at most 1e-5", worst)
				}
				return nil
			})
		})
	}
}
