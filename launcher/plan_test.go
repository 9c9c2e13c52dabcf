package launcher

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/launcher/keeper"
	"github.com/fpmrun/fpmrun/rank/env"
)

func TestLookUp(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	file := func(folder, name string, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tool, own, theirs := file(dir, "tool", 0o755), file(other, "fpmtool", 0o755), file(dir, "fpmtool", 0o755)
	file(dir, "data", 0o644)
	shadow := file(other, "tool", 0o755)
	for _, c := range []struct {
		name, program, path, siblings, dir string
		want                               string
		status                             int
	}{
		{"in PATH", "tool", dir, "", "", tool, 0},
		{"first in PATH", "tool", other + ":" + dir, "", "", shadow, 0},
		{"own name next to the launcher", "fpmtool", dir, other, "", own, 0},
		{"own name in PATH alone", "fpmtool", dir, "", "", theirs, 0},
		{"other names are not looked up there", "tool", "/nowhere", other, "", "", 127},
		{"path", tool, "", "", "", tool, 0},
		{"relative to the working directory", "./tool", "", "", dir, tool, 0},
		{"not there", "nothing", dir, "", "", "", 127},
		{"path not there", dir + "/nothing", "", "", "", "", 127},
		{"not executable", "data", dir, "", "", "", 126},
		{"folder", dir, "", "", "", "", 126},
	} {
		got, err := lookUp(c.program, c.path, c.siblings, c.dir)
		var missing *NotFoundError
		if errors.As(err, &missing); got != c.want || c.status != 0 && (missing == nil || missing.Status != c.status) || c.status == 0 && err != nil {
			t.Errorf("%s: got %q (%v), want %q and status %d", c.name, got, err, c.want, c.status)
		}
	}
}

// Every rank knows who it is, in our words and torchrun's; what another launcher said is gone; the rest is passed on.
func TestPlanEnvironment(t *testing.T) {
	p, err := NewPlan(Options{
		Segments: []Segment{{Ranks: 2, Program: "/bin/true"}, {Ranks: 2, Program: "/bin/true", Env: []string{"ROLE=b"}}},
		Topology: env.Topology{TP: 2},
		Environ:  []string{"PATH=/bin", "OMPI_COMM_WORLD_RANK=7", "PMI_RANK=7", "NCCL_DEBUG=INFO", "OMP_NUM_THREADS=3"},
		Env:      []string{"ROLE=a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	last := keeper.Merge(p.environ, p.Ranks[3].Env)
	for name, want := range map[string]string{
		env.KeyRank: "3", env.KeyWorldSize: "4", env.KeyLocalRank: "3", env.KeyDPRank: "1", env.KeyTPRank: "1", env.KeyTPSize: "2", env.KeyRunID: p.RunID,
		env.TorchRank: "3", env.TorchWorldSize: "4", "ROLE": "b", "NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "3", "OMPI_COMM_WORLD_RANK": "", "PMI_RANK": "",
		"PYTHONUNBUFFERED": "1",
	} {
		if got := lookup(last, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := lookup(keeper.Merge(p.environ, p.Ranks[1].Env), "ROLE"); got != "a" {
		t.Errorf("ROLE of rank 1 is %q, want a", got)
	}
}

func TestPlanRefuses(t *testing.T) {
	segment := []Segment{{Ranks: 8, Program: "/bin/true"}}
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"no program", Options{}, "no program"},
		{"no ranks", Options{Segments: []Segment{{Program: "/bin/true"}}}, "-np 0"},
		{"topology that does not divide", Options{Segments: segment, Topology: env.Topology{TP: 3}}, "tp 3"},
		{"topology that contradicts", Options{Segments: segment, Topology: env.Topology{DP: 2, TP: 2, PP: 1, PCP: 1}}, "-np 8"},
		{"stdin of a rank that is not there", Options{Segments: segment, Stdin: 8}, "--stdin 8"},
		{"showing a rank that is not there", Options{Segments: segment, Show: []int{9}}, "--show 9"},
		{"unknown policy", Options{Segments: segment, OnFailure: "hope"}, "hope"},
	} {
		if _, err := NewPlan(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// A reserved port cannot be taken by a program that does not ask to share it, and rank 0 can listen on it.
func TestReserve(t *testing.T) {
	seen := map[string]bool{}
	for range 20 {
		r, err := reserveOne(loopback())
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		if seen[r.address] {
			t.Errorf("%s is reserved twice", r.address)
		}
		seen[r.address] = true
	}
}
