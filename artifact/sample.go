package artifact

import "slices"

// Timing bases.
const (
	ScheduleToOutput = "schedule_to_output" // from the end of scheduling, after the group's start signal, to the output
	InterOutput      = "inter_output"       // from the previous output to this one
)

// Sample is what one raw record says about the step behind it.
type Sample struct {
	SampleIndex  int       `json:"sample_index"`
	ForwardIndex int       `json:"forward_index"` // non-empty forward outputs of this process before it
	Timing       Timing    `json:"timing"`
	Cudagraph    Cudagraph `json:"cudagraph"`
}

// Timing is a step's interval on the process's monotonic clock, in seconds.
type Timing struct {
	Basis string `json:"basis"`
	Start *Float `json:"start_monotonic"`
	End   Float  `json:"end_monotonic"`
}

// Cudagraph is the observed dispatch of a step; all fields are null when it was not observed.
type Cudagraph struct {
	Status      string  `json:"status"` // observed or unavailable
	RuntimeMode *string `json:"runtime_mode"`
	Unpadded    *int    `json:"num_unpadded_tokens"`
	Padded      *int    `json:"num_padded_tokens"`
	Paddings    *int    `json:"num_paddings"`
}

// ObservedGraph is the evidence of a dispatched step.
func ObservedGraph(mode string, unpadded, padded int) Cudagraph {
	paddings := padded - unpadded
	return Cudagraph{Status: "observed", RuntimeMode: &mode, Unpadded: &unpadded, Padded: &padded, Paddings: &paddings}
}

// Reduction methods: how the retained record comes from the raw ones.
const (
	SingleStep  = "single_step"
	LastStep    = "last_step"
	UpperMedian = "adjacent_upper_median"
)

// Estimate names the reduction and the raw samples it used.
type Estimate struct {
	Method  string `json:"method"`
	Indices []int  `json:"raw_sample_indices"`
}

// Reduce makes the retained record of a point out of its raw samples, which it leaves untouched. expected is the
// number of steps that the path should have produced. The upper median over the steady samples is taken when
// more than two steps were expected and a steady one arrived; the record's other fields are then those of the
// first steady sample.
func Reduce(raw []FPM, expected int) (FPM, Estimate) {
	last := len(raw) - 1
	retained := raw[last]
	estimate := Estimate{Method: LastStep, Indices: []int{last}}
	switch {
	case expected > 2 && last >= 1:
		retained = raw[1]
		estimate = Estimate{Method: UpperMedian}
		walls := make([]Float, 0, last)
		for i := 1; i <= last; i++ {
			estimate.Indices = append(estimate.Indices, i)
			walls = append(walls, raw[i].WallTime)
		}
		slices.Sort(walls)
		retained.WallTime = walls[len(walls)/2]
		steady := true
		retained.MedianOf, retained.Steady = &last, &steady
	case last == 0:
		estimate.Method = SingleStep
	}
	retained.Sample = nil
	return retained, estimate
}
