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
