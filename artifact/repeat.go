package artifact

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// RepeatSchema names the document about several launches of one measurement.
const RepeatSchema = "fpmrun.repeat"

// Repeat is the document about several launches of one measurement, each a fresh gang of processes: how much a coordinate's time differs between
// launches, which no sample of one launch can show.
type Repeat struct {
	Schema        string          `json:"schema"`
	SchemaVersion int             `json:"schema_version"`
	Asked         int             `json:"asked_launches"`
	Order         string          `json:"order"`   // abba or same
	StopCV        *Float          `json:"stop_cv"` // null without a limit
	StopShare     *Float          `json:"stop_share"`
	StopReason    *string         `json:"stop_reason"` // why there are fewer launches than asked for
	Launches      []RepeatLaunch  `json:"launches"`
	Points        []RepeatedPoint `json:"points"`

	at map[string]int // place in Points
}

// RepeatLaunch is one launch.
type RepeatLaunch struct {
	RunID  string `json:"run_id"`
	Order  string `json:"order"` // a: as planned; b: each phase reversed
	Path   string `json:"path"`  // of the merged document
	Status string `json:"status"`
	Points int    `json:"completed_points"`
}

// RepeatedPoint is one coordinate over all launches.
type RepeatedPoint struct {
	PointKey  string `json:"point_key"`
	Nth       int    `json:"nth,omitempty"` // of several points of one coordinate in a launch, from 0
	PointType string `json:"point_type"`
	BatchSize int    `json:"batch_size"`
	NewTokens int    `json:"total_prefill_tokens"`
	KVTokens  int    `json:"total_kv_read_tokens"`

	WallTimes []*Float `json:"wall_times"` // the group's, seconds; one for each launch, null where it was not measured
	Mean      *Float   `json:"mean"`       // null without any
	CV        *Float   `json:"cv"`         // standard deviation of a sample by mean; null with fewer than two
}

// NewRepeat starts the document. cv and share are the limits beyond which no further launch is started, as fractions; nil: none.
func NewRepeat(asked int, order string, cv, share *Float) *Repeat {
	return &Repeat{Schema: RepeatSchema, SchemaVersion: 1, Asked: asked, Order: order, StopCV: cv, StopShare: share, Launches: []RepeatLaunch{},
		Points: []RepeatedPoint{}, at: map[string]int{}}
}

// Add takes in a launch's merged document, which stays where path says.
func (r *Repeat) Add(d *Document, order string) error {
	var head struct {
		RunID  string `json:"run_id"`
		Status string `json:"status"`
	}
	for key, place := range map[string]any{"run_id": &head.RunID, "status": &head.Status} {
		if err := json.Unmarshal(d.members[key], place); err != nil {
			return fmt.Errorf("artifact: %q: %s: %w", d.Path, key, err)
		}
	}
	seen := map[string]int{}
	n := len(r.Launches)
	for i := range d.groups {
		g, err := d.group(i)
		if err != nil {
			return err
		}
		key, err := g.Point.Key()
		if err != nil {
			return err
		}
		p := r.point(key, seen[key], &g.Point)
		seen[key]++
		for len(p.WallTimes) < n {
			p.WallTimes = append(p.WallTimes, nil)
		}
		wall := g.WallTime
		p.WallTimes = append(p.WallTimes, &wall)
	}
	r.Launches = append(r.Launches, RepeatLaunch{RunID: head.RunID, Order: order, Path: d.Path, Status: head.Status, Points: len(d.groups)})
	for i := range r.Points {
		p := &r.Points[i]
		for len(p.WallTimes) < n+1 {
			p.WallTimes = append(p.WallTimes, nil)
		}
		p.Mean, p.CV = spread(p.WallTimes)
	}
	return nil
}

// point finds or adds the nth point of a coordinate.
func (r *Repeat) point(key string, nth int, p *Point) *RepeatedPoint {
	name := key + "/" + strconv.Itoa(nth)
	at, ok := r.at[name]
	if !ok {
		at = len(r.Points)
		r.at[name] = at
		r.Points = append(r.Points, RepeatedPoint{PointKey: key, Nth: nth, PointType: p.PointType, BatchSize: p.BatchSize, NewTokens: p.TotalPrefillTokens,
			KVTokens: p.TotalKVReadTokens})
	}
	return &r.Points[at]
}

// spread is the mean of the times that are there and their coefficient of variation, with the standard deviation of a sample (n - 1).
func spread(times []*Float) (mean, cv *Float) {
	sum, n := 0.0, 0
	for _, t := range times {
		if t != nil {
			sum += float64(*t)
			n++
		}
	}
	if n == 0 {
		return nil, nil
	}
	m := sum / float64(n)
	mean = (*Float)(&m)
	if n < 2 || m == 0 {
		return mean, nil
	}
	squares := 0.0
	for _, t := range times {
		if t != nil {
			squares += (float64(*t) - m) * (float64(*t) - m)
		}
	}
	v := math.Sqrt(squares/float64(n-1)) / m
	return mean, (*Float)(&v)
}

// Over is the points whose CV is above a limit, the widest first, and how many have a CV at all.
func (r *Repeat) Over(limit Float) (over []RepeatedPoint, of int) {
	for _, p := range r.Points {
		if p.CV == nil {
			continue
		}
		of++
		if *p.CV > limit {
			over = append(over, p)
		}
	}
	slices.SortStableFunc(over, func(a, b RepeatedPoint) int {
		switch {
		case *a.CV > *b.CV:
			return -1
		case *a.CV < *b.CV:
			return 1
		}
		return 0
	})
	return over, of
}

// String names the coordinate.
func (p *RepeatedPoint) String() string {
	text := fmt.Sprintf("%s batch_size %d total_prefill_tokens %d total_kv_read_tokens %d", p.PointType, p.BatchSize, p.NewTokens, p.KVTokens)
	if p.Nth > 0 {
		text += fmt.Sprintf(" (%d)", p.Nth)
	}
	return text
}
