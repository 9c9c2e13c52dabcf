//go:build linux && cgo

package cuda

// #include "program.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/fpmrun/fpmrun/gpu"
)

// shapes is how many programs are kept: one for each number of tokens and rows.
const shapes = 4096

var (
	errInFlight = errors.New("cuda: two steps are in flight; the older one must be awaited first")
	errBusy     = errors.New("cuda: a step is in flight; it must be awaited first")
	errIdle     = errors.New("cuda: no step is in flight")
)

// depth is how many steps may be in flight.
const depth = 2

// Engine is a gpu.Engine on one GPU in bfloat16.
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
	programs  map[shape]*program
	bodies    map[shape]commands // what was captured of programs that differ in their rows
	attends   attentionMaps
	chains    chainMaps
	info      gpu.Info
	ceilings  *ceilings // nil before they were measured
	timing    *timing   // nil but for diagnosis
	watchdog  watchdog

	host    []int32    // the step structure in pinned memory
	hostAt  [2][]int32 // both of them, used in turn
	result  []uint32   // see buffers
	sampled []bool     // (slots): whether an id was sampled
	clock   int64      // gpu.Monotonic minus CLOCK_MONOTONIC

	serial  uint32   // of the last step
	flight  []flight // oldest first
	arrived int64    // CLOCK_MONOTONIC of the last output
	rows    int      // of the step that was awaited last
	stop    atomic.Uint32
	broken  error
}

