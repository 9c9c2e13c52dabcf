package flagvalue

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"90": 90 * time.Second, "0.5": time.Second / 2, "15m": 15 * time.Minute, "0": 0, "1e3": 1000 * time.Second, "-0": 0} {
		var d Duration
		if err := d.Set(text); err != nil || time.Duration(d) != want {
			t.Errorf("%s: %v (%v), want %v", text, time.Duration(d), err, want)
		}
	}
	for _, text := range []string{"", "soon", "-1", "-1s", "NaN", "inf", "-inf", "1e300", "9223372037", "15 m"} {
		d := Duration(7)
		if err := d.Set(text); err == nil || d != 7 {
			t.Errorf("%q was taken for %v", text, time.Duration(d))
		}
	}
}
