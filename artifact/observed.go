package artifact

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Observed is one launch in short: its settings, and what every rank observed at every point. The document behind it may be forgotten.
type Observed struct {
	Path       string
	Title      string // the run in one line
	RunID      string
	Status     string
	GridDigest string
	Ranks      int

	Settings map[string]map[string]any // by Aspect: what holds for the launch as a whole
	Points   []Observation             // in the order of the groups, ranks ascending
}

// Observation is one point as one DP rank measured it.
type Observation struct {
	Point   Point
	Key     string // point_key
	Nth     int    // of several points of one coordinate in the launch, from 0
	Rank    int
	Wall    Float    // the retained time, seconds
	Group   Float    // the slowest rank's, seconds
	Samples []Float  // of the raw samples that the retained time is made of, seconds
	Causes  []string // what stands out in the evidence of host and process around it
	Clocks  *Clocks  // nil without a reading
	Floor   Float    // the least time that the rank's device allows, seconds; 0 where none was recorded

	evidence map[string]string // by Aspect; absent where nothing is recorded
}

// Aspects of a measurement that can differ and so explain a difference in time.
const (
	AspectInputs      = "inputs"
	AspectDispatch    = "dispatch"
	AspectPreparation = "preparation"
	AspectEngine      = "engine"
	AspectClocks      = "clocks"
)

// Aspects in the order in which they are told.
var Aspects = []string{AspectInputs, AspectDispatch, AspectPreparation, AspectEngine, AspectClocks}

// Observe reads a launch from one of its rank documents or its merged one.
func Observe(path string) (*Observed, error) {
	d, err := ReadDocument(path)
	if err != nil {
		return nil, err
	}
	return d.Observe()
}

// Observe puts a rank or merged document into its short form.
func (d *Document) Observe() (*Observed, error) {
	if kind := d.Type(); kind != "rank" && kind != "merged" {
		return nil, fmt.Errorf("artifact: %q is no rank or merged document (%s)", d.Path, kind)
	}
	o := &Observed{Path: d.Path, Title: d.Title()}
	o.RunID, _ = d.head["run_id"].(string)
	o.Status, _ = d.head["status"].(string)
	o.GridDigest, _ = d.head["grid_digest"].(string)
	hosts, engineHost, err := d.hostEvidence()
	if err != nil {
		return nil, err
	}
	floors, err := d.Floors()
	if err != nil {
		return nil, err
	}
	o.Settings = settings(d.head, engineHost)
	seen := map[string]int{}
	passed := map[int]string{}     // by rank: digest of what it measured so far
	ledgers := map[int][]string{}  // by rank: digest of each prefix of its ledger
	causes := map[int]causesAt{}   // by rank
	places := map[int]evidenceAt{} // by rank
	for rank, points := range hosts {
		causes[rank], places[rank] = causesByPoint(points), pointPlaces(points)
	}
	for i := range d.groups {
		g, err := d.group(i)
		if err != nil {
			return nil, err
		}
		key, err := g.Point.Key()
		if err != nil {
			return nil, err
		}
		nth := seen[key]
		seen[key]++
		for _, r := range g.RankResults {
			if len(r.FPMs) != 1 {
				return nil, fmt.Errorf("artifact: %q: iteration_groups[%d]: rank %d has %d records, want 1", d.Path, i, r.DPRank, len(r.FPMs))
			}
			o.Ranks = max(o.Ranks, r.DPRank+1)
			f := &r.FPMs[0]
			one := Observation{Point: g.Point, Key: key, Nth: nth, Rank: r.DPRank, Wall: f.WallTime, Group: g.WallTime, evidence: map[string]string{}}
			one.Causes, one.Floor = causes[r.DPRank][g.BenchmarkID], floors[r.DPRank][g.BenchmarkID]
			if clocks, ok := clocksOf(places[r.DPRank][g.BenchmarkID]); ok {
				one.Clocks = &clocks
			}
			ledger, ok := ledgers[r.DPRank]
			if !ok {
				if ledger, err = ledgerPrefixes(d.ledger(r.DPRank)); err != nil {
					return nil, fmt.Errorf("artifact: %q: ledger of rank %d: %w", d.Path, r.DPRank, err)
				}
				ledgers[r.DPRank] = ledger
			}
			one.observe(f, passed[r.DPRank], ledger)
			passed[r.DPRank] = hexSum([]byte(passed[r.DPRank] + key))
			o.Points = append(o.Points, one)
		}
	}
	return o, nil
}

