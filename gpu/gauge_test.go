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
		for _, c := range []struct{ reached, rate float64 }{{0, 6}, {6.05, 6}} { // 6 is near enough to what was reached before
			runs = 0
			got, err := BestRate(t.Context(), c.rate, c.reached, func() error {
				runs++
				time.Sleep(time.Duration(1+(runs+2)%Bursts) * time.Second) // the third one takes a second
				return nil
			})
			if err != nil || runs != Bursts || got != c.rate {
				t.Errorf("%v per second after %d runs, %v; want %v after %d", got, runs, err, c.rate, Bursts)
			}
		}
	})
	broken := errors.New("broken")
	if _, err := BestRate(t.Context(), 1, 0, func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	runs := 0
	if _, err := BestRate(ctx, 1, 0, func() error { runs++; cancel(broken); return nil }); !errors.Is(err, broken) || runs != 1 {
		t.Errorf("got %v after %d runs", err, runs)
	}
}

// A reading goes on while it stays below an earlier one, until it comes near or has done so often enough.
func TestBestRateIsReachedAgain(t *testing.T) {
	for _, c := range []struct {
		fast int // the run that takes a second, the others take two
		want int
		rate float64
	}{{12, 12, 6}, {MostBursts + 1, MostBursts, 3}} {
		synctest.Test(t, func(t *testing.T) {
			runs := 0
			got, err := BestRate(t.Context(), 6, 6, func() error {
				if runs++; runs != c.fast {
					time.Sleep(time.Second)
				}
				time.Sleep(time.Second)
				return nil
			})
			if err != nil || runs != c.want || got != c.rate {
				t.Errorf("%v per second after %d runs, %v; want %v after %d", got, runs, err, c.rate, c.want)
			}
		})
	}
}
