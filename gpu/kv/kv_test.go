package kv

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func pool(t *testing.T, blocks, size int) *Manager {
	t.Helper()
	m, err := New(Config{Blocks: blocks, BlockSize: size, PrefixCaching: true})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func ids(n int) []uint32 {
	t := make([]uint32, n)
	for i := range t {
		t[i] = uint32(i*7 + 3)
	}
	return t
}

// run opens, fills, commits and releases a prompt and returns how much of it was cached.
func run(t *testing.T, m *Manager, prompt []uint32, salt string) int {
	t.Helper()
	s := m.Open(prompt, salt)
	defer s.Release()
	if err := s.Grow(len(prompt)); err != nil {
		t.Fatal(err)
	}
	s.Commit(prompt)
	return s.Cached()
}

// The last token of a prompt is computed even when all of its blocks are cached: otherwise there would be
// no logits to sample from.
func TestCase20PrefixHits(t *testing.T) {
	m := pool(t, 64, 16)
	changed := ids(32)
	changed[3]++
	steps := []struct {
		name   string
		prompt []uint32
		salt   string
		want   int
	}{
		{"first time", ids(32), "a", 0},
		{"the same 32 tokens", ids(32), "a", 16},
		{"33 tokens", ids(33), "a", 32},
		{"17 tokens", ids(17), "a", 16},
		{"16 tokens", ids(16), "a", 0},
		{"no tokens", nil, "a", 0},
		{"other salt", ids(33), "b", 0},
		{"token 3 differs", changed, "a", 0},
		{"token 3 differs, again", changed, "a", 16},
	}
	for _, st := range steps {
		if got := m.Match(st.prompt, st.salt); got != st.want {
			t.Errorf("%s: Match = %d, want %d", st.name, got, st.want)
		}
		if got := run(t, m, st.prompt, st.salt); got != st.want {
			t.Errorf("%s: Cached = %d, want %d", st.name, got, st.want)
		}
	}
	if m.Free() != m.Usable() {
		t.Errorf("%d of %d blocks free after all releases", m.Free(), m.Usable())
	}
}

func TestPrefixCachingOff(t *testing.T) {
	m, err := New(Config{Blocks: 8, BlockSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	run(t, m, ids(9), "")
	if got := m.Match(ids(9), ""); got != 0 {
		t.Errorf("Match = %d with prefix caching off, want 0", got)
	}
}

func TestSharedBlocksAreCountedOnce(t *testing.T) {
	m := pool(t, 10, 4)
	prompt := ids(10)
	a := m.Open(prompt, "")
	if err := a.Grow(10); err != nil {
		t.Fatal(err)
	}
	a.Commit(prompt)
	b := m.Open(prompt, "")
	if err := b.Grow(10); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a.Blocks()[:2], b.Blocks()[:2]) || a.Blocks()[2] == b.Blocks()[2] {
		t.Errorf("tables %v and %v: want the two full blocks shared, the partial one not", a.Blocks(), b.Blocks())
	}
	if m.Free() != 9-4 {
		t.Errorf("free = %d, want 5: 2 shared and 2 own blocks of 9 are held", m.Free())
	}
	if err := m.Reset(); !errors.Is(err, ErrInUse) {
		t.Errorf("Reset with blocks in use: %v, want ErrInUse", err)
	}
	a.Release()
	a.Release()
	if m.Free() != 9-3 {
		t.Errorf("free = %d after the first release, want 6", m.Free())
	}
	b.Release()
	if m.Free() != 9 {
		t.Errorf("free = %d, want 9", m.Free())
	}
	if err := m.Reset(); err != nil {
		t.Error(err)
	}
	if got := m.Match(prompt, ""); got != 0 {
		t.Errorf("Match after Reset = %d, want 0", got)
	}
}

// The last block of the sequence released first is the first to go; the prefix survives longest.
func TestEvictionOrder(t *testing.T) {
	m := pool(t, 7, 4)
	run(t, m, ids(8), "old")
	run(t, m, ids(8), "new")
	steps := []struct{ old, new int }{{8, 8}, {8, 8}, {4, 8}, {0, 8}, {0, 4}, {0, 0}}
	probe := append(ids(8), 1)
	s := m.Open(nil, "")
	for i, st := range steps {
		if err := s.Grow(4 * (i + 1)); err != nil {
			t.Fatal(err)
		}
		if o, n := m.Match(probe, "old"), m.Match(probe, "new"); o != st.old || n != st.new {
			t.Errorf("after %d blocks taken: old %d, new %d cached, want %d, %d", i+1, o, n, st.old, st.new)
		}
	}
	s.Release()
}

// A hit makes a block recently used again.
func TestHitRefreshes(t *testing.T) {
	m := pool(t, 5, 4)
	run(t, m, ids(4), "a")
	run(t, m, ids(4), "b")
	probe := ids(5)
	m.Open(probe, "a").Release()
	s := m.Open(nil, "")
	if err := s.Grow(12); err != nil {
		t.Fatal(err)
	}
	if a, b := m.Match(probe, "a"), m.Match(probe, "b"); a != 4 || b != 0 {
		t.Errorf("cached a %d, b %d, want 4, 0: a was used after b", a, b)
	}
}

func TestGrowIsAllOrNothing(t *testing.T) {
	m := pool(t, 4, 4)
	s := m.Open(nil, "")
	if err := s.Grow(5); err != nil {
		t.Fatal(err)
	}
	err := s.Grow(13)
	var full *NoSpaceError
	if !errors.As(err, &full) || full.Needed != 2 || full.Free != 1 {
		t.Fatalf("Grow(13) = %v, want NoSpaceError with 2 needed, 1 free", err)
	}
	if !strings.Contains(err.Error(), "--kv-blocks") {
		t.Errorf("%q does not name --kv-blocks", err)
	}
	if len(s.Blocks()) != 2 || m.Free() != 1 {
		t.Errorf("a failed Grow left %d blocks and %d free, want 2 and 1", len(s.Blocks()), m.Free())
	}
	if err := s.Grow(3); err != nil || len(s.Blocks()) != 2 {
		t.Errorf("growing to fewer tokens: %v, %d blocks, want no change", err, len(s.Blocks()))
	}
	if err := s.Grow(12); err != nil {
		t.Error(err)
	}
}

func TestGrowByOneTokenAllocatesNothing(t *testing.T) {
	m := pool(t, 64, 4)
	s := m.Open(ids(9), "")
	n := 9
	allocs := testing.AllocsPerRun(100, func() {
		n++
		if err := s.Grow(n); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("Grow by one token: %v allocations, want 0", allocs)
	}
}

func TestSizes(t *testing.T) {
	for _, c := range []struct{ blocks, watermark int }{{2, 0}, {99, 0}, {100, 1}, {199, 1}, {70000, 700}} {
		m := pool(t, c.blocks, 16)
		if m.Watermark() != c.watermark || m.Usable() != c.blocks-1 {
			t.Errorf("%d blocks: watermark %d, usable %d, want %d, %d", c.blocks, m.Watermark(), m.Usable(), c.watermark, c.blocks-1)
		}
	}
	for _, c := range []struct {
		cfg  Config
		want []string
	}{
		{Config{Blocks: 1, BlockSize: 16}, []string{"--kv-blocks"}},
		{Config{Blocks: -3, BlockSize: 0}, []string{"--kv-blocks", "--block-size"}},
	} {
		_, err := New(c.cfg)
		for _, w := range c.want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("New(%+v) = %v, want an error naming %s", c.cfg, err, w)
			}
		}
	}
}

// Random use against a plain model: which blocks are held, and what each cached prefix must contain.
func TestRandomUse(t *testing.T) {
	const blocks, size = 40, 4
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := pool(t, blocks, size)
		content := make(map[int32]string) // what a block was last filled with: the whole prefix up to its end
		type open struct {
			s      *Sequence
			tokens []uint32
		}
		var live []open
		text := func(tokens []uint32) string {
			var b strings.Builder
			for _, v := range tokens {
				b.WriteByte(byte('0' + v))
			}
			return b.String()
		}
		for range 400 {
			if len(live) > 0 && rng.IntN(2) == 0 {
				i := rng.IntN(len(live))
				live[i].s.Release()
				live = slices.Delete(live, i, i+1)
				continue
			}
			tokens := make([]uint32, 1+rng.IntN(24))
			for i := range tokens {
				tokens[i] = uint32(rng.IntN(2) * rng.IntN(2))
			}
			s := m.Open(tokens, "")
			for i, b := range s.Blocks() {
				if got, want := content[b], text(tokens[:(i+1)*size]); got != want {
					t.Fatalf("seed %d: hit block %d holds %q, want %q", seed, b, got, want)
				}
			}
			hit := len(s.Blocks())
			if err := s.Grow(len(tokens)); err != nil {
				s.Release()
				continue
			}
			for i, b := range s.Blocks()[hit:] {
				end := min((hit+i+1)*size, len(tokens))
				content[b] = text(tokens[:end])
			}
			s.Commit(tokens)
			live = append(live, open{s, tokens})

			held := make(map[int32]bool)
			for _, o := range live {
				for i, b := range o.s.Blocks() {
					held[b] = true
					end := min((i+1)*size, len(o.tokens))
					if got, want := content[b], text(o.tokens[:end]); got != want {
						t.Fatalf("seed %d: live block %d holds %q, want %q", seed, b, got, want)
					}
				}
			}
			if held[0] {
				t.Fatalf("seed %d: the null block was handed out", seed)
			}
			if m.Free() != blocks-1-len(held) {
				t.Fatalf("seed %d: free = %d with %d blocks held of %d", seed, m.Free(), len(held), blocks-1)
			}
		}
		for _, o := range live {
			o.s.Release()
		}
		if err := m.Reset(); err != nil {
			t.Fatal(err)
		}
	}
}
