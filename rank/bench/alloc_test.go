package bench

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/cpu"
	"github.com/fpmrun/fpmrun/rank/evidence"
)

// Real engines of two DP ranks of two workers, with shared experts, over TCP: no rank allocates in a step, neither for its message nor for what its engines
// exchange inside it.
func TestStepsOfManyRanksAllocateNothing(t *testing.T) {
	const dp, tp, runs = 2, 2, 20
	eachRank(t, tcpWorld(t, dp*tp), func(rank int, comm *collective.Comm) error {
		groups, err := NewGroups(t.Context(), comm, artifact.Sizes{TP: tp, PCP: 1, PP: 1}, StepLimit)
		if err != nil {
			return err
		}
		cfg := expertConfig(t)
		cfg.TP, cfg.EP = groups.TensorGroup(), NewExpertGroup(groups.Experts)
		engine, err := cpu.New(cfg)
		if err != nil {
			return err
		}
		if !groups.IsLeader() {
			return groups.Follow(t.Context(), engine)
		}
		leader := Lead(engine, groups.Workers)
		f := forward{engine: leader, depth: 1, limit: StepLimit}
		defer f.watch.stop()
		usage := evidence.NewUsage()
		usage.Reset(1 << 12)
		f.mark = usage.Mark
		steps := []gpu.Step{{Rows: []gpu.Row{{Tokens: slices.Repeat([]uint32{5}, 20), Blocks: table(1, 8)}}}}
		for k := range 4 {
			steps = append(steps, gpu.Step{Rows: []gpu.Row{{Computed: 20 + k, Blocks: table(1, 8)}}})
		}
		outs, ctx := outputs(steps), t.Context()
		run := func() {
			if _, rerr := f.run(ctx, steps, outs, unstamped); rerr != nil {
				err = rerr
			}
		}
		// The process's allocations, of all ranks together, in the run that has fewest: heartbeats allocate too, in some.
		least := math.Inf(1)
		for range runs {
			if rank == 0 {
				least = min(least, testing.AllocsPerRun(1, run))
				continue
			}
			run() // AllocsPerRun warms up with one
			run()
		}
		if rank == 0 && least != 0 {
			t.Errorf("%v allocations in %d steps of %d ranks", least, len(steps), dp*tp)
		}
		if err != nil {
			return err
		}
		if err := leader.Close(); err != nil {
			return fmt.Errorf("close: %w", err)
		}
		return comm.Barrier(ctx)
	})
}
