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
	b, err := scatter(groupTransport{c}, root, parts, c.w.cfg.MaxMessage)
	if err = c.end(err); err != nil {
		return nil, err
	}
	return b, nil
}

func scatter(t transport, root int, list [][]byte, limit int64) ([]byte, error) {
	n := t.Size()
	me := (t.Rank() - root + n) % n // rank counted from root
	at := func(r int) int { return (r + root) % n }
	var parts []part // of me, me+1, ...
	bit := 1
	for ; bit < n && me&bit == 0; bit <<= 1 {
	}
	if me == 0 {
		for r := range n {
			parts = append(parts, newPart(list[at(r)], directBytes))
		}
	} else {
		message, err := t.RecvAny(at(me - bit))
		if err != nil {
			return nil, err
		}
		if parts, err = unpackParts(message, min(bit, n-me), limit); err != nil {
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
		if len(list[at(r)]) > directBytes {
			if err := t.Send(at(r), list[at(r)]); err != nil {
				return nil, err
			}
		}
	}
	return list[root], nil
}
