package collective

import (
	"fmt"
	"sync"
	"time"
)

// Model is a network between ranks that all have the same distance, as in LogGP (Alexandrov, Ionescu, Schauser and Scheiman 1995).
type Model struct {
	Latency   time.Duration // of a message of no length
	Overhead  time.Duration // a rank's own time for sending one
	Bandwidth float64       // bytes per second that a rank can send; 0 = no limit
}

// Cost is what an operation takes on a Model.
type Cost struct {
	Time     time.Duration // until the last rank is done, when all begin together
	Rounds   int           // when a rank sends one message, and receives one, a round
	Messages int           // largest number that one rank sends
	Bytes    int64         // largest number that one rank sends
	Peers    int           // largest number of other ranks that one rank talks with: its data connections
}

// Simulate runs an operation's algorithm between so many ranks in this process, on virtual clocks, and returns what it costs:
// barrier, broadcast, reduce, allreduce, allgather, gather, scatter, reducescatter or alltoall, of so many bytes a rank, a multiple of
// 8. The result depends on the arguments alone. Memory is about that of the operation on all ranks together.
func Simulate(op string, ranks, bytes int, m Model, t Thresholds) (Cost, error) {
	if ranks < 1 || ranks > MaxSize || bytes < 0 || bytes%8 != 0 {
		return Cost{}, invalid("simulation of %d ranks with %d bytes, want 1 to %d ranks and a multiple of 8", ranks, bytes, MaxSize)
	}
	run, ok := simulated[op]
	if !ok {
		return Cost{}, invalid("simulation of %q", op)
	}
	s := &simulation{model: m, boxes: make([]mailbox, ranks)}
	nodes := make([]*simRank, ranks)
	errs := make([]error, ranks)
	var wg sync.WaitGroup
	for r := range nodes {
		s.boxes[r].cond.L = &s.boxes[r].mu
		nodes[r] = &simRank{s: s, rank: r, peers: map[int]bool{}}
		wg.Go(func() { errs[r] = run(nodes[r], bytes/8, t.orDefault()) })
	}
	wg.Wait()
	var c Cost
	for r, n := range nodes {
		if errs[r] != nil {
			return c, fmt.Errorf("collective: simulated rank %d: %w", r, errs[r])
		}
		c.Time, c.Rounds = max(c.Time, n.clock), max(c.Rounds, n.round)
		c.Messages, c.Bytes, c.Peers = max(c.Messages, n.messages), max(c.Bytes, n.bytes), max(c.Peers, len(n.peers))
	}
	return c, nil
}

// simulated runs operations of n float64 with root 0, as the functions of their names do.
var simulated = map[string]func(t *simRank, n int, limits Thresholds) error{
	"barrier": func(t *simRank, _ int, _ Thresholds) error { return barrier(t) },
	"broadcast": func(t *simRank, n int, limits Thresholds) error {
		b := make([]byte, 8*n)
		if limits.downChain(len(b)) && t.Size() > 2 {
			return chainBroadcast(t, 0, b, limits.Chunk)
		}
		return treeInto(t, 0, b, limits.Flat)
	},
	"reduce": func(t *simRank, n int, _ Thresholds) error {
		return reduce(t, 0, make([]float64, n), make([]float64, n), reduction[float64]{op: Sum})
	},
	"allreduce": func(t *simRank, n int, limits Thresholds) error {
		data, by := make([]float64, n), reduction[float64]{op: Sum}
		if !limits.inParts(8*n, n, t.Size()) {
			return doubling(t, data, make([]float64, n), by)
		}
		return ringReduce(t, data, make([]float64, n), nil, by, limits.Chunk)
	},
	"allgather": func(t *simRank, n int, limits Thresholds) error {
		own, all := make([]byte, 8*n), make([]byte, 8*n*t.Size())
		if limits.aroundRing(len(own)) {
			return ringGather(t, len(own), all)
		}
		return bruckGather(t, own, all, make([]byte, len(all)))
	},
	"gather": func(t *simRank, n int, limits Thresholds) error {
		_, err := gather(t, 0, make([]byte, 8*n), &Config{Thresholds: limits, MaxMessage: 1 << 40})
		return err
	},
	"scatter": func(t *simRank, n int, limits Thresholds) error {
		var parts [][]byte
		for range t.Size() {
			if t.Rank() == 0 {
				parts = append(parts, make([]byte, 8*n))
			}
		}
		_, err := scatter(t, 0, parts, &Config{Thresholds: limits, MaxMessage: 1 << 40})
		return err
	},
	"reducescatter": func(t *simRank, n int, limits Thresholds) error {
		return reduceScatter(t, make([]float64, n), make([]float64, n*t.Size()), make([]float64, 2*n), reduction[float64]{op: Sum}, limits.Chunk)
	},
	"alltoall": func(t *simRank, n int, _ Thresholds) error {
		parts := make([][]byte, t.Size())
		for i := range parts {
			parts[i] = make([]byte, 8*n)
		}
		_, err := allToAll(t, parts)
		return err
	},
}

