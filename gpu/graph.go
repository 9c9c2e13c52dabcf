package gpu

import (
	"fmt"
	"slices"
)

// GraphMode is how one step was, or is to be, dispatched. The names are vLLM's.
type GraphMode string

const (
	GraphNone      GraphMode = "NONE"      // every kernel launched by itself
	GraphPiecewise GraphMode = "PIECEWISE" // graphs between the attention calls, attention launched by itself
	GraphFull      GraphMode = "FULL"      // one graph for the whole step
)

// GraphConfig is the configured dispatch: one of vLLM's cudagraph modes and the capture sizes.
type GraphConfig struct {
	Mode  string // NONE, PIECEWISE, FULL, FULL_AND_PIECEWISE or FULL_DECODE_ONLY; "" means NONE
	Sizes []int  // capture sizes in tokens, ascending; empty means no captures
}

// graphModes maps a configured mode to the mode of mixed or prefill steps and of pure decode steps.
var graphModes = map[string][2]GraphMode{
	"":                   {GraphNone, GraphNone},
	"NONE":               {GraphNone, GraphNone},
	"PIECEWISE":          {GraphPiecewise, GraphPiecewise},
	"FULL":               {GraphFull, GraphFull},
	"FULL_AND_PIECEWISE": {GraphPiecewise, GraphFull},
	"FULL_DECODE_ONLY":   {GraphNone, GraphFull},
}

// GraphModeNames lists the configured modes that Validate accepts.
func GraphModeNames() []string {
	return []string{"NONE", "PIECEWISE", "FULL", "FULL_AND_PIECEWISE", "FULL_DECODE_ONLY"}
}

// Validate reports an unknown mode and capture sizes that are not ascending positive numbers.
func (c GraphConfig) Validate() error {
	if _, ok := graphModes[c.Mode]; !ok {
		return fmt.Errorf("gpu: cudagraph mode %q is not one of %v", c.Mode, GraphModeNames())
	}
	for i, n := range c.Sizes {
		if n < 1 {
			return fmt.Errorf("gpu: cudagraph capture size %d is not a positive number of tokens", n)
		}
		if i > 0 && n <= c.Sizes[i-1] {
			return fmt.Errorf("gpu: cudagraph capture sizes must ascend, but %d follows %d", n, c.Sizes[i-1])
		}
	}
	return nil
}

// PrefillMode is the mode of a step that holds at least one prefill row.
func (c GraphConfig) PrefillMode() GraphMode { return graphModes[c.Mode][0] }

// DecodeMode is the mode of a step that holds decode rows only.
func (c GraphConfig) DecodeMode() GraphMode { return graphModes[c.Mode][1] }

// Capture returns the smallest capture size that covers n tokens, or 0 when none does.
func (c GraphConfig) Capture(n int) int {
	i, _ := slices.BinarySearch(c.Sizes, n)
	if i == len(c.Sizes) {
		return 0
	}
	return c.Sizes[i]
}

// Uncovered is the smallest decode batch up to maxSeqs that no capture covers, so that it runs without a graph although
// decode is to run in graphs; 0 when there is none.
func (c GraphConfig) Uncovered(maxSeqs int) int {
	if c.DecodeMode() == GraphNone || c.Capture(maxSeqs) > 0 {
		return 0
	}
	if len(c.Sizes) == 0 {
		return 1
	}
	return c.Sizes[len(c.Sizes)-1] + 1
}

// Plan is the dispatch expected of a step with the given number of tokens.
func (c GraphConfig) Plan(tokens int, decode bool) Dispatch {
	mode := c.PrefillMode()
	if decode {
		mode = c.DecodeMode()
	}
	size := c.Capture(tokens)
	if mode == GraphNone || size == 0 {
		return Dispatch{Mode: GraphNone, Unpadded: tokens, Padded: tokens}
	}
	return Dispatch{Mode: mode, Unpadded: tokens, Padded: size}
}

// Dispatch is what a step ran as. An engine fills it from the object that it launched, never from the plan.
type Dispatch struct {
	Mode     GraphMode
	Unpadded int // tokens of the step's rows
	Padded   int // tokens the launched object computes, padding included
}
