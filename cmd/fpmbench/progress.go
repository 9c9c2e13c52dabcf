package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/fpmrun/fpmrun/rank/bench"
)

// progress shows how far the run is: a bar where stderr is a terminal, else a line every few seconds, since a line
// for each of many points would drown what matters.
type progress struct {
	w     io.Writer
	begin time.Time
	last  time.Time

	bars *mpb.Progress // nil without a terminal
	bar  *mpb.Bar
}

// lineInterval is the time between two lines where there is no terminal.
const lineInterval = 2 * time.Second

func newProgress(w io.Writer) *progress {
	p := &progress{w: w, begin: time.Now(), last: time.Now()}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(40))
	}
	return p
}

// update is called after each point.
func (p *progress) update(now bench.Progress) {
	if p.bars != nil {
		if p.bar == nil {
			p.bar = p.bars.AddBar(int64(now.Total), mpb.PrependDecorators(decor.CountersNoUnit("fpmbench: %d/%d points ")),
				mpb.AppendDecorators(decor.Name("ETA "), decor.AverageETA(decor.ET_STYLE_GO)))
		}
		p.bar.SetCurrent(int64(now.Done))
		return
	}
	if time.Since(p.last) < lineInterval && now.Done < now.Total {
		return
	}
	p.last = time.Now()
	elapsed := time.Since(p.begin)
	eta := elapsed * time.Duration(now.Total-now.Done) / time.Duration(now.Done)
	const width = 20
	filled := width * now.Done / now.Total
	fmt.Fprintf(p.w, "fpmbench: [%s%s] %d/%d points, %.1f s, ETA %.1f s\n", strings.Repeat("#", filled), strings.Repeat(".", width-filled),
		now.Done, now.Total, elapsed.Seconds(), eta.Seconds())
}

// finish leaves the bar as it is.
func (p *progress) finish() {
	if p.bar != nil {
		p.bar.Abort(false)
		p.bars.Wait()
	}
}
