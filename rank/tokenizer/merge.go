package tokenizer

import "container/heap"

// pair is two neighbouring tokens.
type pair struct{ left, right uint32 }

// merged is what a pair becomes, and how early the pair was learnt.
type merged struct {
	rank int
	id   uint32
}

// symbol is a token of a word under way, in a list from left to right. An index of -1 ends the list.
type symbol struct {
	id         uint32
	prev, next int
	gone       bool
}

// candidate is a pair that may be merged, at the index of its left symbol.
type candidate struct {
	rank, at int
	pair     pair
}

// queue orders candidates by rank and then from left to right.
type queue []candidate

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].rank < q[j].rank || q[i].rank == q[j].rank && q[i].at < q[j].at
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(candidate)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	*q = (*q)[:last]
	return c
}

// mergeAll applies the merges to the tokens of a word: always the earliest learnt pair, the leftmost where it stands more than once
// (Sennrich, Haddow and Birch 2016). The queue makes this n log n in the length of the word.
func mergeAll(ids []uint32, merges map[pair]merged) []uint32 {
	symbols := make([]symbol, len(ids))
	q := &queue{}
	offer := func(at int) {
		if at < 0 || symbols[at].next < 0 {
			return
		}
		p := pair{symbols[at].id, symbols[symbols[at].next].id}
		if m, ok := merges[p]; ok {
			heap.Push(q, candidate{rank: m.rank, at: at, pair: p})
		}
	}
	for i, id := range ids {
		symbols[i] = symbol{id: id, prev: i - 1, next: i + 1}
	}
	symbols[len(ids)-1].next = -1
	for i := range ids {
		offer(i)
	}
	for q.Len() > 0 {
		c := heap.Pop(q).(candidate)
		s := &symbols[c.at]
		if s.gone || s.id != c.pair.left || s.next < 0 || symbols[s.next].id != c.pair.right {
			continue // one of the two was merged with its other neighbour
		}
		right := &symbols[s.next]
		s.id, s.next, right.gone = merges[c.pair].id, right.next, true
		if s.next >= 0 {
			symbols[s.next].prev = c.at
		}
		offer(s.prev)
		offer(c.at)
	}
	out := ids[:0]
	for at := 0; at >= 0; at = symbols[at].next {
		out = append(out, symbols[at].id)
	}
	return out
}
