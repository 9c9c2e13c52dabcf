package artifact

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Diff compares the launches of two measurements, point by point and rank by rank: what differs in the evidence, and which times moved.
type Diff struct {
	Old      []DiffRun `json:"old"`
	New      []DiffRun `json:"new"`
	Verdicts []Verdict `json:"verdicts"` // in the order of Aspects
	Noise    Noise     `json:"noise"`
	Shift    *Shift    `json:"shift"` // of all points together; null without a pair
	Moved    int       `json:"moved_points"`
	Enough   bool      `json:"enough_launches"` // there are enough on both sides to tell a point that moved from noise
	Notes    []string  `json:"notes"`
	Pairs    []Pair    `json:"pairs"` // in the order of OLD's first launch
	OnlyOld  []string  `json:"only_old"`
	OnlyNew  []string  `json:"only_new"`
}

// DiffRun is a launch that was compared.
type DiffRun struct {
	Path   string `json:"path"`
	RunID  string `json:"run_id"`
	Points int    `json:"points"`
}

// Verdict says whether one aspect of the evidence is the same on both sides.
type Verdict struct {
	Aspect  string   `json:"aspect"`
	Result  string   `json:"result"`         // identical, differ or unknown
	Points  int      `json:"points"`         // at which it differs
	Unknown int      `json:"unknown_points"` // at which one side has no evidence
	Of      int      `json:"of_points"`
	Details []string `json:"details"` // what differs in the settings of the launch, and the first point's difference
}

// Results of a verdict.
const (
	Identical = "identical"
	Differ    = "differ"
	Unknown   = "unknown"
)

// Pair is one point as one rank measured it on both sides. Times are in seconds.
type Pair struct {
	BenchmarkID int      `json:"benchmark_id"` // in OLD's first launch that has it
	PointKey    string   `json:"point_key"`
	Nth         int      `json:"nth"`
	PointType   string   `json:"point_type"`
	BatchSize   int      `json:"batch_size"`
	NewTokens   int      `json:"new_tokens"`
	KVTokens    int      `json:"kv_tokens"`
	DPRank      int      `json:"dp_rank"`
	Old         Side     `json:"old"`
	New         Side     `json:"new"`
	Ratio       Float    `json:"ratio"`      // new median by old
	Moved       bool     `json:"moved"`      // more than the noise explains
	Stands      bool     `json:"stands_out"` // far from the other points' ratios, with too few launches to tell
	Differs     []string `json:"differs"`    // aspects
	Causes      []string `json:"causes"`     // what stands out in the evidence of host and process, on either side

	move float64 // of log times, less the levels of the launches
}

// Side is one side's times of a pair.
type Side struct {
	Launches int     `json:"launches"`
	Times    []Float `json:"times"` // retained, one for each launch; with too few launches on either side, of the raw samples behind them
	Median   Float   `json:"median"`
	Spread   Float   `json:"spread"` // slowest minus fastest by median

	timed []timed // the logarithms of Times above 0
}

