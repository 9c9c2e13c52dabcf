package artifact

import (
	"encoding/json"
	"iter"
	"runtime"
)

// decodeAll decodes values on all CPUs and gives them, or their errors, in their order.
func decodeAll(raws []json.RawMessage) iter.Seq2[any, error] {
	type result struct {
		tree any
		err  error
	}
	return func(yield func(any, error) bool) {
		over := make(chan struct{})
		defer close(over)
		workers := make([]chan result, min(runtime.GOMAXPROCS(0), len(raws)))
		for w := range workers {
			out := make(chan result, 4) // a few values ahead of who takes them
			workers[w] = out
			go func() {
				d := newTreeDecoder()
				for i := w; i < len(raws); i += len(workers) {
					tree, err := d.decode(raws[i])
					select {
					case out <- result{tree, err}:
					case <-over:
						return
					}
				}
			}()
		}
		for i := range raws {
			if r := <-workers[i%len(workers)]; !yield(r.tree, r.err) {
				return
			}
		}
	}
}
