package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
	"github.com/fpmrun/fpmrun/gpu/sim"
	"github.com/fpmrun/fpmrun/rank"
	"github.com/fpmrun/fpmrun/rank/bench"
	"github.com/fpmrun/fpmrun/rank/env"
)

// plan is a checked command line: everything that can be known before the ranks meet and weights are made.
type plan struct {
	engine   string
	device   *device // nil for an engine that uses none
	model    string  // name or path
	geometry *model.Geometry
	weights  model.Source
	topology env.Topology
	bench    bench.Config
	grid     *artifact.Plan // from this rank's own limits; the ranks agree on the real one
	ceilings bool           // of the device are measured too
	timing   bool           // by the device
	progress bool           // is told by the device
	cannot   error          // why this host's engine cannot run it; nil when it can
}

// plan checks the command line against the model, the topology and the memory that the ranks of this host share. Every
// error is a usage error.
func (p *program) plan(o *options, topology env.Topology, id rank.Identity) (*plan, error) {
	geometry, err := model.Load(o.modelName(), []byte(o.overrides))
	if err != nil {
		return nil, err
	}
	chosen, err := o.chooseEngine(p.getenv, geometry, topology.TP, id)
	if err != nil {
		return nil, err
	}
	engine := chosen.engine
	if err := errors.Join(o.supported(engine, geometry, topology), o.limits(engine, geometry, topology.TP, chosen.device)); err != nil {
		return nil, err
	}
	graph, err := o.graph(engine)
	if err != nil {
		return nil, err
	}
	if from := graph.Uncovered(o.maxSeqs.Value); from > 0 {
		p.log.Warn("decode batches run without a graph: no capture covers them", "from", from, "to", o.maxSeqs.Value)
	}
	manifest, err := p.manifest(o, id.Rank)
	if err != nil {
		return nil, err
	}
	text, reason, err := o.text.open(geometry)
	if err != nil {
		return nil, err
	}
	if err := o.timingAllowed(engine); err != nil {
		return nil, err
	}
	if o.explained != "" && !o.roofline {
		return nil, fmt.Errorf("--roofline-explained %q: there is nothing to explain without --roofline", o.explained)
	}
	if text == nil && o.content.Value != artifact.ContentRandom {
		return nil, fmt.Errorf("--prefill-content %s: %s", o.content.Value, reason)
	}
	if o.serve != "" {
		if _, err := serveAddress(o.serve); err != nil {
			return nil, err
		}
	}
	if err := o.stream.checkPorts(topology.DP); err != nil {
		return nil, err
	}
	sample := func(name string) int { return o.samples[name].Value }
	pl := &plan{engine: engine, device: chosen.device, model: o.modelName(), geometry: geometry, topology: topology, ceilings: o.roofline, timing: o.gpuTiming, progress: o.progress}
	pl.bench = bench.Config{
		Mode: o.mode.Value, Manifest: manifest, CollectImbalanced: o.collectImbalanced, WarmupIterations: o.warmup.Value,
		Samples: artifact.Samples{
			PrefillNewTokens: sample("prefill-max-new-token-samples"), PrefillKVTokens: sample("prefill-max-kv-read-token-samples"),
			PrefillBatches: sample("prefix-max-batch-size-samples"), DecodeKVTokens: sample("decode-max-kv-read-token-samples"),
			DecodeBatches: sample("decode-max-batch-size-samples"),
		},
		Timeout: time.Duration(o.timeout), ContentSeed: o.contentSeed, PromptContent: o.content.Value, PoolTag: o.poolTag, Text: text, PrefillRealSeed: bool(o.realSeed),
		KVWarmup: bool(o.kvWarmup), KVSkipReason: o.skipReason(geometry, text, reason), ExpertParallel: o.expertParallel,
		GiantKVThreshold: o.giantThreshold.Value, GiantKVRepeats: o.giantRepeats.Value,
		MaxModelLen: o.maxModelLen.Value, MaxBatchedTokens: o.maxTokens.Value, MaxSeqs: o.maxSeqs.Value,
		BlockSize: o.blockSize.Value, Blocks: o.kvBlocks.Value, PrefixCaching: !o.noPrefixCaching,
		Graph: graph, Vocab: geometry.Vocab, WorkerID: o.workerID, Logger: p.log,
		Reverse: o.reverse, HostEvidence: o.evidence.Value != "minimal", EvidenceInTurn: o.evidence.Value == "alternate", Timing: o.gpuTiming,
	}
	pl.cannot = pl.fits(availableMemory(), id.LocalSize)
	if err := pl.bench.Validate(); err != nil {
		return nil, err
	}
	if pl.cannot != nil && !o.dryRun {
		return nil, pl.cannot
	}
	if pl.grid, err = bench.Plan(&pl.bench); err != nil {
		return nil, err
	}
	if len(pl.grid.MissingPhases) > 0 && !o.dryRun {
		return nil, o.nothingToMeasure(pl.grid.MissingPhases)
	}
	if pl.weights, err = o.openWeights(geometry, p.log); err != nil {
		return nil, err
	}
	if chosen.instead != nil && id.Rank == 0 {
		p.log.Info("engine auto takes the CPU engine", "because", chosen.instead)
	}
	return pl, nil
}

