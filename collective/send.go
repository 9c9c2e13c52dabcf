package collective

import "context"

// Send sends bytes to a rank of the group that calls Recv for them. It returns when they were handed to the network.
func Send(ctx context.Context, c *Comm, dst int, b []byte) error {
	return c.send(ctx, dst, sig{Op: opSend, Count: variable}, b)
}

// Recv receives, in fresh memory, what a rank of the group sends to this one. Messages of one rank arrive in their order.
func Recv(ctx context.Context, c *Comm, src int) ([]byte, error) {
	if err := c.checkPeer("recv", src); err != nil {
		return nil, err
	}
	if err := c.begin(ctx, sig{Op: opSend, Count: variable}); err != nil {
		return nil, err
	}
	b, err := groupTransport{c}.RecvAny(src)
	if err = c.end(err); err != nil {
		return nil, err
	}
	return b, nil
}

// SendSlice sends a slice to a rank of the group that calls RecvInto with one of its length.
func SendSlice[T Number](ctx context.Context, c *Comm, dst int, src []T) error {
	return c.send(ctx, dst, sig{Op: opSend, Kind: kindFor[T](), Count: uint64(len(src))}, bytesOf(src))
}

func (c *Comm) send(ctx context.Context, dst int, s sig, b []byte) error {
	if err := c.checkPeer("send", dst); err != nil {
		return err
	}
	if err := c.checkSize("send", b); err != nil {
		return err
	}
	if err := c.begin(ctx, s); err != nil {
		return err
	}
	return c.end(groupTransport{c}.Send(dst, b))
}

// RecvInto fills dst with what a rank of the group sends by SendSlice. Another type or length is a mismatch.
func RecvInto[T Number](ctx context.Context, c *Comm, src int, dst []T) error {
	if err := c.checkPeer("recv", src); err != nil {
		return err
	}
	if err := c.begin(ctx, sig{Op: opSend, Kind: kindFor[T](), Count: uint64(len(dst))}); err != nil {
		return err
	}
	return c.end(groupTransport{c}.Recv(src, bytesOf(dst)))
}

// checkPeer refuses a rank that there is no connection to.
func (c *Comm) checkPeer(op string, peer int) error {
	if peer < 0 || peer >= len(c.members) || peer == c.rank {
		return invalid("%s with rank %d, want another rank from 0 to %d", op, peer, len(c.members)-1)
	}
	return nil
}
