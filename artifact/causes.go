package artifact

import (
	"cmp"
	"fmt"
	"slices"
)

// Cause is something in the evidence of host and process that can explain a slow sample: what happened around one point or over one of its steps, and
// does not happen around or over the others of the run.
type Cause struct {
	BenchmarkID  int
	ForwardIndex int // of the step; -1: around the point as a whole
	Text         string
}

// Bounds of what stands out. A counter that is never zero is compared with the run's own median.
const (
	outlierFactor = 4    // times the median
	manySwitches  = 5    // involuntary context switches; a scheduler's tick takes one or two from anybody
	manyFaults    = 200  // minor page faults, 0.8 MB of new pages
	clockDrop     = 0.95 // of the run's median clock
)

// idleReasons are throttle reasons that slow nothing down.
var idleReasons = []string{"gpu_idle", "applications_clocks_setting", "display_clock_setting"}

// Causes lists what stands out in the evidence of a run's points, in their order.
func Causes(points []PointEvidence) []Cause {
	var switches, faults []int
	for i := range points {
		for _, s := range points[i].Steps {
			switches, faults = append(switches, s.InvoluntarySwitches), append(faults, s.MinorFaults)
		}
	}
	mostSwitches := max(manySwitches, outlierFactor*median(switches))
	mostFaults := max(manyFaults, outlierFactor*median(faults))
	throttles, clocks := throttleCounts(points), gpuClocks(points)
	var causes []Cause
	for i := range points {
		p := &points[i]
		add := func(forward int, format string, args ...any) {
			causes = append(causes, Cause{p.BenchmarkID, forward, fmt.Sprintf(format, args...)})
		}
		for _, s := range p.Steps {
			if s.CollectorCycles > 0 {
				add(s.ForwardIndex, "the Go collector ran %d times", s.CollectorCycles)
			}
			if s.InvoluntarySwitches >= mostSwitches {
				add(s.ForwardIndex, "the CPU went to other threads %d times", s.InvoluntarySwitches)
			}
			if s.MajorFaults > 0 {
				add(s.ForwardIndex, "%d pages came from disk", s.MajorFaults)
			}
			if s.MinorFaults >= mostFaults {
				add(s.ForwardIndex, "%d pages were new", s.MinorFaults)
			}
		}
		for key := range readings(p) {
			// What is there around most points explains none of them.
			if n := throttles[key]; key.reason != "" && 2*n <= len(points) {
				add(-1, "GPU %s was slowed down: %s", key.uuid, key.reason)
			}
		}
		for uuid, mhz := range slowest(p) {
			if usual := median(clocks[uuid]); float64(mhz) < clockDrop*float64(usual) {
				add(-1, "GPU %s ran at %d MHz, usually at %d", uuid, mhz, usual)
			}
		}
	}
	slices.SortStableFunc(causes, func(a, b Cause) int {
		if a.BenchmarkID != b.BenchmarkID {
			return 0
		}
		return cmp.Or(cmp.Compare(a.ForwardIndex, b.ForwardIndex), cmp.Compare(a.Text, b.Text))
	})
	return causes
}

// throttle is a reason that a GPU gave.
type throttle struct{ uuid, reason string }

// readings are the throttle reasons before and after a point.
func readings(p *PointEvidence) map[throttle]bool {
	found := map[throttle]bool{}
	for _, r := range []HostReading{p.Before, p.After} {
		for _, g := range r.GPUs {
			for _, reason := range g.Throttle {
				if !slices.Contains(idleReasons, reason) {
					found[throttle{g.UUID, reason}] = true
				}
			}
		}
	}
	return found
}

// throttleCounts is around how many points each reason was given.
func throttleCounts(points []PointEvidence) map[throttle]int {
	counts := map[throttle]int{}
	for i := range points {
		for key := range readings(&points[i]) {
			counts[key]++
		}
	}
	return counts
}

// slowest is the lower of each GPU's clocks before and after a point, in MHz.
func slowest(p *PointEvidence) map[string]int {
	clocks := map[string]int{}
	for _, r := range []HostReading{p.Before, p.After} {
		for _, g := range r.GPUs {
			if g.SM == nil {
				continue
			}
			if mhz, ok := clocks[g.UUID]; !ok || *g.SM < mhz {
				clocks[g.UUID] = *g.SM
			}
		}
	}
	return clocks
}

// gpuClocks is each GPU's slowest clock around every point.
func gpuClocks(points []PointEvidence) map[string][]int {
	clocks := map[string][]int{}
	for i := range points {
		for uuid, mhz := range slowest(&points[i]) {
			clocks[uuid] = append(clocks[uuid], mhz)
		}
	}
	return clocks
}

// median is the upper median of numbers, 0 without any.
func median(numbers []int) int {
	if len(numbers) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(numbers))
	return sorted[len(sorted)/2]
}

// String is the cause in a line.
func (c Cause) String() string {
	if c.ForwardIndex < 0 {
		return fmt.Sprintf("point %d: %s", c.BenchmarkID, c.Text)
	}
	return fmt.Sprintf("point %d, forward %d: %s", c.BenchmarkID, c.ForwardIndex, c.Text)
}

// Causes lists, a line each, what stands out in the evidence of the points that count.
func (j *Journal) Causes() []string {
	var points []PointEvidence
	for i := range j.Points {
		if p := j.Points[i].Evidence; p != nil {
			points = append(points, *p)
		}
	}
	return causeLines("", points)
}

func causeLines(prefix string, points []PointEvidence) []string {
	var lines []string
	for _, c := range Causes(points) {
		lines = append(lines, prefix+c.String())
	}
	return lines
}
