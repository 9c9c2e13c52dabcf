package picture

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fpmrun/fpmrun/artifact"
)

// Point is one coordinate over all launches. Tokens are sums over the batch, times are in seconds.
type Point struct {
	ID        int // benchmark_id in the first launch that has it
	Type      string
	Batch     int
	NewTokens int
	KVTokens  int
	Unequal   bool            // its requests differ in length
	Wall      float64         // the slowest rank's, median of the launches
	Fastest   float64         // of the launches
	Slowest   float64         // of the launches
	Ranks     map[int]float64 // each rank's own, median of the launches
	Floor     float64         // 0 where none is known
}

// PerSecond is the point's tokens per second over all DP ranks.
func (p *Point) PerSecond() float64 { return float64(p.NewTokens*len(p.Ranks)) / p.Wall }

// kvLength is the KV tokens of each request.
func (p *Point) kvLength() int { return p.KVTokens / p.Batch }

// coordinate is what the same point has in every launch.
type coordinate struct {
	key string
	nth int
}

// points puts launches together. floors is the least time of a coordinate, in seconds.
func points(launches []*artifact.Observed, floors map[string]float64) []Point {
	type seen struct {
		point artifact.Point
		walls []float64
		ranks map[int][]float64
	}
	all := map[coordinate]*seen{}
	var order []coordinate
	for _, o := range launches {
		counted := map[coordinate]bool{}
		for i := range o.Points {
			p := &o.Points[i]
			if p.Wall <= 0 || p.Group <= 0 || p.Point.BatchSize < 1 {
				continue
			}
			at := coordinate{p.Key, p.Nth}
			s := all[at]
			if s == nil {
				s = &seen{point: p.Point, ranks: map[int][]float64{}}
				all[at] = s
				order = append(order, at)
			}
			if !counted[at] {
				counted[at] = true
				s.walls = append(s.walls, float64(p.Group))
			}
			s.ranks[p.Rank] = append(s.ranks[p.Rank], float64(p.Wall))
		}
	}
	found := make([]Point, len(order))
	for i, at := range order {
		s := all[at]
		p := Point{ID: s.point.BenchmarkID, Type: s.point.PointType, Batch: s.point.BatchSize, NewTokens: s.point.TotalPrefillTokens, KVTokens: s.point.TotalKVReadTokens,
			Unequal: s.point.Partition != nil || s.point.Rows != nil, Wall: median(s.walls), Fastest: slices.Min(s.walls), Slowest: slices.Max(s.walls),
			Ranks: map[int]float64{}, Floor: floors[at.key]}
		if p.Type == artifact.Decode {
			p.NewTokens = p.Batch
		}
		for rank, walls := range s.ranks {
			p.Ranks[rank] = median(walls)
		}
		found[i] = p
	}
	slices.SortStableFunc(found, func(a, b Point) int { return cmp.Compare(a.ID, b.ID) })
	return found
}

// floors is the fastest time of each coordinate in the launches that stand for the floor.
func floors(launches []*artifact.Observed) map[string]float64 {
	least := map[string]float64{}
	for _, o := range launches {
		for i := range o.Points {
			if p := &o.Points[i]; p.Group > 0 && (least[p.Key] == 0 || float64(p.Group) < least[p.Key]) {
				least[p.Key] = float64(p.Group)
			}
		}
	}
	return least
}

// recorded is the floor of each coordinate that the launches recorded of their own devices: the highest of the ranks', since the slowest rank's time is beside it,
// and the lowest of the launches.
func recorded(launches []*artifact.Observed) map[string]float64 {
	least := map[string]float64{}
	for _, o := range launches {
		own := map[string]float64{}
		for i := range o.Points {
			if p := &o.Points[i]; p.Floor > 0 {
				own[p.Key] = max(own[p.Key], float64(p.Floor))
			}
		}
		for key, floor := range own {
			if least[key] == 0 || floor < least[key] {
				least[key] = floor
			}
		}
	}
	return least
}

// median is the middle of some numbers, or the mean of the two in the middle.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// Name is the point for people.
func (p *Point) Name() string {
	return fmt.Sprintf("%s batch %d new %d kv %d", p.Type, p.Batch, p.NewTokens, p.KVTokens)
}
