package kv

import (
	"errors"
	"fmt"
	"math"
)

// ErrInUse says that the prefix cache could not be reset because sequences still hold blocks.
var ErrInUse = errors.New("kv: blocks are in use")

// Config sizes a block pool.
type Config struct {
	Blocks        int  // blocks in the pool, the null block included; at least 2
	BlockSize     int  // tokens per block; at least 1
	PrefixCaching bool // find and share full blocks by content; false: every Match is 0
}

// Validate reports sizes that no pool can have, all at once.
func (c Config) Validate() error {
	var errs []error
	if c.Blocks < 2 || c.Blocks > math.MaxInt32 {
		errs = append(errs, fmt.Errorf("kv: %d blocks (--kv-blocks): want 2 to %d, the null block included", c.Blocks, math.MaxInt32))
	}
	if c.BlockSize < 1 || c.BlockSize > math.MaxInt32 {
		errs = append(errs, fmt.Errorf("kv: %d tokens per block (--block-size): want 1 or more", c.BlockSize))
	}
	return errors.Join(errs...)
}

// Manager is the block pool and its prefix cache.
type Manager struct {
	cfg    Config
	free   lru            // blocks that nobody references, least recently used first
	refs   []int32        // (Blocks) sequences that hold the block
	hashes []Hash         // (Blocks) content of a cached block; valid where cached is true
	cached []bool         // (Blocks)
	twin   []int32        // (Blocks) next block with the same hash, 0 at the end
	index  map[Hash]int32 // first block of each content
	hasher hasher
}

// New makes a pool in which all blocks but the null block are free, in ascending order.
func New(cfg Config) (*Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := &Manager{
		cfg:    cfg,
		free:   newLRU(cfg.Blocks),
		refs:   make([]int32, cfg.Blocks),
		hashes: make([]Hash, cfg.Blocks),
		cached: make([]bool, cfg.Blocks),
		twin:   make([]int32, cfg.Blocks),
		index:  make(map[Hash]int32),
		hasher: newHasher(cfg.BlockSize),
	}
	for b := 1; b < cfg.Blocks; b++ {
		m.free.push(int32(b))
	}
	return m, nil
}

// BlockSize is the number of tokens per block.
func (m *Manager) BlockSize() int { return m.cfg.BlockSize }

// Usable is the number of blocks that sequences can hold together: all but the null block.
func (m *Manager) Usable() int { return m.cfg.Blocks - 1 }

// Free is the number of blocks that no sequence holds, cached ones included.
func (m *Manager) Free() int { return m.free.len }

// Watermark is the number of blocks that a scheduler keeps free when it admits a sequence: 1 % of the pool,
// rounded down, as in vLLM. Grow does not apply it.
func (m *Manager) Watermark() int { return m.cfg.Blocks / 100 }

// BlocksFor is the number of blocks that cover the given number of tokens.
func (m *Manager) BlocksFor(tokens int) int {
	return (tokens + m.cfg.BlockSize - 1) / m.cfg.BlockSize
}

// Match is the number of leading tokens of a prompt whose blocks are cached under salt: a multiple of the
// block size and always less than len(tokens).
func (m *Manager) Match(tokens []uint32, salt string) int {
	n := 0
	m.walk(tokens, salt, func(int32, Hash) { n += m.cfg.BlockSize })
	return n
}

// walk calls hit for each cached leading block of a prompt, in order.
func (m *Manager) walk(tokens []uint32, salt string, hit func(block int32, h Hash)) {
	if !m.cfg.PrefixCaching {
		return
	}
	h := m.hasher.root(salt)
	bs := m.cfg.BlockSize
	for end := bs; end < len(tokens); end += bs {
		h = m.hasher.next(h, tokens[end-bs:end])
		b, ok := m.index[h]
		if !ok {
			return
		}
		hit(b, h)
	}
}

// Reset forgets all cached content. It is refused with ErrInUse while any sequence holds a block.
func (m *Manager) Reset() error {
	if used := m.Usable() - m.Free(); used > 0 {
		return fmt.Errorf("%w: prefix cache not reset, %d of %d blocks are held by sequences", ErrInUse, used, m.Usable())
	}
	clear(m.index)
	clear(m.cached)
	clear(m.twin)
	return nil
}

// take hands out the least recently used free block and forgets its content. The caller made sure that
// there is one.
func (m *Manager) take() int32 {
	b := m.free.pop()
	m.forget(b)
	m.refs[b] = 1
	return b
}

// hold adds a reference to a cached block.
func (m *Manager) hold(b int32) {
	if m.refs[b] == 0 {
		m.free.remove(b)
	}
	m.refs[b]++
}

// drop takes a reference away; the last one frees the block, which keeps its content.
func (m *Manager) drop(b int32) {
	m.refs[b]--
	if m.refs[b] == 0 {
		m.free.push(b)
	}
}

// remember puts a full block into the index. Several blocks may have the same content; the first one found
// in the index stays the one that is shared.
func (m *Manager) remember(b int32, h Hash) {
	m.cached[b], m.hashes[b] = true, h
	if first, ok := m.index[h]; ok {
		m.twin[b], m.twin[first] = m.twin[first], b
		return
	}
	m.index[h] = b
}

// forget takes a block out of the index.
func (m *Manager) forget(b int32) {
	if !m.cached[b] {
		return
	}
	h := m.hashes[b]
	switch first := m.index[h]; {
	case first != b:
		for m.twin[first] != b {
			first = m.twin[first]
		}
		m.twin[first] = m.twin[b]
	case m.twin[b] != 0:
		m.index[h] = m.twin[b]
	default:
		delete(m.index, h)
	}
	m.cached[b], m.twin[b] = false, 0
}
