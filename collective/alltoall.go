package collective

import "context"

// AllToAllBytes sends parts[i] to rank i and returns what every rank sent here, in rank order; parts may differ in size.
// The own part is the caller's memory, the others are fresh.
//
// Pairwise exchange: in step s a rank sends to the one s after it and receives from the one s before it; n-1 steps.
func AllToAllBytes(ctx context.Context, c *Comm, parts [][]byte) ([][]byte, error) {
	if len(parts) != len(c.members) {
		return nil, invalid("all-to-all of %d parts between %d ranks", len(parts), len(c.members))
	}
	for _, p := range parts {
		if err := c.checkSize("all-to-all", p); err != nil {
			return nil, err
		}
	}
	if err := c.begin(ctx, sig{Op: opAllToAll, Count: variable}); err != nil {
		return nil, err
	}
	got, err := allToAll(groupTransport{c}, parts)
	if err = c.end(err); err != nil {
		return nil, err
	}
	return got, nil
}

func allToAll(t transport, parts [][]byte) ([][]byte, error) {
	n, rank := t.Size(), t.Rank()
	got := make([][]byte, n)
	got[rank] = parts[rank]
	for s := 1; s < n; s++ {
		to, from := (rank+s)%n, (rank-s+n)%n
		var err error
		if got[from], err = t.SendRecvAny(to, parts[to], from); err != nil {
			return nil, err
		}
	}
	return got, nil
}

// AllToAllInto sends the i-th of Size() equal parts of src to rank i and fills dst with what every rank sent here, in rank
// order. dst and src have one length and do not overlap.
func AllToAllInto[T Number](ctx context.Context, c *Comm, dst, src []T) error {
	n := len(c.members)
	if len(dst) != len(src) || len(src)%n != 0 {
		return invalid("all-to-all of %d elements into %d between %d ranks, want equal lengths, a multiple of %d", len(src), len(dst), n, n)
	}
	to, from := bytesOf(src), bytesOf(dst)
	if overlap(to, from) {
		return invalid("all-to-all into the memory it sends from")
	}
	if err := c.begin(ctx, sig{Op: opAllToAll, Kind: kindFor[T](), Count: uint64(len(src))}); err != nil {
		return err
	}
	part := len(to) / n
	copy(from[c.rank*part:][:part], to[c.rank*part:])
	t := groupTransport{c}
	for s := 1; s < n; s++ {
		next, before := (c.rank+s)%n, (c.rank-s+n)%n
		if err := t.SendRecv(next, to[next*part:][:part], before, from[before*part:][:part]); err != nil {
			return c.end(err)
		}
	}
	return c.end(nil)
}