// manifest reads the points file, if one was given; rank 0 warns of repeated coordinates.
func (p *program) manifest(o *options, rank int) (*artifact.Manifest, error) {
	if o.pointsFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(o.pointsFile)
	if err != nil {
		return nil, fmt.Errorf("--points-file %q: %w", o.pointsFile, err)
	}
	m, err := artifact.ParseManifest(text)
	if err != nil {
		return nil, fmt.Errorf("--points-file %q: %w", o.pointsFile, err)
	}
	repeats, err := m.Repeats()
	if rank == 0 {
		for _, message := range repeats {
			p.log.Warn(message)
		}
	}
	return m, err
}

// nothingToMeasure says what to change when a phase has no point: the result of such a run could not be merged, nor used.
func (o *options) nothingToMeasure(phases []string) error {
	what := strings.Join(phases, " and ")
	if o.pointsFile == "" {
		return fmt.Errorf("--mode %s: no %s point fits the limits; raise --max-model-len, --kv-blocks or --max-num-batched-tokens, or choose another --mode", o.mode.Value, what)
	}
	err := fmt.Errorf("--points-file %q: no %s point, and --mode %s measures them", o.pointsFile, what, o.mode.Value)
	if o.mode.Value == "agg" && len(phases) == 1 {
		other := artifact.Prefill
		if phases[0] == artifact.Prefill {
			other = artifact.Decode
		}
		return fmt.Errorf("%w; add some, or type --mode %s", err, other)
	}
	return fmt.Errorf("%w; add some", err)
}

// supported refuses what no engine here can run.
func (o *options) supported(engine string, g *model.Geometry, t env.Topology) error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if t.PP > 1 {
		reason := "no engine here splits a model's layers over ranks"
		if o.mode.Value != artifact.Prefill {
			reason = fmt.Sprintf("mode %s measures decode steps, which the benchmark does not support with pipeline parallelism; and ", o.mode.Value) + reason
		}
		refuse("--pp %d: pipeline_parallel_size above 1 is refused: %s; use --pp 1", t.PP, reason)
	}
	if t.PCP > 1 {
		refuse("--pcp %d: prefill_context_parallel_size above 1 is refused: no engine here splits a prompt over ranks; use --pcp 1", t.PCP)
	}
	if o.expertParallel {
		switch {
		case g.Experts == nil:
			refuse("--expert-parallel: model %s (model_type %q) has no routed experts; drop the flag", g.Name, g.ModelType)
		case engine == sim.Name:
			refuse("--expert-parallel: the sim engine does not model the exchange between the ranks that hold experts; use --engine cpu, or drop the flag")
		}
	}
	if o.strict && g.Experts == nil && t.DP > 1 {
		refuse("--strict-contract: a dense model with data_parallel_size %d is refused: its ranks are independent replicas; run one rank, or drop --strict-contract", t.DP)
	}
	for flag, value := range map[string]string{"dtype": o.dtype, "kv-dtype": o.kvDType} {
		if value != "auto" && value != ownType[engine] {
			refuse("--%s %s: the %s engine works in its own type; use auto", flag, value, engine)
		}
	}
	return errors.Join(errs...)
}

// skipReason says why decode points of a model do not run over real KV, in the order of the format: what the tokens are only matters where
// they choose the rank that computes them, and then they have to be text. It is "" when they do. missing is why there is no text.
func (o *options) skipReason(g *model.Geometry, text *bench.Text, missing string) string {
	switch {
	case g.Experts == nil:
		return "dense_model_content_insensitive"
	case !o.expertParallel:
		return "moe_tp_balanced_by_construction" // every rank holds a part of each expert
	case o.noPrefixCaching:
		return "prefix_caching_disabled"
	}
	if text == nil {
		return missing
	}
	return tooShallow(text, o.maxModelLen.Value)
}

// expertRanks is the number of ranks that whole experts are spread over; 0 without expert parallelism.
func (pl *plan) expertRanks() int {
	if !pl.bench.ExpertParallel {
		return 0
	}
	return pl.topology.Ranks()
}

// engineConfig is what the engine of one worker is built from.
// limits are what an engine is built from beside its groups.
func (pl *plan) limits() gpu.Config {
	return gpu.Config{
		Geometry: pl.geometry, Weights: pl.weights, Blocks: pl.bench.Blocks, BlockSize: pl.bench.BlockSize,
		MaxBatchedTokens: pl.bench.MaxBatchedTokens, MaxSeqs: pl.bench.MaxSeqs, MaxModelLen: pl.bench.MaxModelLen,
		Graph: pl.bench.Graph, Ceilings: pl.ceilings, Timing: pl.timing, Progress: pl.progress,
	}
}

// engineConfig is what this worker's engine is built from.
func (pl *plan) engineConfig(groups *bench.Groups) gpu.Config {
	cfg := pl.limits()
	cfg.TP = groups.TensorGroup()
	if pl.bench.ExpertParallel {
		cfg.EP = bench.NewExpertGroup(groups.Experts)
	}
	return cfg
}
