package collective

import (
	"context"
	"encoding/binary"
	"fmt"
)

// BroadcastBytes gives root's bytes to every rank. On root it returns b, elsewhere fresh memory; there b is not looked at.
//
// Binomial tree, ceil(log2 n) rounds, in groups of up to 8 ranks one message from root to each; ranks learn the length from
// the message. Over 128 KiB the tree carries the length only, and the bytes go down a chain of all ranks in pieces of 256 KiB, each passed on while the next comes in.
func BroadcastBytes(ctx context.Context, c *Comm, root int, b []byte) ([]byte, error) {
	if err := c.checkRoot("broadcast", root); err != nil {
		return nil, err
	}
	if c.rank == root {
		if err := c.checkSize("broadcast", b); err != nil {
			return nil, err
		}
	}
	if err := c.begin(ctx, sig{Op: opBroadcast, Root: uint32(root), Count: variable}); err != nil {
		return nil, err
	}
	b, err := broadcast(groupTransport{c}, root, b, &c.w.cfg)
	if err = c.end(err); err != nil {
		return nil, err
	}
	return b, nil
}

// chainMark precedes the length in the tree when the bytes come down the chain; 0 precedes the bytes themselves.
const chainMark = 1

func broadcast(t transport, root int, b []byte, cfg *Config) ([]byte, error) {
	if t.Size() == 1 {
		return b, nil
	}
	onRoot := t.Rank() == root
	var head []byte
	switch {
	case !onRoot:
	case cfg.Thresholds.downChain(len(b)):
		head = binary.LittleEndian.AppendUint64([]byte{chainMark}, uint64(len(b)))
	default:
		head = append([]byte{0}, b...)
	}
	head, err := treeBroadcast(t, root, head, cfg.Thresholds.Flat)
	switch {
	case err != nil:
		return nil, err
	case len(head) > 0 && head[0] == 0:
		if onRoot {
			return b, nil
		}
		return head[1:], nil
	case len(head) != 9 || head[0] != chainMark:
		return nil, fmt.Errorf("%w: broadcast begins with %d bytes", ErrMalformed, len(head))
	}
	if !onRoot {
		size := binary.LittleEndian.Uint64(head[1:])
		if size > uint64(cfg.MaxMessage) {
			return nil, fmt.Errorf("%w: broadcast of %d bytes, more than the limit of %d", ErrMalformed, size, cfg.MaxMessage)
		}
		b = make([]byte, size)
	}
	return b, chainBroadcast(t, root, b, cfg.Thresholds.Chunk)
}

// treeBroadcast passes a message down the tree that root is at the top of.
func treeBroadcast(t transport, root int, b []byte, flat int) ([]byte, error) {
	h := hop(t, root, flat)
	var err error
	if h.parent >= 0 {
		if b, err = t.RecvAny(h.parent); err != nil {
			return nil, err
		}
	}
	return b, h.passOn(t, b)
}

// treeInto is treeBroadcast of a length that all ranks know.
func treeInto(t transport, root int, b []byte, flat int) error {
	h := hop(t, root, flat)
	if h.parent >= 0 {
		if err := t.Recv(h.parent, b); err != nil {
			return err
		}
	}
	return h.passOn(t, b)
}

// hops is a rank's place in the tree of a broadcast: a binomial tree, or in groups of at most flat ranks one in which root sends
// to all, because there a rank that has to be woken up costs more than a message.
type hops struct {
	root, me int
	parent   int // group rank, -1 = none
	bit      int // half the size of the subtree, a power of two
	flat     bool
}

func hop(t transport, root, flat int) hops {
	n := t.Size()
	h := hops{root: root, me: (t.Rank() - root + n) % n, parent: -1, flat: n <= flat} // me counts from root
	switch {
	case h.me > 0 && h.flat:
		h.parent = root
	case h.me > 0:
		h.parent = (h.me&(h.me-1) + root) % n
		h.bit = h.me & -h.me >> 1
	default:
		for h.bit = 1; 2*h.bit < n; h.bit <<= 1 {
		}
	}
	return h
}

// passOn sends b to the ranks below, the one with most ranks below it first.
func (h hops) passOn(t transport, b []byte) error {
	n := t.Size()
	if h.flat {
		for r := 1; r < n && h.me == 0; r++ {
			if err := t.Send((r+h.root)%n, b); err != nil {
				return err
			}
		}
		return nil
	}
	for bit := h.bit; bit > 0; bit >>= 1 {
		if h.me+bit < n {
			if err := t.Send((h.me+bit+h.root)%n, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// chainBroadcast passes b from rank to rank in pieces.
func chainBroadcast(t transport, root int, b []byte, chunk int) error {
	n := t.Size()
	me := (t.Rank() - root + n) % n
	before, next := (t.Rank()-1+n)%n, (t.Rank()+1)%n
	piece := func(i int) []byte { return b[min(i*chunk, len(b)):min((i+1)*chunk, len(b))] }
	pieces := (len(b) + chunk - 1) / chunk
	for i := range pieces {
		var err error
		switch {
		case me == 0:
			err = t.Send(next, piece(i))
		case i == 0 || me == n-1:
			err = t.Recv(before, piece(i))
		default:
			err = t.SendRecv(next, piece(i-1), before, piece(i))
		}
		if err != nil {
			return err
		}
	}
	if me > 0 && me < n-1 {
		return t.Send(next, piece(pieces-1))
	}
	return nil
}

// BroadcastInto fills data on every rank with root's; it has the same length on all.
//
// The tree of BroadcastBytes, over 128 KiB its pipelined chain. In a group on several hosts with several ranks each, the tree connects
// one rank of each host, and others inside the hosts follow.
func BroadcastInto[T Number](ctx context.Context, c *Comm, root int, data []T) error {
	if err := c.checkRoot("broadcast", root); err != nil {
		return err
	}
	b := bytesOf(data)
	if err := c.checkSize("broadcast", b); err != nil {
		return err
	}
	if err := c.begin(ctx, sig{Op: opBroadcast, Kind: kindFor[T](), Root: uint32(root), Count: uint64(len(data))}); err != nil {
		return err
	}
	t, limits := groupTransport{c}, &c.w.cfg.Thresholds
	if limits.downChain(len(b)) && t.Size() > 2 {
		return c.end(chainBroadcast(t, root, b, limits.Chunk))
	}
	if c.layout != nil {
		return c.end(levelBroadcast(c.layout, t, root, b, limits.Flat))
	}
	return c.end(treeInto(t, root, b, limits.Flat))
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

// checkSize refuses more bytes than an operation may carry, before any is sent.
func (c *Comm) checkSize(op string, b []byte) error {
	if int64(len(b)) > c.w.cfg.MaxMessage {
		return invalid("%s of %d bytes, more than the limit of %d (Config.MaxMessage)", op, len(b), c.w.cfg.MaxMessage)
	}
	return nil
}