// NewDiff compares launches. Every side needs one at least.
func NewDiff(before, after []*Observed) (*Diff, error) {
	d := &Diff{Notes: []string{}, Pairs: []Pair{}, OnlyOld: []string{}, OnlyNew: []string{}}
	d.Old, d.New = diffRuns(before), diffRuns(after)
	seen := map[string]string{}
	for _, o := range slices.Concat(before, after) {
		if at, ok := seen[o.RunID]; ok {
			d.Notes = append(d.Notes, fmt.Sprintf("%s and %s are one launch (run %s): their times are not independent", at, o.Path, o.RunID))
		}
		seen[o.RunID] = o.Path
	}
	launch := map[*Observation]int{}
	for i, o := range slices.Concat(before, after) {
		for j := range o.Points {
			launch[&o.Points[j]] = i
		}
	}
	olds, order := byPair(before)
	news, newOrder := byPair(after)
	marks := map[string]map[string]int{} // per aspect: points that differ (2) or are unknown (1), by name
	first := map[string]string{}
	for _, aspect := range Aspects {
		marks[aspect] = map[string]int{}
	}
	points := map[string]bool{}
	for _, at := range order {
		old, ok := olds[at], len(news[at]) > 0
		if !ok {
			d.OnlyOld = append(d.OnlyOld, old[0].String())
			continue
		}
		p := newPair(old, news[at], launch)
		name := fmt.Sprintf("%s/%d", at.key, at.nth)
		points[name] = true
		for _, aspect := range Aspects {
			mark, text := compareAspect(aspect, old, news[at])
			marks[aspect][name] = max(marks[aspect][name], mark)
			if mark == 2 {
				p.Differs = append(p.Differs, aspect)
				if first[aspect] == "" {
					first[aspect] = old[0].String() + ": " + text
				}
			}
		}
		d.Pairs = append(d.Pairs, p)
	}
	for _, at := range newOrder {
		if len(olds[at]) == 0 {
			d.OnlyNew = append(d.OnlyNew, news[at][0].String())
		}
	}
	if len(d.Pairs) == 0 {
		return nil, fmt.Errorf("artifact: %q and %q have no point in common", before[0].Path, after[0].Path)
	}
	all := slices.Concat(before, after)
	for _, aspect := range Aspects {
		d.Verdicts = append(d.Verdicts, verdict(aspect, marks[aspect], len(points), settingsDifferences(aspect, all), first[aspect]))
	}
	d.judge()
	return d, nil
}

func diffRuns(launches []*Observed) []DiffRun {
	runs := make([]DiffRun, len(launches))
	for i, o := range launches {
		names := map[string]bool{}
		for j := range o.Points {
			names[fmt.Sprintf("%s/%d", o.Points[j].Key, o.Points[j].Nth)] = true
		}
		runs[i] = DiffRun{Path: o.Path, RunID: o.RunID, Points: len(names)}
	}
	return runs
}

// pairAt is what two sides are paired by.
type pairAt struct {
	key       string
	nth, rank int
}

// byPair sorts what was observed by point and rank, in the order in which they come first.
func byPair(launches []*Observed) (all map[pairAt][]*Observation, order []pairAt) {
	all = map[pairAt][]*Observation{}
	for _, o := range launches {
		for i := range o.Points {
			p := &o.Points[i]
			at := pairAt{p.Key, p.Nth, p.Rank}
			if all[at] == nil {
				order = append(order, at)
			}
			all[at] = append(all[at], p)
		}
	}
	return all, order
}

// newPair compares a point's times at one rank. launch numbers the observations' launches.
func newPair(old, fresh []*Observation, launch map[*Observation]int) Pair {
	o, raw := old[0], min(len(old), len(fresh)) < enoughLaunches
	p := Pair{BenchmarkID: o.Point.BenchmarkID, PointKey: o.Key, Nth: o.Nth, PointType: o.Point.PointType, BatchSize: o.Point.BatchSize,
		NewTokens: o.Point.TotalPrefillTokens, KVTokens: o.Point.TotalKVReadTokens, DPRank: o.Rank, Old: newSide(old, launch, raw), New: newSide(fresh, launch, raw),
		Differs: []string{}, Causes: []string{}}
	if p.PointType == Decode {
		p.NewTokens = p.BatchSize
	}
	if p.Old.Median > 0 {
		p.Ratio = p.New.Median / p.Old.Median
	}
	for i, side := range [][]*Observation{old, fresh} {
		for _, seen := range side {
			for _, cause := range seen.Causes {
				if text := []string{"old: ", "new: "}[i] + cause; !slices.Contains(p.Causes, text) {
					p.Causes = append(p.Causes, text)
				}
			}
		}
	}
	return p
}

// newSide takes the retained times, or the raw samples behind them.
func newSide(seen []*Observation, launch map[*Observation]int, raw bool) Side {
	s := Side{Launches: len(seen)}
	for _, o := range seen {
		times := []Float{o.Wall}
		if raw {
			times = o.Samples
		}
		for nth, t := range times {
			s.Times = append(s.Times, t)
			if t > 0 {
				s.timed = append(s.timed, timed{launch: launch[o], nth: nth, log: math.Log(float64(t))})
			}
		}
	}
	sorted := slices.Sorted(slices.Values(s.Times))
	s.Median = medianOf(sorted)
	if s.Median > 0 {
		s.Spread = (sorted[len(sorted)-1] - sorted[0]) / s.Median
	}
	return s
}

