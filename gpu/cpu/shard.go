package cpu

import (
	"errors"
	"fmt"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// shard is one tensor-parallel worker's part of a model.
type shard struct {
	rank, size int

	heads, firstHead     int // query heads
	kvHeads, firstKVHead int // KV heads
	group                int // query heads per KV head
	width, firstColumn   int // columns of a dense MLP's intermediate values
	vocab, firstToken    int // rows of embedding and head
	experts, firstExpert int // routed experts of a sparse layer
	expertWidth          int // columns of one routed expert's intermediate values
	firstExpertColumn    int
	sharedWidth          int // columns of the shared experts' intermediate values
}

// Check reports whether this engine can run a model on tp tensor-parallel workers, with its experts spread over ep
// expert-parallel workers; 0 means that the tensor-parallel workers split every expert. Its errors match
// gpu.ErrConfig. New checks the same.
func Check(g *model.Geometry, tp, ep int) error {
	var errs []error
	if tp < 1 {
		errs = append(errs, fmt.Errorf("%w on %d tensor-parallel workers", gpu.ErrConfig, tp))
	} else {
		_, err := newShard(g, 0, tp, 0, ep)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// newShard cuts a model for worker rank of size and expert-parallel member epRank of epSize, which is 0 without expert
// parallelism, or says why it cannot be cut.
func newShard(g *model.Geometry, rank, size, epRank, epSize int) (shard, error) {
	s := shard{rank: rank, size: size}
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w model %s: "+format, append([]any{gpu.ErrConfig, g.Name}, args...)...))
	}
	if g.Heads%s.size != 0 {
		refuse("%d heads do not divide by tp %d", g.Heads, s.size)
	}
	if g.MLA == nil && g.KVHeads%s.size != 0 && s.size%g.KVHeads != 0 {
		refuse("%d KV heads neither divide by tp %d nor divide it", g.KVHeads, s.size)
	}
	if g.HasDense() && g.Intermediate%s.size != 0 {
		refuse("intermediate_size %d does not divide by tp %d", g.Intermediate, s.size)
	}
	if g.Vocab < s.size {
		refuse("vocab_size %d is smaller than tp %d", g.Vocab, s.size)
	}
	if e := g.Experts; e != nil {
		s.experts, s.expertWidth = e.Count, e.Intermediate/s.size
		s.firstExpertColumn = s.rank * s.expertWidth
		if shared := e.Shared * e.Intermediate; shared%s.size != 0 {
			refuse("shared experts of intermediate size %d do not divide by tp %d", shared, s.size)
		} else {
			s.sharedWidth = shared / s.size
		}
		switch {
		case epSize > e.Count:
			refuse("%d experts are fewer than ep %d (--expert-parallel)", e.Count, epSize)
		case epSize > 0:
			s.firstExpert = e.Count * epRank / epSize
			s.experts = e.Count*(epRank+1)/epSize - s.firstExpert
			s.expertWidth, s.firstExpertColumn = e.Intermediate, 0
		case e.Intermediate%s.size != 0:
			refuse("experts of intermediate size %d do not divide by tp %d", e.Intermediate, s.size)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return s, err
	}
	s.heads = g.Heads / s.size
	s.firstHead = s.rank * s.heads
	s.kvHeads = g.LocalKVHeads(s.size)
	s.firstKVHead = s.rank * g.KVHeads / s.size
	if g.MLA != nil {
		s.kvHeads, s.firstKVHead = 1, 0 // the compressed vector, on every worker
	}
	s.group = s.heads / s.kvHeads
	if g.HasDense() {
		s.width = g.Intermediate / s.size
		s.firstColumn = s.rank * s.width
	}
	s.firstToken = g.Vocab * s.rank / s.size
	s.vocab = g.Vocab*(s.rank+1)/s.size - s.firstToken
	return s, nil
}