// flight is a step that was launched.
type flight struct {
	serial       uint32
	tokens, rows int
	program      *program
	step         *gpu.Step
	launched     int64 // CLOCK_MONOTONIC
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
	e := &Engine{cfg: cfg, device: devices[ordinal], libraries: libraries, gemms: map[gemmShape]C.int{}, programs: map[shape]*program{}, bodies: map[shape]commands{},
		sampled: make([]bool, cfg.MaxSeqs), flight: make([]flight, 0, depth), watchdog: newWatchdog(&cfg)}
	begin := gpu.Monotonic()
	if e.machine, err = openMachine(ordinal, libraries.Synchronous); err != nil {
		return nil, err
	}
	e.machine.algorithms = newAlgorithms(e.device, libraries)
	e.machine.stages.Add("dlopen", libraries.Took)
	e.machine.stages.Lap("context", begin)
	if err := e.prepare(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// prepare makes everything that the device holds.
func (e *Engine) prepare() error {
	g := e.cfg.Geometry
	stages, since := &e.machine.stages, gpu.Monotonic()
	var err error
	if e.functions, err = e.machine.loadKernels(e.device, e.libraries, g.HeadDim); err != nil {
		return err
	}
	since = stages.Lap("compile", since)
	if e.weights, err = loadWeights(e.machine, e.functions, g, e.cfg.Weights); err != nil {
		return err
	}
	since = stages.Lap("weights", since)
	if e.device.clusters, err = e.machine.clusters(e.device, e.functions); err != nil {
		return err
	}
	e.layout = newLayout(&e.cfg, windows(g), attentionCut(g, e.device.Multiprocessors))
	if e.few(clusterTokens) {
		e.layout.chained = clusterTokens
	}
	e.layout.beside = besideCut(g, e.device.few())
	if err := e.buf.allocate(e.machine, &e.cfg, &e.layout, e.device.Multiprocessors); err != nil {
		return err
	}
	if err := e.makePool(); err != nil {
		return err
	}
	if err := e.describeAttention(); err != nil {
		return err
	}
	if err := e.describeChains(); err != nil {
		return err
	}
	for i := range e.hostAt {
		p, _, err := e.machine.allocateHost(4 * e.layout.words)
		if err != nil {
			return err
		}
		e.hostAt[i] = unsafe.Slice((*int32)(p), e.layout.words)
	}
	words := 2 * (e.layout.rows + 1)
	p, at, err := e.machine.allocateHost(4 * words)
	if err != nil {
		return err
	}
	e.result, e.buf.result = unsafe.Slice((*uint32)(p), words), at
	before := gpu.Monotonic()
	now := int64(C.monotonic())
	e.clock = (before+gpu.Monotonic())/2 - now
	e.info = e.describe()
	if err := e.watchdog.watch(e.machine); err != nil {
		return err
	}
	if e.cfg.Progress {
		if e.watchdog.progress, err = newProgress(e.machine); err != nil {
			return err
		}
	}
	if e.cfg.Timing {
		if e.timing, err = newTiming(e.machine); err != nil {
			return err
		}
	}
	err = e.machine.synchronize()
	stages.Lap("pool", since)
	return err
}

// Stages are dlopen of the libraries, context, compile (or reading what was compiled), weights, pool (and all other memory), selection of the products' algorithms and
// capture of graphs. See gpu.Staged.
func (e *Engine) Stages() []gpu.Stage { return slices.Clone(e.machine.stages) }

func (e *Engine) describe() gpu.Info {
	layers := make(map[string]string, e.cfg.Geometry.Layers)
	backend := attentionBackend(e.cfg.Geometry.HeadDim, e.device.hopper())
	for i := range e.cfg.Geometry.Layers {
		layers["model.layers."+strconv.Itoa(i)+".self_attn.attn"] = backend
	}
	return gpu.Info{
		Engine: Name, DType: "bfloat16", KVDType: "bfloat16", KVLayout: "layer, block, keys and values, KV head, slot, dimension",
		AttentionBackend: backend, LayerBackends: layers, Async: true, Depth: depth,
		Host: map[string]string{
			"gpu": e.device.Name, "gpu_uuid": e.device.UUID, "cuda_driver": strconv.Itoa(e.libraries.Driver), "cublaslt": strconv.Itoa(e.libraries.CublasLt),
			"nvrtc": e.libraries.NVRTC, "cublaslt_path": e.libraries.BlasPath, "nvrtc_path": e.libraries.NVRTCPath,
		},
		WeightBytes: e.weights.bytes, CacheBytes: e.poolBytes() * int64(e.cfg.Geometry.Layers),
	}
}

// Info: see gpu.Engine.
func (e *Engine) Info() gpu.Info { return e.info }

// Prepare lists and captures the commands of a kind of step, and asks for the algorithms of its products. See gpu.Engine.
func (e *Engine) Prepare(tokens, rows int, decode bool) error {
	if e.broken != nil {
		return e.broken
	}
	if len(e.flight) > 0 {
		return errBusy
	}
	if tokens < rows || decode && tokens != rows || tokens > e.cfg.MaxBatchedTokens || rows > e.cfg.MaxSeqs {
		return fmt.Errorf("%w: no step has %d new tokens in %d rows (decode: %v); want at most --max-num-batched-tokens %d and --max-num-seqs %d, a token a row or more, and one in each row of a decode step",
			gpu.ErrConfig, tokens, rows, decode, e.cfg.MaxBatchedTokens, e.cfg.MaxSeqs)
	}
	_, err := e.program(e.shape(tokens, rows, decode))
	return err
}

// Enqueue: see gpu.Engine.
func (e *Engine) Enqueue(step *gpu.Step) error {
	switch {
	case e.broken != nil:
		return e.broken
	case len(e.flight) == depth:
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
	p, err := e.program(e.shape(step.Tokens(), len(step.Rows), step.Decode()))
	if err != nil {
		return err
	}
	e.serial++
	host := e.hostAt[e.serial%2]
	group := e.cfg.Geometry.Heads / e.cfg.Geometry.KVHeads
	words := e.layout.of(p.shape.tokens).fill(host, step, p.shape, group, e.serial, &e.work)
	if err := e.machine.copyInAsync(e.buf.step, unsafe.Pointer(&host[0]), 4*int64(words)); err != nil {
		return e.fail(err)
	}
	if err := e.timing.record(e.serial, begin); err != nil {
		return e.fail(err)
	}
	if err := p.run(e.machine); err != nil {
		return e.fail(err)
	}
	if err := e.timing.record(e.serial, end); err != nil {
		return e.fail(err)
	}
	e.flight = append(e.flight, flight{serial: e.serial, tokens: step.Tokens(), rows: len(step.Rows), program: p, step: step, launched: int64(C.monotonic())})
	for i := range step.Rows {
		e.sampled[step.Rows[i].Slot] = true // before any later step runs
	}
	return nil
}

// fail marks the engine as good for Close only: what the device did is not known any more.
func (e *Engine) fail(err error) error {
	e.broken = err
	return err
}

// Await: see gpu.Engine.
func (e *Engine) Await(ctx context.Context, out *gpu.Output) error {
	if len(e.flight) == 0 {
		return errIdle
	}
	f := e.flight[0]
	size := e.layout.rows + 1
	result := e.result[int(f.serial%2)*size:][:size]
	e.stop.Store(0)
	release := context.AfterFunc(ctx, func() { e.stop.Store(1) })
	defer release()
	var arrival C.int64_t
	var outcome C.int
	flag := (*C.uint32_t)(unsafe.Pointer(&result[size-1]))
	stop := (*C.uint32_t)(unsafe.Pointer(&e.stop))
	limit := e.watchdog.limit(&f)
	err := check(C.await(e.machine.c, flag, C.uint32_t(f.serial), C.int64_t(limit), stop, &arrival, &outcome))
	switch {
	case err != nil:
		return e.fail(fmt.Errorf("cuda: a step of %d tokens in %d rows: %w (%s)", f.tokens, f.rows, err, findCommand))
	case outcome == 1:
		return e.fail(e.watchdog.stuck(&f, limit))
	case outcome == 2:
		return e.fail(fmt.Errorf("cuda: awaiting a step: %w", context.Cause(ctx)))
	}
	e.flight = append(e.flight[:0], e.flight[1:]...)
	e.rows = f.rows
	out.Sampled = append(out.Sampled[:0], result[:f.rows]...)
	if out.Device, err = e.timing.of(f.serial); err != nil {
		return e.fail(err)
	}
	f.program.took = time.Duration(int64(arrival) - max(f.launched, e.arrived))
	e.arrived = int64(arrival)
	out.Arrival = int64(arrival) + e.clock
	out.Dispatch = gpu.Dispatch{Mode: f.program.shape.mode, Unpadded: f.tokens, Padded: f.program.shape.tokens}
	return nil
}

// Finite: see gpu.Engine.
func (e *Engine) Finite() (bool, error) {
	if len(e.flight) > 0 {
		return false, errBusy
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
	e.ceilings.free()
	e.broken = errors.New("cuda: the engine is closed")
	return errors.Join(e.timing.close(), e.machine.close())
}

// softmaxScale is the factor on scores for weights that are powers of 2.
func softmaxScale(scale float64) float32 { return float32(scale * math.Log2E) }
