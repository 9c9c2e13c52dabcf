package main

import (
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/fpmrun/fpmrun/cmd/internal/sibling"
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/rank/bench"
	"github.com/fpmrun/fpmrun/rank/env"
	"github.com/fpmrun/fpmrun/rank/evidence"
)

// ownGPUs is the UUID of the GPU that the engine runs on, or else of the one that the launcher gave this rank; none when it gave none, or named it by
// number.
func ownGPUs(info gpu.Info, getenv func(string) string) []string {
	if uuid := info.Host["gpu_uuid"]; uuid != "" {
		return []string{uuid}
	}
	index, err := strconv.Atoi(getenv(env.KeyLocalGPU))
	if err != nil {
		return nil
	}
	visible := strings.Split(getenv("CUDA_VISIBLE_DEVICES"), ",")
	if index < 0 || index >= len(visible) {
		return nil
	}
	uuid := strings.TrimSpace(visible[index])
	if !strings.HasPrefix(uuid, "GPU-") && !strings.HasPrefix(uuid, "MIG-") {
		return nil
	}
	return []string{uuid}
}

// readGPUs lets the ranks of each host share one process that reads its GPUs.
func (p *program) readGPUs(ctx context.Context, groups *bench.Groups, info gpu.Info) (*bench.HostGPUs, error) {
	return bench.NewHostGPUs(ctx, groups, hostID(), ownGPUs(info, p.getenv), func() (*evidence.GPUs, error) {
		program, err := sibling.Path("fpmgpu")
		if err != nil {
			return nil, err
		}
		return evidence.StartGPUs(program)
	})
}

// hostID tells hosts of the same name apart, and containers of one host.
func hostID() string {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return name
	}
	return name + " " + strings.TrimSpace(string(boot))
}