// compareAspect compares one aspect's evidence of a pair: 0 identical, 1 unknown, 2 different, and then how. Several launches of a side may differ among
// themselves, as those do that measure in reverse order; the sides are the same when both have the same values.
func compareAspect(aspect string, old, fresh []*Observation) (mark int, text string) {
	if aspect == AspectClocks {
		a, b := clocksOfSide(old), clocksOfSide(fresh)
		if a == nil || b == nil {
			return 1, ""
		}
		if text := a.differ(b); text != "" {
			return 2, text
		}
		return 0, ""
	}
	if aspect == AspectEngine {
		return 0, "" // of the launch as a whole
	}
	a, b := evidenceOf(aspect, old), evidenceOf(aspect, fresh)
	if a == nil || b == nil {
		return 1, ""
	}
	if !slices.Equal(a, b) {
		if aspect == AspectInputs {
			for _, hashes := range [][]string{a, b} {
				for i := range hashes {
					hashes[i] = short(hashes[i])
				}
			}
		}
		return 2, strings.Join(a, " or ") + " against " + strings.Join(b, " or ")
	}
	return 0, ""
}

// evidenceOf lists the values of an aspect on one side, nil when a launch has none.
func evidenceOf(aspect string, seen []*Observation) []string {
	values := map[string]bool{}
	for _, o := range seen {
		v := o.evidence[aspect]
		if v == "" {
			return nil
		}
		values[v] = true
	}
	return slices.Sorted(maps.Keys(values))
}

// clocksOfSide is the launch whose GPUs were clocked lowest, nil when one has no reading.
func clocksOfSide(seen []*Observation) *Clocks {
	var lowest *Clocks
	for _, o := range seen {
		if o.Clocks == nil {
			return nil
		}
		if lowest == nil || slices.Compare(o.Clocks.SM, lowest.SM) < 0 {
			lowest = o.Clocks
		}
	}
	return lowest
}

// settingsDifferences are the settings of an aspect that differ between the first launch and any other.
func settingsDifferences(aspect string, launches []*Observed) []string {
	found := []string{}
	for _, o := range launches[1:] {
		a, b := launches[0].Settings[aspect], o.Settings[aspect]
		keys := maps.Clone(a)
		maps.Copy(keys, b)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			x, y := a[key], b[key]
			if key == engineHostKey {
				x, y = inCommon(x, y), inCommon(y, x)
			}
			for _, difference := range treeDifferences(key, x, y) {
				text := fmt.Sprintf("%s: %s against %s", difference.name, difference.then, difference.now)
				if !slices.Contains(found, text) {
					found = append(found, text)
				}
			}
		}
	}
	return found
}

// inCommon is what a says of the ranks that b knows too: a rank's document knows itself only.
func inCommon(a, b any) any {
	x, _ := a.(map[string]any)
	y, _ := b.(map[string]any)
	kept := map[string]any{}
	for rank, value := range x {
		if _, ok := y[rank]; ok {
			kept[rank] = value
		}
	}
	return kept
}

func verdict(aspect string, marks map[string]int, of int, settings []string, first string) Verdict {
	v := Verdict{Aspect: aspect, Of: of, Result: Identical, Details: settings}
	for _, mark := range marks {
		switch mark {
		case 1:
			v.Unknown++
		case 2:
			v.Points++
		}
	}
	if first != "" {
		v.Details = append(v.Details, first)
	}
	switch {
	case v.Points > 0 || len(v.Details) > 0:
		v.Result = Differ
	case v.Unknown > 0:
		v.Result = Unknown
	}
	return v
}

// String names the observed point and rank.
func (o *Observation) String() string {
	text := fmt.Sprintf("%s batch %d new %d kv %d", o.Point.PointType, o.Point.BatchSize, cmp.Or(o.Point.TotalPrefillTokens, o.Point.BatchSize), o.Point.TotalKVReadTokens)
	if o.Nth > 0 {
		text += fmt.Sprintf(" (%d)", o.Nth)
	}
	return fmt.Sprintf("%s rank %d", text, o.Rank)
}
