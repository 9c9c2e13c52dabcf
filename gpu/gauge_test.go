package gpu

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The fastest of all bursts counts; the first failure ends them, and so does the caller.
func TestBestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		got, err := BestRate(t.Context(), 6, func() error {
			runs++
			time.Sleep(time.Duration(1+(runs+2)%Bursts) * time.Second) // the third one takes a second
			return nil
		})
		if err != nil || runs != Bursts || got != 6 {
			t.Errorf("%v per second after %d runs, %v; want 6 after %d", got, runs, err, Bursts)
		}
	})
	broken := errors.New("broken")
	if _, err := BestRate(t.Context(), 1, func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	runs := 0
	if _, err := BestRate(ctx, 1, func() error { runs++; cancel(broken); return nil }); !errors.Is(err, broken) || runs != 1 {
		t.Errorf("got %v after %d runs", err, runs)
	}
}