// simulation is the network between the ranks.
type simulation struct {
	model Model
	boxes []mailbox
}

// mailbox holds what was sent to a rank and not received yet, by sender, in order.
type mailbox struct {
	mu   sync.Mutex
	cond sync.Cond
	from map[int][]simMessage
}

type simMessage struct {
	bytes   []byte
	arrives time.Duration
	round   int
}

// simRank is one rank's transport.
type simRank struct {
	s        *simulation
	rank     int
	clock    time.Duration
	round    int
	messages int
	bytes    int64
	peers    map[int]bool
}

// Rank: see transport.
func (t *simRank) Rank() int { return t.rank }

// Size: see transport.
func (t *simRank) Size() int { return len(t.s.boxes) }

// Send: see transport.
func (t *simRank) Send(peer int, b []byte) error {
	t.clock += t.s.model.Overhead
	if t.s.model.Bandwidth > 0 {
		t.clock += time.Duration(float64(len(b)) / t.s.model.Bandwidth * float64(time.Second))
	}
	t.messages++
	t.round++
	t.bytes += int64(len(b))
	t.peers[peer] = true
	box := &t.s.boxes[peer]
	box.mu.Lock()
	defer box.mu.Unlock()
	if box.from == nil {
		box.from = map[int][]simMessage{}
	}
	box.from[t.rank] = append(box.from[t.rank], simMessage{append([]byte{}, b...), t.clock + t.s.model.Latency, t.round})
	box.cond.Broadcast()
	return nil
}

// RecvAny: see transport.
func (t *simRank) RecvAny(peer int) ([]byte, error) {
	t.round++
	return t.recv(peer), nil
}

// recv waits for the next message of a peer, which comes in the round that the rank is in at the earliest.
func (t *simRank) recv(peer int) []byte {
	t.peers[peer] = true
	box := &t.s.boxes[t.rank]
	box.mu.Lock()
	defer box.mu.Unlock()
	for len(box.from[peer]) == 0 {
		box.cond.Wait()
	}
	m := box.from[peer][0]
	box.from[peer] = box.from[peer][1:]
	t.clock, t.round = max(t.clock, m.arrives), max(t.round, m.round)
	return m.bytes
}

// Recv: see transport.
func (t *simRank) Recv(peer int, b []byte) error {
	got, err := t.RecvAny(peer)
	copy(b, got)
	return err
}

// SendRecv: see transport.
func (t *simRank) SendRecv(dst int, send []byte, src int, recv []byte) error {
	got, err := t.SendRecvAny(dst, send, src)
	copy(recv, got)
	return err
}

// SendRecvAny: see transport. Both directions take one round.
func (t *simRank) SendRecvAny(dst int, send []byte, src int) ([]byte, error) {
	if err := t.Send(dst, send); err != nil {
		return nil, err
	}
	return t.recv(src), nil
}
