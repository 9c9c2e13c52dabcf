package collective

import (
	"context"
	"unsafe"
)

// AllReduce combines the ranks' slices element by element and returns the result, in fresh memory, on every rank.
func AllReduce[T Number](ctx context.Context, c *Comm, data []T, op Op) ([]T, error) {
	dst := make([]T, len(data))
	return dst, AllReduceInto(ctx, c, dst, data, op)
}

// AllReduceInto is AllReduce into dst, which has src's length and may be src.
//
// Short vectors: recursive doubling, ceil(log2 n) rounds, ranks beyond the largest power of two folded into their
// neighbours (Thakur, Rabenseifner and Gropp 2005). Long vectors: ring, each rank sending 2(n-1)/n of the vector (Patarasu and
// Yuan 2009). Short vectors of a group on several hosts with several
// ranks each are combined on one rank of each host first. In all cases the order of combination depends on the group, its hosts and
// the length alone.
func AllReduceInto[T Number](ctx context.Context, c *Comm, dst, src []T, op Op) error {
	return allReduceBy(ctx, c, dst, src, reduction[T]{op: op})
}

// AllReduceFunc is AllReduceInto with an operator of one's own.
func AllReduceFunc[T Number](ctx context.Context, c *Comm, dst, src []T, o Operator[T]) error {
	return allReduceBy(ctx, c, dst, src, reduction[T]{o.op(), o.Combine})
}

func allReduceBy[T Number](ctx context.Context, c *Comm, dst, src []T, by reduction[T]) error {
	if err := by.check("allreduce"); err != nil {
		return err
	}
	if err := checkResult("allreduce", dst, src); err != nil {
		return err
	}
	if err := c.checkSize("allreduce", bytesOf(src)); err != nil {
		return err
	}
	if err := c.begin(ctx, sig{Op: opAllReduce, Kind: kindFor[T](), Red: by.op, Count: uint64(len(src))}); err != nil {
		return err
	}
	copy(dst, src)
	t := groupTransport{c}
	if !c.w.cfg.Thresholds.inParts(len(bytesOf(dst)), len(dst), t.Size()) {
		if c.levels != nil {
			return c.end(levelAllReduce(c.levels, dst, typed[T](c, len(dst)), by, c.w.cfg.Thresholds.Flat))
		}
		return c.end(doubling(t, dst, typed[T](c, len(dst)), by))
	}
	return c.end(ringReduce(t, dst, typed[T](c, len(dst)/t.Size()+1), by))
}

// typed is n elements of the operation's scratch memory.
func typed[T Number](c *Comm, n int) []T {
	if n == 0 {
		return nil
	}
	var zero T
	// One element more than needed leaves room to align the first.
	b := c.scratch((n + 1) * int(unsafe.Sizeof(zero)))
	if off := uintptr(unsafe.Pointer(&b[0])) % unsafe.Sizeof(zero); off != 0 {
		b = b[unsafe.Sizeof(zero)-off:]
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}

// doubling reduces data in place; other has its length.
func doubling[T Number](t transport, data, other []T, by reduction[T]) error {
	n, rank := t.Size(), t.Rank()
	power := 1
	for power*2 <= n {
		power *= 2
	}
	extra := n - power // the first 2*extra ranks pair up: the odd one of each pair takes part for both
	folded := rank < 2*extra
	if folded && rank%2 == 0 {
		if err := t.Send(rank+1, bytesOf(data)); err != nil {
			return err
		}
		return t.Recv(rank+1, bytesOf(data))
	}
	me := rank - extra
	if folded {
		me = rank / 2
		if err := t.Recv(rank-1, bytesOf(other)); err != nil {
			return err
		}
		by.combine(data, other)
	}
	for bit := 1; bit < power; bit <<= 1 {
		peer := me ^ bit
		if peer < extra {
			peer = 2*peer + 1
		} else {
			peer += extra
		}
		if err := t.SendRecv(peer, bytesOf(data), peer, bytesOf(other)); err != nil {
			return err
		}
		by.combine(data, other)
	}
	if folded {
		return t.Send(rank-1, bytesOf(data))
	}
	return nil
}

// segment is the i-th of n nearly equal parts of data, counted around.
func segment[T Number](data []T, i, n int) []T {
	i = (i%n + n) % n
	return data[i*len(data)/n : (i+1)*len(data)/n]
}

// ringPass combines segment by segment around the ring: after its n-1 steps a rank has the whole of the segment at
// rank + shift + 1. other holds the largest segment.
func ringPass[T Number](t transport, data, other []T, by reduction[T], shift int) error {
	n, rank := t.Size(), t.Rank()
	next, before := (rank+1)%n, (rank-1+n)%n
	for s := range n - 1 {
		mine := segment(data, rank+shift-s-1, n)
		if err := t.SendRecv(next, bytesOf(segment(data, rank+shift-s, n)), before, bytesOf(other[:len(mine)])); err != nil {
			return err
		}
		by.combine(mine, other[:len(mine)])
	}
	return nil
}

// ringReduce reduces data in place; other holds the largest segment.
func ringReduce[T Number](t transport, data, other []T, by reduction[T]) error {
	if err := ringPass(t, data, other, by, 0); err != nil {
		return err
	}
	n, rank := t.Size(), t.Rank()
	next, before := (rank+1)%n, (rank-1+n)%n
	for s := range n - 1 {
		if err := t.SendRecv(next, bytesOf(segment(data, rank+1-s, n)), before, bytesOf(segment(data, rank-s, n))); err != nil {
			return err
		}
	}
	return nil
}
