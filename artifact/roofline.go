package artifact

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// RooflineMoved is by how much of itself a ceiling may move in a run; beyond, no floor counts.
const RooflineMoved = 0.03

// RooflineLeast is the least ratio of a time to its floor that needs no explanation.
const RooflineLeast = 0.98

// Ceilings is one reading of what a device reaches at most.
type Ceilings struct {
	Before   int   `json:"points_before"` // measured when it was taken
	ReadRate Float `json:"read_bytes_per_second"`
	MathRate Float `json:"matrix_operations_per_second"`
}

// Roofline is what a rank's device could do at most during a run, and the floors of its points that follow: member "roofline" of its "fpmrun" part.
type Roofline struct {
	Readings []Ceilings   `json:"readings"`              // before, between and after the points
	ReadRate Float        `json:"read_bytes_per_second"` // the best of all readings, which the floors are computed from
	MathRate Float        `json:"matrix_operations_per_second"`
	Moved    Float        `json:"moved"` // the larger of both ceilings' ranges, as part of the ceiling
	Void     bool         `json:"void"`  // moved by more than RooflineMoved
	Points   []PointFloor `json:"points"`
	Because  string       `json:"explained,omitempty"` // why a ratio may be below RooflineLeast, in the operator's words
}

// PointFloor is a point's retained time beside the least time that its step could take, and the least that a step of a vendor's kernels could where that was measured, in seconds.
type PointFloor struct {
	BenchmarkID int   `json:"benchmark_id"`
	Floor       Float `json:"floor"`
	Wall        Float `json:"wall"`
	Ratio       Float `json:"ratio"`
	Library     Float `json:"library,omitempty"`
	OverLibrary Float `json:"over_library,omitempty"` // the time by it
}

// NewRoofline judges the readings of a run, of which there is at least one.
func NewRoofline(readings []Ceilings) *Roofline {
	r := &Roofline{Readings: readings, Points: []PointFloor{}}
	least := readings[0]
	for _, c := range readings {
		r.ReadRate, least.ReadRate = max(r.ReadRate, c.ReadRate), min(least.ReadRate, c.ReadRate)
		r.MathRate, least.MathRate = max(r.MathRate, c.MathRate), min(least.MathRate, c.MathRate)
	}
	r.Moved = max(1-least.ReadRate/r.ReadRate, 1-least.MathRate/r.MathRate)
	r.Void = r.Moved > RooflineMoved
	return r
}

// Add takes in a point; library is 0 where it was not measured.
func (r *Roofline) Add(id int, floor, wall, library Float) {
	p := PointFloor{BenchmarkID: id, Floor: floor, Wall: wall, Ratio: wall / floor, Library: library}
	if library > 0 {
		p.OverLibrary = wall / library
	}
	r.Points = append(r.Points, p)
}

// Err says why the floors prove nothing: the ceilings moved, or a time is below its floor for no reason that was given. It is nil when they do, and
// where there are none.
func (r *Roofline) Err() error {
	if r == nil {
		return nil
	}
	if r.Void {
		return fmt.Errorf("the ceilings moved by %.1f %% during the run, more than %g %%: no ratio counts; measure again with nothing else on the device", 100*r.Moved, 100*RooflineMoved)
	}
	below, first := 0, PointFloor{}
	for _, p := range r.Points {
		if p.Ratio < RooflineLeast {
			if below++; below == 1 {
				first = p
			}
		}
	}
	if below > 0 && r.Because == "" {
		return fmt.Errorf("%d of %d points took less than %g of their floor, the first one point %d with %.3f: find out why (operands that stay in a cache?) and say so with --roofline-explained", below, len(r.Points), RooflineLeast, first.BenchmarkID, first.Ratio)
	}
	return nil
}

// Floors are the floors in seconds that a document's ranks recorded of their points, by rank and benchmark_id; those that are void are left out.
func (d *Document) Floors() (map[int]map[int]Float, error) {
	parts, err := d.ownParts()
	if err != nil {
		return nil, err
	}
	floors := map[int]map[int]Float{}
	for rank, part := range parts {
		var own struct {
			Roofline *Roofline `json:"roofline"`
		}
		if err := json.Unmarshal(part, &own); err != nil {
			return nil, fmt.Errorf("artifact: %q: fpmrun of rank %d: %w", d.Path, rank, err)
		}
		if own.Roofline == nil || own.Roofline.Void {
			continue
		}
		floors[rank] = map[int]Float{}
		for _, p := range own.Roofline.Points {
			floors[rank][p.BenchmarkID] = p.Floor
		}
	}
	return floors, nil
}

// ownParts is the project's own evidence by rank.
func (d *Document) ownParts() (map[int]json.RawMessage, error) {
	own := d.members["fpmrun"]
	if own == nil {
		return nil, nil
	}
	if d.Type() != "merged" {
		return map[int]json.RawMessage{d.rank(): own}, nil
	}
	var byName map[string]json.RawMessage
	if err := json.Unmarshal(own, &byName); err != nil {
		return nil, fmt.Errorf("artifact: %q: fpmrun: %w", d.Path, err)
	}
	parts := map[int]json.RawMessage{}
	for name, part := range byName {
		rank, err := strconv.Atoi(name)
		if err != nil {
			return nil, fmt.Errorf("artifact: %q: fpmrun: rank %q is no number", d.Path, name)
		}
		parts[rank] = part
	}
	return parts, nil
}
