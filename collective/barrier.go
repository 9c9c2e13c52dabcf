package collective

import "context"

// Barrier returns when every rank of the group has called it.
//
// Dissemination barrier (Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", 1988): in round k every
// rank tells the one 2^k after it; after ceil(log2 n) rounds each has heard of all. Where several ranks share a host and hosts differ, only one of
// each host takes part in it, after hearing of the others there by a binomial tree and before telling them. The first operation of a large group goes up and down a binomial tree as
// well: a program whose only operation it is opens n - 1 connections instead of n log2 n.
func (c *Comm) Barrier(ctx context.Context) error {
	if err := c.begin(ctx, sig{Op: opBarrier}); err != nil {
		return err
	}
	if c.levels != nil {
		return c.end(c.levels.barrier())
	}
	if c.op.sig.Seq == 1 && c.Size() >= firstTreeMin {
		return c.end((&levels{inside: groupTransport{c}}).barrier())
	}
	return c.end(barrier(groupTransport{c}))
}

// firstTreeMin is the size from which a group's first barrier is a tree: ranks leave it one after the other, which in small groups is not worth the connections.
const firstTreeMin = 16

func barrier(t transport) error {
	n, rank := t.Size(), t.Rank()
	for k := 1; k < n; k <<= 1 {
		if err := t.SendRecv((rank+k)%n, nil, (rank-k+n)%n, nil); err != nil {
			return err
		}
	}
	return nil
}
