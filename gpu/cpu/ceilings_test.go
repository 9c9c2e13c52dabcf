package cpu

import (
	"context"
	"errors"
	"testing"
)

// A sweep reads every word once, the product is one of random matrices, and both rates are of the work that was done.
func TestCeilings(t *testing.T) {
	for _, workers := range []int{1, 3} {
		threads := newThreads(workers, nil)
		defer threads.close()
		c := newCeilings(threads, newMatmul(threads), 8*100_003, 96)
		d, err := c.measure(t.Context())
		if err != nil || d.ReadRate <= 0 || d.MathRate <= 0 {
			t.Fatalf("%+v, %v", d, err)
		}
		var got, want uint64
		distinct := map[uint64]bool{}
		for _, w := range c.memory {
			want += w
			distinct[w] = true
		}
		for _, s := range c.sums {
			got += s
		}
		if got != want || len(distinct) < len(c.memory)*9/10 {
			t.Errorf("the sweep's sum is %x, want %x; %d words, %d of them distinct", got, want, len(c.memory), len(distinct))
		}
		for _, at := range []int{0, 95, 96*95 + 17} {
			sum := 0.0
			for k := range 96 {
				sum += float64(c.x[at/96*96+k]) * float64(c.w[at%96*96+k])
			}
			if diff := float64(c.y[at]) - sum; diff > 1e-4 || diff < -1e-4 || c.y[at] == 0 {
				t.Errorf("product %d is %v, want %v", at, c.y[at], sum)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.measure(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: %v", err)
		}
	}
}

// Ceilings are not measured beside a step, nor on an engine that is closed.
func TestCeilingsNeedAnIdleEngine(t *testing.T) {
	e, err := New(config(geometry(t, "qwen3-0.6b", qwen3Cut)))
	if err != nil {
		t.Fatal(err)
	}
	e.inFlight = true
	if _, err := e.Ceilings(t.Context()); !errors.Is(err, errInFlight) {
		t.Errorf("beside a step: %v", err)
	}
	e.inFlight = false
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Ceilings(t.Context()); err == nil {
		t.Error("a closed engine measured")
	}
}
