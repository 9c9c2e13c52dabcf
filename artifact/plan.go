package artifact

import (
	"fmt"
	"slices"
)

// Plan is the queue of a run: what is measured, in which order, under which ids.
type Plan struct {
	Points        []Point // replicas and real points in execution order
	Expected      int     // real points
	MissingPhases []string
	Digest        string // grid_digest
	Imbalanced    int    // explicit points dropped because imbalanced ones were not asked for
}

// Request says what to plan.
type Request struct {
	Mode              string    // prefill, decode or agg
	Manifest          *Manifest // nil generates the grid
	Samples           Samples   // of a generated grid
	CollectImbalanced bool      // keep explicit points whose requests differ in length
	Reverse           bool      // measure the points of each phase in reverse order
	ChainRepeats      int       // steady steps of decode points over real KV; 0: there are none
}

// NewPlan generates or takes over the points of each phase, labels them with what their dispatch is expected to
// be, adds the warm-up replicas and gives ids. A point of the manifest that the engine cannot hold is an error.
func NewPlan(l *Limits, r Request) (*Plan, error) {
	plan := &Plan{MissingPhases: []string{}}
	var phases [][]Point
	for _, phase := range []string{Prefill, Decode} {
		if r.Mode != phase && r.Mode != "agg" {
			continue
		}
		points, err := plan.phase(l, r, phase)
		if err != nil {
			return nil, err
		}
		if phase == Decode && r.ChainRepeats > 0 {
			l.orderForChains(points, r.ChainRepeats)
		}
		if r.Reverse {
			slices.Reverse(points)
		}
		if len(points) == 0 {
			plan.MissingPhases = append(plan.MissingPhases, phase)
		}
		phases = append(phases, points)
	}
	plan.queue(phases)
	var err error
	plan.Digest, err = GridDigest(plan.Points)
	return plan, err
}

func (plan *Plan) phase(l *Limits, r Request, phase string) ([]Point, error) {
	graph, limit := l.PrefillGraph, l.MaxTokens
	if phase == Decode {
		graph, limit = l.DecodeGraph, l.LargestDecodeBatch()
	}
	var points []Point
	switch {
	case r.Manifest == nil && phase == Prefill:
		points = l.PrefillGrid(r.Samples)
	case r.Manifest == nil:
		points = l.DecodeGrid(r.Samples)
	default:
		given := r.Manifest.Prefill
		if phase == Decode {
			given = r.Manifest.Decode
		}
		for i, p := range given {
			if p.Imbalanced() && !r.CollectImbalanced {
				plan.Imbalanced++
				continue
			}
			if err := l.Feasible(&p); err != nil {
				return nil, fmt.Errorf("%s[%d] (batch_size %d, total_prefill_tokens %d, total_kv_read_tokens %d): %w",
					phase, i, p.BatchSize, p.TotalPrefillTokens, p.TotalKVReadTokens, err)
			}
			points = append(points, p)
		}
	}
	for i := range points {
		points[i].label(graph, limit)
	}
	return points, nil
}

// label fills in the planned dispatch and the reasons that follow from it.
func (p *Point) label(g Graph, limit int) {
	driver := p.Driver()
	p.ExpectedCudagraphMode = "NONE"
	if i, _ := slices.BinarySearch(g.Captures, driver); i < len(g.Captures) {
		size := g.Captures[i]
		padding := size - driver
		p.ExpectedCudagraphMode, p.ExpectedCaptureSize, p.PaddingTokens = g.Mode, &size, &padding
	}
	reasons := slices.Clone(p.SampleReasons)
	add := func(condition bool, reason string) {
		if condition {
			reasons = append(reasons, reason)
		}
	}
	none := len(g.Captures) == 0
	above := !none && driver > g.Captures[len(g.Captures)-1]
	add(slices.Contains(g.Captures, driver), ReasonCapture)
	add(slices.Contains(g.Captures, driver-1), ReasonPostCapture)
	add(none, ReasonCudagraphDisabled)
	add(none && driver != limit, ReasonGeometricAxis)
	add(above, ReasonEagerTail)
	add(above && driver != limit, ReasonGeometricTail)
	add(driver == limit, ReasonEngineLimit)
	if reasons == nil {
		reasons = []string{}
	}
	p.SampleReasons = reasons
}

// queue puts each phase's replicas before its points and numbers real points first.
func (plan *Plan) queue(phases [][]Point) {
	id := 0
	for _, points := range phases {
		for i := range points {
			id++
			points[i].BenchmarkID = id
		}
	}
	plan.Expected = id
	for _, points := range phases {
		drivers := map[int]bool{}
		for _, p := range points {
			if p.ExpectedCaptureSize != nil || drivers[p.Driver()] {
				continue
			}
			drivers[p.Driver()] = true
			id++
			p.BenchmarkID = id
			p.SampleReasons = []string{ReasonEagerWarmup}
			plan.Points = append(plan.Points, p)
		}
		plan.Points = append(plan.Points, points...)
	}
}
