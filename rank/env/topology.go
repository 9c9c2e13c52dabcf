package env

import (
	"fmt"
	"strings"
)

// Topology is the number of ranks along each parallel dimension. The world is DP x PP x PCP x TP with TP fastest:
//
//	rank = ((dp*PP + pp)*PCP + pcp)*TP + tp
//
// Each DP rank is one engine of PP x PCP x TP workers. As input a factor of 0 means "not given"; the zero
// Topology means that nobody chose one.
type Topology struct {
	DP  int // data parallel
	PP  int // pipeline parallel
	PCP int // prefill context parallel
	TP  int // tensor parallel
}

// Coordinates are a rank's place along each dimension, from 0.
type Coordinates struct{ DP, PP, PCP, TP int }

// Resolve fills the factors that are 0 so that the product is world. One missing factor is derived; of several, DP
// takes what is left, else PP, and the others are 1. A product that cannot be world is an error that
// prints the arithmetic.
func (t Topology) Resolve(world int) (Topology, error) {
	if world < 1 {
		return Topology{}, fmt.Errorf("a world of %d ranks: want at least 1", world)
	}
	given, missing := 1, []*int{}
	r := t
	for _, f := range []struct {
		name string
		n    *int
	}{{"dp", &r.DP}, {"pp", &r.PP}, {"pcp", &r.PCP}, {"tp", &r.TP}} {
		switch {
		case *f.n < 0:
			return Topology{}, fmt.Errorf("%s %d: want at least 1", f.name, *f.n)
		case *f.n == 0:
			missing = append(missing, f.n)
		case *f.n > maxWorld:
			return Topology{}, fmt.Errorf("%s %d: want at most %d", f.name, *f.n, maxWorld)
		default:
			given = min(given*(*f.n), maxWorld*maxWorld) // saturates: the product of four cannot overflow
		}
	}
	if len(missing) == 0 {
		if given != world {
			return Topology{}, fmt.Errorf("%s = %d ranks, but there are %d", t.product(), given, world)
		}
		return r, nil
	}
	if world%given != 0 {
		return Topology{}, fmt.Errorf("%s = %d does not divide %d ranks", t.product(), given, world)
	}
	for _, n := range missing {
		*n = 1
	}
	*missing[0] = world / given
	return r, nil
}

// Ranks is the product of the factors, those of 0 counting as 1.
func (t Topology) Ranks() int {
	return max(t.DP, 1) * max(t.PP, 1) * max(t.PCP, 1) * max(t.TP, 1)
}

// Place returns the coordinates of a world rank. The topology must be resolved and rank inside the world.
func (t Topology) Place(rank int) Coordinates {
	var c Coordinates
	c.TP, rank = rank%t.TP, rank/t.TP
	c.PCP, rank = rank%t.PCP, rank/t.PCP
	c.PP, c.DP = rank%t.PP, rank/t.PP
	return c
}

// Rank returns the world rank at c, the inverse of Place.
func (t Topology) Rank(c Coordinates) int {
	return ((c.DP*t.PP+c.PP)*t.PCP+c.PCP)*t.TP + c.TP
}

// String is "dp 2 x pp 1 x pcp 1 x tp 4".
func (t Topology) String() string {
	return fmt.Sprintf("dp %d x pp %d x pcp %d x tp %d", t.DP, t.PP, t.PCP, t.TP)
}

// product writes the factors that were given: "dp 2 x tp 3".
func (t Topology) product() string {
	var parts []string
	for _, f := range []struct {
		name string
		n    int
	}{{"dp", t.DP}, {"pp", t.PP}, {"pcp", t.PCP}, {"tp", t.TP}} {
		if f.n != 0 {
			parts = append(parts, fmt.Sprintf("%s %d", f.name, f.n))
		}
	}
	return strings.Join(parts, " x ")
}
