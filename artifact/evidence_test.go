package artifact

import (
	"slices"
	"strings"
	"testing"
)

// The retained number of a repeated decode point is the upper median of its steady steps; the admission step is
// never in it, and the raw records stay as they were.
func TestReduce(t *testing.T) {
	raw := func(walls ...Float) []FPM {
		list := make([]FPM, len(walls))
		for i, w := range walls {
			list[i] = FPM{WallTime: w, CounterID: i, Sample: &Sample{SampleIndex: i}}
		}
		return list
	}
	for _, c := range []struct {
		name     string
		raw      []FPM
		expected int
		want     Estimate
		wall     Float
		from     int // raw record the other fields come from
	}{
		{"prefill", raw(0.5), 1, Estimate{SingleStep, []int{0}}, 0.5, 0},
		{"decode", raw(0.03, 0.01), 2, Estimate{LastStep, []int{1}}, 0.01, 1},
		{"repeated decode", raw(0.030, 0.010, 0.012, 0.011, 0.013), 5, Estimate{UpperMedian, []int{1, 2, 3, 4}}, 0.012, 1},
		{"repeated decode cut short", raw(0.030, 0.010), 5, Estimate{UpperMedian, []int{1}}, 0.010, 1},
		{"repeated decode, admission only", raw(0.030), 5, Estimate{SingleStep, []int{0}}, 0.030, 0},
	} {
		before := slices.Clone(c.raw)
		got, estimate := Reduce(c.raw, c.expected)
		if got.WallTime != c.wall || got.CounterID != c.from || estimate.Method != c.want.Method || !slices.Equal(estimate.Indices, c.want.Indices) {
			t.Errorf("%s: got %v from %d by %+v, want %v from %d by %+v", c.name, got.WallTime, got.CounterID, estimate, c.wall, c.from, c.want)
		}
		if got.Sample != nil {
			t.Errorf("%s: the retained record carries a sample", c.name)
		}
		for i := range before {
			if before[i] != c.raw[i] {
				t.Errorf("%s: raw record %d was changed", c.name, i)
			}
		}
	}
}

func TestPromptIdentity(t *testing.T) {
	c := Content{Seed: "0", Vocab: 32000}
	draw := func(c Content, purpose, shape string, slot, n int) []uint32 {
		ids, err := c.Draw(purpose, shape, slot, n)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	shape, err := Shape(Prefill, []int{5, 5}, []int{0, 0})
	if err != nil {
		t.Fatal(err)
	}
	long, short := draw(c, PurposePrefill, shape, 1, 40), draw(c, PurposePrefill, shape, 1, 7)
	if !slices.Equal(long[:7], short) {
		t.Error("a shorter draw is not a prefix of a longer one")
	}
	if slices.Contains(long, 0) || slices.Max(long) >= 32000 {
		t.Errorf("ids outside 1 to vocabulary-1: %v", long)
	}
	other, err := Shape(Prefill, []int{5, 6}, []int{0, 0})
	if err != nil {
		t.Fatal(err)
	}
	for name, ids := range map[string][]uint32{
		"slot":    draw(c, PurposePrefill, shape, 0, 7),
		"shape":   draw(c, PurposePrefill, other, 1, 7),
		"purpose": draw(c, PurposeDecode, shape, 1, 7),
		"rank":    draw(Content{Seed: "0", Vocab: 32000, DPRank: 1}, PurposePrefill, shape, 1, 7),
		"seed":    draw(Content{Seed: "1", Vocab: 32000}, PurposePrefill, shape, 1, 7),
	} {
		if slices.Equal(ids, short) {
			t.Errorf("another %s draws the same ids", name)
		}
	}
	zeros := Content{Vocab: 1}
	if zeros.Mode() != ContentZeros || !slices.Equal(draw(zeros, PurposePrefill, shape, 0, 3), []uint32{0, 0, 0}) {
		t.Error("a vocabulary of one draws anything but zeros")
	}
}

// Prompts of a batch are those of its slots drawn one by one, for batches that are no multiple of anything and seeds of any length.
func TestPromptsAreThoseOfTheSlots(t *testing.T) {
	for _, seed := range []string{"0", strings.Repeat("long ", 600)} {
		for _, n := range []int{1, 4, 11} {
			c := Content{Seed: seed, Vocab: 32000, DPRank: 2}
			lengths := make([]int, n)
			for i := range lengths {
				lengths[i] = i % 5
			}
			prompts, err := c.Prompts(PurposeDecode, "shape", lengths)
			if err != nil {
				t.Fatal(err)
			}
			for slot, ids := range prompts {
				want, err := c.Draw(PurposeDecode, "shape", slot, lengths[slot])
				if err != nil || !slices.Equal(ids, want) {
					t.Errorf("batch of %d, slot %d: %v, want %v (%v)", n, slot, ids, want, err)
				}
			}
		}
	}
}

func TestVariance(t *testing.T) {
	for _, c := range []struct {
		values []int
		want   Float
	}{{nil, 0}, {[]int{7}, 0}, {[]int{1, 3}, 1}, {[]int{2, 4, 4, 4, 5, 5, 7, 9}, 4}} {
		var s Spread
		for _, v := range c.values {
			s.Add(v)
		}
		if got := s.Variance(); !closeTo(float64(got), float64(c.want), 1e-12, 1e-12) {
			t.Errorf("variance of %v is %v, want %v", c.values, got, c.want)
		}
	}
}
