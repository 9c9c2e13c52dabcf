//go:build linux && cgo

package cuda

// #include "program.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/fpmrun/fpmrun/gpu"
)

// backend names the attention implementation: the one for any head size.
const backend = "CUDA_PAGED_GENERIC"

// stepLimit is how long a step may take before the device counts as stuck.
const stepLimit = 30 * time.Second

// shapes is how many programs are kept: one for each number of tokens and rows.
const shapes = 4096

var (
	errInFlight = errors.New("cuda: a step is in flight; it must be awaited first")
	errIdle     = errors.New("cuda: no step is in flight")
)

// Engine is a gpu.Engine on one GPU in bfloat16. It keeps one step in flight at most.
type Engine struct {
	cfg       gpu.Config
	device    Device
	libraries *Libraries
	machine   *machine
	functions functions
	weights   *weights
	cache     []ptr // of each layer: (blocks, keys and values, kvHeads, blockSize, headDim)
	buf       buffers
	layout    layout
	work      work
	gemms     map[gemmShape]C.int
	programs  map[[2]int]*program // by tokens and rows
	info      gpu.Info

	host    []int32    // the step structure in pinned memory
	hostAt  [2][]int32 // both of them, used in turn
	result  []uint32   // (rows) sampled ids in pinned memory, then the number of the step they are of
	sampled []bool     // (slots): whether an id was sampled
	clock   int64      // gpu.Monotonic minus CLOCK_MONOTONIC

	serial   uint32
	step     *gpu.Step
	tokens   int
	rows     int
	inFlight bool
	stop     atomic.Uint32
	broken   error
}

