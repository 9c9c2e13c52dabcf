package sim

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

func engine(t *testing.T, graph gpu.GraphConfig) *Engine {
	t.Helper()
	g, err := model.Load("llama-3.1-8b", nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(gpu.Config{Geometry: g, Weights: model.Random(0, g), Blocks: 1000, BlockSize: 16, MaxBatchedTokens: 64, MaxSeqs: 8, MaxModelLen: 2048, Graph: graph})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func decode(n int) *gpu.Step {
	s := &gpu.Step{Rows: make([]gpu.Row, n)}
	for i := range s.Rows {
		s.Rows[i] = gpu.Row{Slot: i, Computed: 1024, Blocks: make([]int32, 65)}
		for b := range s.Rows[i].Blocks {
			s.Rows[i].Blocks[b] = int32(65*i + b + 1)
		}
	}
	return s
}

// Two steps in flight: the second arrives one step time after the first, whatever happens between on the host.
func TestStepsTakeTheirFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, gpu.GraphConfig{Mode: "FULL", Sizes: []int{1, 2, 4, 8}})
		defer e.Close()
		start := gpu.Monotonic()
		first, second := decode(5), decode(5)
		if err := errors.Join(e.Enqueue(first), e.Enqueue(second)); err != nil {
			t.Fatal(err)
		}
		if err := e.Enqueue(decode(1)); err == nil {
			t.Error("a third step in flight is accepted")
		}
		floor := e.roofline.Floor(first)
		var out gpu.Output
		for k := range 2 {
			if err := e.Await(t.Context(), &out); err != nil {
				t.Fatal(err)
			}
			if got, want := time.Duration(out.Arrival-start), floor*time.Duration(k+1); got != want {
				t.Errorf("step %d arrives after %v, want %v", k, got, want)
			}
		}
		if want := (gpu.Dispatch{Mode: gpu.GraphFull, Unpadded: 5, Padded: 8}); out.Dispatch != want {
			t.Errorf("dispatched %+v, want %+v", out.Dispatch, want)
		}
		before := slices.Clone(out.Sampled)
		if err := errors.Join(e.Enqueue(second), e.Await(t.Context(), &out)); err != nil || !slices.Equal(before, out.Sampled) {
			t.Errorf("sampled %v, then %v (%v)", before, out.Sampled, err)
		}
	})
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, gpu.GraphConfig{})
		defer e.Close()
		if err := e.Enqueue(decode(1)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		defer cancel()
		var out gpu.Output
		if err := e.Await(ctx, &out); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestBlocks(t *testing.T) {
	g, err := model.Load("llama-3.1-8b", nil)
	if err != nil {
		t.Fatal(err)
	}
	// 126.9 GiB less 14.96 GiB of weights leave room for 917 thousand tokens of 128 KiB.
	if got := Blocks(g, 16, 1); got < 57_000 || got > 57_500 {
		t.Errorf("%d blocks", got)
	}
	big, err := model.Load("llama-3.1-70b", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := Blocks(big, 16, 1); got != 0 {
		t.Errorf("a model that does not fit leaves %d blocks", got)
	}
}
