package main

import (
	"net"
	"slices"
	"strings"
	"testing"

	reuseport "github.com/libp2p/go-reuseport"

	"github.com/fpmrun/fpmrun/rank"
	"github.com/fpmrun/fpmrun/rank/env"
)

func TestOrderOfLaunches(t *testing.T) {
	got := ""
	for n := 1; n <= 9; n++ {
		got += orderOf("abba", n)
	}
	if got != "abbaabbaa" {
		t.Errorf("abba is %s", got)
	}
	if orderOf("same", 2) != "a" {
		t.Error("same is not the same")
	}
}

// A process of a launch is the same rank of the same world as its parent, at another place and with another secret, whoever started the parent.
func TestLaunchEnvironment(t *testing.T) {
	l := launch{Number: 2, Order: "b", Output: "out/launch-2/benchmark.json", RunID: "run-2", Rendezvous: "127.0.0.1:4000", Token: "secret"}
	outer := env.Set{Rank: 3, WorldSize: 4, LocalRank: 1, LocalWorldSize: 2, NodeRank: 1, Nodes: 2, Topology: env.Topology{DP: 2, PP: 1, PCP: 1, TP: 2}, RunID: "outer", Rendezvous: "n1:1000",
		TokenFile: "/job/token", StateFile: "/job/state", JobFile: "/job/page", GPUSharers: 1}
	for _, c := range []struct {
		name    string
		environ []string
		want    rank.Identity
	}{
		{"fpmrun", append([]string{"HOME=/h", env.KeyIdentity + "=fpmrun"}, outer.Environ()...),
			rank.Identity{Source: rank.FromFPMRun, Rank: 3, Size: 4, LocalRank: 1, LocalSize: 2, Topology: outer.Topology, RunID: "run-2", Rendezvous: []string{"127.0.0.1:4000"}}},
		{"Slurm", []string{"HOME=/h", "SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NUM_NODES=1", "SLURM_LOCALID=1",
			"SLURM_GTIDS=0,1", env.KeyToken + "=old"},
			rank.Identity{Source: rank.FromFPMRun, Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, Topology: env.Topology{DP: 2, PP: 1, PCP: 1, TP: 1}, RunID: "run-2", Rendezvous: []string{"127.0.0.1:4000"}}},
		{"nobody", []string{"HOME=/h", keyLaunch + "=1"}, rank.Identity{Source: rank.FromNobody, Size: 1, LocalSize: 1}},
	} {
		parent := &program{environ: c.environ}
		id, err := rank.Identify(parent.getenv)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		topology, err := rank.Agree(id, env.Topology{})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		environ, err := l.environ(c.environ, parent.getenv, id, topology)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		child := &program{environ: environ}
		got, err := rank.Identify(child.getenv)
		if err != nil || got.Rank != c.want.Rank || got.Size != c.want.Size || got.LocalRank != c.want.LocalRank || got.LocalSize != c.want.LocalSize || got.Topology != c.want.Topology ||
			got.Source != c.want.Source || got.RunID != c.want.RunID || !slices.Equal(got.Rendezvous, c.want.Rendezvous) || got.StateFile+got.JobFile+got.TokenFile != "" {
			t.Errorf("%s: %+v (%v)\nwant %+v", c.name, got, err, c.want)
		}
		if token := child.getenv(env.KeyToken); id.Size > 1 && token != "secret" {
			t.Errorf("%s: token %q", c.name, token)
		}
		if child.getenv("HOME") != "/h" || child.getenv(keyLaunch) != "2" || child.getenv(keyLaunchOrder) != "b" || child.getenv(keyLaunchOutput) != l.Output {
			t.Errorf("%s: environment %q", c.name, environ)
		}
		if id.Size > 1 && c.name == "fpmrun" && child.getenv(env.KeyLocalGPU) != "0" {
			t.Errorf("%s: the GPU was lost", c.name)
		}
	}
}

// A reserved port is refused to others, but not to a rank, which shares it.
func TestReservedPort(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "localhost.example"} {
		address, release, err := reservePort(host)
		if err != nil {
			t.Fatal(err)
		}
		got, port, err := net.SplitHostPort(address)
		if err != nil || got != host {
			t.Errorf("address %s (%v)", address, err)
		}
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			t.Errorf("%s: anybody can have the port", address)
		}
		shared := net.ListenConfig{Control: reuseport.Control}
		l, err := shared.Listen(t.Context(), "tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatalf("%s: a rank cannot have the port: %v", address, err)
		}
		l.Close()
		if err := release(); err != nil {
			t.Error(err)
		}
	}
	if !strings.HasPrefix(launchOutput("a/b.json", 3), "a/launch-3/") {
		t.Error("launches share a folder")
	}
}
