package collective

import "context"

// AllGatherBytes gives every rank's bytes to every rank, in rank order; parts may differ in size. The own part is a copy.
//
// Bruck's algorithm (Bruck, Ho, Kipnis, Upfal and Weathersby 1997): the parts that a rank has double in every round, so
// that ceil(log2 n) rounds serve any n. Parts over 8 KiB are only announced in it and then go round a ring.
func AllGatherBytes(ctx context.Context, c *Comm, b []byte) ([][]byte, error) {
	if err := c.checkSize("allgather", b); err != nil {
		return nil, err
	}
	if err := c.begin(ctx, sig{Op: opAllGather, Count: variable}); err != nil {
		return nil, err
	}
	parts, err := allGather(groupTransport{c}, append([]byte{}, b...), &c.w.cfg)
	if err = c.end(err); err != nil {
		return nil, err
	}
	return parts, nil
}

func allGather(t transport, b []byte, cfg *Config) ([][]byte, error) {
	n, rank := t.Size(), t.Rank()
	parts := append(make([]part, 0, n), newPart(b, cfg.Thresholds.Bruck)) // of rank, rank+1, ...
	for k := 1; k < n; k <<= 1 {
		count := min(k, n-k)
		message, err := t.SendRecvAny((rank-k+n)%n, packParts(parts[:count]), (rank+k)%n)
		if err != nil {
			return nil, err
		}
		more, err := unpackParts(message, count, cfg.MaxMessage)
		if err != nil {
			return nil, err
		}
		parts = append(parts, more...)
	}
	ordered, direct := make([][]byte, n), false
	for i, p := range parts {
		ordered[(rank+i)%n] = p.bytes
		if p.direct {
			direct = true
			ordered[(rank+i)%n] = make([]byte, p.size)
		}
	}
	ordered[rank] = b
	if !direct {
		return ordered, nil
	}
	// What went through the rounds has its bytes already and travels as an empty message here.
	large := func(r int) []byte {
		r = (r%n + n) % n
		if !parts[(r-rank+n)%n].direct {
			return nil
		}
		return ordered[r]
	}
	for s := range n - 1 {
		if err := t.SendRecv((rank+1)%n, large(rank-s), (rank-1+n)%n, large(rank-s-1)); err != nil {
			return nil, err
		}
	}
	return ordered, nil
}

// AllGather gives every rank's value to every rank, in rank order. Values are encoded with msgpack.
func AllGather[T any](ctx context.Context, c *Comm, v T) ([]T, error) {
	b, err := encodeValue(v)
	if err != nil {
		return nil, err
	}
	parts, err := AllGatherBytes(ctx, c, b)
	if err != nil {
		return nil, err
	}
	return decodeAll[T](parts)
}

// AllGatherInto fills dst, which holds Size() parts of len(src), with every rank's src in rank order; src may be its place in dst.
//
// Bruck's algorithm; parts over 8 KiB go round a ring: in each of n-1 steps a rank passes on what it got in the step before.
func AllGatherInto[T Number](ctx context.Context, c *Comm, dst, src []T) error {
	if err := c.checkParts("allgather", bytesOf(dst), bytesOf(src), c.rank); err != nil {
		return err
	}
	if err := c.begin(ctx, sig{Op: opAllGather, Kind: kindFor[T](), Count: uint64(len(src))}); err != nil {
		return err
	}
	t, all, own := groupTransport{c}, bytesOf(dst), bytesOf(src)
	if c.w.cfg.Thresholds.aroundRing(len(own)) {
		copy(all[c.rank*len(own):], own)
		return c.end(ringGather(t, len(own), all))
	}
	return c.end(bruckGather(t, own, all, c.scratch(len(all))))
}

// bruckGather fills all with every rank's own; scratch has its length.
func bruckGather(t transport, own, all, scratch []byte) error {
	n, rank, part := t.Size(), t.Rank(), len(own)
	copy(scratch, own) // scratch holds the parts of rank, rank+1, ...
	for k := 1; k < n; k <<= 1 {
		count := min(k, n-k) * part
		if err := t.SendRecv((rank-k+n)%n, scratch[:count], (rank+k)%n, scratch[k*part:][:count]); err != nil {
			return err
		}
	}
	copy(all[rank*part:], scratch)
	copy(all, scratch[(n-rank)*part:])
	return nil
}

// ringGather completes all, whose own part is in place.
func ringGather(t transport, part int, all []byte) error {
	n, rank := t.Size(), t.Rank()
	at := func(r int) []byte { r = (r + n) % n; return all[r*part : (r+1)*part] }
	for s := range n - 1 {
		if err := t.SendRecv((rank+1)%n, at(rank-s), (rank-1+n)%n, at(rank-s-1)); err != nil {
			return err
		}
	}
	return nil
}
