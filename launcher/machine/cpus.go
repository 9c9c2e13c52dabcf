package machine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// CPUs is a set of CPU numbers, ascending and without duplicates.
type CPUs []int

// maxCPU bounds the numbers, far above any kernel's.
const maxCPU = 1 << 16

// ParseCPUs reads the kernel's lists, such as 0-3,8.
func ParseCPUs(text string) (CPUs, error) {
	var list CPUs
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		low, err := strconv.Atoi(first)
		high := low
		if isRange && err == nil {
			high, err = strconv.Atoi(last)
		}
		if err != nil || low < 0 || high < low || high > maxCPU {
			return nil, fmt.Errorf("machine: CPUs %q: want numbers and ranges such as 0-3,8", text)
		}
		for c := low; c <= high; c++ {
			list = append(list, c)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// String writes the set as the kernel does.
func (c CPUs) String() string {
	var parts []string
	for i := 0; i < len(c); {
		j := i
		for j+1 < len(c) && c[j+1] == c[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, strconv.Itoa(c[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", c[i], c[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// And is what two sets share.
func (c CPUs) And(other CPUs) CPUs {
	var both CPUs
	for _, n := range c {
		if _, ok := slices.BinarySearch(other, n); ok {
			both = append(both, n)
		}
	}
	return both
}

// MarshalText writes the set as the kernel does.
func (c CPUs) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (c *CPUs) UnmarshalText(text []byte) error {
	list, err := ParseCPUs(string(text))
	*c = list
	return err
}
