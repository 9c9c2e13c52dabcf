//go:build !amd64

package cpu

// simdKernels are the kernels that this processor has: none, gonum's are used.
func simdKernels() []kernels { return nil }

// relax does nothing here.
func relax() {}
