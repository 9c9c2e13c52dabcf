package collective

import "context"

// GatherBytes collects every rank's bytes on root, in rank order; parts may differ in size. It returns nil on other ranks.
//
// Binomial tree: a rank sends what it and the ranks below it have in one message; ceil(log2 n) rounds. Of a part over 64 KiB
// only the size goes up the tree; the part itself then goes to root directly, one rank after the other.
func GatherBytes(ctx context.Context, c *Comm, root int, b []byte) ([][]byte, error) {
	if err := c.checkRoot("gather", root); err != nil {
		return nil, err
	}
	if err := c.checkSize("gather", b); err != nil {
		return nil, err
	}
	if err := c.begin(ctx, sig{Op: opGather, Root: uint32(root), Count: variable}); err != nil {
		return nil, err
	}
	parts, err := gather(groupTransport{c}, root, b, &c.w.cfg)
	if err = c.end(err); err != nil {
		return nil, err
	}
	return parts, nil
}

func gather(t transport, root int, b []byte, cfg *Config) ([][]byte, error) {
	n := t.Size()
	me := (t.Rank() - root + n) % n // rank counted from root
	at := func(r int) int { return (r + root) % n }
	own := newPart(b, cfg.Thresholds.Direct)
	parts := []part{own} // of me, me+1, ...
	for bit := 1; bit < n; bit <<= 1 {
		if me&bit != 0 {
			err := t.Send(at(me-bit), packParts(parts))
			if err == nil && own.direct {
				err = t.Send(root, b)
			}
			return nil, err
		}
		if me+bit < n {
			message, err := t.RecvAny(at(me + bit))
			if err != nil {
				return nil, err
			}
			below, err := unpackParts(message, min(bit, n-me-bit), cfg.MaxMessage)
			if err != nil {
				return nil, err
			}
			parts = append(parts, below...)
		}
	}
	ordered := make([][]byte, n)
	for i, p := range parts {
		switch {
		case i == 0:
			p.bytes = b
		case p.direct:
			p.bytes = make([]byte, p.size)
			if err := t.Recv(at(i), p.bytes); err != nil {
				return nil, err
			}
		}
		ordered[at(i)] = p.bytes
	}
	return ordered, nil
}

// GatherInto collects every rank's src, all of one length, in dst on root, in rank order. dst holds Size() of them there and
// is not looked at elsewhere; src may be its place in dst.
//
// Binomial tree; parts over 64 KiB go to root directly.
func GatherInto[T Number](ctx context.Context, c *Comm, root int, dst, src []T) error {
	if err := c.checkRoot("gather", root); err != nil {
		return err
	}
	if c.rank == root {
		if err := c.checkParts("gather", bytesOf(dst), bytesOf(src), c.rank); err != nil {
			return err
		}
	}
	if err := c.begin(ctx, sig{Op: opGather, Kind: kindFor[T](), Root: uint32(root), Count: uint64(len(src))}); err != nil {
		return err
	}
	return c.end(c.gatherInto(root, bytesOf(dst), bytesOf(src)))
}

func (c *Comm) gatherInto(root int, dst, src []byte) error {
	t, n, part := groupTransport{c}, len(c.members), len(src)
	me := (c.rank - root + n) % n // rank counted from root
	at := func(r int) int { return (r + root) % n }
	if me == 0 {
		copy(dst[c.rank*part:], src)
	}
	if c.w.cfg.Thresholds.direct(part) {
		if me > 0 {
			return t.Send(root, src)
		}
		for r := 1; r < n; r++ {
			if err := t.Recv(at(r), dst[at(r)*part:][:part]); err != nil {
				return err
			}
		}
		return nil
	}
	below := min(me&-me, n-me) // ranks of the subtree
	block := dst
	switch {
	case me == 0:
		below = n
		if root != 0 {
			block = c.scratch(n * part)
		}
	case below == 1:
		block = src
	default:
		block = c.scratch(below * part)
		copy(block, src)
	}
	for bit := 1; bit < below; bit <<= 1 {
		if err := t.Recv(at(me+bit), block[bit*part:min(2*bit, below)*part]); err != nil {
			return err
		}
	}
	if me > 0 {
		return t.Send(at(me-me&-me), block[:below*part])
	}
	if root != 0 {
		for r := 1; r < n; r++ {
			copy(dst[at(r)*part:][:part], block[r*part:])
		}
	}
	return nil
}

// Gather collects every rank's value on root, in rank order; it returns nil on other ranks. Values are encoded with msgpack.
func Gather[T any](ctx context.Context, c *Comm, root int, v T) ([]T, error) {
	b, err := encodeValue(v)
	if err != nil {
		return nil, err
	}
	parts, err := GatherBytes(ctx, c, root, b)
	if err != nil || parts == nil {
		return nil, err
	}
	return decodeAll[T](parts)
}

func decodeAll[T any](parts [][]byte) ([]T, error) {
	values := make([]T, len(parts))
	for i, p := range parts {
		if err := decodeValue(p, &values[i]); err != nil {
			return nil, err
		}
	}
	return values, nil
}
