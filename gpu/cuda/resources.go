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
