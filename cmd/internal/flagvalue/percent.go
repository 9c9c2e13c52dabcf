package flagvalue

import (
	"fmt"
	"strconv"
	"strings"
)

// Percent is a flag value such as 5% or 5; the value is the fraction.
type Percent struct {
	Value float64
	Given bool // it was set
}

// Set implements flag.Value.
func (p *Percent) Set(s string) error {
	v, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || !(v >= 0 && v <= 1e6) {
		return fmt.Errorf("want a percentage such as 5%%, got %q", s)
	}
	p.Value, p.Given = v/100, true
	return nil
}

// String implements flag.Value.
func (p *Percent) String() string { return strconv.FormatFloat(100*p.Value, 'g', -1, 64) + "%" }