// observe takes in a record's evidence. before stands for the points measured before it, ledger for the prefixes of the rank's preparations.
func (o *Observation) observe(f *FPM, before string, ledger []string) {
	e := f.Measurement
	if e == nil {
		o.Samples = []Float{f.WallTime}
		return
	}
	if e.Prompts.SHA256 != nil {
		o.evidence[AspectInputs] = *e.Prompts.SHA256
	}
	var dispatch []string
	for i := range e.Raw {
		s := e.Raw[i].Sample
		if s == nil || s.Cudagraph.RuntimeMode == nil || s.Cudagraph.Unpadded == nil || s.Cudagraph.Padded == nil {
			dispatch = nil
			break
		}
		dispatch = append(dispatch, fmt.Sprintf("%s %d in %d", *s.Cudagraph.RuntimeMode, *s.Cudagraph.Unpadded, *s.Cudagraph.Padded))
	}
	if len(dispatch) > 0 {
		o.evidence[AspectDispatch] = strings.Join(slices.Compact(dispatch), ", ")
	}
	for _, i := range e.Estimate.Indices {
		if i >= 0 && i < len(e.Raw) {
			o.Samples = append(o.Samples, e.Raw[i].WallTime)
		}
	}
	if len(o.Samples) == 0 {
		o.Samples = []Float{f.WallTime}
	}
	if n := e.Preparation.WarmupRecordsBefore; n != nil && *n >= 0 && *n < len(ledger) {
		o.evidence[AspectPreparation] = fmt.Sprintf("%s, %d steps, after %d preparations (%s) and %d points (%s)", e.Preparation.KVSeedRegime, e.ExpectedSamples,
			*n, short(ledger[*n]), e.Preparation.CompletedPointsBefore, short(before))
	}
}

// short is the beginning of a digest, for people; 48 bits tell a run's points apart.
func short(digest string) string {
	if digest == "" {
		return "none"
	}
	return digest[:min(len(digest), 12)]
}

// ledger is the list of a rank's preparations, nil where the document has none.
func (d *Document) ledger(rank int) []any {
	block := d.head["warmup_evidence"]
	if d.Type() == "merged" {
		all, _ := d.head["rank_warmup_evidence"].(map[string]any)
		block = all[strconv.Itoa(rank)]
	} else if d.rank() != rank {
		return nil
	}
	ledger, _ := block.(map[string]any)
	records, _ := ledger["records"].([]any)
	return records
}

// ledgerPrefixes is a digest of the first n records' kinds, shapes and results for each n from 0.
func ledgerPrefixes(records []any) ([]string, error) {
	if records == nil {
		return nil, nil
	}
	prefixes := []string{""}
	for _, r := range records {
		record, _ := r.(map[string]any)
		shape := record["requested_shape"]
		if point, ok := shape.(map[string]any); ok {
			kept := map[string]any{}
			for _, key := range []string{"prompt_lengths", "point_type", "batch_size", "total_prefill_tokens", "total_kv_read_tokens", "partition", "rows"} {
				kept[key] = point[key]
			}
			shape = kept
		}
		text, err := digest([]any{prefixes[len(prefixes)-1], record["kind"], record["status"], shape})
		if err != nil {
			return nil, err
		}
		prefixes = append(prefixes, text)
	}
	return prefixes, nil
}
