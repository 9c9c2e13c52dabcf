package collective

import "context"

// BroadcastBytes gives root's bytes to every rank. On root it returns b, elsewhere fresh memory; there b is not looked at.
//
// Binomial tree: ceil(log2 n) rounds; ranks learn the length from the message.
func BroadcastBytes(ctx context.Context, c *Comm, root int, b []byte) ([]byte, error) {
	if err := c.checkRoot("broadcast", root); err != nil {
		return nil, err
	}
	if c.rank == root && int64(len(b)) > c.w.cfg.MaxMessage {
		return nil, invalid("broadcast of %d bytes, more than the limit of %d", len(b), c.w.cfg.MaxMessage)
	}
	if err := c.begin(ctx, sig{Op: opBroadcast, Root: uint32(root), Count: variable}); err != nil {
		return nil, err
	}
	b, err := broadcast(groupTransport{c}, root, b)
	if err = c.end(err); err != nil {
		return nil, err
	}
	return b, nil
}

// broadcast passes a message down the binomial tree that root is at the top of.
func broadcast(t transport, root int, b []byte) ([]byte, error) {
	n := t.Size()
	me := (t.Rank() - root + n) % n // rank counted from root
	at := func(r int) int { return (r + root) % n }
	var err error
	bit := 1
	for ; bit < n; bit <<= 1 {
		if me&bit != 0 {
			if b, err = t.RecvAny(at(me - bit)); err != nil {
				return nil, err
			}
			break
		}
	}
	for bit >>= 1; bit > 0; bit >>= 1 {
		if me+bit < n {
			if err := t.Send(at(me+bit), b); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

// Broadcast gives root's value to every rank. Values are encoded with msgpack.
func Broadcast[T any](ctx context.Context, c *Comm, root int, v T) (T, error) {
	var b []byte
	var err error
	if c.rank == root {
		if b, err = encodeValue(v); err != nil {
			return v, err
		}
	}
	b, err = BroadcastBytes(ctx, c, root, b)
	if err != nil || c.rank == root {
		return v, err
	}
	var got T
	return got, decodeValue(b, &got)
}

// checkRoot refuses a root outside the group.
func (c *Comm) checkRoot(op string, root int) error {
	if root < 0 || root >= len(c.members) {
		return invalid("%s with root %d, want 0 to %d", op, root, len(c.members)-1)
	}
	return nil
}
