package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/fpmrun/fpmrun/rank/bench"
)

// progress shows how far the run is: one line that is drawn anew where stderr is a terminal, else a line every few
// seconds, since a line for each of many points would drown what matters.
type progress struct {
	w        io.Writer
	terminal bool
	begin    time.Time
	last     time.Time // when a line was printed
}

// Times between two lines.
const (
	terminalInterval = 100 * time.Millisecond
	lineInterval     = 2 * time.Second
)

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	return &progress{w: w, terminal: ok && term.IsTerminal(int(f.Fd())), begin: time.Now(), last: time.Now()}
}

// update is called after each point, outside every timed step.
func (p *progress) update(now bench.Progress) {
	interval := lineInterval
	if p.terminal {
		interval = terminalInterval
	}
	if time.Since(p.last) < interval && now.Done < now.Total {
		return
	}
	p.last = time.Now()
	line := bar(now.Done, now.Total, now.Done-now.Earlier, time.Since(p.begin))
	if p.terminal {
		line = "\r\x1b[K" + line // the begin of the line, and nothing of the old one
	} else {
		line += "\n"
	}
	fmt.Fprint(p.w, line)
}

// bar is the line for done of total points; the last own of them took a time.
func bar(done, total, own int, elapsed time.Duration) string {
	const width = 20
	filled := width * done / total
	eta := elapsed * time.Duration(total-done) / time.Duration(max(1, own))
	return fmt.Sprintf("fpmbench: [%s%s] %d/%d points, %.1f s, ETA %.1f s", strings.Repeat("#", filled), strings.Repeat(".", width-filled),
		done, total, elapsed.Seconds(), eta.Seconds())
}

// finish leaves the last line where it is.
func (p *progress) finish() {
	if p.terminal {
		fmt.Fprintln(p.w)
	}
}
