package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/rank/evidence"
)

// GPUMethod is the RPC by which a leader asks the one process of its host that reads GPUs.
const GPUMethod = "fpm_gpu_reading"

// HostGPUs reads the GPUs of a leader's engine, as far as they are on the leader's host, through one process for each host. It is used between points only:
// a reading is over on every rank before any of them starts to measure.
type HostGPUs struct {
	world *collective.Comm
	owner int      // the rank that has the process
	uuids []string // of this leader's engine

	mu   sync.Mutex
	own  *evidence.GPUs // on the owner
	dead error          // why there is none
}

// NewHostGPUs agrees on who reads. All ranks of the world call it, with a name that no other host has and the UUIDs of the GPUs that the rank uses; start
// starts the process, on one leader of each host that has GPUs.
func NewHostGPUs(ctx context.Context, groups *Groups, host string, uuids []string, start func() (*evidence.GPUs, error)) (*HostGPUs, error) {
	g := &HostGPUs{world: groups.World, owner: -1, dead: errors.New("bench: this rank reads no GPUs")}
	if err := g.world.Handle(GPUMethod, g.handle); err != nil {
		return nil, err
	}
	type place struct {
		Host   string
		UUIDs  []string
		Engine int
		Leader bool
	}
	own := place{host, uuids, groups.DPRank, groups.IsLeader()}
	all, err := collective.AllGather(ctx, g.world, own)
	if err != nil {
		return nil, fmt.Errorf("bench: agree on who reads the GPUs: %w", err)
	}
	for rank, p := range all {
		if p.Host != host {
			continue
		}
		if p.Leader && g.owner < 0 {
			g.owner = rank
		}
		if p.Engine == groups.DPRank {
			g.uuids = append(g.uuids, p.UUIDs...)
		}
	}
	here, anywhere := false, false
	for _, p := range all {
		anywhere = anywhere || len(p.UUIDs) > 0
		here = here || p.Host == host && len(p.UUIDs) > 0
	}
	if !anywhere {
		return g, nil
	}
	if here && g.owner == g.world.Rank() {
		reader, err := start()
		g.mu.Lock()
		g.own, g.dead = reader, err
		g.mu.Unlock()
	}
	if err := g.world.Barrier(ctx); err != nil { // nobody asks before it is there
		return nil, errors.Join(fmt.Errorf("bench: start to read the GPUs: %w", err), g.Close())
	}
	return g, nil
}

// Read is how the engine's GPUs run now; nil where it has none here.
func (g *HostGPUs) Read(ctx context.Context) ([]artifact.GPUReading, error) {
	if len(g.uuids) == 0 {
		return nil, nil
	}
	if g.owner == g.world.Rank() {
		return g.read(ctx, g.uuids)
	}
	var text []byte
	if err := g.world.Call(ctx, g.owner, GPUMethod, g.uuids, &text); err != nil {
		return nil, err
	}
	var readings []artifact.GPUReading
	return readings, json.Unmarshal(text, &readings)
}

// handle answers another rank of this host.
func (g *HostGPUs) handle(ctx context.Context, r *collective.Request) (any, error) {
	var uuids []string
	if err := r.Decode(&uuids); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, gpuDeadline)
	defer cancel()
	readings, err := g.read(ctx, uuids)
	if err != nil {
		return nil, err
	}
	return json.Marshal(readings)
}

func (g *HostGPUs) read(ctx context.Context, uuids []string) ([]artifact.GPUReading, error) {
	g.mu.Lock()
	own, err := g.own, g.dead
	g.mu.Unlock()
	if own == nil {
		return nil, err
	}
	return own.Read(ctx, uuids)
}

// Close ends the process, if this rank has it.
func (g *HostGPUs) Close() error {
	g.mu.Lock()
	own := g.own
	g.own, g.dead = nil, errors.New("bench: the GPU readings are closed")
	g.mu.Unlock()
	if own == nil {
		return nil
	}
	return own.Close()
}
