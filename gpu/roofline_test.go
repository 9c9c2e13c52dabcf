package gpu

import (
	"math"
	"testing"
	"time"

	"github.com/fpmrun/fpmrun/gpu/model"
)

// rows is a batch of equal rows.
func rows(n, computed, fresh int) *Step {
	s := &Step{Rows: make([]Row, n)}
	for i := range s.Rows {
		s.Rows[i] = Row{Slot: i, Computed: computed, Tokens: make([]uint32, fresh)}
	}
	return s
}

func geometry(t *testing.T, preset string) *model.Geometry {
	t.Helper()
	g, err := model.Load(preset, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Floors of Llama-3.1-8B in bfloat16 on one H200, in milliseconds, computed by hand from the same ceilings.
func TestFloors(t *testing.T) {
	r := NewRoofline(geometry(t, "llama-3.1-8b"), H200, 1, 2)
	for _, c := range []struct {
		name string
		step *Step
		want float64
	}{
		{"decode 1 x 1024", rows(1, 1024, 1), 3.26}, {"decode 1 x 4096", rows(1, 4096, 1), 3.34}, {"decode 4 x 128", rows(4, 128, 1), 3.24},
		{"decode 16 x 4096", rows(16, 4096, 1), 5.07}, {"decode 64 x 1024", rows(64, 1024, 1), 5.07}, {"decode 64 x 4096", rows(64, 4096, 1), 10.6},
		{"decode 256 x 1024", rows(256, 1024, 1), 12.3},
		{"prefill 1 x 128", rows(1, 0, 128), 3.23}, {"prefill 1 x 512", rows(1, 0, 512), 9.39}, {"prefill 1 x 2048", rows(1, 0, 2048), 37.9},
		{"prefill 4 x 2048", rows(4, 0, 2048), 151}, {"prefill 1 x 8192", rows(1, 0, 8192), 168},
	} {
		got := r.Floor(c.step).Seconds() * 1e3
		if math.Abs(got-c.want) > 0.006*c.want {
			t.Errorf("%s: %.3f ms, want %.3g", c.name, got, c.want)
		}
	}
}

// The library's bound of Llama-3.1-8B on one H200, in milliseconds, by hand: products of 4.04 ms, and beside them 8.59 GB of KV at 4,031 GB/s or pairs at 553 TFLOP/s, and
// 32 layers of 8 x 4096 + 2 x 6144 + 3 x 14336 values a token at 4,282 GB/s.
func TestLibrary(t *testing.T) {
	r := NewRoofline(geometry(t, "llama-3.1-8b"), H200, 1, 2)
	for _, c := range []struct {
		name string
		step *Step
		want float64
	}{
		{"decode 64 x 1024", rows(64, 1023, 1), 4.04 + 2.131 + 0.084},
		{"prefill 1 x 2048", rows(1, 0, 2048), 4.04 + 1.988 + 2.695},
	} {
		if got := r.Library(c.step, 4040*time.Microsecond).Seconds() * 1e3; math.Abs(got-c.want) > 0.002*c.want {
			t.Errorf("%s: %.3f ms, want %.4g", c.name, got, c.want)
		}
	}
}

func TestSeen(t *testing.T) {
	for _, c := range []struct {
		name                    string
		computed, fresh, window int
		keys, pairs             float64
	}{
		{"decode", 10, 1, 0, 11, 11}, {"prefill", 0, 4, 0, 4, 10}, {"chunk", 6, 2, 0, 8, 15},
		{"decode in a window", 10, 1, 4, 4, 4}, {"prefill over a window", 0, 6, 4, 6, 18}, {"within the window", 1, 2, 4, 3, 5},
	} {
		if keys, pairs := seen(c.computed, c.fresh, c.window); keys != c.keys || pairs != c.pairs {
			t.Errorf("%s: %v keys, %v pairs, want %v and %v", c.name, keys, pairs, c.keys, c.pairs)
		}
	}
}

// Two ranks share the matrices; the router sends few tokens to few experts.
func TestFloorScales(t *testing.T) {
	dense := geometry(t, "llama-3.1-8b")
	one, two := NewRoofline(dense, H200, 1, 2).Floor(rows(1, 1024, 1)), NewRoofline(dense, H200, 2, 2).Floor(rows(1, 1024, 1))
	if ratio := float64(one) / float64(two); math.Abs(ratio-2) > 0.01 {
		t.Errorf("tp 2 is %.3f times faster, want 2", ratio)
	}
	sparse := geometry(t, "qwen3-30b-a3b")
	r := NewRoofline(sparse, H200, 1, 2)
	few, many := r.Floor(rows(1, 64, 1)), r.Floor(rows(64, 64, 1))
	// One token reads 8 of 128 experts, 64 tokens read all.
	if few*4 > many {
		t.Errorf("one token takes %v, 64 tokens take %v", few, many)
	}
}
