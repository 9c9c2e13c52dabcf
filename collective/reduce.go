package collective

import "context"

// Reduce combines the ranks' slices element by element on root and returns the result there, in fresh memory; nil
// elsewhere.
func Reduce[T Number](ctx context.Context, c *Comm, root int, data []T, op Op) ([]T, error) {
	var dst []T
	if c.rank == root {
		dst = make([]T, len(data))
	}
	if err := ReduceInto(ctx, c, root, dst, data, op); err != nil {
		return nil, err
	}
	return dst, nil
}

// ReduceInto is Reduce into root's dst, which has src's length there, may be src, and is not looked at elsewhere.
//
// Binomial tree, ceil(log2 n) rounds; a rank combines its own slice with those of the ranks below it, nearest first. In a group
// on several hosts with several ranks each, inside the hosts first.
func ReduceInto[T Number](ctx context.Context, c *Comm, root int, dst, src []T, op Op) error {
	return reduceBy(ctx, c, root, dst, src, reduction[T]{op: op})
}

// ReduceFunc is ReduceInto with an operator of one's own.
func ReduceFunc[T Number](ctx context.Context, c *Comm, root int, dst, src []T, o Operator[T]) error {
	return reduceBy(ctx, c, root, dst, src, reduction[T]{o.op(), o.Combine})
}

func reduceBy[T Number](ctx context.Context, c *Comm, root int, dst, src []T, by reduction[T]) error {
	if err := c.checkRoot("reduce", root); err != nil {
		return err
	}
	if err := by.check("reduce"); err != nil {
		return err
	}
	if c.rank == root {
		if err := checkResult("reduce", dst, src); err != nil {
			return err
		}
	}
	if err := c.checkSize("reduce", bytesOf(src)); err != nil {
		return err
	}
	if err := c.begin(ctx, sig{Op: opReduce, Kind: kindFor[T](), Red: by.op, Root: uint32(root), Count: uint64(len(src))}); err != nil {
		return err
	}
	memory := typed[T](c, 2*len(src))
	sum, other := memory[:len(src)], memory[len(src):]
	if c.rank == root {
		sum = dst
	}
	copy(sum, src)
	if c.layout != nil {
		return c.end(levelReduce(c.layout, groupTransport{c}, root, sum, other, by))
	}
	return c.end(reduce(groupTransport{c}, root, sum, other, by))
}

func reduce[T Number](t transport, root int, data, other []T, by reduction[T]) error {
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
			by.combine(data, other)
		}
	}
	return nil
}

// checkResult refuses a result of another length than the source, or one that shares part of its memory.
func checkResult[T Number](op string, dst, src []T) error {
	if len(dst) != len(src) {
		return invalid("%s of %d elements into %d", op, len(src), len(dst))
	}
	if overlap(bytesOf(dst), bytesOf(src)) && &dst[0] != &src[0] {
		return invalid("%s between overlapping slices", op)
	}
	return nil
}
