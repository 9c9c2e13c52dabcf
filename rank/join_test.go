package rank

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fpmrun/fpmrun/collective"
)

// freeAddresses are loopback addresses with ports that are free.
func freeAddresses(t *testing.T, n int) []string {
	t.Helper()
	var list []string
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		list = append(list, ln.Addr().String())
	}
	return list
}

// join joins all ranks of a run and returns their worlds.
func join(t *testing.T, run string, addresses []string) []*collective.Comm {
	t.Helper()
	type result struct {
		comm *collective.Comm
		err  error
	}
	results := make(chan result, 2)
	for rank := range 2 {
		go func() {
			id := Identity{Source: FromSlurm, Rank: rank, Size: 2, RunID: run, Rendezvous: addresses, JoinTimeout: 30 * time.Second}
			comm, _, err := Join(context.Background(), id, Options{Getenv: func(string) string { return "" }, Logger: slog.New(slog.DiscardHandler)})
			results <- result{comm, err}
		}()
	}
	var worlds []*collective.Comm
	for range 2 {
		r := <-results
		if r.err != nil {
			t.Fatalf("%s: %v", run, r.err)
		}
		worlds = append(worlds, r.comm)
	}
	return worlds
}

// leave closes worlds, all at once, since each waits for the others.
func leave(t *testing.T, worlds []*collective.Comm) {
	t.Helper()
	errs := make(chan error, len(worlds))
	for _, w := range worlds {
		go func() { errs <- w.Close() }()
	}
	for range worlds {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// Two steps whose first candidate is the same, and a program that is silent on the second one: each finds its own ranks.
func TestMeetingTakenPorts(t *testing.T) {
	addresses := freeAddresses(t, 4)
	silent, err := net.Listen("tcp", addresses[1])
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	first := join(t, "step 1", addresses)
	second := join(t, "step 2", addresses)
	leave(t, slices.Concat(first, second))
}

// Who does not find its run says so in time.
func TestMeetingNobody(t *testing.T) {
	id := Identity{Rank: 1, Size: 2, RunID: "run", Rendezvous: freeAddresses(t, 2), JoinTimeout: 50 * time.Millisecond}
	_, _, err := find(context.Background(), &id, &Options{Getenv: func(string) string { return "" }, Logger: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "nobody of this run listens at "+id.Rendezvous[0]) {
		t.Errorf("%v, want that nobody of this run listens", err)
	}
}

// A name that does not resolve is named, in the progress and in the end.
func TestMeetingUnknownName(t *testing.T) {
	id := Identity{Rank: 1, Size: 2, RunID: "run", Rendezvous: []string{"job-0.no-such.invalid:29400"}, JoinTimeout: 100 * time.Millisecond}
	_, _, err := find(context.Background(), &id, &Options{Getenv: environ("FPM_TOKEN=0123456789abcdef"), Logger: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "rank 0 is missing: its name job-0.no-such.invalid did not resolve") {
		t.Errorf("%v, want that the name did not resolve", err)
	}
}

// Where only the public name is left, a user can ask for more.
func TestRequireSecret(t *testing.T) {
	id := Identity{Size: 2, RunID: "run", Rendezvous: freeAddresses(t, 2)}
	o := Options{Getenv: environ("FPM_REQUIRE_SECRET=1"), Logger: slog.New(slog.DiscardHandler)}
	if _, _, err := find(context.Background(), &id, &o); !errors.Is(err, errNoSecret) {
		t.Errorf("%v, want that a secret is required", err)
	}
	o = Options{Getenv: environ(), Logger: o.Logger, RequireSecret: true}
	if _, _, err := find(context.Background(), &id, &o); !errors.Is(err, errNoSecret) {
		t.Errorf("%v, want that a secret is required", err)
	}
	o = Options{Getenv: environ("FPM_REQUIRE_SECRET=perhaps"), Logger: o.Logger}
	if _, _, err := find(context.Background(), &id, &o); err == nil || !strings.Contains(err.Error(), "FPM_REQUIRE_SECRET=perhaps: want 1 or 0") {
		t.Errorf("%v, want what is right", err)
	}
}
