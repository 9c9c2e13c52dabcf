package artifact

import (
	"encoding/json"
	"slices"
	"testing"
)

func number(n int) *int { return &n }

func TestPointDigestVectors(t *testing.T) {
	p := Point{PointType: Decode, BenchmarkID: 1, TotalKVReadTokens: 64, BatchSize: 2, ExpectedCudagraphMode: "FULL",
		ExpectedCaptureSize: number(2), PaddingTokens: number(0), SampleReasons: []string{ReasonCapture}}
	check := func(name, got string, err error, want string) {
		t.Helper()
		if err != nil || got != want {
			t.Errorf("%s: got %s (%v), want %s", name, got, err, want)
		}
	}
	got, err := p.Digest()
	check("point", got, err, "4cf630070d80b1adfcc827f01de2ed6bfa647794b6706efa295c03f36ff78288")
	got, err = GridDigest([]Point{p})
	check("grid", got, err, "c9736ada40d03eb63aa079ba34b66ae9df4e1357fb524bb14ffbebf3ffbe1f48")
	got, err = (&Point{PointType: Decode, BatchSize: 2, TotalKVReadTokens: 512}).Key()
	check("decode key", got, err, "922b3110fbe8cb544154fd462760cf9958a61516d08fbae2496df141f3635507")
	got, err = (&Point{PointType: Prefill, BatchSize: 2, TotalPrefillTokens: 5, BenchmarkID: 9, SampleReasons: []string{"explicit"}}).Key()
	check("prefill key", got, err, "27773d95cb5fe3b17eee62b202aefe3452487b52fcd13bc4a85886d185e9575f")
}

func TestPromptHashVectors(t *testing.T) {
	a, b := HashPrompt(0, []uint32{7, 1, 65536}), HashPrompt(1, []uint32{1, 2})
	if want := "769681366fe8d4a542861a4ca419105a14baf8656ef3cec84f3e7e3836cd20f6"; a.SHA256 != want {
		t.Errorf("slot 0: got %s, want %s", a.SHA256, want)
	}
	if want := "34fb5c825de7ca4aea6e712f19d439c1da0c92c37b423936c5f618545ca4fa1f"; b.SHA256 != want {
		t.Errorf("slot 1: got %s, want %s", b.SHA256, want)
	}
	got, err := HashPrompts([]PromptHash{a, b})
	if want := "dccc0ca4a77af4cdbf91177d0a65f9eb577acdb76de154f49c6ee08224f63b14"; err != nil || got != want {
		t.Errorf("aggregate: got %s (%v), want %s", got, err, want)
	}
	long := make([]uint32, 5000) // longer than the hashing buffer: equal to hashing in one piece
	for i := range long {
		long[i] = uint32(i * 70001)
	}
	raw := make([]byte, 0, 4*len(long))
	for _, id := range long {
		raw = append(raw, byte(id), byte(id>>8), byte(id>>16), byte(id>>24))
	}
	if got, want := HashPrompt(0, long).SHA256, hexSum(raw); got != want {
		t.Errorf("long prompt: got %s, want %s", got, want)
	}
}

func TestRandomVectors(t *testing.T) {
	for _, c := range []struct {
		seed  string
		vocab int
		want  []uint32
	}{
		{"dp0:__bench_0", 32000, []uint32{12716, 11472, 22186, 22512, 2889, 8427, 26300, 16462}},
		{"dp3:abc", 32000, []uint32{14097, 582, 24349, 24205, 31067, 15444, 28270, 25147}},
		{"x", 151936, []uint32{95839, 90693, 73455, 115918, 58888, 69634, 68779, 26043}},
	} {
		if got := NewRandom(c.seed).uniform(c.vocab, len(c.want)); !slices.Equal(got, c.want) {
			t.Errorf("seed %q: got %v, want %v", c.seed, got, c.want)
		}
	}
	if got := NewRandom("t:dp0:x").Below(1000); got != 741 {
		t.Errorf("Below: got %d, want 741", got)
	}
	order := []int{0, 1, 2, 3, 4, 5}
	NewRandom("bench-prefill-pool").Shuffle(6, func(i, j int) { order[i], order[j] = order[j], order[i] })
	if want := []int{5, 3, 0, 1, 4, 2}; !slices.Equal(order, want) {
		t.Errorf("shuffle: got %v, want %v", order, want)
	}
}

func TestSplitVectors(t *testing.T) {
	for _, c := range []struct {
		name                  string
		total, n, unit, least int
		want                  []int
	}{
		{"uneven", 10, 4, 1, 1, []int{3, 3, 2, 2}},
		{"blocks", 96, 4, 16, 1, []int{32, 32, 16, 16}},
		{"single", 5, 1, 1, 1, []int{5}},
	} {
		got, err := Balanced(c.total, c.n, c.unit, c.least)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v (%v), want %v", c.name, got, err, c.want)
		}
	}
	if _, err := Balanced(3, 4, 1, 1); err == nil {
		t.Error("3 tokens over 4 requests: no error")
	}
	// 64 tokens, 4 requests, one of them 1.5 times the mean of 16.
	got, err := Unbalanced(64, 4, 1, 1, 1, 0.5)
	if want := []int{24, 14, 13, 13}; err != nil || !slices.Equal(got, want) {
		t.Errorf("unbalanced: got %v (%v), want %v", got, err, want)
	}
	// The mean 2.5 times 1.4 is 3.5, which rounds to the even 4.
	got, err = Unbalanced(10, 4, 1, 1, 1, 0.4)
	if want := []int{4, 2, 2, 2}; err != nil || !slices.Equal(got, want) {
		t.Errorf("banker's rounding: got %v (%v), want %v", got, err, want)
	}
	if _, err := Unbalanced(4, 4, 1, 1, 3, 0.9); err == nil {
		t.Error("high requests that starve the low one: no error")
	}
}

func TestAxisVectors(t *testing.T) {
	check := func(name string, got, want []int) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	axis := Axis([]int{1, 2, 4, 8}, 100)
	check("captures to 100", axis, []int{1, 2, 3, 4, 5, 8, 9, 16, 32, 64, 100})
	check("no captures", Axis(nil, 10), []int{1, 2, 4, 8, 10})
	check("capture above the limit", Axis([]int{4, 64}, 10), []int{4, 5, 10})
	check("uniform 5", UniformLimit(axis, 5), []int{1, 4, 8, 32, 100})
	captures := []int{1, 2, 4, 8, 16, 24, 32, 40}
	check("graph aware 8", GraphAwareLimit(Axis(captures, 48), captures, 8), []int{1, 4, 8, 17, 25, 40, 41, 48})
	check("tail over a fifth", GraphAwareLimit(axis, []int{1, 2, 4, 8}, 5), []int{1, 4, 8, 32, 100})
}

func TestCanonical(t *testing.T) {
	for _, c := range []struct {
		name string
		in   any
		want string
	}{
		{"order and spaces", map[string]any{"b": 1, "a": []int{1, 2}}, `{"a":[1,2],"b":1}`},
		{"escapes", "é\U0001F600\n\x7f<&", `"\u00e9\ud83d\ude00\n\u007f<&"`},
		{"small float", Float(5e-05), `5e-05`},
		{"edge of the exponent", Float(1e-4), `0.0001`},
		{"whole float", Float(2), `2.0`},
		{"large float", Float(1e16), `1e+16`},
		{"large integer", json.Number("9007199254740993"), `9007199254740993`},
		{"nulls", map[string]any{"x": nil, "y": true}, `{"x":null,"y":true}`},
	} {
		got, err := Canonical(c.in)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s (%v), want %s", c.name, got, err, c.want)
		}
	}
}
