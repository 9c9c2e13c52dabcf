//go:build linux && cgo

package cuda

// #include "resources.h"
import "C"

import (
	"fmt"

	"github.com/fpmrun/fpmrun/gpu/kernels"
)

// resources are what the compiler gave a kernel.
func (m *machine) resources(f functions, name string) (kernels.Resources, error) {
	var r C.kernel_resources
	if err := check(C.read_resources(m.c, f[name], &r)); err != nil {
		return kernels.Resources{}, fmt.Errorf("cuda: resources of kernel %s: %w", name, err)
	}
	return kernels.Resources{Registers: int(r.registers), Local: int(r.local), Shared: int(r.shared)}, nil
}

// clusters is how many clusters of chain_cluster.cu run at the same time on a device, 0 where there is no such kernel.
func (m *machine) clusters(d Device, f functions) (int, error) {
	if !d.hopper() || clusterFrom > clusterTokens {
		return 0, nil
	}
	var n C.int
	if err := check(C.read_clusters(m.c, f["chain_cluster_64"], clusterBlocks, clusterThreads, sharedMost, &n)); err != nil {
		return 0, fmt.Errorf("cuda: clusters of kernel chain_cluster_64: %w", err)
	}
	return min(int(n), d.Multiprocessors/clusterBlocks), nil
}
