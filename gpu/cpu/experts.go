package cpu

import (
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// experts is the feed-forward network of sparse layers. T is the most tokens that this worker routes in a step and R
// the most rows that its own experts can be given.
//
// Each token is copied once for each expert that it chose, the copies are sorted by expert, every expert sees its rows
// as one matrix, and each token's results are summed with its weights. In an expert-parallel group the sorted copies
// are sent to the members that hold the experts and the results are sent back (Lepikhin et al., "GShard", 2020).
// Workers of one tensor-parallel group see the same tokens, so each of them routes its share of them.
type experts struct {
	threads *threads
	matmul  *matmul
	grouped *grouped
	tasks   expertTasks
	cfg     expertConfig

	layer *sparse   // the layer in progress
	h     []float32 // (tokens, Hidden): its input, then its output
	first int       // first token routed by this worker
	count int       // tokens routed by this worker

	scores   []float32 // (T, Count)
	choices  []float32 // (T, Count): scores by which DeepSeek-V3 chooses
	ids      []int32   // (T, TopK): chosen experts
	weights  []float32 // (T, TopK)
	place    []int32   // (T, TopK): row of sorted
	rows     []int     // (Count): rows for each expert
	sorted   []float32 // (T TopK, Hidden): copies by expert, then their results
	segments []segment // of the rows of this worker's experts
	gateUp   []float32 // (R, 2 expertWidth)
	act      []float32 // (R, expertWidth)
	dispatch *dispatch // nil without expert parallelism

	sharedGateUp []float32 // (tokens, 2 sharedWidth)
	sharedAct    []float32 // (tokens, sharedWidth)
	shared       []float32 // (tokens, Hidden): output of the shared experts; nil without them
}

// expertConfig is what a step needs to know of geometry and shard.
type expertConfig struct {
	shard
	hidden, count, topK int
	experts             *model.Experts
}

// expertTasks are the per-token parts as function values, made once.
type expertTasks struct {
	choose, gather, gate, combine, sharedGate func(worker, item int)
}

// newExperts makes the buffers, or returns nil for a dense model.
func newExperts(cfg *gpu.Config, s shard, t *threads, m *matmul) *experts {
	g := cfg.Geometry
	if g.Experts == nil {
		return nil
	}
	x := &experts{threads: t, matmul: m}
	x.cfg = expertConfig{shard: s, hidden: g.Hidden, count: g.Experts.Count, topK: g.Experts.TopK, experts: g.Experts}
	tokens, sources := cfg.MaxBatchedTokens, 1
	most := tokens * x.cfg.topK
	if cfg.EP != nil {
		tokens, sources = ceil(tokens, s.size), cfg.EP.Size()
		most = tokens * sources * min(x.cfg.topK, s.experts)
		x.dispatch = newDispatch(cfg.EP, x.cfg.count, most, g.Hidden)
	}
	x.scores = make([]float32, tokens*x.cfg.count)
	if g.Experts.Sigmoid {
		x.choices = make([]float32, tokens*x.cfg.count)
	}
	if w, n := s.sharedWidth, cfg.MaxBatchedTokens; w > 0 {
		x.sharedGateUp, x.sharedAct, x.shared = make([]float32, n*2*w), make([]float32, n*w), make([]float32, n*g.Hidden)
	}
	x.ids, x.place = make([]int32, tokens*x.cfg.topK), make([]int32, tokens*x.cfg.topK)
	x.weights = make([]float32, tokens*x.cfg.topK)
	x.rows = make([]int, x.cfg.count)
	x.sorted = make([]float32, tokens*x.cfg.topK*g.Hidden)
	x.segments = make([]segment, 0, s.experts*sources)
	x.gateUp, x.act = make([]float32, most*2*s.expertWidth), make([]float32, most*s.expertWidth)
	x.grouped = newGrouped(t, most, s.experts*sources)
	x.tasks = expertTasks{choose: x.chooseToken, gather: x.gatherToken, gate: x.gateRow, combine: x.combineToken, sharedGate: x.sharedGateToken}
	return x
}

// run replaces h (n, Hidden), the normalised input of a sparse layer, by this worker's part of the layer's output.
func (x *experts) run(w *sparse, h []float32, n int) error {
	x.layer, x.h = w, h
	x.first, x.count = 0, n
	if x.dispatch != nil {
		x.first = n * x.cfg.rank / x.cfg.size
		x.count = n*(x.cfg.rank+1)/x.cfg.size - x.first
	}
	if m := w.shared; m != nil {
		x.matmul.run(x.sharedGateUp, h, m.gateUp, nil, n, x.cfg.hidden, 2*m.width)
		x.threads.run(n, x.tasks.sharedGate)
		x.matmul.run(x.shared, x.sharedAct, m.down, nil, n, m.width, x.cfg.hidden)
	}
	x.matmul.run(x.scores, h[x.first*x.cfg.hidden:], w.router, nil, x.count, x.cfg.hidden, x.cfg.count)
	x.threads.run(x.count, x.tasks.choose)
	x.sort()
	x.threads.run(x.count, x.tasks.gather)
	rows, buffer := x.count*x.cfg.topK, x.sorted
	if x.dispatch == nil {
		x.local()
	} else {
		var err error
		if x.segments, err = x.dispatch.send(x.sorted, x.rows, x.segments[:0]); err != nil {
			return err
		}
		rows, buffer = x.dispatch.rows, x.dispatch.received
	}
	width := x.cfg.expertWidth
	x.grouped.plan(x.segments)
	x.grouped.run(x.gateUp, buffer, w.gateUp, x.cfg.hidden, 2*width)
	x.threads.run(rows, x.tasks.gate)
	x.grouped.run(buffer, x.act, w.down, width, x.cfg.hidden)
	if x.dispatch != nil {
		if err := x.dispatch.giveBack(x.sorted); err != nil {
			return err
		}
	}
	x.threads.run(n, x.tasks.combine)
	return nil
}

// sort gives each token's copies their rows: by expert, and within an expert by token.
func (x *experts) sort() {
	clear(x.rows)
	chosen := x.ids[:x.count*x.cfg.topK]
	for _, id := range chosen {
		x.rows[id]++
	}
	next := 0
	for id, n := range x.rows {
		x.rows[id] = next
		next += n
	}
	for i, id := range chosen {
		x.place[i] = int32(x.rows[id])
		x.rows[id]++
	}
	// Each entry is now where its expert's rows end.
	end := 0
	for id, n := range x.rows {
		x.rows[id] = n - end
		end = n
	}
}

// local makes the segments when all experts are here.
func (x *experts) local() {
	x.segments = x.segments[:0]
	first := 0
	for id, n := range x.rows {
		x.segments = append(x.segments, segment{id, first, n})
		first += n
	}
}

func (x *experts) chooseToken(_, t int) {
	k, n := x.cfg.topK, x.cfg.count
	logits, ids, weights := x.scores[t*n:(t+1)*n], x.ids[t*k:(t+1)*k], x.weights[t*k:(t+1)*k]
	if x.choices != nil {
		chooseGroupedExperts(x.cfg.experts, logits, x.layer.bias, x.choices[t*n:(t+1)*n], ids, weights)
		return
	}
	chooseExperts(x.cfg.experts, logits, ids, weights)
}

func (x *experts) sharedGateToken(_, t int) {
	w := x.cfg.sharedWidth
	processor.gated(x.sharedAct[t*w:(t+1)*w], x.sharedGateUp[t*2*w:(t+1)*2*w])
}

func (x *experts) gatherToken(_, t int) {
	h := x.h[(x.first+t)*x.cfg.hidden:][:x.cfg.hidden]
	for _, row := range x.place[t*x.cfg.topK : (t+1)*x.cfg.topK] {
		copy(x.sorted[int(row)*x.cfg.hidden:], h)
	}
}

func (x *experts) gateRow(_, row int) {
	w := x.cfg.expertWidth
	processor.gated(x.act[row*w:(row+1)*w], x.gateUp[row*2*w:(row+1)*2*w])
}

// combineToken sums a token's results and adds the shared experts'; where another worker of the group has the results, it
// leaves the latter alone.
func (x *experts) combineToken(_, t int) {
	h := x.h[t*x.cfg.hidden : (t+1)*x.cfg.hidden]
	if x.shared != nil {
		copy(h, x.shared[t*x.cfg.hidden:])
	} else {
		clear(h)
	}
	if t -= x.first; t < 0 || t >= x.count {
		return
	}
	for k := t * x.cfg.topK; k < (t+1)*x.cfg.topK; k++ {
		weight := x.weights[k]
		for i, v := range x.sorted[int(x.place[k])*x.cfg.hidden:][:x.cfg.hidden] {
			h[i] += weight * v
		}
	}
}
