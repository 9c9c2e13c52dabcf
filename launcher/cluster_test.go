package launcher

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/launcher/keeper"
)

// text is a console that several goroutines may write to.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// gang is a job of several nodes, all of them in this process.
type gang struct {
	t        *testing.T
	o        Options
	out, err text
	ended    chan End
}

// newGang starts the head of a job that runs a shell command on every rank.
func newGang(t *testing.T, nodes, ranks int, command string) *gang {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	g := &gang{t: t, ended: make(chan End, 1)}
	g.o = Options{
		Segments: []Segment{{Ranks: ranks, Program: "sh", Args: []string{"-c", command}}},
		Environ:  append(os.Environ(), "TMPDIR="+t.TempDir()), Stdin: StdinNone, JoinTimeout: time.Minute,
		Nodes: Nodes{Nodes: nodes, Rendezvous: address, Token: []byte("0123456789abcdef"), Spread: true, Command: []string{"-np", fmt.Sprint(ranks)}, Build: "v1"},
	}
	go func() { g.ended <- Lead(context.Background(), g.o, Streams{Out: &g.out, Err: &g.err}) }()
	return g
}

// agent is the configuration of a node's agent.
func (g *gang) agent(node int) AgentConfig {
	n := g.o.Nodes
	return AgentConfig{Node: node, Nodes: n.Nodes, Heads: []string{n.Rendezvous}, Token: n.Token, Options: &g.o, Command: n.Command, Build: n.Build, Environ: g.o.Environ}
}

// served is how an agent ended.
type served struct {
	status int
	err    error
}

func (g *gang) serve(cfg AgentConfig) <-chan served {
	result := make(chan served, 1)
	go func() {
		status, err := Serve(context.Background(), cfg, &g.err)
		result <- served{status, err}
	}()
	return result
}

func TestThreeNodes(t *testing.T) {
	g := newGang(t, 3, 6, "echo $FPM_RANK on $FPM_NODE_RANK; exit $((FPM_RANK == 5))")
	one, two := g.serve(g.agent(1)), g.serve(g.agent(2))
	end := <-g.ended
	if end.Status != 1 || end.Cause == nil || end.Cause.Rank != 5 {
		t.Errorf("the job ended with %+v, want rank 5's status 1", end)
	}
	for node, result := range map[int]<-chan served{1: one, 2: two} {
		if r := <-result; r.status != 1 || r.err != nil {
			t.Errorf("node %d: %+v, want status 1", node, r)
		}
	}
	for rank := range 6 {
		if want := fmt.Sprintf("%d on %d\n", rank, rank/2); !strings.Contains(g.out.String(), want) {
			t.Errorf("no %q in %q", want, g.out.String())
		}
	}
}

// A node rank that is taken is refused; the job waits for the node that is missing, and runs.
func TestNodeRankTwice(t *testing.T) {
	g := newGang(t, 3, 3, "true")
	first, second := g.serve(g.agent(1)), g.serve(g.agent(1))
	var refused served
	good := first
	select {
	case refused = <-first:
		good = second
	case refused = <-second:
	}
	var r *RefusedError
	if !errors.As(refused.err, &r) || !strings.Contains(r.Reason, "has node rank 1, which node 1 (host") {
		t.Errorf("the second node 1: %+v, want a refusal that names the first", refused)
	}
	last := g.serve(g.agent(2))
	if end := <-g.ended; end.Status != 0 {
		t.Errorf("the job ended with %+v\n%s", end, g.err.String())
	}
	if a, b := <-good, <-last; a.status+b.status != 0 || a.err != nil || b.err != nil {
		t.Errorf("agents: %+v %+v", a, b)
	}
}

// fake is an agent that says what a test tells it to.
type fake struct {
	link   *link
	orders chan toAgent
}

func newFake(t *testing.T, g *gang, node int, h hello) *fake {
	t.Helper()
	cfg := g.agent(node)
	p := collective.Peering{Token: cfg.Token, RunID: peeringRun}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var conn net.Conn
	for conn == nil {
		conn, _ = p.DialPeer(ctx, cfg.Heads[0], node)
		if ctx.Err() != nil {
			t.Fatal("the head does not listen")
		}
	}
	f := &fake{orders: make(chan toAgent, 16)}
	f.link = newLink(conn, func(text []byte) {
		var m toAgent
		if text == nil {
			close(f.orders)
		} else if err := json.Unmarshal(text, &m); err != nil {
			t.Error(err)
		} else {
			f.orders <- m
		}
	})
	t.Cleanup(f.link.close)
	if err := f.link.send(toHead{Hello: &h}); err != nil {
		t.Fatal(err)
	}
	return f
}

