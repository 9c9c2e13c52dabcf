package artifact

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"
)

// Qualification says how repeatable launches of one measurement are, and whether they are launches of one measurement at all.
type Qualification struct {
	Comparability string            `json:"comparability"` // comparable, unestablished or mismatch; latency is never a reason
	Reasons       []string          `json:"reasons"`
	Launches      []QualifiedLaunch `json:"launches"`
	Limit         Float             `json:"cv_limit"` // fraction
	Over          int               `json:"points_over_limit"`
	Of            int               `json:"points_with_cv"` // measured in two launches at least
	Subset        *Shift            `json:"subset_shift"`   // subset by full grid, over the points of both; null without both kinds
	Points        []QualifiedPoint  `json:"points"`         // the widest first
	Outliers      []Outlier         `json:"outliers"`
}

// Comparability of launches.
const (
	Comparable    = "comparable"    // everything recorded agrees, and everything is recorded
	Unestablished = "unestablished" // nothing contradicts, but not everything is recorded or the history differs
	Mismatch      = "mismatch"      // something recorded contradicts
)

// QualifiedLaunch is one of the launches.
type QualifiedLaunch struct {
	Path   string `json:"path"`
	RunID  string `json:"run_id"`
	Grid   string `json:"grid"` // full, subset or other
	Points int    `json:"points"`
	Level  Float  `json:"level"` // median over its points of its time by the median of all launches; 1 with too few points
}

// QualifiedPoint is one coordinate over the launches.
type QualifiedPoint struct {
	RepeatedPoint
	Over bool `json:"over_limit"`
}

// Outlier is one launch's time of a coordinate far from that of the others.
type Outlier struct {
	Path        string   `json:"path"`
	BenchmarkID int      `json:"benchmark_id"`
	Point       string   `json:"point"`
	WallTime    Float    `json:"wall_time"` // seconds, the slowest rank's
	Ratio       Float    `json:"ratio"`     // by the median of all launches, less the launch's level
	Explained   bool     `json:"explained"`
	Evidence    []string `json:"evidence"` // what in this launch's evidence explains it, and stands in no other launch's
}

// launchPoint is one coordinate in one launch, all ranks together.
type launchPoint struct {
	id       int
	name     string
	wall     Float
	causes   []string
	evidence [][2]string // aspect and value, by rank
}

