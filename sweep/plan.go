package sweep

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fpmrun/fpmrun/rank/env"
)

// Cost is what a run would take.
type Cost struct {
	Points int    // measured
	Cannot string // why this host's engine cannot run it; empty when it can
}

// misleading are variables of fpmbench that would undo what a sweep sets by flags.
var misleading = []string{"FPM_REPEAT", "FPM_OVERWRITE", "FPM_PROBE_PATH", "FPM_SERVE", "DYN_FPM_BENCHMARK_OUTPUT_PATH"}

// checkEnvironment refuses variables that would make runs meet.
func checkEnvironment(environ []string) error {
	for _, one := range environ {
		name, value, _ := strings.Cut(one, "=")
		if value != "" && slices.Contains(misleading, name) {
			return fmt.Errorf("%s=%s is set, which no run of a sweep can have; unset it", name, value)
		}
	}
	return nil
}

// cost asks fpmbench what a cell would measure, as rank 0 of its world and without starting the others. The error is fpmbench's own when it refuses the flags.
func (r *Runner) cost(ctx context.Context, c *Cell) (Cost, error) {
	set := env.Set{WorldSize: c.Ranks, LocalWorldSize: c.Ranks, Nodes: 1, Topology: c.Topology}
	environ := slices.DeleteFunc(env.Strip(r.Environ), func(one string) bool { return strings.HasPrefix(one, env.KeyIdentity+"=") })
	words := append([]string{r.Programs.Bench, "--dry-run"}, c.Bench...)
	text, err := output(ctx, append(environ, set.Environ()...), words...)
	if err != nil {
		return Cost{}, err
	}
	var cost Cost
	for row := range strings.Lines(text) {
		for name, found := range map[string]func(string) error{
			"prefill points":  func(value string) error { return addTo(&cost.Points, value) },
			"decode points":   func(value string) error { return addTo(&cost.Points, value) },
			"cannot run here": func(value string) error { cost.Cannot = value; return nil },
		} {
			if value, ok := strings.CutPrefix(row, name+" "); ok {
				if err := found(strings.TrimSpace(value)); err != nil {
					return Cost{}, fmt.Errorf("fpmbench --dry-run: %s: %w", name, err)
				}
			}
		}
	}
	return cost, nil
}

func addTo(sum *int, value string) error {
	n, err := strconv.Atoi(value)
	*sum += n
	return err
}

// benchTimeout is how long fpmbench measures unless --timeout says otherwise.
const benchTimeout = 15 * time.Minute

// bound is how long a launch of a cell measures at most; the start of the ranks and a point that is under way come on top.
func bound(c *Cell, environ []string) time.Duration {
	text := ""
	for _, one := range environ {
		for _, name := range []string{"FPM_TIMEOUT=", "DYN_BENCHMARK_TIMEOUT="} {
			if value, ok := strings.CutPrefix(one, name); ok && value != "" {
				text = value
			}
		}
	}
	for _, word := range c.Bench {
		if value, ok := strings.CutPrefix(word, "--timeout="); ok {
			text = value
		}
	}
	if d, err := duration(text); err == nil { // fpmbench says what is wrong with another one
		return d
	}
	return benchTimeout
}

// duration reads Go's syntax, or a bare number of seconds.
func duration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		return time.Duration(seconds * float64(time.Second)), nil
	}
	return time.ParseDuration(text)
}

// pace estimates the seconds of a run from all finished ones, by the point. ok is false before there is one.
func pace(runs []*Entry, points int) (seconds float64, ok bool) {
	measured, took := 0, 0.0
	for _, e := range runs {
		if e.Status == Finished && e.Points > 0 {
			measured, took = measured+e.Points, took+e.Seconds
		}
	}
	if measured == 0 {
		return 0, false
	}
	return took / float64(measured) * float64(points), true
}
