package artifact

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Float is a float64 whose JSON text is Python's: the shortest digits that read back to the same value, always
// with a point or an exponent, exponents below 1e-4 and from 1e16 on. A value that is not finite is refused.
type Float float64

// MarshalJSON implements json.Marshaler.
func (f Float) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return nil, fmt.Errorf("artifact: %v is not a finite number and has no place in an artifact", float64(f))
	}
	return []byte(floatText(float64(f))), nil
}

// floatText formats a finite number as Python's repr does.
func floatText(f float64) string {
	e := strconv.FormatFloat(f, 'e', -1, 64)
	exponent, _ := strconv.Atoi(e[strings.IndexByte(e, 'e')+1:])
	if f != 0 && (exponent < -4 || exponent >= 16) {
		return e
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.ContainsRune(s, '.') {
		s += ".0"
	}
	return s
}
