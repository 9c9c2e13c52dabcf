package artifact

// Axis lists the drivers worth measuring up to limit: every capture size and the value after it, doublings of
// the largest capture, and the limit; without captures the powers of two and the limit.
func Axis(captures []int, limit int) []int {
	seen := map[int]bool{}
	largest := 0
	for _, c := range captures {
		largest = max(largest, c)
		if c <= limit {
			seen[c] = true
			if c < limit {
				seen[c+1] = true
			}
		}
	}
	if largest == 0 {
		for v := 1; v <= limit; v *= 2 {
			seen[v] = true
		}
	} else if largest <= limit {
		for v := largest * 2; v < limit; v *= 2 {
			seen[v] = true
		}
	}
	if limit > 0 {
		seen[limit] = true
	}
	return sortedKeys(seen)
}

// UniformLimit keeps at most m >= 2 values, spread evenly over the list with both ends kept.
func UniformLimit(values []int, m int) []int {
	if len(values) <= m {
		return values
	}
	last := len(values) - 1
	kept := make([]int, m)
	for s := range kept {
		kept[s] = values[(s*last+(m-1)/2)/(m-1)]
	}
	return kept
}

// GraphAwareLimit keeps at most m values, but drops none above the largest capture when these are at most a
// fifth of the axis and leave room for graph sizes.
func GraphAwareLimit(values, captures []int, m int) []int {
	if len(values) <= m || len(captures) == 0 {
		return UniformLimit(values, m)
	}
	largest := 0
	for _, c := range captures {
		largest = max(largest, c)
	}
	cut := 0
	for cut < len(values) && values[cut] <= largest {
		cut++
	}
	graph, tail := values[:cut], values[cut:]
	room := m - len(tail)
	if len(tail) == 0 || 5*len(tail) > len(values) || room < 1 || len(graph) == 0 {
		return UniformLimit(values, m)
	}
	kept := graph[:1:1]
	if room > 1 {
		kept = UniformLimit(graph, room)
	}
	return append(kept[:len(kept):len(kept)], tail...)
}
