//go:build unix

package collective

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// pollSlice bounds a poll on two descriptors, which a wake cannot end early.
const pollSlice = 10 * time.Millisecond

// pollBoth waits until r is readable, w is writable, or a short while has passed.
func pollBoth(r, w int, until time.Time) error {
	d := pollSlice
	if !until.IsZero() {
		d = min(d, max(time.Until(until), 0))
	}
	fds := [2]unix.PollFd{{Fd: int32(r), Events: unix.POLLIN}, {Fd: int32(w), Events: unix.POLLOUT}}
	if _, err := unix.Poll(fds[:], int(d.Milliseconds())); err != nil && !errors.Is(err, unix.EINTR) {
		return err
	}
	return nil
}
