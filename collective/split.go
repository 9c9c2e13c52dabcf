package collective

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/fnv"
	"slices"
)

// Split divides a group: ranks that pass the same color form a new one, ordered by key and then by their rank here. A
// negative color joins none and gets nil. The new Comm is a channel of its own, with the time limit of the old one.
func (c *Comm) Split(ctx context.Context, color, key int) (*Comm, error) {
	if err := c.begin(ctx, sig{Op: opSplit}); err != nil {
		return nil, err
	}
	seq := c.op.sig.Seq
	mine := binary.AppendVarint(binary.AppendVarint(nil, int64(color)), int64(key))
	parts, err := allGather(groupTransport{c}, mine, &c.w.cfg)
	if err = c.end(err); err != nil {
		return nil, err
	}
	type chosen struct{ key, rank int }
	var group []chosen
	for rank, p := range parts {
		itsColor, k := binary.Varint(p)
		itsKey, _ := binary.Varint(p[max(k, 0):])
		if int(itsColor) == color {
			group = append(group, chosen{int(itsKey), rank})
		}
	}
	if color < 0 {
		return nil, nil
	}
	slices.SortFunc(group, func(a, b chosen) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.rank, b.rank)) })
	members := make([]int, len(group))
	for i, g := range group {
		members[i] = c.members[g.rank]
	}
	return c.w.newComm(groupID(c.id, seq, color), members, c.limit()), nil
}

// Dup makes another channel between the same ranks.
func (c *Comm) Dup(ctx context.Context) (*Comm, error) { return c.Split(ctx, 0, c.rank) }

// groupID names a group by the split that made it; all its members compute the same. 0 is the world's.
func groupID(parent, seq uint64, color int) uint64 {
	h := fnv.New64a()
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], parent)
	binary.LittleEndian.PutUint64(b[8:], seq)
	binary.LittleEndian.PutUint64(b[16:], uint64(color))
	_, _ = h.Write(b[:]) // a hash takes everything
	return max(h.Sum64(), 1)
}
