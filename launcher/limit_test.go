package launcher

import (
	"testing"
	"testing/synctest"
	"time"
)

// What passes while a limit stands still does not count.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		l := newLimit(10 * time.Second)
		time.Sleep(4 * time.Second)
		l.pause()
		l.pause()
		time.Sleep(time.Hour)
		l.resume()
		l.resume()
		<-l.C
		if got, want := time.Since(began), time.Hour+10*time.Second; got != want {
			t.Errorf("ended after %v, want %v", got, want)
		}
	})
}

// A limit that ends in the moment of the pause ends after it.
func TestLimitOverWhenPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimit(time.Second)
		time.Sleep(2 * time.Second)
		l.pause()
		select {
		case <-l.C:
			t.Error("ended during the pause")
		default:
		}
		l.resume()
		<-l.C
	})
}

func TestNoLimit(t *testing.T) {
	l := newLimit(0)
	l.pause()
	l.resume()
	l.stop()
	if l.C != nil {
		t.Error("a limit of 0 has a channel")
	}
}
