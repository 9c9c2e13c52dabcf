package artifact

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// numbers is a text whose ids tell where they come from: conversation i has ids from 1000*i on.
type numbers []int

func (n numbers) Conversations() int { return len(n) }
func (n numbers) IDs(i int) []uint32 {
	ids := make([]uint32, n[i])
	for k := range ids {
		ids[k] = uint32(1000*i + k)
	}
	return ids
}

func chainsOf(t *testing.T, c Content, purpose, shape string, slot, n int) []uint32 {
	t.Helper()
	ids, err := c.Draw(purpose, shape, slot, n)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// Windows of the pool begin where the seed says, whatever their length, and go round at the end.
func TestPoolWindows(t *testing.T) {
	text := numbers{3000, 40, 2000}
	p, err := NewPool(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.ids) != 5040 {
		t.Errorf("a pool of %d ids, want the whole text", len(p.ids))
	}
	c := Content{Seed: "0", Vocab: 5000, Kind: ContentPool, Pool: p}
	long := chainsOf(t, c, PurposePrefill, "s", 0, 12000)
	if short := chainsOf(t, c, PurposePrefill, "s", 0, 7); !slices.Equal(short, long[:7]) {
		t.Error("a shorter draw is not a prefix of a longer one")
	}
	if !slices.Equal(long[:5040], long[5040:10080]) {
		t.Error("behind the end of the pool its beginning does not follow")
	}
	start := slices.Index(p.ids, long[0])
	if want := NewRandom(":" + c.seed(PurposePrefill, "s", 0)).Below(5040); start != want {
		t.Errorf("the window begins at %d, want %d", start, want)
	}
	tagged := c
	tagged.PoolTag = "other"
	if slices.Equal(chainsOf(t, tagged, PurposePrefill, "s", 0, 7), long[:7]) || slices.Equal(chainsOf(t, c, PurposePrefill, "s", 1, 7), long[:7]) {
		t.Error("another tag or slot draws the same window")
	}
	if _, err := NewPool(numbers{4000, 95}); err == nil || !strings.Contains(err.Error(), "4095 token ids in 2 conversations") {
		t.Errorf("a text of 4095 ids: %v", err)
	}
	if _, err := NewPool(numbers{4000, 96}); err != nil {
		t.Errorf("a text of 4096 ids: %v", err)
	}
}

// The order of the pool is that of the format's vector, and no more text is taken than needed.
func TestPoolOrder(t *testing.T) {
	p, err := NewPool(numbers{1000, 1000, 1000, 1000, 1000, 1000})
	if err != nil {
		t.Fatal(err)
	}
	var order []uint32
	for at := 0; at < len(p.ids); at += 1000 {
		order = append(order, p.ids[at]/1000)
	}
	if want := []uint32{5, 3, 0, 1, 4, 2}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	p, err = NewPool(numbers{poolEnough, poolEnough})
	if err != nil || len(p.ids) != poolEnough {
		t.Errorf("a pool of %d ids (%v), want the first conversation only", len(p.ids), err)
	}
}

// Chains are whole conversations in an order of their own; every chain holds the whole text and no more.
func TestChains(t *testing.T) {
	text := numbers{5, 6, 7, 8, 9, 10}
	c := Content{Seed: "0", Vocab: 10000, Kind: ContentChain, Chains: NewChains(text)}
	whole := chainsOf(t, c, PurposePrefill, "s", 0, 45)
	sorted := slices.Clone(whole)
	slices.Sort(sorted)
	if len(slices.Compact(sorted)) != 45 {
		t.Errorf("a chain of the whole text repeats ids: %v", whole)
	}
	for at := 0; at < 45; {
		i := int(whole[at] / 1000)
		if !slices.Equal(whole[at:at+text[i]], text.IDs(i)) {
			t.Fatalf("position %d does not begin a whole conversation", at)
		}
		at += text[i]
	}
	if short := chainsOf(t, c, PurposePrefill, "s", 0, 13); !slices.Equal(short, whole[:13]) {
		t.Error("a shorter draw is not a prefix of a longer one")
	}
	if _, err := c.Draw(PurposePrefill, "s", 0, 46); err == nil || !strings.Contains(err.Error(), "46 token ids: the text has 45, in 6 conversations") {
		t.Errorf("a chain beyond the text: %v", err)
	}
	for n, want := range map[int]bool{0: true, 45: true, 46: false} {
		if have, ok := c.Chains.Holds(n); ok != want || !ok && have != 45 {
			t.Errorf("holds %d: %v with %d ids", n, ok, have)
		}
	}
	if got := chainIndex("abc"); got != 20000000+0xba7816bf%1000000 {
		t.Errorf("chain of a seed with SHA-256 ba7816bf...: %d", got)
	}
}

// The chains of decode points depend on content seed, DP rank and slot, and on nothing else.
func TestKVChains(t *testing.T) {
	text := make(numbers, 40)
	for i := range text {
		text[i] = 8
	}
	c := Content{Seed: "0", Vocab: 100000, Chains: NewChains(text)}
	draw := func(c Content, slot, n int) []uint32 {
		ids, err := c.KVChain(slot, n)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	first := draw(c, 0, 320)
	if !slices.Equal(draw(c, 0, 17), first[:17]) {
		t.Error("a shallower chain is not a prefix of a deeper one")
	}
	rank, seed := c, c
	rank.DPRank, seed.Seed = 1, "1"
	for name, other := range map[string][]uint32{"slot": draw(c, 1, 320), "rank": draw(rank, 0, 320), "seed": draw(seed, 0, 320)} {
		if slices.Equal(other, first) {
			t.Errorf("another %s has the same chain", name)
		}
	}
}

func TestTokenPool(t *testing.T) {
	text := numbers{3, 0, 5}
	source := TextSource{Path: "text.json", SHA256: strings.Repeat("ab", 32), CollectionPool: EvenConversations}
	file, err := NewTokenPool(text, source, strings.Repeat("cd", 32), 0).Encode()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pool")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := ReadTokenPool(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		if !slices.Equal(p.IDs(i), text.IDs(i)) {
			t.Errorf("conversation %d: %v", i, p.IDs(i))
		}
	}
	if h := p.Header; p.Conversations() != 3 || h.Tokens != 8 || h.VocabSize != 2005 || h.Source.SHA256 != source.SHA256 || h.Source.Conversations != 3 {
		t.Errorf("header %+v", h)
	}
	for most, want := range map[int]int{1: 1, 3: 1, 4: 3, 8: 3, 9: 3} {
		if got := NewTokenPool(text, source, "", most); got.Conversations() != want || got.Header.Source.Conversations != want {
			t.Errorf("at most %d ids: %d conversations, want %d", most, got.Conversations(), want)
		}
	}
	header := func(change func(h map[string]any)) []byte {
		size := 8 + int(file[0]) + int(file[1])<<8
		var h map[string]any
		if err := json.Unmarshal(file[8:size], &h); err != nil {
			t.Fatal(err)
		}
		change(h)
		text, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Concat([]byte{byte(len(text)), byte(len(text) >> 8), 0, 0, 0, 0, 0, 0}, text, file[size:])
	}
	damaged := bytes.Clone(file)
	damaged[len(damaged)-1] ^= 1
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "0 bytes are no token pool"},
		{"cut header", file[:20], "a header of"},
		{"cut ids", file[:len(file)-4], "behind the header"},
		{"half an id", file[:len(file)-1], "behind the header"},
		{"a changed id", damaged, "changed or damaged"},
		{"other schema", header(func(h map[string]any) { h["schema"] = "x" }), `schema "x"`},
		{"other version", header(func(h map[string]any) { h["schema_version"] = 2 }), "version 2"},
		{"more ids than there are", header(func(h map[string]any) { h["tokens"] = 9 }), "9 ids"},
		{"negative count", header(func(h map[string]any) { h["tokens"] = -1 }), "-1 ids"},
		{"smaller vocabulary", header(func(h map[string]any) { h["vocab_size"] = 2004 }), "id 2004 at position 7"},
		{"no source digest", header(func(h map[string]any) { h["source"].(map[string]any)["sha256"] = "" }), "source.sha256"},
	} {
		if _, err := ParseTokenPool(c.file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func FuzzTokenPool(f *testing.F) {
	file, err := NewTokenPool(numbers{2, 1}, TextSource{SHA256: strings.Repeat("0", 64)}, "", 0).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	f.Fuzz(func(t *testing.T, file []byte) {
		p, err := ParseTokenPool(file)
		if err != nil {
			return
		}
		n := 0
		for i := range p.Conversations() {
			n += len(p.IDs(i))
		}
		if n != p.Header.Tokens {
			t.Fatalf("%d ids in the conversations, %d in the header", n, p.Header.Tokens)
		}
	})
}
