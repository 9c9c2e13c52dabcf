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
	PurposeText     = "text"      // a chain that a prompt is cut from
	PurposeKVChain  = "kv-chain"  // the text of a slot of decode points over real KV
)

// ContentMode values name where synthetic token ids come from.
const (
	ContentRandom = "random"         // uniform ids
	ContentPool   = "sharegpt"       // windows of one long real text
	ContentChain  = "sharegpt_chain" // real conversations one after the other
	ContentZeros  = "zeros"          // a vocabulary of one: nothing to draw
)

// Content draws reproducible token ids. What a request gets depends on the content seed, the purpose, the shape of
// the batch, the DP rank and the slot, and on nothing else: not on the grid, its order, ids or counters.
type Content struct {
	Seed    string // content seed
	Vocab   int    // ids are drawn from 1 to Vocab-1; those of a text must be below it
	DPRank  int
	Kind    string  // ContentRandom, ContentPool or ContentChain; "" is ContentRandom
	PoolTag string  // selects other windows of the pool
	Pool    *Pool   // for ContentPool
	Chains  *Chains // for ContentChain and for decode over real KV
}

// Mode is the synthetic_content of the protocol.
func (c *Content) Mode() string {
	switch {
	case c.Vocab <= 1:
		return ContentZeros
	case c.Kind == "":
		return ContentRandom
	}
	return c.Kind
}

// Shape identifies a batch by its phase and the lengths of all its requests. It is computed once per batch and goes
// into every slot's seed, so that building a batch's prompts stays linear in its size.
func Shape(phase string, fresh, kv []int) (string, error) {
	return digest(map[string]any{"phase": phase, "new": fresh, "kv": kv})
}

// seed is the text that selects a slot's content. This is the only place that builds it.
func (c *Content) seed(purpose, shape string, slot int) string {
	return "content-v1:" + c.Seed + ":dp" + strconv.Itoa(c.DPRank) + ":" + purpose + ":" + shape + ":slot" + strconv.Itoa(slot)
}

// Draw returns the first n ids of a slot's content. A shorter draw is a prefix of a longer one. Only chains can end too early, which
// is an error.
func (c *Content) Draw(purpose, shape string, slot, n int) ([]uint32, error) {
	seed := c.seed(purpose, shape, slot)
	switch c.Mode() {
	case ContentZeros:
		return make([]uint32, n), nil
	case ContentPool:
		return c.Pool.window(c.PoolTag+":"+seed, n), nil
	case ContentChain:
		return c.Chains.Draw(c.seed(PurposeText, strconv.Itoa(chainIndex(seed)), 0), n)
	}
	return NewRandom(seed).uniform(c.Vocab, n), nil
}

// KVChain is the first n ids of the real text that a slot of every decode batch stands on.
func (c *Content) KVChain(slot, n int) ([]uint32, error) {
	return c.Chains.Draw(c.seed(PurposeKVChain, "kvwarm", slot), n)
}

// Prompts draws one prompt of the given length per slot.
func (c *Content) Prompts(purpose, shape string, lengths []int) ([][]uint32, error) {
	prompts := make([][]uint32, len(lengths))
	slot := 0
	if c.Mode() == ContentRandom {
		slot = c.drawLanes(purpose, shape, lengths, prompts)
	}
	for ; slot < len(lengths); slot++ {
		var err error
		if prompts[slot], err = c.Draw(purpose, shape, slot, lengths[slot]); err != nil {
			return nil, err
		}
	}
	return prompts, nil
}

// drawLanes draws uniform ids for as many slots as make whole groups of lanes, and returns their number.
func (c *Content) drawLanes(purpose, shape string, lengths []int, prompts [][]uint32) int {
	var r [lanes]Random
	var keys [lanes][]uint32
	slot := 0
	for ; slot+lanes <= len(lengths); slot += lanes {
		for l := range keys {
			keys[l] = seedKey(c.seed(purpose, shape, slot+l))
			if len(keys[l]) > len(r[l].state) {
				return slot
			}
		}
		seedLanes(&r, &keys)
		for l := range r {
			prompts[slot+l] = r[l].uniform(c.Vocab, lengths[slot+l])
		}
	}
	return slot
}

// uniform draws n ids from 1 to vocab-1.
func (r *Random) uniform(vocab, n int) []uint32 {
	ids := make([]uint32, n)
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
