package collective

import "unsafe"

// overlap reports whether two slices share memory.
func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	p, q := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return p < q+uintptr(len(b)) && q < p+uintptr(len(a))
}

// checkParts refuses memory for all parts that does not hold one for each rank, or that part shares without being
// the part of the given rank.
func (c *Comm) checkParts(op string, all, part []byte, rank int) error {
	if len(all) != len(part)*len(c.members) {
		return invalid("%s of %d bytes by %d ranks, the memory for all has %d, want %d", op, len(part), len(c.members), len(all), len(part)*len(c.members))
	}
	if overlap(all, part) && &all[rank*len(part)] != &part[0] {
		return invalid("%s between overlapping slices", op)
	}
	return c.checkSize(op, all)
}
