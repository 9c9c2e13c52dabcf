package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/rank/evidence"
)

// sampler stands for fpmgpu.
const sampler = `#!/bin/sh
while read id uuids; do
  for u in $uuids; do echo '{"v":1,"kind":"sample","uuid":"'$u'","sm_mhz":1980,"throttle":[]}'; done
  echo '{"v":1,"kind":"answer","id":"'$id'"}'
done
`

// Six ranks are three engines of two workers on two hosts: each host has one process, which the leaders of that host ask for the GPUs of their own engines.
func TestOneGPUProcessForEachHost(t *testing.T) {
	program := filepath.Join(t.TempDir(), "fpmgpu")
	if err := os.WriteFile(program, []byte(sampler), 0o755); err != nil {
		t.Fatal(err)
	}
	hosts := []string{"a", "a", "a", "a", "b", "b"}
	want := [][]string{{"GPU-0", "GPU-1"}, nil, {"GPU-2", "GPU-3"}, nil, {"GPU-4", "GPU-5"}, nil}
	var mu sync.Mutex
	started := map[int]bool{}
	eachRank(t, world(t, len(hosts)), func(rank int, comm *collective.Comm) error {
		groups, err := NewGroups(t.Context(), comm, artifact.Sizes{TP: 2, PCP: 1, PP: 1}, StepLimit)
		if err != nil {
			return err
		}
		g, err := NewHostGPUs(t.Context(), groups, hosts[rank], []string{fmt.Sprintf("GPU-%d", rank)}, func() (*evidence.GPUs, error) {
			mu.Lock()
			defer mu.Unlock()
			started[rank] = true
			return evidence.StartGPUs(program)
		})
		if err != nil {
			return err
		}
		if groups.IsLeader() {
			for range 3 {
				readings, err := g.Read(t.Context())
				var got []string
				for _, r := range readings {
					got = append(got, r.UUID)
				}
				if err != nil || !slices.Equal(got, want[rank]) {
					t.Errorf("rank %d: %v (%v), want %v", rank, got, err, want[rank])
				}
			}
		}
		if err := comm.Barrier(t.Context()); err != nil {
			return err
		}
		return g.Close()
	})
	if len(started) != 2 || !started[0] || !started[4] {
		t.Errorf("processes on ranks %v, want one on the first leader of each host", started)
	}
}

// Without GPUs nothing is started, and where the process cannot be started every reading says why.
func TestNoGPUs(t *testing.T) {
	for _, uuids := range [][]string{nil, {"GPU-0"}} {
		var starts atomic.Int32
		eachRank(t, world(t, 2), func(_ int, comm *collective.Comm) error {
			groups, err := NewGroups(t.Context(), comm, artifact.Sizes{TP: 1, PCP: 1, PP: 1}, StepLimit)
			if err != nil {
				return err
			}
			g, err := NewHostGPUs(t.Context(), groups, "a", uuids, func() (*evidence.GPUs, error) {
				starts.Add(1)
				return nil, errors.New("there is no driver")
			})
			if err != nil {
				return err
			}
			readings, err := g.Read(t.Context())
			if uuids == nil && (readings != nil || err != nil) || uuids != nil && (err == nil || !strings.Contains(err.Error(), "there is no driver")) {
				t.Errorf("GPUs %v: %v (%v)", uuids, readings, err)
			}
			if err := comm.Barrier(t.Context()); err != nil {
				return err
			}
			return g.Close()
		})
		if got := int(starts.Load()); got != len(uuids) {
			t.Errorf("GPUs %v: %d starts", uuids, got)
		}
	}
}

// A GPU that is throttled around one point, and one that does not answer around another, show there and nowhere else; both points are measured.
func TestThrottledPoint(t *testing.T) {
	const throttled, silent = 3, 5
	outcomes, _ := runAll(t, 1, watched(t.TempDir(), func(_ int, c *Config, f *fake) {
		c.GPUs = func(ctx context.Context) ([]artifact.GPUReading, error) {
			reading := artifact.GPUReading{UUID: "GPU-a", Throttle: []string{}}
			switch len(f.session.doc.Results) + 1 {
			case throttled:
				reading.Throttle = []string{"sw_power_cap"}
			case silent:
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return []artifact.GPUReading{reading}, nil
		}
	}))
	checked(t, outcomes, nil)
	for _, p := range outcomes[0].session.cfg.History.Points {
		for _, r := range []artifact.HostReading{p.Before, p.After} {
			switch {
			case (r.GPUError != "") != (p.BenchmarkID == silent):
				t.Errorf("point %d: error %q", p.BenchmarkID, r.GPUError)
			case r.GPUError == "" && (len(r.GPUs) != 1 || (len(r.GPUs[0].Throttle) > 0) != (p.BenchmarkID == throttled)):
				t.Errorf("point %d: %+v", p.BenchmarkID, r.GPUs)
			}
		}
	}
}
