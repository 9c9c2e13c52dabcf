package sweep

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Preset are the axes of a known campaign.
type Preset struct {
	Collectors *Collectors `yaml:"collectors"`
}

// Collectors are the launches that collectors of forward-pass metrics read: one for each (tp, dp) and phase, five warm-up tokens, one sample a point.
type Collectors struct {
	GPUs    []int    `yaml:"gpus"`    // numbers of GPUs
	Layouts []string `yaml:"layouts"` // of Layouts; none: tp
}

// Layouts are the ways in which collectors spread a model over n GPUs: tp for a dense model, the others for one with experts. pure_tp splits every expert,
// tep keeps whole experts on tensor-parallel ranks, dep on data-parallel ones.
var Layouts = []string{"tp", "pure_tp", "tep", "dep"}

func (p *Preset) validate(fixed map[string]string, axes map[string]bool) error {
	c := p.Collectors
	if c == nil {
		return errors.New("preset: want collectors: {gpus: [1, 2]}")
	}
	var errs []error
	if len(c.GPUs) == 0 {
		errs = append(errs, errors.New("preset: collectors: gpus: none given; write gpus: [1, 2]"))
	}
	for _, n := range c.GPUs {
		if n < 1 {
			errs = append(errs, fmt.Errorf("preset: collectors: gpus: %d: want 1 or more", n))
		}
	}
	for _, layout := range c.Layouts {
		if !slices.Contains(Layouts, layout) {
			errs = append(errs, fmt.Errorf("preset: collectors: layouts: %s: want %s", layout, strings.Join(Layouts, ", ")))
		}
	}
	for _, name := range []string{"np", "tp", "dp", "pp", "pcp", "mode", "expert-parallel"} {
		where := fixed[name]
		if axes[name] {
			where = "matrix"
		}
		if where != "" {
			errs = append(errs, fmt.Errorf("%s: %s: the preset sets it", where, name))
		}
	}
	return errors.Join(errs...)
}

// sets are the flags of each of the preset's launches, those that are the same for several layouts once.
func (p *Preset) sets() []Flags {
	layouts := p.Collectors.Layouts
	if len(layouts) == 0 {
		layouts = Layouts[:1]
	}
	var all []Flags
	for _, n := range p.Collectors.GPUs {
		for _, layout := range layouts {
			tp, dp := n, 1
			if layout == "dep" {
				tp, dp = 1, n
			}
			for _, mode := range []string{"prefill", "decode"} {
				set := Flags{{"mode", mode}, {"tp", strconv.Itoa(tp)}, {"dp", strconv.Itoa(dp)}}
				if n > 1 && (layout == "tep" || layout == "dep") {
					set = append(set, Flag{"expert-parallel", "true"})
				}
				if !slices.ContainsFunc(all, func(have Flags) bool { return slices.Equal(have, set) }) {
					all = append(all, set)
				}
			}
		}
	}
	return all
}
