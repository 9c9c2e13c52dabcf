package launcher

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fpmrun/fpmrun/collective"
)

// seeker is an agent that looks for a head at an address.
func seeker(address string, wait time.Duration) (*agent, *text) {
	said := &text{}
	return &agent{AgentConfig: AgentConfig{Node: 1, Nodes: 2, Heads: []string{address}, Token: []byte("0123456789abcdef"), Wait: wait, progress: 10 * time.Millisecond},
		signals: make(chan os.Signal, 1), stderr: said}, said
}

// An agent that gets no answer says so while it waits, and in the end: where nobody listens, where the name is not known, where a stranger
// is silent.
func TestConnectNobody(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := ln.Addr().String()
	ln.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, address := range []string{nobody, "no-such-host.invalid:29500", silent.Addr().String()} {
		a, said := seeker(address, 200*time.Millisecond)
		_, err := a.connect(context.Background())
		if err == nil || !strings.Contains(err.Error(), "node 0 does not answer at "+address+" within 200ms") {
			t.Errorf("%s: %v", address, err)
		}
		if !strings.Contains(said.String(), "fpmrun: node 1 waits for an answer from "+address+"\n") {
			t.Errorf("%s: it said %q while it waited", address, said)
		}
	}
}

// A signal ends the looking at once, also in the middle of an attempt.
func TestConnectInterrupted(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	a, _ := seeker(silent.Addr().String(), time.Hour)
	a.progress = time.Hour
	a.signals <- syscall.SIGTERM
	_, err = a.connect(context.Background())
	var stopped interrupted
	if !errors.As(err, &stopped) || stopped.sig != syscall.SIGTERM || statusOf(err) != 143 {
		t.Errorf("%v (status %d), want that SIGTERM ended it", err, statusOf(err))
	}
}

// Of several addresses the one that answers is taken, and another token is told from no answer.
func TestDialAny(t *testing.T) {
	c, err := newCluster(t.Context(), Options{Nodes: Nodes{Nodes: 2, Rendezvous: "127.0.0.1:0", Token: []byte("0123456789abcdef")}}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close(End{})
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	p := collective.Peering{Token: []byte("0123456789abcdef"), RunID: peeringRun}
	addresses := []string{silent.Addr().String(), "no-such-host.invalid:1", c.ln.Addr().String()}
	conn, err := dialAny(context.Background(), p, addresses, 1)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	p.Token = []byte("another token, longer")
	if _, err := dialAny(context.Background(), p, addresses[1:], 1); !errors.Is(err, collective.ErrToken) {
		t.Errorf("another token: %v", err)
	}
}

// The head says who is missing while it waits, and that somebody came with another token.
func TestGatherProgress(t *testing.T) {
	var said text
	o := Options{JoinTimeout: 300 * time.Millisecond, Nodes: Nodes{Nodes: 3, Rendezvous: "127.0.0.1:0", Token: []byte("0123456789abcdef")}}
	c, err := newCluster(t.Context(), o, func(line string) { _, _ = said.Write([]byte(line + "\n")) })
	if err != nil {
		t.Fatal(err)
	}
	c.every = 10 * time.Millisecond
	stranger := collective.Peering{Token: []byte("another token, longer"), RunID: peeringRun}
	if _, err := stranger.DialPeer(context.Background(), c.ln.Addr().String(), 1); !errors.Is(err, collective.ErrToken) {
		t.Errorf("the stranger got %v", err)
	}
	err = c.gather(context.Background(), &session{signals: make(chan os.Signal)})
	c.close(End{})
	if err == nil || !strings.Contains(err.Error(), "nodes 1 and 2 of 3 did not come to 127.0.0.1:") || !strings.Contains(err.Error(), "; a connection from 127.0.0.1 did not prove that it has the token") {
		t.Errorf("%v, want that nodes 1 and 2 are missing and that a stranger came", err)
	}
	if !strings.Contains(said.String(), "waiting for nodes 1 and 2 of 3 at 127.0.0.1:") {
		t.Errorf("it said %q while it waited", said.String())
	}
}
