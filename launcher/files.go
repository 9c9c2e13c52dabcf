package launcher

import (
	"fmt"
	"syscall"

	"github.com/fpmrun/fpmrun/collective"
)

// ownFiles is how many open files the launcher keeps for itself, and for ranks that are just being started.
const ownFiles = 64

// room checks that a job is of a size that can be started: before the first rank, not after the one that does not fit. local is the
// number of ranks that this node starts.
func (o *Options) room(l layout, local int) error {
	if l.World > collective.MaxSize {
		return fmt.Errorf("-np %d: a job has at most %d ranks", l.World, collective.MaxSize)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil //nolint:nilerr // what does not fit is then seen when it is opened
	}
	return o.roomFor(l, local, limit.Cur)
}

// roomFor checks that the outputs of all ranks that are read here fit into so many open files.
func (o *Options) roomFor(l layout, local int, limit uint64) error {
	files := 2 * local
	if l.Node == 0 {
		files += 4 * (l.World - local) // both ends of the pipes that the outputs from other nodes come out of
	}
	if o.Stdin == StdinAll {
		files += local
	}
	for r := l.First; r < l.First+local; r++ {
		for output := range 2 {
			if o.writes(r, output) {
				files++
			}
		}
	}
	if need := uint64(files + ownFiles); need > limit {
		return fmt.Errorf("-np %d: the outputs of the ranks need %d open files, and this process may have %d; raise the limit (ulimit -n %d) or start fewer", l.World, need, limit, need)
	}
	return nil
}
