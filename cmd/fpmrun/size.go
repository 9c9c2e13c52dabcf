package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// size is a flag value in bytes, written with a unit or without: 512MiB, 2G, 0.
type size int64

// Set implements flag.Value.
func (z *size) Set(s string) error {
	number := strings.TrimSuffix(strings.TrimSuffix(s, "B"), "i")
	shift := 0
	for i, unit := range "KMGT" {
		for _, sign := range []string{string(unit), strings.ToLower(string(unit))} {
			if n, ok := strings.CutSuffix(number, sign); ok {
				number, shift = n, 10*(i+1)
			}
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return fmt.Errorf("want bytes, or a size such as 512M or 2GiB")
	}
	*z = size(n << shift)
	return nil
}

// String implements flag.Value.
func (z *size) String() string { return strconv.FormatInt(int64(*z), 10) }
