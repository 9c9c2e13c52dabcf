package artifact

import (
	"fmt"
)

// Limits is what the engine can hold: the group's common capacity and the shape of its KV cache. Points are
// feasible or not with respect to it.
type Limits struct {
	MaxModelLen     int  // tokens in one sequence
	MaxTokens       int  // new tokens in one step (max_num_scheduled_tokens)
	MaxRunning      int  // requests in one step (max_num_running_reqs)
	BlockSize       int  // tokens per KV block
	Blocks          int  // usable blocks
	BlocksWatermark int  // usable blocks with the watermark reserved
	PrefixCaching   bool // prefill points may read cached KV
	PrefillGraph    Graph
	DecodeGraph     Graph
}

// Graph is the dispatch planned for one kind of step.
type Graph struct {
	Mode     string // NONE, PIECEWISE or FULL
	Captures []int  // capture sizes, ascending; empty when Mode is NONE
}

// Feasible says why a point cannot be measured, or nil.
func (l *Limits) Feasible(p *Point) error {
	if p.BatchSize > l.MaxRunning {
		return fmt.Errorf("%d requests exceed max_num_seqs %d", p.BatchSize, l.MaxRunning)
	}
	fresh, kv, err := p.Lengths(l.BlockSize)
	if err != nil {
		return err
	}
	if p.PointType == Prefill {
		return l.feasiblePrefill(p, fresh, kv)
	}
	return l.feasibleDecode(p, kv)
}

func (l *Limits) feasiblePrefill(p *Point, fresh, kv []int) error {
	if p.TotalPrefillTokens > l.MaxTokens {
		return fmt.Errorf("%d new tokens exceed max_num_batched_tokens %d", p.TotalPrefillTokens, l.MaxTokens)
	}
	if p.TotalKVReadTokens > 0 && !l.PrefixCaching {
		return fmt.Errorf("%d KV tokens cannot be read with prefix caching off", p.TotalKVReadTokens)
	}
	blocks := 0
	for i := range fresh {
		prompt := fresh[i] + kv[i]
		if prompt+1 > l.MaxModelLen {
			return fmt.Errorf("a prompt of %d tokens and one output exceed max_model_len %d", prompt, l.MaxModelLen)
		}
		blocks += blocksFor(prompt, l.BlockSize)
	}
	usable := l.Blocks
	if p.BatchSize > 1 {
		usable = l.BlocksWatermark
	}
	if blocks > usable {
		return fmt.Errorf("%d KV blocks of %d tokens exceed the %d usable ones", blocks, l.BlockSize, usable)
	}
	return nil
}

func (l *Limits) feasibleDecode(p *Point, contexts []int) error {
	if p.BatchSize > l.MaxTokens {
		return fmt.Errorf("%d decode tokens exceed max_num_batched_tokens %d", p.BatchSize, l.MaxTokens)
	}
	blocks := 0
	for _, c := range contexts {
		c = max(c, 2)
		if c+2 > l.MaxModelLen {
			return fmt.Errorf("a context of %d tokens and two outputs exceed max_model_len %d", c, l.MaxModelLen)
		}
		blocks += blocksFor(c+1, l.BlockSize)
	}
	if blocks > l.BlocksWatermark {
		return fmt.Errorf("%d KV blocks of %d tokens exceed the %d usable ones", blocks, l.BlockSize, l.BlocksWatermark)
	}
	return nil
}

func blocksFor(tokens, blockSize int) int { return (tokens + blockSize - 1) / blockSize }

// LargestDecodeBatch is the most requests whose first two tokens fit.
func (l *Limits) LargestDecodeBatch() int {
	return min(l.MaxRunning, l.MaxTokens, l.BlocksWatermark/blocksFor(2, l.BlockSize))
}

// SteadyKV is the KV total that the second, steady decode step of a batch really reads when kv tokens were asked for:
// each request is injected at one token less than its context, at least one, and has one more after the first step.
func SteadyKV(kv, batch int) int {
	contexts, err := Balanced(kv, batch, 1, 1)
	if err != nil {
		return kv
	}
	total := batch
	for _, c := range contexts {
		total += max(1, c-1)
	}
	return total
}
