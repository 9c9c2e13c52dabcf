package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fpmrun/fpmrun/collective"
)

// failure is the reason that a rank gives a group up for. Its address tells it from every other.
type failure struct{ err error }

// Error is the reason's text.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns the reason.
func (f *failure) Unwrap() error { return f.err }

// giveUp: see Groups.GiveUp.
func giveUp(err error, world *collective.Comm, groups ...*collective.Comm) error {
	reason := &failure{err}
	first := abandon(world, reason)
	earlier := !errors.Is(first, reason)
	if earlier {
		reason = &failure{first}
	}
	for _, g := range groups {
		if g != nil && errors.Is(abandon(g, reason), collective.ErrConcurrent) {
			_ = g.Close() // an operation that still waits for others ends here
		}
	}
	own := fmt.Sprintf("rank %d", world.Rank())
	switch {
	case earlier && !strings.Contains(err.Error(), gist(first)) && !strings.Contains(first.Error(), err.Error()):
		return fmt.Errorf("%w; what failed first: %w", err, first)
	case !earlier && !strings.Contains(err.Error(), own):
		return fmt.Errorf("%s: %w", own, err)
	}
	return err
}

// abandon breaks a group for a reason, which its members are told, and returns the error that it is broken with: an operation whose context has
// ended does this.
func abandon(g *collective.Comm, reason *failure) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(reason)
	return g.Barrier(ctx)
}

// gist is what happened, without the place where it was noticed.
func gist(err error) string {
	if e, ok := errors.AsType[*collective.Error](err); ok && e.Text != "" {
		return e.Text
	}
	return err.Error()
}
