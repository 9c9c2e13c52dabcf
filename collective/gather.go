package collective

import "context"

// GatherBytes collects every rank's bytes on root, in rank order; parts may differ in size. It returns nil on other ranks.
//
// Binomial tree: a rank sends what it and the ranks below it have in one message; ceil(log2 n) rounds.
func GatherBytes(ctx context.Context, c *Comm, root int, b []byte) ([][]byte, error) {
	if err := c.checkRoot("gather", root); err != nil {
		return nil, err
	}
	if err := c.begin(ctx, sig{Op: opGather, Root: uint32(root), Count: variable}); err != nil {
		return nil, err
	}
	parts, err := gather(groupTransport{c}, root, b)
	if err = c.end(err); err != nil {
		return nil, err
	}
	return parts, nil
}

func gather(t transport, root int, b []byte) ([][]byte, error) {
	n := t.Size()
	me := (t.Rank() - root + n) % n // rank counted from root
	at := func(r int) int { return (r + root) % n }
	parts := [][]byte{b} // of me, me+1, ...
	for bit := 1; bit < n; bit <<= 1 {
		if me&bit != 0 {
			return nil, t.Send(at(me-bit), packParts(parts))
		}
		if me+bit < n {
			message, err := t.RecvAny(at(me + bit))
			if err != nil {
				return nil, err
			}
			below, err := unpackParts(message, min(bit, n-me-bit))
			if err != nil {
				return nil, err
			}
			parts = append(parts, below...)
		}
	}
	ordered := make([][]byte, n)
	for i, p := range parts {
		ordered[at(i)] = p
	}
	return ordered, nil
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
