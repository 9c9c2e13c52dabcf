package cpu

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fpmrun/fpmrun/gpu"
)

// Any split of a model is the model: same logits, same greedy ids in prefill, chunks and decode.
func TestTensorParallelEqualsOne(t *testing.T) {
	for _, f := range families {
		g := geometry(t, f.name, f.overrides)
		tokens := prompt(g, 1, 70)
		type result struct {
			logits  [][]float32
			sampled []uint32
		}
		var one result
		for _, tp := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("%s/tp%d", f.name, tp), func(t *testing.T) {
				cfg := config(g)
				cfg.Threads = 1
				w := start(t, cfg, tp)
				var got result
				keep := func(ids []uint32) {
					got.sampled = append(got.sampled, ids...)
					got.logits = append(got.logits, slices.Clone(w.logits(0)))
				}
				s := w.open(nil, 128)
				keep(w.step(gpu.Row{Tokens: tokens[:50], Blocks: s.Blocks()}))
				keep(w.step(gpu.Row{Tokens: tokens[50:64], Computed: 50, Blocks: s.Blocks()}))
				// 64 decode steps, each on the id sampled before.
				for n := 64; n < 128; n++ {
					keep(w.step(gpu.Row{Computed: n, Blocks: s.Blocks()}))
				}
				if tp == 1 {
					one = got
					return
				}
				if !slices.Equal(got.sampled, one.sampled) {
					t.Fatalf("sampled %v, want %v", got.sampled, one.sampled)
				}
				for i, l := range got.logits {
					want := make([]float64, len(l))
					for j, v := range one.logits[i] {
						want[j] = float64(v)
					}
					if d := distance(l, want); !(d <= 1e-5) {
						t.Errorf("step %d: relative distance %.3g to tp 1, want at most 1e-5", i, d)
					}
				}
			})
		}
	}
}

// The shards of a weight are pieces of the unsharded one, bit for bit.
func TestShardsAreOneModel(t *testing.T) {
	g := geometry(t, "qwen2.5-7b", qwen2Cut)
	cfg := config(g)
	cfg.Threads = 1
	one := start(t, cfg, 1).engines[0]
	for _, tp := range []int{2, 4} {
		var embed, gate, down []float32
		engines := start(t, cfg, tp).engines
		for _, e := range engines {
			m := e.weights.layers[1].mlp
			embed = append(embed, e.weights.embed...)
			gate = append(gate, m.gateUp[:m.width*g.Hidden]...)
		}
		for row := range g.Hidden {
			for _, e := range engines {
				m := e.weights.layers[1].mlp
				down = append(down, m.down[row*m.width:(row+1)*m.width]...)
			}
		}
		m := one.weights.layers[1].mlp
		for _, c := range []struct {
			name      string
			got, want []float32
		}{
			{"embedding (rows)", embed, one.weights.embed},
			{"gate_proj (rows)", gate, m.gateUp[:m.width*g.Hidden]},
			{"down_proj (columns)", down, m.down},
		} {
			if !bitsEqual(c.got, c.want) {
				t.Errorf("tp %d: the shards of %s are not the tp 1 tensor", tp, c.name)
			}
		}
	}
}
