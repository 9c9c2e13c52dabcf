package collective

import "context"

// Notify runs a method on a rank of the group, also on this one, and does not wait for it: it returns when the request is
// queued. What the handler returns goes nowhere; its error is logged there. A notification is delivered at most once, and not at all
// when that rank is lost.
func (c *Comm) Notify(ctx context.Context, rank int, method string, args any) error {
	if rank < 0 || rank >= len(c.members) {
		return invalid("notification of rank %d in a group of %d", rank, len(c.members))
	}
	body, err := encodeValue(args)
	if err != nil {
		return c.w.rpc.callError(c.members[rank], method, err)
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	if err := c.w.rpc.notify(ctx, c.members[rank], method, c.id, body); err != nil {
		return c.w.rpc.callError(c.members[rank], method, err)
	}
	return nil
}

func (t *rpcTable) notify(ctx context.Context, peer int, method string, group uint64, args []byte) error {
	if err := t.checkCall(method, args); err != nil {
		return err
	}
	id := t.nextID()
	msg := encodeCall(0, group, method, args)
	if peer == t.w.rank {
		return t.notified(peer, id, msg)
	}
	c, err := t.w.control(ctx, peer)
	if err != nil {
		return err
	}
	c.send(frameNotify, id, msg)
	return nil
}

// notified takes a notification in.
func (t *rpcTable) notified(peer int, id uint64, msg []byte) error {
	return t.called(peer, id, msg, false, func(b []byte) {
		if r := decodeReply(t.w.rank, "", b); r.Err != nil {
			t.w.cfg.Logger.Warn("notification failed", "rank", t.w.rank, "from", peer, "err", r.Err)
		}
	})
}