// Qualify judges launches. limit is the coefficient of variation beyond which a point counts as not repeatable, as a fraction.
func Qualify(launches []*Observed, limit float64) (*Qualification, error) {
	if len(launches) < 2 {
		return nil, fmt.Errorf("artifact: %d launch given, want 2 at least", len(launches))
	}
	q := &Qualification{Limit: Float(limit), Reasons: []string{}, Points: []QualifiedPoint{}, Outliers: []Outlier{}}
	q.compare(launches)
	tables := make([]map[string]*launchPoint, len(launches))
	repeat := NewRepeat(len(launches), "same", nil, nil)
	for i, o := range launches {
		tables[i] = o.launchPoints(repeat, i)
		q.Launches = append(q.Launches, QualifiedLaunch{Path: o.Path, RunID: o.RunID, Points: len(tables[i])})
	}
	for i := range repeat.Points {
		p := &repeat.Points[i]
		for len(p.WallTimes) < len(launches) {
			p.WallTimes = append(p.WallTimes, nil)
		}
		p.Mean, p.CV = spread(p.WallTimes)
		over := p.CV != nil && float64(*p.CV) > limit
		if p.CV != nil {
			q.Of++
		}
		if over {
			q.Over++
		}
		q.Points = append(q.Points, QualifiedPoint{RepeatedPoint: *p, Over: over})
	}
	q.outliers(tables)
	q.grids(tables)
	slices.SortStableFunc(q.Points, func(a, b QualifiedPoint) int {
		x, y := -1.0, -1.0
		if a.CV != nil {
			x = float64(*a.CV)
		}
		if b.CV != nil {
			y = float64(*b.CV)
		}
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return q, nil
}

// launchPoints puts the ranks of a launch together and adds the group's times to a table.
func (o *Observed) launchPoints(repeat *Repeat, launch int) map[string]*launchPoint {
	found := map[string]*launchPoint{}
	for i := range o.Points {
		p := &o.Points[i]
		name := fmt.Sprintf("%s/%d", p.Key, p.Nth)
		at := found[name]
		if at == nil {
			row := repeat.point(p.Key, p.Nth, &p.Point)
			at = &launchPoint{id: p.Point.BenchmarkID, name: row.String(), wall: p.Group}
			found[name] = at
			for len(row.WallTimes) < launch {
				row.WallTimes = append(row.WallTimes, nil)
			}
			wall := p.Group
			row.WallTimes = append(row.WallTimes, &wall)
		}
		for _, cause := range p.Causes {
			at.causes = append(at.causes, fmt.Sprintf("rank %d: %s", p.Rank, cause))
		}
		for _, aspect := range []string{AspectInputs, AspectDispatch} {
			at.evidence = append(at.evidence, [2]string{fmt.Sprintf("rank %d: %s", p.Rank, aspect), p.evidence[aspect]})
		}
	}
	return found
}

// outliers finds how each launch as a whole was, and the times that are further than the limit from the coordinate's median, their launch's level taken off, and
// further than noise explains: a normal quantile at familyError over all times, by Bonferroni, of the standard deviation of this point's times or of all
// points' together, whichever is larger, from median absolute deviations as judge takes them.
func (q *Qualification) outliers(tables []map[string]*launchPoint) {
	usual := map[string]float64{}
	for name, walls := range byPoint(tables, nil) {
		usual[name] = medianOfAll(walls)
	}
	levels := make([]float64, len(tables))
	for i, table := range tables {
		var above []float64
		for name, p := range table {
			if p.wall > 0 {
				above = append(above, math.Log(float64(p.wall))-usual[name])
			}
		}
		if len(above) >= enoughPoints {
			levels[i] = medianOfAll(above)
		}
		q.Launches[i].Level = Float(math.Exp(levels[i]))
	}
	middles, own := map[string]float64{}, map[string]float64{}
	var residuals []float64
	for name, walls := range byPoint(tables, levels) {
		if len(walls) < 2 {
			continue
		}
		n, varied := float64(len(walls)), deviations(walls)
		for i := range varied {
			varied[i] *= math.Sqrt(n / (n - 1)) // the median was fitted
		}
		middles[name], own[name] = medianOfAll(walls), madToSigma*medianOfAll(varied)
		residuals = append(residuals, varied...)
	}
	if len(residuals) == 0 {
		return
	}
	pooled := madToSigma * medianOfAll(residuals)
	sigmas := distuv.UnitNormal.Quantile(1 - familyError/2/float64(len(residuals)))
	for i, table := range tables {
		for _, name := range slices.SortedFunc(maps.Keys(table), func(a, b string) int { return table[a].id - table[b].id }) {
			p := table[name]
			middle, some := middles[name]
			if !some || p.wall <= 0 {
				continue
			}
			move := math.Log(float64(p.wall)) - levels[i] - middle
			if math.Abs(move) <= max(float64(q.Limit), sigmas*max(pooled, own[name])) {
				continue
			}
			found := Outlier{Path: q.Launches[i].Path, BenchmarkID: p.id, Point: p.name, WallTime: p.wall, Ratio: Float(math.Exp(move)), Evidence: []string{}}
			found.Evidence = append(found.Evidence, p.causes...)
			for j, other := range tables {
				if o := other[name]; j != i && o != nil {
					found.Evidence = append(found.Evidence, evidenceBeyond(p, o)...)
				}
			}
			found.Evidence = unique(found.Evidence)
			found.Explained = len(found.Evidence) > 0
			q.Outliers = append(q.Outliers, found)
		}
	}
}

// byPoint is the log times of each point over the launches, less their levels if there are any.
func byPoint(tables []map[string]*launchPoint, levels []float64) map[string][]float64 {
	walls := map[string][]float64{}
	for i, table := range tables {
		for name, p := range table {
			if p.wall <= 0 {
				continue
			}
			wall := math.Log(float64(p.wall))
			if levels != nil {
				wall -= levels[i]
			}
			walls[name] = append(walls[name], wall)
		}
	}
	return walls
}

// evidenceBeyond lists how p's inputs and dispatch differ from o's.
func evidenceBeyond(p, o *launchPoint) []string {
	var found []string
	for k := range p.evidence {
		if k < len(o.evidence) && p.evidence[k] != o.evidence[k] {
			found = append(found, p.evidence[k][0]+" differs")
		}
	}
	return found
}

func unique(texts []string) []string {
	kept := []string{}
	for _, text := range texts {
		if !slices.Contains(kept, text) {
			kept = append(kept, text)
		}
	}
	return kept
}

// grids tells launches of the full grid from those of a part of it, and how the part's times differ from the full grid's.
func (q *Qualification) grids(tables []map[string]*launchPoint) {
	full := slices.MaxFunc(tables, func(a, b map[string]*launchPoint) int { return len(a) - len(b) })
	for i, table := range tables {
		q.Launches[i].Grid = "full"
		if len(table) < len(full) {
			q.Launches[i].Grid = "subset"
		}
		for name := range table {
			if full[name] == nil {
				q.Launches[i].Grid = "other"
			}
		}
	}
	var logs []float64
	for name := range full {
		walls := map[string][]float64{}
		for i, table := range tables {
			if p := table[name]; p != nil && p.wall > 0 {
				walls[q.Launches[i].Grid] = append(walls[q.Launches[i].Grid], float64(p.wall))
			}
		}
		if len(walls["subset"]) > 0 && len(walls["full"]) > 0 {
			logs = append(logs, math.Log(medianOfAll(walls["subset"])/medianOfAll(walls["full"])))
		}
	}
	if len(logs) > 0 {
		q.Subset = medianShift(logs)
	}
}

// compare decides the comparability. The rules follow those of the known consumer of repeat campaigns: contradictions are a mismatch, what is missing
// or has another history only keeps it unestablished, and no time is looked at.
func (q *Qualification) compare(launches []*Observed) {
	var mismatch, open []string
	seen := map[string]string{}
	for _, o := range launches {
		if at, ok := seen[o.RunID]; ok {
			mismatch = append(mismatch, fmt.Sprintf("%s and %s are one launch (run %s)", at, o.Path, o.RunID))
		}
		seen[o.RunID] = o.Path
		if o.Status != "complete" {
			open = append(open, fmt.Sprintf("%s is %s", o.Path, o.Status))
		}
		if o.Ranks != launches[0].Ranks {
			mismatch = append(mismatch, fmt.Sprintf("%s has %d ranks, %s has %d", launches[0].Path, launches[0].Ranks, o.Path, o.Ranks))
		}
		if o.GridDigest != launches[0].GridDigest {
			open = append(open, fmt.Sprintf("the grid of %s, or its order, is not that of %s", o.Path, launches[0].Path))
		}
	}
	for _, aspect := range append(slices.Clone(Aspects), configKey) {
		for _, text := range settingsDifferences(aspect, launches) {
			mismatch = append(mismatch, aspect+": "+text)
		}
	}
	all, order := byPair(launches)
	counts := map[string]int{}
	for _, at := range order {
		for _, aspect := range []string{AspectInputs, AspectDispatch, AspectPreparation} {
			switch values := evidenceOf(aspect, all[at]); {
			case values == nil:
				counts[aspect+" not recorded"]++
			case len(values) == 1:
			case aspect == AspectPreparation && sameBut(values, ", after "):
				counts["another history before the point"]++
			default:
				counts[aspect+" differ"]++
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		text := what + " at 1 pair of point and rank"
		if counts[what] > 1 {
			text = fmt.Sprintf("%s at %d pairs of point and rank", what, counts[what])
		}
		if strings.HasSuffix(what, " differ") {
			mismatch = append(mismatch, text)
		} else {
			open = append(open, text)
		}
	}
	q.Comparability = Comparable
	switch {
	case len(mismatch) > 0:
		q.Comparability, q.Reasons = Mismatch, append(mismatch, open...)
	case len(open) > 0:
		q.Comparability, q.Reasons = Unestablished, open
	}
}

// sameBut reports whether texts are equal up to a mark.
func sameBut(texts []string, mark string) bool {
	first, _, _ := strings.Cut(texts[0], mark)
	return !slices.ContainsFunc(texts, func(text string) bool {
		head, _, _ := strings.Cut(text, mark)
		return head != first
	})
}
