package artifact

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Text is real text in token ids: conversations, each encoded by itself and without special tokens.
type Text interface {
	// Conversations is the number of conversations.
	Conversations() int
	// IDs are the ids of a conversation, 0 <= i < Conversations(). They are not to be changed.
	IDs(i int) []uint32
}

// TextSource says which text it is, in rank documents and between ranks.
type TextSource struct {
	Path           string `json:"path"`
	SHA256         string `json:"sha256"`          // of the data set
	CollectionPool string `json:"collection_pool"` // which conversations of the data set are taken
	Conversations  int    `json:"conversations"`   // that were taken
}

// EvenConversations is the only way of taking conversations: those whose text has a SHA-256 with an even first byte.
const EvenConversations = "conversation_sha256_even"

// Sizes of the flat pool, in ids.
const (
	poolEnough = 2400000 // conversations are added until there are as many
	poolLeast  = 4096    // fewer are an error
)

// Pool is one long sequence of real text, of which prompts are windows.
type Pool struct{ ids []uint32 }

// NewPool lines conversations up in an order that is always the same, until the pool is long enough or the text at its end.
func NewPool(text Text) (*Pool, error) {
	p := &Pool{}
	for _, i := range shuffled("bench-prefill-pool", text.Conversations()) {
		if len(p.ids) >= poolEnough {
			break
		}
		p.ids = append(p.ids, text.IDs(i)...)
	}
	if len(p.ids) < poolLeast {
		return nil, fmt.Errorf("artifact: a text of %d token ids in %d conversations: a pool of prompts needs at least %d", len(p.ids), text.Conversations(), poolLeast)
	}
	return p, nil
}

// window is n ids from a place that the seed selects; behind the end of the pool its beginning follows.
func (p *Pool) window(seed string, n int) []uint32 {
	ids := make([]uint32, 0, n)
	for at := NewRandom(seed).Below(len(p.ids)); len(ids) < n; at = 0 {
		ids = append(ids, p.ids[at:min(len(p.ids), at+n-len(ids))]...)
	}
	return ids
}

// Chains are sequences of whole conversations, each in an order of its own.
type Chains struct{ text Text }

// NewChains makes chains of a text.
func NewChains(text Text) *Chains { return &Chains{text} }

// Holds reports whether every chain can be n ids deep: all of them hold the whole text. have is what the text has, counted until it is enough.
func (c *Chains) Holds(n int) (have int, ok bool) {
	for i := range c.text.Conversations() {
		if have += len(c.text.IDs(i)); have >= n {
			return have, true
		}
	}
	return have, have >= n
}

// Draw returns the first n ids of the chain that a seed selects. A shorter draw is a prefix of a longer one. It is an error that the
// text ends before.
func (c *Chains) Draw(seed string, n int) ([]uint32, error) {
	ids := make([]uint32, 0, n)
	for _, i := range shuffled(seed, c.text.Conversations()) {
		more := c.text.IDs(i)
		if ids = append(ids, more[:min(len(more), n-len(ids))]...); len(ids) == n {
			return ids, nil
		}
	}
	if len(ids) < n {
		return nil, fmt.Errorf("artifact: a chain of %d token ids: the text has %d, in %d conversations", n, len(ids), c.text.Conversations())
	}
	return ids, nil
}

// shuffled is the order of n things that a seed selects.
func shuffled(seed string, n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	NewRandom(seed).Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

// Chains of prompts are numbered apart from those of decode points.
const (
	promptChains = 20000000
	chainSpread  = 1000000
)

// chainIndex is the number of the chain that a prompt with the given seed is cut from.
func chainIndex(seed string) int {
	sum := sha256.Sum256([]byte(seed))
	return promptChains + int(binary.BigEndian.Uint32(sum[:4])%chainSpread)
}
