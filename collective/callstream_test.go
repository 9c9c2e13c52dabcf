package collective

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
)

// pattern is bytes that repeat late.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return b
}

func TestStreamedAnswer(t *testing.T) {
	everywhere(t, func(t *testing.T, comms []*Comm) {
		const size = 5*streamWindow + 17
		last := len(comms) - 1
		if err := comms[last].Handle("pour", func(_ context.Context, req *Request) (any, error) {
			var n int
			if err := req.Decode(&n); err != nil {
				return nil, err
			}
			_, err := io.Copy(req, bytes.NewReader(pattern(n)))
			return nil, err
		}); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 1, size} {
			r, err := comms[0].Stream(t.Context(), last, "pour", n)
			if err != nil {
				t.Fatal(err)
			}
			h := sha256.New()
			got, err := io.Copy(h, r)
			if err != nil || got != int64(n) || [32]byte(h.Sum(nil)) != sha256.Sum256(pattern(n)) {
				t.Errorf("%d bytes of %d (%v)", got, n, err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A reader that stops holds the writer back at the window, and its Close ends the handler.
func TestStreamWindow(t *testing.T) {
	for _, n := range []int{1, 2} {
		comms := joinAll(t, n, true, nil)
		ended := make(chan error, 1)
		written := make(chan int, 1)
		if err := comms[n-1].Handle("endless", func(ctx context.Context, req *Request) (any, error) {
			total := 0
			for {
				k, err := req.Write(make([]byte, 10_000))
				total += k
				if err != nil {
					written <- total
					ended <- err
					return nil, err
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		r, err := comms[0].Stream(t.Context(), n-1, "endless", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if got := <-written; got > streamWindow {
			t.Errorf("%d bytes were written for a reader that took 100, window %d", got, streamWindow)
		}
		if err := <-ended; !errors.Is(err, ErrAborted) {
			t.Errorf("the writer got %v", err)
		}
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, ErrClosed) {
			t.Errorf("read after Close: %v", err)
		}
	}
}

func TestStreamFailures(t *testing.T) {
	comms := joinAll(t, 2, false, nil)
	handlers := map[string]Handler{
		"half": func(_ context.Context, req *Request) (any, error) {
			if _, err := req.Write([]byte("half")); err != nil {
				return nil, err
			}
			return nil, errors.New("the pen broke")
		},
		"plain": func(_ context.Context, req *Request) (any, error) { _, err := req.Write([]byte("x")); return nil, err },
	}
	for name, h := range handlers {
		if err := comms[1].Handle(name, h); err != nil {
			t.Fatal(err)
		}
	}
	comms[1].Ready()
	r, err := comms[0].Stream(t.Context(), 1, "half", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if string(got) != "half" || !errors.Is(err, ErrRemote) || !strings.Contains(err.Error(), "the pen broke") {
		t.Errorf("%q, %v", got, err)
	}
	if err := comms[0].Call(t.Context(), 1, "plain", nil, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("a plain call of a handler that streams: %v", err)
	}
	r, err = comms[0].Stream(t.Context(), 1, "missing", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); !errors.Is(err, ErrUnknownMethod) || !strings.Contains(err.Error(), "half, plain") {
		t.Errorf("unknown method: %v", err)
	}
	if _, err := comms[0].Stream(t.Context(), 2, "half", nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("rank 2 of 2: %v", err)
	}
}

func TestNotify(t *testing.T) {
	everywhere(t, func(t *testing.T, comms []*Comm) {
		got := make(chan int, len(comms))
		last := len(comms) - 1
		if err := comms[last].Handle("note", func(_ context.Context, req *Request) (any, error) {
			var from int
			err := req.Decode(&from)
			if from != req.From {
				t.Errorf("rank %d says it is %d", req.From, from)
			}
			got <- from
			return "dropped", err
		}); err != nil {
			t.Fatal(err)
		}
		each(comms, func(rank int, c *Comm) {
			if err := c.Notify(t.Context(), last, "note", rank); err != nil {
				t.Error(err)
			}
		})
		seen := map[int]bool{}
		for range comms {
			seen[<-got] = true
		}
		if len(seen) != len(comms) {
			t.Errorf("notified by %v", seen)
		}
		if err := comms[0].Notify(t.Context(), len(comms), "note", 0); !errors.Is(err, ErrInvalid) {
			t.Errorf("a rank that is not there: %v", err)
		}
	})
}
