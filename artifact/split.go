package artifact

import (
	"fmt"
	"math"
)

// Balanced splits total over n slots in whole units, each slot at least least units; earlier slots take the
// remainder. total must be a multiple of unit.
func Balanced(total, n, unit, least int) ([]int, error) {
	units := total / unit
	switch {
	case n < 1:
		return nil, fmt.Errorf("artifact: cannot split %d tokens over %d requests", total, n)
	case total%unit != 0:
		return nil, fmt.Errorf("artifact: %d tokens are not a multiple of the unit %d", total, unit)
	case units < n*least:
		return nil, fmt.Errorf("artifact: %d tokens over %d requests leave less than %d tokens for one", total, n, least*unit)
	}
	q, r := (units-n*least)/n, (units-n*least)%n
	parts := make([]int, n)
	for i := range parts {
		parts[i] = (least + q) * unit
		if i < r {
			parts[i] += unit
		}
	}
	return parts, nil
}

// Unbalanced gives highCount slots the mean times 1+fraction, rounded to even units, and splits the rest
// evenly over the others; the total is conserved.
func Unbalanced(total, n, unit, least, highCount int, fraction float64) ([]int, error) {
	mean := float64(total/unit) / float64(n)
	high := max(least, int(math.RoundToEven(mean*(1+fraction)))) * unit
	rest := total - high*highCount
	if rest < (n-highCount)*least*unit {
		return nil, fmt.Errorf("artifact: %d requests of %d tokens leave %d tokens for the other %d, fewer than %d each",
			highCount, high, max(rest, 0), n-highCount, least*unit)
	}
	low, err := Balanced(rest, n-highCount, unit, least)
	if err != nil {
		return nil, err
	}
	parts := make([]int, 0, n)
	for range highCount {
		parts = append(parts, high)
	}
	return append(parts, low...), nil
}

// Lengths are the new and KV tokens of each request of a point. KV of a prefill point is split in units of blockSize
// tokens; of a decode point it is each request's context in single tokens.
func (p *Point) Lengths(blockSize int) (fresh, kv []int, err error) {
	fresh, kv = make([]int, p.BatchSize), make([]int, p.BatchSize)
	if p.Rows != nil {
		for i, r := range p.Rows {
			if r[1]%blockSize != 0 {
				return nil, nil, fmt.Errorf("artifact: rows[%d] reads %d KV tokens, not a multiple of the block size %d", i, r[1], blockSize)
			}
			fresh[i], kv[i] = r[0], r[1]
		}
		return fresh, kv, nil
	}
	split := func(total, unit int, axis string) ([]int, error) {
		if q := p.Partition; q != nil && (q.Axis == axis || q.Axis == "both") {
			return Unbalanced(total, p.BatchSize, unit, 1, q.HighCount, float64(q.Fraction))
		}
		return Balanced(total, p.BatchSize, unit, 1)
	}
	unit := 1
	if p.PointType == Prefill && p.TotalKVReadTokens%blockSize != 0 {
		return nil, nil, fmt.Errorf("artifact: %d KV tokens are not a multiple of the block size %d", p.TotalKVReadTokens, blockSize)
	}
	if p.PointType == Prefill {
		if fresh, err = split(p.TotalPrefillTokens, 1, "new"); err != nil {
			return nil, nil, err
		}
		unit = blockSize
	}
	if p.TotalKVReadTokens > 0 {
		kv, err = split(p.TotalKVReadTokens, unit, "kv")
	}
	return fresh, kv, err
}
