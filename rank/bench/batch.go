package bench

import (
	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/kv"
)

// batch is the requests of one point, their cache sequences and the steps that they run, all built before the first
// step starts.
type batch struct {
	prompts   [][]uint32
	sequences []*kv.Sequence
	steps     []gpu.Step
	decode    bool // the steps are decode steps
}

// open starts a sequence per prompt; salts separate the requests' namespaces in the prefix cache. On an error
// everything opened is released again.
func open(cache *kv.Manager, prompts [][]uint32, salts []string, extra int) (*batch, error) {
	b := &batch{prompts: prompts}
	for i, prompt := range prompts {
		s := cache.Open(prompt, salts[i])
		b.sequences = append(b.sequences, s)
		if err := s.Grow(len(prompt) + extra); err != nil {
			b.release()
			return nil, err
		}
	}
	return b, nil
}

// prefill builds the one step that computes everything that is not cached.
func (b *batch) prefill() {
	rows := make([]gpu.Row, len(b.prompts))
	for i, prompt := range b.prompts {
		cached := b.sequences[i].Cached()
		rows[i] = gpu.Row{Slot: i, Tokens: prompt[cached:], Computed: cached, Blocks: b.sequences[i].Blocks()}
	}
	b.steps = []gpu.Step{{Rows: rows}}
}

// decodeSteps builds n steps that go on from computed tokens: the first computes the prompts' last ids, the
// others what was sampled before.
func (b *batch) decodeSteps(computed []int, n int) {
	b.decode = true
	b.steps = make([]gpu.Step, n)
	for k := range b.steps {
		rows := make([]gpu.Row, len(b.prompts))
		for i, prompt := range b.prompts {
			rows[i] = gpu.Row{Slot: i, Computed: computed[i] + k, Blocks: b.sequences[i].Blocks()}
			if k == 0 {
				rows[i].Tokens = prompt[computed[i]:]
			}
		}
		b.steps[k].Rows = rows
	}
}

// commit registers the prompts' full blocks in the prefix cache.
func (b *batch) commit() {
	for i, s := range b.sequences {
		s.Commit(b.prompts[i])
	}
}

func (b *batch) release() {
	for _, s := range b.sequences {
		s.Release()
	}
	b.sequences = nil
}

// scheduled counts what a step computes, from the step itself.
func scheduled(step *gpu.Step, decode bool) artifact.Scheduled {
	var s artifact.Scheduled
	var lengths artifact.Spread
	for i := range step.Rows {
		row := &step.Rows[i]
		if decode {
			s.NumDecodeRequests++
			s.SumDecodeKVTokens += row.Computed
			lengths.Add(row.Computed)
			continue
		}
		s.NumPrefillRequests++
		s.SumPrefillTokens += row.New()
		s.SumPrefillKVTokens += row.Computed
		lengths.Add(row.Computed + row.New())
	}
	if decode {
		s.VarDecodeKVTokens = lengths.Variance()
	} else {
		s.VarPrefillLength = lengths.Variance()
	}
	return s
}

// continued builds n decode steps after a prefill of the one request of the batch: each computes what was sampled
// before.
func (b *batch) continued(computed, n int) {
	b.steps = make([]gpu.Step, n)
	for k := range b.steps {
		b.steps[k].Rows = []gpu.Row{{Slot: 0, Computed: computed + k, Blocks: b.sequences[0].Blocks()}}
	}
}
