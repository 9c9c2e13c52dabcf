package cpu

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// spread is n values from low to high.
func spread(n int, low, high float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(low + (high-low)*float64(i)/float64(max(1, n-1)))
	}
	return x
}

func TestExponentials(t *testing.T) {
	for _, k := range everyKernels() {
		worst := 0.0
		for _, n := range []int{1, 15, 16, 17, 128, 4096} {
			for _, r := range [][2]float64{{-86, 0}, {-1, 1}, {-0.01, 0.01}, {0, 75}} {
				for _, shift := range []float32{0, 0.75} {
					x := spread(n, r[0], r[1])
					want, sum := make([]float64, n), 0.0
					for i, v := range x {
						want[i] = math.Exp(float64(v - shift))
						sum += want[i]
					}
					if top := k.top(x); top != slices.Max(x) {
						t.Errorf("%s: largest of %d values %v, want %v", k.name, n, top, slices.Max(x))
					}
					got := k.exponentials(x, shift)
					if math.Abs(float64(got)-sum) > 1e-6*sum {
						t.Errorf("%s: sum of %d exponentials %v, want %v", k.name, n, got, sum)
					}
					for i, v := range x {
						worst = max(worst, math.Abs(float64(v)-want[i])/want[i])
					}
				}
			}
		}
		if worst > 2.5e-7 { // two units in the last place
			t.Errorf("%s: relative error %.3g", k.name, worst)
		}
		t.Logf("%s: relative error %.3g", k.name, worst)
	}
}

// Values that are not finite stay visible, and vanishing ones do no harm.
func TestExponentialsOfExtremes(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, k := range everyKernels() {
		for _, n := range []int{1, 16, 33} {
			for _, c := range []struct {
				value, least, most float64
				finite             bool
			}{{-200, 0, 1.3e-38, true}, {-inf, 0, 1.3e-38, true}, {nan, 0, 0, false}} {
				x := make([]float32, n)
				x[n/2] = float32(c.value)
				sum := k.exponentials(x, 0)
				what := fmt.Sprintf("%s: exponential of %v among %d: %v, sum %v", k.name, c.value, n, x[n/2], sum)
				if c.finite != allFinite([]float32{x[n/2], sum}) {
					t.Errorf("%s, want finite %v", what, c.finite)
				}
				if v := float64(x[n/2]); c.finite && (v < c.least || v > c.most) {
					t.Errorf("%s, want %v to %v", what, c.least, c.most)
				}
			}
		}
	}
}

func TestArgmax(t *testing.T) {
	for _, k := range everyKernels() {
		for _, n := range []int{1, 2, 15, 16, 17, 4095, 4096, 4097, 9000} {
			x := matrix(1, n)
			for _, at := range [][]int{{0}, {n - 1}, {n / 2}, {n / 3, n / 2, n - 1}, {min(n, 4096) - 1, n - 1}} {
				y := slices.Clone(x)
				for _, i := range at {
					y[i] = 100
				}
				if got := k.argmax(y); got != slices.Min(at) {
					t.Errorf("%s: largest of %d values at %v, found at %d", k.name, n, at, got)
				}
			}
			nan := slices.Repeat([]float32{float32(math.NaN())}, n)
			if got := k.argmax(nan); got < 0 || got >= n {
				t.Errorf("%s: index %d of %d that are not numbers", k.name, got, n)
			}
			equal := slices.Repeat([]float32{float32(math.Inf(-1))}, n)
			if got := k.argmax(equal); got != 0 {
				t.Errorf("%s: index %d of %d equal values", k.name, got, n)
			}
		}
	}
}

func TestGated(t *testing.T) {
	for _, k := range everyKernels() {
		for _, n := range []int{1, 15, 16, 17, 192} {
			gateUp := append(spread(n, -100, 100), spread(n, -2, 3)...)
			dst := make([]float32, n+1)
			dst[n] = canary
			k.gated(dst[:n], gateUp)
			for i, got := range dst[:n] {
				g, u := float64(gateUp[i]), float64(gateUp[n+i])
				want := g / (1 + math.Exp(-g)) * u
				if math.Abs(float64(got)-want) > 4e-7*math.Abs(want)+1e-35 {
					t.Errorf("%s: silu(%v) x %v = %v, want %v", k.name, g, u, got, want)
				}
			}
			if dst[n] != canary {
				t.Errorf("%s: a value behind %d was written", k.name, n)
			}
			for _, bad := range []float64{math.NaN(), math.Inf(1)} {
				gateUp[n/2], gateUp[n+n/2] = float32(bad), 1
				if k.gated(dst[:n], gateUp); allFinite(dst[n/2 : n/2+1]) {
					t.Errorf("%s: silu(%v) = %v of %d", k.name, bad, dst[n/2], n)
				}
			}
		}
	}
}
