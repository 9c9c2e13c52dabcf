package collective

import "context"

// ReduceScatter combines the ranks' slices, which hold Size() parts of equal length, and returns this rank's part of the
// result, in fresh memory.
func ReduceScatter[T Number](ctx context.Context, c *Comm, data []T, op Op) ([]T, error) {
	dst := make([]T, len(data)/len(c.members))
	return dst, ReduceScatterInto(ctx, c, dst, data, op)
}

// ReduceScatterInto is ReduceScatter into dst, which has the length of one part and may be this rank's place in src.
//
// Ring: in each of n-1 steps a rank passes on the part that it combined in the step before.
func ReduceScatterInto[T Number](ctx context.Context, c *Comm, dst, src []T, op Op) error {
	return reduceScatterBy(ctx, c, dst, src, reduction[T]{op: op})
}

// ReduceScatterFunc is ReduceScatterInto with an operator of one's own.
func ReduceScatterFunc[T Number](ctx context.Context, c *Comm, dst, src []T, o Operator[T]) error {
	return reduceScatterBy(ctx, c, dst, src, reduction[T]{o.op(), o.Combine})
}

func reduceScatterBy[T Number](ctx context.Context, c *Comm, dst, src []T, by reduction[T]) error {
	if err := by.check("reduce-scatter"); err != nil {
		return err
	}
	if err := c.checkParts("reduce-scatter", bytesOf(src), bytesOf(dst), c.rank); err != nil {
		return err
	}
	if err := c.begin(ctx, sig{Op: opReduceScatter, Kind: kindFor[T](), Red: by.op, Count: uint64(len(src))}); err != nil {
		return err
	}
	return c.end(reduceScatter(groupTransport{c}, dst, src, typed[T](c, 2*len(dst)), by, c.w.cfg.Thresholds.Chunk))
}

// reduceScatter combines into dst; memory holds two parts.
func reduceScatter[T Number](t transport, dst, src, memory []T, by reduction[T], chunk int) error {
	n, rank := t.Size(), t.Rank()
	sum, next := segment(src, rank-1, n), memory[:len(dst)]
	for s := range n - 1 {
		own := segment(src, rank-s-2, n) // the last one is this rank's
		if err := exchange(t, sum, next, chunk, func(lo, hi int) { by.combine(next[lo:hi], own[lo:hi]) }); err != nil {
			return err
		}
		sum, next = next, memory[(s+1)%2*len(dst):][:len(dst)]
	}
	copy(dst, sum)
	return nil
}