// An fpmrun of another version is named, and the job ends at once.
func TestNodeVersion(t *testing.T) {
	g := newGang(t, 2, 2, "true")
	f := newFake(t, g, 1, hello{Version: linkVersion + 1, Build: "v2", Node: 1, Nodes: 2, Host: "b", PID: 7})
	m := <-f.orders
	want := fmt.Sprintf("the agent on host b (pid 7) speaks version %d (build v2), node 0 speaks version %d (build v1); install the same fpmrun on all nodes", linkVersion+1, linkVersion)
	if m.Refused == nil || *m.Refused != (ending{1, want}) {
		t.Errorf("the agent was told %+v, want %q", m, want)
	}
	f.link.close()
	if end := <-g.ended; end.Status != 1 || end.Err == nil || end.Err.Error() != want {
		t.Errorf("the job ended with %+v, want %q", end, want)
	}
}

// Another build of the same version takes part; a line says so.
func TestNodeBuild(t *testing.T) {
	g := newGang(t, 2, 2, "true")
	cfg := g.agent(1)
	cfg.Build = "v2"
	agent := g.serve(cfg)
	if end := <-g.ended; end.Status != 0 || !strings.Contains(g.err.String(), "runs build v2 of fpmrun, node 0 build v1") {
		t.Errorf("the job ended with %+v\n%s", end, g.err.String())
	}
	<-agent
}

// An agent that plans nonsense, or tells of ranks that are not its own, changes nothing for others.
func TestNodeSpeaksOfOthers(t *testing.T) {
	g := newGang(t, 2, 2, "sleep 0.3; echo done")
	f := newFake(t, g, 1, hello{Version: linkVersion, Build: "v1", Node: 1, Nodes: 2, Host: "b", Command: g.o.Nodes.Command})
	answer := func(m toHead) {
		t.Helper()
		if err := f.link.send(m); err != nil {
			t.Fatal(err)
		}
	}
	for m := range f.orders {
		switch {
		case m.Ask != nil:
			answer(toHead{Counted: []int{1}})
		case m.Lay != nil:
			answer(toHead{Planned: &planned{Ranks: []Rank{{Rank: 0, Args: []string{"sh"}}}}})
		case m.Go != nil:
			answer(toHead{Notice: &keeper.Notice{Rank: 0, Exited: true, Status: 9 << 8}}) // the head's own
			answer(toHead{Notice: &keeper.Notice{Rank: 77, Exited: true}})
			answer(toHead{Notice: &keeper.Notice{Rank: -1, PID: 5}})
			answer(toHead{Sights: &sights{Number: 99, Ranks: []sight{{Rank: 1000}}}})
			answer(toHead{Notice: &keeper.Notice{Rank: 1, PID: 5}})
			answer(toHead{Notice: &keeper.Notice{Rank: 1, Exited: true}})
			answer(toHead{Notice: &keeper.Notice{Rank: 1, Exited: true}}) // once more: the head's rank still runs
		case m.Finish:
			answer(toHead{Done: true})
		case m.End != nil:
			f.link.close()
		}
	}
	if end := <-g.ended; end.Status != 0 || g.out.String() != "done\n" {
		t.Errorf("the job ended with %+v, stdout %q\n%s", end, g.out.String(), g.err.String())
	}
}

// A plan of another size than was asked for ends the job.
func TestNodePlansTooMany(t *testing.T) {
	g := newGang(t, 2, 2, "true")
	f := newFake(t, g, 1, hello{Version: linkVersion, Node: 1, Nodes: 2, Host: "b", Command: g.o.Nodes.Command})
	for m := range f.orders {
		switch {
		case m.Ask != nil:
			_ = f.link.send(toHead{Counted: []int{1}})
		case m.Lay != nil:
			_ = f.link.send(toHead{Planned: &planned{}})
		case m.End != nil:
			f.link.close()
		}
	}
	if end := <-g.ended; end.Status != 1 || end.Err == nil || !strings.Contains(end.Err.Error(), "node 1 (host b): a plan of 0 ranks, want 1") {
		t.Errorf("the job ended with %+v", end)
	}
}
