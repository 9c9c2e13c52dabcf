package cpu

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"

	"github.com/fpmrun/fpmrun/gpu"
)

// backend names the attention implementation.
const backend = "CPU_PAGED"

var (
	errInFlight = errors.New("cpu: a step is in flight; it must be awaited first")
	errIdle     = errors.New("cpu: no step is in flight")
)

// Engine is a gpu.Engine in float32 on the host. It keeps one step in flight at most.
type Engine struct {
	cfg     gpu.Config
	shard   shard
	weights *weights
	cache   *cache
	rotary  *rotary
	threads *threads
	matmul  *matmul
	attn    *attention
	latent  *latent  // nil without latent attention
	experts *experts // nil in a dense model
	buf     buffers
	sampler sampler
	tasks   tasks
	info    gpu.Info

	ceilings *ceilings // nil before they were measured

	lastID      []uint32 // (MaxSeqs): id sampled last for each slot
	sampledSlot []bool   // (MaxSeqs): whether there is one

	layer      int       // layer in progress
	normWeight []float32 // weight of the norm in progress

	steps    chan *gpu.Step // to the goroutine that runs steps
	done     chan error     // from it, one value per step
	ended    sync.WaitGroup
	inFlight bool
	rows     int   // of the last awaited step
	tokens   int   // of the step in flight or the last one
	broken   error // first failure; the engine is then only good for Close
}

// New makes an engine: it checks everything first, then makes weights and cache, and only then starts its
// goroutines. A model or setting that it cannot run is an error that matches gpu.ErrConfig.
func New(cfg gpu.Config) (*Engine, error) {
	if err := validate(&cfg); err != nil {
		return nil, err
	}
	g := cfg.Geometry
	rank, size := 0, 1
	if cfg.TP != nil {
		rank, size = cfg.TP.Rank(), cfg.TP.Size()
	}
	epRank, epSize := 0, 0
	if cfg.EP != nil {
		epRank, epSize = cfg.EP.Rank(), cfg.EP.Size()
	}
	s, err := newShard(g, rank, size, epRank, epSize)
	if err != nil {
		return nil, err
	}
	if cfg.Threads == 0 {
		cfg.Threads = runtime.GOMAXPROCS(0)
	}
	w, err := loadWeights(g, s, cfg.Weights)
	if err != nil {
		return nil, fmt.Errorf("cpu: loading weights: %w", err)
	}
	e := &Engine{
		cfg: cfg, shard: s, weights: w,
		cache:       newCache(&cfg, s),
		rotary:      newRotary(g.Rope, cfg.MaxModelLen),
		buf:         newBuffers(&cfg, s),
		sampler:     newSampler(cfg.MaxSeqs, s.size),
		lastID:      make([]uint32, cfg.MaxSeqs),
		sampledSlot: make([]bool, cfg.MaxSeqs),
		steps:       make(chan *gpu.Step, 1),
		done:        make(chan error, 1),
	}
	e.tasks = tasks{embed: e.embedToken, norm: e.normToken, add: e.addToken, keys: e.keysToken, gate: e.gateToken,
		pick: e.pickRow, argmax: e.argmaxRow}
	e.info = e.describe()
	cpus := ownCPUs(cfg.Threads)
	e.info.Host["bound"] = strconv.FormatBool(cpus != nil)
	e.threads = newThreads(cfg.Threads, cpus)
	e.matmul = newMatmul(e.threads)
	e.attn = newAttention(e.threads, e.cache, s, g.SoftmaxScale(), cfg.MaxBatchedTokens, g.MLA)
	e.latent = newLatent(&cfg, s, e.threads, e.matmul, e.rotary, e.cache)
	e.experts = newExperts(&cfg, s, e.threads, e.matmul)
	e.ended.Go(func() {
		if cpus != nil {
			bind(cpus[0])
		}
		for step := range e.steps {
			e.done <- e.forward(step)
		}
	})
	return e, nil
}

func (e *Engine) describe() gpu.Info {
	layers := make(map[string]string, e.cfg.Geometry.Layers)
	for i := range e.cfg.Geometry.Layers {
		layers["model.layers."+strconv.Itoa(i)+".self_attn.attn"] = backend
	}
	return gpu.Info{
		Engine: "cpu", DType: "float32", KVDType: "float32",
		KVLayout:         "layer, keys and values, block, KV head, slot, dimension",
		AttentionBackend: backend, LayerBackends: layers, Depth: 1,
		Host: map[string]string{
			"threads": strconv.Itoa(e.cfg.Threads), "go": runtime.Version(), "arch": runtime.GOARCH, "blas": processor.name,
		},
		WeightBytes: e.weights.bytes,
		CacheBytes:  4 * int64(len(e.cache.data)),
	}
}

// Info: see gpu.Engine.
func (e *Engine) Info() gpu.Info { return e.info }

// Prepare has nothing to make: there are no graphs. See gpu.Engine.
func (e *Engine) Prepare(int, int, bool) error { return nil }

// Enqueue: see gpu.Engine.
func (e *Engine) Enqueue(step *gpu.Step) error {
	switch {
	case e.broken != nil:
		return e.broken
	case e.inFlight:
		return errInFlight
	}
	if err := e.check(step); err != nil {
		return err
	}
	e.inFlight, e.tokens = true, step.Tokens()
	e.steps <- step
	return nil
}

// Await: see gpu.Engine.
func (e *Engine) Await(ctx context.Context, out *gpu.Output) error {
	if !e.inFlight {
		return errIdle
	}
	select {
	case err := <-e.done:
		e.inFlight = false
		if err != nil {
			e.broken = fmt.Errorf("cpu: step on tensor-parallel rank %d of %d: %w", e.shard.rank, e.shard.size, err)
			return e.broken
		}
	case <-ctx.Done():
		e.broken = fmt.Errorf("cpu: awaiting a step: %w", context.Cause(ctx))
		return e.broken
	}
	e.rows = len(e.buf.step.Rows)
	out.Sampled = append(out.Sampled[:0], e.sampler.sampled[:e.rows]...)
	out.Arrival = e.sampler.arrival
	out.Dispatch = gpu.Dispatch{Mode: gpu.GraphNone, Unpadded: e.tokens, Padded: e.tokens}
	return nil
}

// Logits is this worker's part of the logits of one row of the last awaited step: ids first to
// first+len(logits)-1. It is valid until the next Enqueue.
func (e *Engine) Logits(row int) (logits []float32, first int) {
	return e.buf.logits[row*e.shard.vocab : (row+1)*e.shard.vocab], e.shard.firstToken
}

// Finite: see gpu.Engine. It looks at this worker's part of the vocabulary.
func (e *Engine) Finite() (bool, error) {
	if e.inFlight {
		return false, errInFlight
	}
	return allFinite(e.buf.logits[:e.rows*e.shard.vocab]), nil
}

// Close: see gpu.Engine. It waits for a step in flight to end.
func (e *Engine) Close() error {
	if e.steps == nil {
		return nil
	}
	close(e.steps)
	e.ended.Wait()
	e.threads.close()
	e.steps, e.weights, e.cache, e.ceilings = nil, nil, nil, nil
	e.broken = errors.New("cpu: the engine is closed")
	return nil
}
