package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fpmrun/fpmrun/collective"
)

// failure is the reason that a rank gives a group up for.
type failure struct{ err error }

// Error is the reason's text.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns the reason.
func (f *failure) Unwrap() error { return f.err }

// giveUp: see Groups.GiveUp.
func giveUp(err error, world *collective.Comm, groups ...*collective.Comm) error {
	reason := &failure{err} // errors.Is tells it from every other
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(reason)
	first := world.Barrier(ctx) // an operation whose context has ended breaks its group, and tells the members why
	for _, g := range groups {
		if g == nil {
			continue
		}
		if gerr := g.Barrier(ctx); errors.Is(gerr, collective.ErrConcurrent) {
			_ = g.Close() // an operation that still waits for others ends here
		}
	}
	own := fmt.Sprintf("rank %d", world.Rank())
	switch {
	case errors.Is(first, reason) && !strings.Contains(err.Error(), own):
		return fmt.Errorf("%s: %w", own, err)
	case errors.Is(first, reason) || strings.Contains(err.Error(), first.Error()) || strings.Contains(first.Error(), err.Error()):
		return err
	}
	return fmt.Errorf("%w; what failed first: %w", err, first)
}
