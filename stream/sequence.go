package stream

// Sequence follows the numbers of one publisher.
type Sequence struct {
	next  uint64
	begun bool
}

// Add takes in the next number that came. lost is how many did not come before it; restarted says that the numbers began anew, so that nobody knows.
// Before the first number nothing is lost: a subscriber joins when it joins.
func (s *Sequence) Add(n uint64) (lost uint64, restarted bool) {
	if s.begun {
		restarted = n < s.next
		if !restarted {
			lost = n - s.next
		}
	}
	s.next, s.begun = n+1, true
	return lost, restarted
}
