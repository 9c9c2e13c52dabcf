// Package kv hands out the blocks of a paged KV cache and finds prompts whose leading blocks are cached
// already. It holds no keys or values: an engine stores them at the block numbers that come from here.
//
// The rules are vLLM's. Block 0 is the null block: it is never handed out, so that a zero in a block table
// can never name a sequence's data. Only full blocks are shared, and at least the last token of a prompt is
// always computed: with blocks of 16 tokens, a 32-token prompt seen before hits 16 tokens and a 33-token one
// hits 32. A block is identified by a hash that is chained over everything before it and starts with the
// sequence's salt, so two prompts share a block only when salt and all tokens up to the block's end agree.
// A released block keeps its content until it is handed out again; blocks are handed out least recently
// used first, and within one sequence the last block goes first.
//
//	m, err := kv.New(kv.Config{Blocks: 1024, BlockSize: 16, PrefixCaching: true})
//	s := m.Open(prompt, salt)      // takes the cached prefix
//	err = s.Grow(len(prompt))      // blocks for the whole prompt, all or nothing
//	// run a step with s.Blocks(), starting at token s.Cached()
//	s.Commit(prompt)               // later prompts may now hit these blocks
//	s.Release()
//
// A Manager and its sequences belong to one goroutine. The manager is not for sizing the pool (the engine
// does that) and does not know of memory.
package kv
