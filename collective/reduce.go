package collective

import "context"

// Reduce combines the ranks' slices element by element on root and returns the result there, in fresh memory; nil
// elsewhere.
//
// Binomial tree, ceil(log2 n) rounds; a rank combines its own slice with those of the ranks below it, nearest first.
func Reduce[T Number](ctx context.Context, c *Comm, root int, data []T, op Op) ([]T, error) {
	if err := c.checkRoot("reduce", root); err != nil {
		return nil, err
	}
	if err := checkOp("reduce", op); err != nil {
		return nil, err
	}
	if err := c.begin(ctx, sig{Op: opReduce, Kind: kindFor[T](), Red: op, Root: uint32(root), Count: uint64(len(data))}); err != nil {
		return nil, err
	}
	sum := append([]T{}, data...)
	if err := c.end(reduce(groupTransport{c}, root, sum, typed[T](c, len(data)), op)); err != nil {
		return nil, err
	}
	if c.rank != root {
		return nil, nil
	}
	return sum, nil
}

func reduce[T Number](t transport, root int, data, other []T, op Op) error {
	n := t.Size()
	me := (t.Rank() - root + n) % n // rank counted from root
	at := func(r int) int { return (r + root) % n }
	for bit := 1; bit < n; bit <<= 1 {
		if me&bit != 0 {
			return t.Send(at(me-bit), bytesOf(data))
		}
		if me+bit < n {
			if err := t.Recv(at(me+bit), bytesOf(other)); err != nil {
				return err
			}
			combine(op, data, other)
		}
	}
	return nil
}

// ReduceScatter combines the ranks' slices, which hold Size() parts of equal length, and returns this rank's part of the
// result, in fresh memory.
//
// Ring: in each of n-1 steps a rank passes on the part that it combined in the step before.
func ReduceScatter[T Number](ctx context.Context, c *Comm, data []T, op Op) ([]T, error) {
	if len(data)%len(c.members) != 0 {
		return nil, invalid("reduce-scatter of %d elements over %d ranks, want a multiple", len(data), len(c.members))
	}
	if err := checkOp("reduce-scatter", op); err != nil {
		return nil, err
	}
	if err := c.begin(ctx, sig{Op: opReduceScatter, Kind: kindFor[T](), Red: op, Count: uint64(len(data))}); err != nil {
		return nil, err
	}
	part := len(data) / len(c.members)
	all := append([]T{}, data...)
	// One place further than in the allreduce, so that this rank ends with its own part.
	if err := c.end(ringPass(groupTransport{c}, all, typed[T](c, part), op, -1)); err != nil {
		return nil, err
	}
	return all[c.rank*part : (c.rank+1)*part : (c.rank+1)*part], nil
}

// checkOp refuses an unknown reduction.
func checkOp(name string, op Op) error {
	if op < Sum || op > Max {
		return invalid("%s by %v", name, op)
	}
	return nil
}
