package bench

import (
	"context"

	"github.com/fpmrun/fpmrun/collective"
)

// TensorGroup lets an engine reduce and gather over the collective layer. See gpu.Group.
type TensorGroup struct{ Comm *collective.Comm }

// Rank is the worker's tensor-parallel rank. See gpu.Group.
func (g TensorGroup) Rank() int { return g.Comm.Rank() }

// Size is the tensor-parallel size. See gpu.Group.
func (g TensorGroup) Size() int { return g.Comm.Size() }

// AllReduce adds in place. See gpu.Group.
func (g TensorGroup) AllReduce(data []float32) error {
	return collective.AllReduceInto(context.Background(), g.Comm, data, data, collective.Sum)
}

// AllGather collects every worker's part. See gpu.Group.
func (g TensorGroup) AllGather(dst, src []float32) error {
	return collective.AllGatherInto(context.Background(), g.Comm, dst, src)
}
