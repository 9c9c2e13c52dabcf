package cpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/gpu"
)

// comm is a gpu.Group over the collective layer.
type comm struct{ *collective.Comm }

func (c comm) AllReduce(data []float32) error {
	return collective.AllReduceInto(context.Background(), c.Comm, data, data, collective.Sum)
}

func (c comm) AllGather(dst, src []float32) error {
	return collective.AllGatherInto(context.Background(), c.Comm, dst, src)
}

// comms joins a world of n ranks over the collective layer's network in memory.
func comms(t *testing.T, n int) []comm {
	t.Helper()
	memory := collective.NewMemory(0, 0)
	all, errs := make([]comm, n), make([]error, n)
	each := func(f func(r int)) {
		var wg sync.WaitGroup
		for r := range n {
			wg.Go(func() { f(r) })
		}
		wg.Wait()
	}
	each(func(r int) {
		all[r].Comm, errs[r] = collective.Join(t.Context(), collective.Config{
			Rank: r, Size: n, Rendezvous: "host0:1", Token: collective.Secret("0123456789abcdef"), RunID: "test", Network: memory.Host(fmt.Sprintf("host%d", r)),
		})
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		each(func(r int) { errs[r] = all[r].Close() })
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	})
	return all
}

// splitFamilies are models of every family, one with heads for 8 workers.
var splitFamilies = append(slices.Clone(families), struct{ name, overrides string }{"tiny-moe",
	`{` + small + `"num_attention_heads":8,"num_key_value_heads":4,"head_dim":32}`})

// Any split of a model is the model: same logits, same greedy ids in prefill, chunks and 64 decode steps.
func TestTensorParallelEqualsOne(t *testing.T) {
	for _, f := range splitFamilies {
		g := geometry(t, f.name, f.overrides)
		tokens := prompt(g, 1, 70)
		type result struct {
			logits  [][]float32
			sampled []uint32
		}
		var one result
		for _, tp := range []int{1, 2, 4, 8} {
			if g.Heads%tp != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s/tp%d", f.name, tp), func(t *testing.T) {
				cfg := config(g)
				cfg.Threads = 1
				ranks := comms(t, tp)
				w := startEach(t, cfg, tp, func(c *gpu.Config, r int) { c.TP = ranks[r] })
				var got result
				keep := func(ids []uint32) {
					got.sampled = append(got.sampled, ids...)
					got.logits = append(got.logits, slices.Clone(w.logits(0)))
				}
				s := w.open(nil, 128)
				keep(w.step(gpu.Row{Tokens: tokens[:50], Blocks: s.Blocks()}))
				keep(w.step(gpu.Row{Tokens: tokens[50:64], Computed: 50, Blocks: s.Blocks()}))
				for n := 64; n < 128; n++ {
					id := got.sampled[len(got.sampled)-1]
					if tp > 1 {
						id = one.sampled[len(got.sampled)-1]
					}
					keep(w.step(gpu.Row{Tokens: []uint32{id}, Computed: n, Blocks: s.Blocks()}))
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

// So are those of experts, split over a tensor-parallel group or spread over an expert-parallel one.
func TestExpertShardsAreOneModel(t *testing.T) {
	for _, f := range families {
		g := geometry(t, f.name, f.overrides)
		if g.Experts == nil {
			continue
		}
		cfg := config(g)
		cfg.Threads = 1
		const layer = 1
		one := start(t, cfg, 1).engines[0].weights.layers[layer].sparse
		half := len(one.gateUp[0]) / 2
		for _, ep := range []bool{false, true} {
			const tp = 2
			members := newGroups(tp)
			engines := startEach(t, cfg, tp, func(c *gpu.Config, r int) {
				if ep {
					c.EP = members[r]
				}
			}).engines
			for x := range g.Experts.Count {
				var gate, up, down []float32
				for _, e := range engines {
					w, at := e.weights.layers[layer].sparse, x-e.shard.firstExpert
					if !bitsEqual(w.router, one.router) {
						t.Errorf("%s: rank %d has another router", f.name, e.shard.rank)
					}
					if at < 0 || at >= e.shard.experts {
						continue
					}
					part := e.shard.expertWidth * g.Hidden
					gate, up = append(gate, w.gateUp[at][:part]...), append(up, w.gateUp[at][part:]...)
				}
				for row := range g.Hidden {
					for _, e := range engines {
						if at, n := x-e.shard.firstExpert, e.shard.expertWidth; at >= 0 && at < e.shard.experts {
							down = append(down, e.weights.layers[layer].sparse.down[at][row*n:(row+1)*n]...)
						}
					}
				}
				if !bitsEqual(gate, one.gateUp[x][:half]) || !bitsEqual(up, one.gateUp[x][half:]) || !bitsEqual(down, one.down[x]) {
					t.Errorf("%s, expert-parallel %v: the shards of expert %d are not the whole one", f.name, ep, x)
				}
			}
		}
	}
}
