package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fpmrun/fpmrun/rank"
	"github.com/fpmrun/fpmrun/rank/env"
)

// The variables by which a process that repeats the run tells a launch what is its own. See options.launch.
const (
	keyLaunch       = "FPM_REPEAT_LAUNCH" // number of the launch, from 1
	keyLaunchOutput = "FPM_REPEAT_OUTPUT" // path of rank 0's document
	keyLaunchOrder  = "FPM_REPEAT_ORDER"  // a or b
)

// launch is one launch of several: a fresh gang of processes, each started by the process that holds its rank.
type launch struct {
	Number     int // from 1
	Order      string
	Output     string // path of rank 0's document
	RunID      string // by which the processes know each other
	Rendezvous string // empty for one rank
	Token      string // their secret
}

// environ is the environment of this rank's process in the launch: that of this process, with another place to meet, another secret and without the
// launcher's pages, which are this process's own.
func (l *launch) environ(outer []string, getenv func(string) string, id rank.Identity, topology env.Topology) ([]string, error) {
	vars := []string{keyLaunch + "=" + strconv.Itoa(l.Number), keyLaunchOutput + "=" + l.Output, keyLaunchOrder + "=" + l.Order}
	if id.Source == rank.FromNobody {
		return append(without(outer), vars...), nil
	}
	set, ok, err := env.Parse(getenv)
	if err != nil {
		return nil, err
	}
	if !ok || id.Source != rank.FromFPMRun {
		set = env.Set{Rank: id.Rank, WorldSize: id.Size, LocalRank: id.LocalRank, LocalWorldSize: max(1, id.LocalSize), Nodes: 1, Topology: topology,
			JoinTimeout: id.JoinTimeout, Iface: id.Iface}
	}
	set.Rendezvous, set.RunID, set.TokenFile, set.StateFile, set.JobFile = l.Rendezvous, l.RunID, "", "", ""
	environ := append(without(env.Strip(outer)), set.Environ()...)
	return append(append(environ, env.KeyToken+"="+l.Token), vars...), nil
}

// without drops what would name another place or another secret.
func without(environ []string) []string {
	var kept []string
	for _, kv := range environ {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case env.KeyIdentity, env.KeyToken, env.KeyTokenFile, keyLaunch, keyLaunchOutput, keyLaunchOrder:
		default:
			kept = append(kept, kv)
		}
	}
	return kept
}

// launchOutput is the path of a launch's documents: in a folder of its own beside those of the other launches.
func launchOutput(base string, number int) string {
	return filepath.Join(filepath.Dir(base), fmt.Sprintf("launch-%d", number), filepath.Base(base))
}

// orderOf is the order of a launch's points, by the scheme: a is the planned one, b its reverse. Two launches of abba and two of the reverse stand
// like a palindrome, so that a drift over time weighs on both orders alike.
func orderOf(scheme string, number int) string {
	if scheme == "abba" && (number%4 == 2 || number%4 == 3) {
		return "b"
	}
	return "a"
}
