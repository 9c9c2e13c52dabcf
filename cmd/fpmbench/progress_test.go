package main

import (
	"strings"
	"testing"
	"time"

	"github.com/fpmrun/fpmrun/rank/bench"
)

func TestProgress(t *testing.T) {
	for _, c := range []struct {
		own  int
		want string
	}{
		{5, "fpmbench: [#####...............] 5/20 points, 10.0 s, ETA 30.0 s"},
		{1, "fpmbench: [#####...............] 5/20 points, 10.0 s, ETA 150.0 s"}, // four are of an earlier process
	} {
		if got := bar(5, 20, c.own, 10*time.Second); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	var out strings.Builder
	p := newProgress(&out)
	for done := 1; done <= 50; done++ {
		p.update(bench.Progress{Done: done, Total: 50})
	}
	p.finish()
	if lines := strings.Count(out.String(), "\n"); lines != 1 || !strings.Contains(out.String(), "50/50") {
		t.Errorf("50 quick points give %d lines, want the last alone: %q", lines, out.String())
	}
}
