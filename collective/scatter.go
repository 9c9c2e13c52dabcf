package collective

import "context"

// ScatterBytes gives every rank its part of root's list, which has one part for each rank and is looked at on root only. Parts
// may differ in size. On root the result is the caller's memory, elsewhere fresh.
//
// Binomial tree: a rank passes on what the ranks below it get; ceil(log2 n) rounds. Of a part over 64 KiB only the size goes
// down the tree; the part itself then comes from root directly.
func ScatterBytes(ctx context.Context, c *Comm, root int, parts [][]byte) ([]byte, error) {
	if err := c.checkRoot("scatter", root); err != nil {
		return nil, err
	}
	if c.rank == root {
		if len(parts) != len(c.members) {
			return nil, invalid("scatter of %d parts to %d ranks", len(parts), len(c.members))
		}
		for _, p := range parts {
			if err := c.checkSize("scatter", p); err != nil {
				return nil, err
			}
		}
	}
	if err := c.begin(ctx, sig{Op: opScatter, Root: uint32(root), Count: variable}); err != nil {
		return nil, err
	}
	b, err := scatter(groupTransport{c}, root, parts, &c.w.cfg)
	if err = c.end(err); err != nil {
		return nil, err
	}
	return b, nil
}

func scatter(t transport, root int, list [][]byte, cfg *Config) ([]byte, error) {
	n := t.Size()
	me := (t.Rank() - root + n) % n // rank counted from root
	at := func(r int) int { return (r + root) % n }
	var parts []part // of me, me+1, ...
	bit := 1
	for ; bit < n && me&bit == 0; bit <<= 1 {
	}
	if me == 0 {
		for r := range n {
			parts = append(parts, newPart(list[at(r)], cfg.Thresholds.Direct))
		}
	} else {
		message, err := t.RecvAny(at(me - bit))
		if err != nil {
			return nil, err
		}
		if parts, err = unpackParts(message, min(bit, n-me), cfg.MaxMessage); err != nil {
			return nil, err
		}
	}
	for bit >>= 1; bit > 0; bit >>= 1 {
		if me+bit < n {
			if err := t.Send(at(me+bit), packParts(parts[bit:])); err != nil {
				return nil, err
			}
			parts = parts[:bit]
		}
	}
	if me > 0 {
		if !parts[0].direct {
			return parts[0].bytes, nil
		}
		b := make([]byte, parts[0].size)
		return b, t.Recv(root, b)
	}
	for r := 1; r < n; r++ {
		if cfg.Thresholds.direct(len(list[at(r)])) {
			if err := t.Send(at(r), list[at(r)]); err != nil {
				return nil, err
			}
		}
	}
	return list[root], nil
}

// ScatterInto fills dst on every rank with its part of root's src, which holds Size() parts of len(dst) and is not looked at
// elsewhere; dst may be its place in src.
//
// Binomial tree; parts over 64 KiB come from root directly.
func ScatterInto[T Number](ctx context.Context, c *Comm, root int, dst, src []T) error {
	if err := c.checkRoot("scatter", root); err != nil {
		return err
	}
	if c.rank == root {
		if err := c.checkParts("scatter", bytesOf(src), bytesOf(dst), c.rank); err != nil {
			return err
		}
	}
	if err := c.begin(ctx, sig{Op: opScatter, Kind: kindFor[T](), Root: uint32(root), Count: uint64(len(dst))}); err != nil {
		return err
	}
	return c.end(c.scatterInto(root, bytesOf(dst), bytesOf(src)))
}

func (c *Comm) scatterInto(root int, dst, src []byte) error {
	t, n, part := groupTransport{c}, len(c.members), len(dst)
	me := (c.rank - root + n) % n // rank counted from root
	at := func(r int) int { return (r + root) % n }
	if me == 0 {
		copy(dst, src[c.rank*part:][:part])
	}
	if c.w.cfg.Thresholds.direct(part) {
		if me > 0 {
			return t.Recv(root, dst)
		}
		for r := 1; r < n; r++ {
			if err := t.Send(at(r), src[at(r)*part:][:part]); err != nil {
				return err
			}
		}
		return nil
	}
	below, bit := n, 1 // ranks of the subtree, the next power of two
	if me > 0 {
		below = min(me&-me, n-me)
	}
	for bit < below {
		bit <<= 1
	}
	block := dst
	switch {
	case me == 0 && root == 0:
		block = src
	case me == 0:
		block = c.scratch(n * part)
		for r := range n {
			copy(block[r*part:], src[at(r)*part:][:part])
		}
	case below > 1:
		block = c.scratch(below * part)
	}
	if me > 0 {
		if err := t.Recv(at(me-me&-me), block[:below*part]); err != nil {
			return err
		}
		copy(dst, block)
	}
	for bit >>= 1; bit > 0; bit >>= 1 {
		if bit < below {
			if err := t.Send(at(me+bit), block[bit*part:min(2*bit, below)*part]); err != nil {
				return err
			}
		}
	}
	return nil
}
