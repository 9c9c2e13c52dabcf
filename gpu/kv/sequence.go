package kv

import (
	"fmt"
	"slices"
)

// spare is the room for further blocks that a block table is given when it is made or moved, so that a
// sequence can go on growing one token at a time without allocation.
const spare = 64

// Sequence is one sequence's block table.
type Sequence struct {
	m         *Manager
	blocks    []int32
	cached    int  // leading tokens found in the prefix cache when the sequence was opened
	committed int  // leading blocks that are in the prefix cache
	root      Hash // of the salt
	hash      Hash // of block committed-1, or root
}

// NoSpaceError says that a pool has too few free blocks.
type NoSpaceError struct {
	Tokens    int // length the sequence should have been grown to
	Needed    int // further blocks it needed
	Free      int // blocks that were free
	BlockSize int // tokens per block
}

func (e *NoSpaceError) Error() string {
	return fmt.Sprintf("kv: growing a sequence to %d tokens needs %d more blocks of %d tokens, %d are free; raise --kv-blocks",
		e.Tokens, e.Needed, e.BlockSize, e.Free)
}

// Open starts a sequence with the given prompt: it takes a reference to each cached leading block, exactly
// those that Match counts. The sequence must be released.
func (m *Manager) Open(tokens []uint32, salt string) *Sequence {
	root := m.hasher.root(salt)
	s := &Sequence{m: m, blocks: make([]int32, 0, m.BlocksFor(len(tokens))+spare), root: root, hash: root}
	m.walk(tokens, salt, func(b int32, h Hash) {
		m.hold(b)
		s.blocks = append(s.blocks, b)
		s.hash = h
	})
	s.committed = len(s.blocks)
	s.cached = s.committed * m.cfg.BlockSize
	return s
}

// Cached is the number of leading tokens that were in the prefix cache when the sequence was opened.
func (s *Sequence) Cached() int { return s.cached }

// Blocks is the block table, one block number per BlockSize tokens. A later Grow appends to it; the numbers
// already there stay as they are until Release.
func (s *Sequence) Blocks() []int32 { return s.blocks }

// Grow makes the block table cover the first n tokens of the sequence. It takes all blocks that are missing
// or, with a NoSpaceError, none. Covering less than before is no change.
func (s *Sequence) Grow(n int) error {
	need := s.m.BlocksFor(n) - len(s.blocks)
	if need <= 0 {
		return nil
	}
	if need > s.m.free.len {
		return &NoSpaceError{Tokens: n, Needed: need, Free: s.m.free.len, BlockSize: s.m.cfg.BlockSize}
	}
	if need > cap(s.blocks)-len(s.blocks) {
		s.blocks = slices.Grow(s.blocks, need+spare)
	}
	for range need {
		s.blocks = append(s.blocks, s.m.take())
	}
	return nil
}

// Commit puts all full blocks of the sequence into the prefix cache. tokens are the sequence's ids from its
// first token on; ids beyond the block table are ignored. Whether the keys and values were ever computed is
// not asked: registering a prefix that was never computed is how a benchmark places a synthetic KV cache.
func (s *Sequence) Commit(tokens []uint32) {
	if !s.m.cfg.PrefixCaching {
		return
	}
	bs := s.m.cfg.BlockSize
	full := min(len(tokens)/bs, len(s.blocks))
	for ; s.committed < full; s.committed++ {
		s.hash = s.m.hasher.next(s.hash, tokens[s.committed*bs:(s.committed+1)*bs])
		s.m.remember(s.blocks[s.committed], s.hash)
	}
}

// Release gives the sequence's references back, last block first, so that a prefix outlives what followed
// it. A released sequence is empty; releasing it again does nothing.
func (s *Sequence) Release() {
	for _, b := range slices.Backward(s.blocks) {
		s.m.drop(b)
	}
	s.blocks, s.cached, s.committed, s.hash = nil, 0, 0, s.root
}
