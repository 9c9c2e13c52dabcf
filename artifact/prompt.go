package artifact

import (
	"fmt"
	"strconv"
)

// Purposes of drawn token ids; each selects content of its own.
const (
	PurposeWarmup   = "warmup"    // the start-up warm-up request
	PurposePrefill  = "prefill"   // measured prefill prompts, cached prefix included
	PurposeDecode   = "decode"    // measured decode prompts over synthetic KV
	PurposeChain    = "chain"     // prefixes of real-prefix prefill points
	PurposeWarmTail = "warm-tail" // throw-away tail of the same-shape warm shot
	PurposeTail     = "tail"      // measured tail of a real-prefix point
	PurposeEager    = "eager"     // tail of a real-prefix point's discarded replica
)

// ContentMode values name where synthetic token ids come from.
const (
	ContentRandom = "random" // uniform ids
	ContentZeros  = "zeros"  // a vocabulary of one: nothing to draw
)

// Content draws reproducible token ids. What a request gets depends on the content seed, the purpose, the shape of
// the batch, the DP rank and the slot, and on nothing else: not on the grid, its order, ids or counters.
type Content struct {
	Seed   string // content seed
	Vocab  int    // ids are drawn from 1 to Vocab-1
	DPRank int
}

// Mode is the synthetic_content of the protocol.
func (c Content) Mode() string {
	if c.Vocab <= 1 {
		return ContentZeros
	}
	return ContentRandom
}

// Shape identifies a batch by its phase and the lengths of all its requests. It is computed once per batch and goes
// into every slot's seed, so that building a batch's prompts stays linear in its size.
func Shape(phase string, fresh, kv []int) (string, error) {
	return digest(map[string]any{"phase": phase, "new": fresh, "kv": kv})
}

// seed is the text that selects a slot's content. This is the only place that builds it.
func (c Content) seed(purpose, shape string, slot int) string {
	return "content-v1:" + c.Seed + ":dp" + strconv.Itoa(c.DPRank) + ":" + purpose + ":" + shape + ":slot" + strconv.Itoa(slot)
}

// Draw returns the first n ids of a slot's content. A shorter draw is a prefix of a longer one.
func (c Content) Draw(purpose, shape string, slot, n int) []uint32 {
	return drawIDs(c.seed(purpose, shape, slot), c.Vocab, n)
}

// Prompts draws one prompt of the given length per slot.
func (c Content) Prompts(purpose, shape string, lengths []int) [][]uint32 {
	prompts := make([][]uint32, len(lengths))
	for slot, n := range lengths {
		prompts[slot] = c.Draw(purpose, shape, slot, n)
	}
	return prompts
}

func drawIDs(seed string, vocab, n int) []uint32 {
	ids := make([]uint32, n)
	if vocab <= 1 {
		return ids
	}
	r := NewRandom(seed)
	for i := range ids {
		ids[i] = 1 + uint32(r.Float64()*float64(vocab-1))
	}
	return ids
}

// RecordPrompts hashes a batch's injected ids.
func RecordPrompts(prompts [][]uint32) (Prompts, error) {
	entries := make([]PromptHash, len(prompts))
	for slot, ids := range prompts {
		entries[slot] = HashPrompt(slot, ids)
	}
	sum, err := HashPrompts(entries)
	if err != nil {
		return UnrecordedPrompts(), fmt.Errorf("artifact: prompt evidence: %w", err)
	}
	return Prompts{Status: "recorded", SHA256: &sum, Requests: entries}, nil
}

// UnrecordedPrompts is the evidence of a batch whose ids were not seen.
func UnrecordedPrompts() Prompts { return Prompts{Status: "unavailable", Requests: []PromptHash{}} }
