package launcher

import "time"

// limit is a time limit that stands still while the job is suspended. The zero value never ends.
type limit struct {
	C     <-chan time.Time // gets one value when the time is over
	timer *time.Timer
	ends  time.Time
	rest  time.Duration // while it stands still
	still bool
}

// newLimit starts a limit; of 0 or less it never ends.
func newLimit(d time.Duration) *limit {
	l := &limit{}
	if d > 0 {
		l.start(d)
	}
	return l
}

func (l *limit) start(d time.Duration) {
	l.timer, l.ends = time.NewTimer(d), time.Now().Add(d)
	l.C = l.timer.C
}

// pause makes the limit stand still; a second pause changes nothing.
func (l *limit) pause() {
	if l.timer == nil || l.still {
		return
	}
	l.timer.Stop()
	l.rest, l.still = max(time.Until(l.ends), 0), true
}

// resume ends a pause.
func (l *limit) resume() {
	if l.still {
		l.still = false
		l.start(l.rest)
	}
}

// stop ends the limit without a value.
func (l *limit) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}