// New takes libraries that are open, opens a GPU, compiles the kernels for it or reads what was compiled, makes weights and cache, and runs nothing yet. ordinal counts the visible
// GPUs. What cannot be run is an error that matches gpu.ErrConfig.
func New(cfg gpu.Config, libraries *Libraries, ordinal int) (*Engine, error) {
	if err := validate(&cfg); err != nil {
		return nil, err
	}
	devices, err := Devices()
	if err != nil {
		return nil, err
	}
	if ordinal < 0 || ordinal >= len(devices) {
		return nil, fmt.Errorf("%w on GPU %d: %d are visible (CUDA_VISIBLE_DEVICES)", gpu.ErrConfig, ordinal, len(devices))
	}
	e := &Engine{cfg: cfg, device: devices[ordinal], libraries: libraries, gemms: map[gemmShape]C.int{}, programs: map[[2]int]*program{}, sampled: make([]bool, cfg.MaxSeqs)}
	if e.machine, err = openMachine(ordinal, libraries.Synchronous); err != nil {
		return nil, err
	}
	if err := e.prepare(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// prepare makes everything that the device holds.
func (e *Engine) prepare() error {
	g := e.cfg.Geometry
	var err error
	if e.functions, err = e.machine.loadKernels(e.device, e.libraries, g.HeadDim); err != nil {
		return err
	}
	if e.weights, err = loadWeights(e.machine, e.functions, g, e.cfg.Weights); err != nil {
		return err
	}
	e.layout = newLayout(&e.cfg, windows(g), pieces(g, e.device.Multiprocessors))
	if err := e.buf.allocate(e.machine, &e.cfg, &e.layout); err != nil {
		return err
	}
	if err := e.makePool(); err != nil {
		return err
	}
	for i := range e.hostAt {
		p, _, err := e.machine.allocateHost(4 * e.layout.words)
		if err != nil {
			return err
		}
		e.hostAt[i] = unsafe.Slice((*int32)(p), e.layout.words)
	}
	p, at, err := e.machine.allocateHost(4 * (e.cfg.MaxSeqs + 1))
	if err != nil {
		return err
	}
	e.result, e.buf.result = unsafe.Slice((*uint32)(p), e.cfg.MaxSeqs+1), at
	before := gpu.Monotonic()
	now := int64(C.monotonic())
	e.clock = (before+gpu.Monotonic())/2 - now
	e.info = e.describe()
	return e.machine.synchronize()
}

func (e *Engine) describe() gpu.Info {
	layers := make(map[string]string, e.cfg.Geometry.Layers)
	for i := range e.cfg.Geometry.Layers {
		layers["model.layers."+strconv.Itoa(i)+".self_attn.attn"] = backend
	}
	return gpu.Info{
		Engine: Name, DType: "bfloat16", KVDType: "bfloat16", KVLayout: "layer, block, keys and values, KV head, slot, dimension",
		AttentionBackend: backend, LayerBackends: layers, Depth: 1,
		Host: map[string]string{
			"gpu": e.device.Name, "gpu_uuid": e.device.UUID, "cuda_driver": strconv.Itoa(e.libraries.Driver), "cublaslt": strconv.Itoa(e.libraries.CublasLt),
			"nvrtc": e.libraries.NVRTC, "cublaslt_path": e.libraries.BlasPath, "nvrtc_path": e.libraries.NVRTCPath,
		},
		WeightBytes: e.weights.bytes, CacheBytes: e.poolBytes() * int64(e.cfg.Geometry.Layers),
	}
}

// Info: see gpu.Engine.
func (e *Engine) Info() gpu.Info { return e.info }

// Enqueue: see gpu.Engine.
func (e *Engine) Enqueue(step *gpu.Step) error {
	switch {
	case e.broken != nil:
		return e.broken
	case e.inFlight:
		return errInFlight
	}
	if err := e.cfg.Check(step); err != nil {
		return err
	}
	for i := range step.Rows {
		if r := &step.Rows[i]; r.Tokens == nil && !e.sampled[r.Slot] {
			return fmt.Errorf("cuda: row %d: slot %d has no id sampled before, and the row brings none", i, r.Slot)
		}
	}
	p, err := e.program(step.Tokens(), len(step.Rows))
	if err != nil {
		return err
	}
	e.serial++
	host := e.hostAt[e.serial%2]
	group := e.cfg.Geometry.Heads / e.cfg.Geometry.KVHeads
	words := e.layout.fill(host, step, group, e.serial, &e.work)
	if err := e.machine.copyInAsync(e.buf.step, unsafe.Pointer(&host[0]), 4*int64(words)); err != nil {
		return e.fail(err)
	}
	if err := p.run(e.machine); err != nil {
		return e.fail(err)
	}
	e.step, e.tokens, e.rows, e.inFlight = step, step.Tokens(), len(step.Rows), true
	return nil
}

// fail marks the engine as good for Close only: what the device did is not known any more.
func (e *Engine) fail(err error) error {
	e.broken = err
	return err
}

// Await: see gpu.Engine.
func (e *Engine) Await(ctx context.Context, out *gpu.Output) error {
	if !e.inFlight {
		return errIdle
	}
	e.stop.Store(0)
	release := context.AfterFunc(ctx, func() { e.stop.Store(1) })
	defer release()
	var arrival C.int64_t
	var outcome C.int
	flag := (*C.uint32_t)(unsafe.Pointer(&e.result[e.cfg.MaxSeqs]))
	stop := (*C.uint32_t)(unsafe.Pointer(&e.stop))
	err := check(C.await(e.machine.c, flag, C.uint32_t(e.serial), C.int64_t(stepLimit), stop, &arrival, &outcome))
	switch {
	case err != nil:
		return e.fail(fmt.Errorf("cuda: a step of %d tokens in %d rows: %w", e.tokens, e.rows, err))
	case outcome == 1:
		return e.fail(fmt.Errorf("cuda: a step of %d tokens in %d rows has not ended after %v", e.tokens, e.rows, stepLimit))
	case outcome == 2:
		return e.fail(fmt.Errorf("cuda: awaiting a step: %w", context.Cause(ctx)))
	}
	e.inFlight = false
	out.Sampled = append(out.Sampled[:0], e.result[:e.rows]...)
	for i := range e.step.Rows {
		e.sampled[e.step.Rows[i].Slot] = true
	}
	out.Arrival = int64(arrival) + e.clock
	out.Dispatch = gpu.Dispatch{Mode: gpu.GraphNone, Unpadded: e.tokens, Padded: e.tokens}
	return nil
}

// Finite: see gpu.Engine.
func (e *Engine) Finite() (bool, error) {
	if e.inFlight {
		return false, errInFlight
	}
	count := int64(e.rows) * int64(e.cfg.Geometry.Vocab)
	if err := e.machine.fill(e.buf.bad, 0, 4); err != nil {
		return false, e.fail(err)
	}
	b := builder{m: e.machine, functions: e.functions}
	kernel(&b, "finite", "logits", [3]int{spread(count), 1, 1}, 256, finiteArgs{logits: e.buf.logits, bad: e.buf.bad, count: count})
	if err := runOnce(&b); err != nil {
		return false, e.fail(err)
	}
	var bad uint32
	if err := e.machine.copyOut(unsafe.Pointer(&bad), e.buf.bad, 4); err != nil {
		return false, e.fail(err)
	}
	return bad == 0, nil
}

// Logits copies the logits of one row of the last awaited step, for tests.
func (e *Engine) Logits(row int) ([]float32, error) {
	v := e.cfg.Geometry.Vocab
	logits := make([]float32, v)
	return logits, e.machine.copyOut(unsafe.Pointer(&logits[0]), e.buf.logits+ptr(4*row*v), 4*int64(v))
}

// Close: see gpu.Engine.
func (e *Engine) Close() error {
	for _, p := range e.programs {
		p.free()
	}
	e.programs = nil
	e.broken = errors.New("cuda: the engine is closed")
	return e.machine.close()
}

// softmaxScale is the factor on scores for weights that are powers of 2.
func softmaxScale(scale float64) float32 { return float32(scale * math.Log2E) }
