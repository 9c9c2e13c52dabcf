package collective

import (
	"context"
	"encoding/binary"
	"fmt"
)

// BroadcastBytes gives root's bytes to every rank. On root it returns b, elsewhere fresh memory; there b is not looked at.
//
// Binomial tree, ceil(log2 n) rounds, ranks learn the length from the message. Over 128 KiB the tree carries the length only,
// and the bytes go down a chain of all ranks in pieces of 256 KiB, each passed on while the next comes in.
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
	b, err := broadcast(groupTransport{c}, root, b, c.w.cfg.MaxMessage)
	if err = c.end(err); err != nil {
		return nil, err
	}
	return b, nil
}

// chainMark precedes the length in the tree when the bytes come down the chain; 0 precedes the bytes themselves.
const chainMark = 1

func broadcast(t transport, root int, b []byte, limit int64) ([]byte, error) {
	if t.Size() == 1 {
		return b, nil
	}
	onRoot := t.Rank() == root
	var head []byte
	switch {
	case !onRoot:
	case len(b) > chainBytes:
		head = binary.LittleEndian.AppendUint64([]byte{chainMark}, uint64(len(b)))
	default:
		head = append([]byte{0}, b...)
	}
	head, err := treeBroadcast(t, root, head)
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
		if size > uint64(limit) {
			return nil, fmt.Errorf("%w: broadcast of %d bytes, more than the limit of %d", ErrMalformed, size, limit)
		}
		b = make([]byte, size)
	}
	return b, chainBroadcast(t, root, b)
}

// treeBroadcast passes a message down the binomial tree that root is at the top of.
func treeBroadcast(t transport, root int, b []byte) ([]byte, error) {
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

// chainBroadcast passes b from rank to rank in pieces.
func chainBroadcast(t transport, root int, b []byte) error {
	n := t.Size()
	me := (t.Rank() - root + n) % n
	before, next := (t.Rank()-1+n)%n, (t.Rank()+1)%n
	piece := func(i int) []byte { return b[min(i*chunkBytes, len(b)):min((i+1)*chunkBytes, len(b))] }
	pieces := (len(b) + chunkBytes - 1) / chunkBytes
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
