// Package flagvalue has the kinds of flag values that the programs share. Each refuses a wrong value with what
// would be right.
package flagvalue

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxSeconds is where a duration ends, 292 years.
const maxSeconds = float64(math.MaxInt64) / float64(time.Second)

// Duration is a flag value in Go syntax or a bare number of seconds, 0 or more.
type Duration time.Duration

// Set implements flag.Value.
func (d *Duration) Set(s string) error {
	v, err := time.ParseDuration(s)
	if seconds, number := strconv.ParseFloat(s, 64); number == nil {
		v, err = time.Duration(seconds*float64(time.Second)), nil
		if !(math.Abs(seconds) < maxSeconds) { // not a number, too
			err = strconv.ErrRange
		}
	}
	if err != nil {
		return fmt.Errorf("want seconds or a duration such as 90s or 15m, got %q", s)
	}
	if v < 0 {
		return fmt.Errorf("want a duration of at least 0, got %q", s)
	}
	*d = Duration(v)
	return nil
}

// String implements flag.Value.
func (d *Duration) String() string { return time.Duration(*d).String() }

// OnOff is a switch that is written as a word.
type OnOff bool

// Set implements flag.Value.
func (o *OnOff) Set(s string) error {
	switch strings.ToLower(s) {
	case "on", "1", "true", "yes":
		*o = true
	case "off", "0", "false", "no":
		*o = false
	default:
		return fmt.Errorf("want on or off, got %q", s)
	}
	return nil
}

// String implements flag.Value.
func (o *OnOff) String() string {
	if *o {
		return "on"
	}
	return "off"
}

// Choice is a string out of a fixed set.
type Choice struct {
	Value   string
	Allowed []string
}

// Set implements flag.Value.
func (c *Choice) Set(s string) error {
	if !slices.Contains(c.Allowed, s) {
		return fmt.Errorf("want one of %s, got %q", strings.Join(c.Allowed, ", "), s)
	}
	c.Value = s
	return nil
}

// String implements flag.Value.
func (c *Choice) String() string { return c.Value }

// Count is an integer with bounds; High 0 is none.
type Count struct {
	Value     int
	Low, High int
	Given     bool // it was set
}

// Set implements flag.Value.
func (c *Count) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < c.Low || c.High > 0 && n > c.High {
		want := fmt.Sprintf("an integer of at least %d", c.Low)
		if c.High > 0 {
			want = fmt.Sprintf("an integer from %d to %d", c.Low, c.High)
		}
		return fmt.Errorf("want %s, got %q", want, s)
	}
	c.Value, c.Given = n, true
	return nil
}

// String implements flag.Value.
func (c *Count) String() string { return strconv.Itoa(c.Value) }

// Sizes is a list of integers separated by commas.
type Sizes []int

// Set implements flag.Value.
func (l *Sizes) Set(s string) error {
	var list []int
	for _, part := range strings.Split(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return fmt.Errorf("want integers separated by commas, got %q", s)
		}
		list = append(list, n)
	}
	*l = list
	return nil
}

// String implements flag.Value.
func (l *Sizes) String() string {
	text := make([]string, len(*l))
	for i, n := range *l {
		text[i] = strconv.Itoa(n)
	}
	return strings.Join(text, ",")
}
