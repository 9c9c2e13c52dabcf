package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestGraceOf(t *testing.T) {
	for _, c := range []struct {
		config string
		want   time.Duration
	}{
		{"KeepAliveTime           = SYSTEM_DEFAULT\nKillOnBadExit           = 1\nKillWait                = 30 sec\nLaunchParameters        = (null)\n", 25 * time.Second},
		{"KillWait                = 5 sec\n", leastGrace},
		{"KillWait                = soon\n", defaultGrace},
		{"", defaultGrace},
	} {
		if got := graceOf(c.config); got != c.want {
			t.Errorf("%q: %v, want %v", c.config, got, c.want)
		}
	}
}

// Slurm is asked in a Slurm job only, and where it does not answer the usual time holds.
func TestGrace(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "scontrol"), []byte("#!/bin/sh\n[ \"$FAIL\" ] && exit 1\necho 'KillWait = 60 sec'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, c := range []struct {
		name    string
		environ []string
		want    time.Duration
	}{
		{"outside", nil, defaultGrace},
		{"inside", []string{"SLURM_JOB_ID=1"}, 55 * time.Second},
		{"no Slurm", []string{"SLURM_JOB_ID=1", "FAIL=1"}, defaultGrace},
	} {
		if got := grace(context.Background(), c.environ); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
