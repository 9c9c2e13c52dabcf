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
	t := groupTransport{c}
	if !c.w.cfg.Thresholds.inParts(len(bytesOf(dst)), len(dst), t.Size()) {
		copy(dst, src)
		if c.levels != nil {
			return c.end(levelAllReduce(c.levels, dst, typed[T](c, len(dst)), by, c.w.cfg.Thresholds.Flat))
		}
		return c.end(doubling(t, dst, typed[T](c, len(dst)), by))
	}
	var other []T
	if &dst[0] == &src[0] {
		other = typed[T](c, len(dst)/t.Size()+1)
	}
	return c.end(ringReduce(t, dst, src, other, by, c.w.cfg.Thresholds.Chunk))
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

// ringReduce reduces src into dst, which may be src; then other holds the largest segment. First each rank combines one segment of
// all, in the n-1 steps that carry it around the ring, then the finished segments go round.
func ringReduce[T Number](t transport, dst, src, other []T, by reduction[T], chunk int) error {
	n, rank := t.Size(), t.Rank()
	from := src
	for s := range n - 1 {
		mine, own := segment(dst, rank-s-1, n), segment(src, rank-s-1, n)
		into := mine
		if len(other) > 0 { // in place: what comes must not overwrite what it is combined with
			into, own = other[:len(mine)], other[:len(mine)]
		}
		err := exchange(t, segment(from, rank-s, n), into, chunk, func(lo, hi int) { by.combine(mine[lo:hi], own[lo:hi]) })
		if err != nil {
			return err
		}
		from = dst
	}
	for s := range n - 1 {
		if err := exchange(t, segment(dst, rank+1-s, n), segment(dst, rank-s, n), chunk, func(int, int) {}); err != nil {
			return err
		}
	}
	return nil
}

// exchange sends one segment to the next rank of the ring and receives another from the one before, in pieces of at most chunk
// bytes, and calls arrived for the elements of each piece while they are in the cache.
func exchange[T Number](t transport, send, recv []T, chunk int, arrived func(lo, hi int)) error {
	n, rank := t.Size(), t.Rank()
	next, before := (rank+1)%n, (rank-1+n)%n
	var zero T
	step := max(chunk/int(unsafe.Sizeof(zero)), 1)
	// Segments differ in length by one element at most: the last piece of one may have no counterpart.
	for lo := 0; lo < max(len(send), len(recv)); lo += step {
		out, in := bytesOf(send[min(lo, len(send)):min(lo+step, len(send))]), bytesOf(recv[min(lo, len(recv)):min(lo+step, len(recv))])
		var err error
		switch {
		case len(in) == 0:
			err = t.Send(next, out)
		case len(out) == 0:
			err = t.Recv(before, in)
		default:
			err = t.SendRecv(next, out, before, in)
		}
		if err != nil {
			return err
		}
		if len(in) > 0 {
			arrived(lo, min(lo+step, len(recv)))
		}
	}
	return nil
}
