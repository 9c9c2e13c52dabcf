package collective

// layout is how a group lies on hosts. Where several ranks share a host and hosts differ, a message between hosts costs more than
// one inside: short operations then go to one rank of each host, its head, which deals with the other heads.
type layout struct {
	of    []int   // host of each rank, counted from 0 in the order of first appearance
	ranks [][]int // ranks of each host, ascending
}

// newLayout returns nil when levels bring nothing: one host, or one rank on each.
func newLayout(hosts []string) *layout {
	l := &layout{}
	index := map[string]int{}
	for rank, name := range hosts {
		h, known := index[name]
		if !known {
			h = len(l.ranks)
			index[name] = h
			l.ranks = append(l.ranks, nil)
		}
		l.of = append(l.of, h)
		l.ranks[h] = append(l.ranks[h], rank)
	}
	if len(l.ranks) == 1 || len(l.ranks) == len(hosts) {
		return nil
	}
	return l
}

// inside is the transport between the ranks of this rank's host, with root, when it is there, or the first as rank 0.
func (l *layout) inside(t transport, root int) transport {
	ranks := l.ranks[l.of[t.Rank()]]
	return newSubset(t, ranks, l.head(l.of[t.Rank()], root))
}

// heads is the transport between the hosts' heads, with root as rank 0; nil on a rank that is none.
func (l *layout) heads(t transport, root int) transport {
	if l.head(l.of[t.Rank()], root) != t.Rank() {
		return nil
	}
	ranks := make([]int, len(l.ranks))
	for h := range l.ranks {
		ranks[h] = l.head(h, root)
	}
	return newSubset(t, ranks, root)
}

// head is the rank of a host that deals with the other hosts: root, when it is there, or the first.
func (l *layout) head(host, root int) int {
	if l.of[root] == host {
		return root
	}
	return l.ranks[host][0]
}

// subset is the transport between some ranks of another one.
type subset struct {
	transport
	ranks []int
	me    int
}

// newSubset puts first at the front, the others in their order behind it.
func newSubset(t transport, ranks []int, first int) *subset {
	s := &subset{transport: t, ranks: append(make([]int, 0, len(ranks)), first)}
	for _, r := range ranks {
		if r == t.Rank() && r != first {
			s.me = len(s.ranks)
		}
		if r != first {
			s.ranks = append(s.ranks, r)
		}
	}
	return s
}

// Rank is this rank's place in the subset.
func (s *subset) Rank() int { return s.me }

// Size is the number of ranks in the subset.
func (s *subset) Size() int { return len(s.ranks) }

// Send: see transport.
func (s *subset) Send(peer int, b []byte) error { return s.transport.Send(s.ranks[peer], b) }

// Recv: see transport.
func (s *subset) Recv(peer int, b []byte) error { return s.transport.Recv(s.ranks[peer], b) }

// RecvAny: see transport.
func (s *subset) RecvAny(peer int) ([]byte, error) { return s.transport.RecvAny(s.ranks[peer]) }

// SendRecv: see transport.
func (s *subset) SendRecv(dst int, send []byte, src int, recv []byte) error {
	return s.transport.SendRecv(s.ranks[dst], send, s.ranks[src], recv)
}

// SendRecvAny: see transport.
func (s *subset) SendRecvAny(dst int, send []byte, src int) ([]byte, error) {
	return s.transport.SendRecvAny(s.ranks[dst], send, s.ranks[src])
}

// levels are the two transports of operations whose root is rank 0, made once. nil without a layout.
type levels struct {
	inside, heads transport
}

// barrier, in three steps: up to the head of each host, a barrier of the heads, and down.
func (l *levels) barrier() error {
	if err := reduce(l.inside, 0, []byte{}, []byte{}, reduction[byte]{}); err != nil {
		return err
	}
	if l.heads != nil {
		if err := barrier(l.heads); err != nil {
			return err
		}
	}
	return treeInto(l.inside, 0, nil, 0)
}

// levelReduce combines on root: inside each host first, then between the heads. data holds the result on root.
func levelReduce[T Number](l *layout, t transport, root int, data, other []T, by reduction[T]) error {
	if err := reduce(l.inside(t, root), 0, data, other, by); err != nil {
		return err
	}
	if heads := l.heads(t, root); heads != nil {
		return reduce(heads, 0, data, other, by)
	}
	return nil
}

// levelAllReduce combines inside each host, between the heads, and tells the result inside.
func levelAllReduce[T Number](l *levels, data, other []T, by reduction[T], flat int) error {
	if err := reduce(l.inside, 0, data, other, by); err != nil {
		return err
	}
	if l.heads != nil {
		if err := doubling(l.heads, data, other, by); err != nil {
			return err
		}
	}
	return treeInto(l.inside, 0, bytesOf(data), flat)
}

// levelBroadcast passes b between the heads, then inside each host.
func levelBroadcast(l *layout, t transport, root int, b []byte, flat int) error {
	if heads := l.heads(t, root); heads != nil {
		if err := treeInto(heads, 0, b, flat); err != nil {
			return err
		}
	}
	return treeInto(l.inside(t, root), 0, b, flat)
}
