package kv

// lru is a doubly linked list of block numbers in least-recently-used order. Block 0, which is never in it,
// is the sentinel: next[0] is the first block and prev[0] the last.
type lru struct {
	next, prev []int32
	len        int
}

func newLRU(blocks int) lru {
	return lru{next: make([]int32, blocks), prev: make([]int32, blocks)}
}

// push adds a block that is not in the list at its most recently used end.
func (l *lru) push(b int32) {
	last := l.prev[0]
	l.next[last], l.prev[b] = b, last
	l.next[b], l.prev[0] = 0, b
	l.len++
}

// pop removes and returns the least recently used block; the list must not be empty.
func (l *lru) pop() int32 {
	b := l.next[0]
	l.remove(b)
	return b
}

// remove takes a block out of the list.
func (l *lru) remove(b int32) {
	l.next[l.prev[b]], l.prev[l.next[b]] = l.next[b], l.prev[b]
	l.len--
}
