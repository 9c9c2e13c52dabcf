package main

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/rank"
)

// own is the project's own evidence of one rank, under "fpmrun" in its document: facts that may differ between the ranks
// and launches of one build.
type own struct {
	artifact.History
	Launch    ownLaunch         `json:"launch"`
	Host      ownHost           `json:"host"`
	Engine    map[string]string `json:"engine_host"`
	Evidence  string            `json:"evidence"`             // full, minimal or alternate
	StoppedBy string            `json:"stopped_by,omitempty"` // signal or timeout, when the run ended early
	Stream    *ownStream        `json:"stream,omitempty"`     // with --stream-points

	Preparation map[string]artifact.Float `json:"engine_preparation_seconds,omitempty"` // by stage

	Roofline   *artifact.Roofline   `json:"roofline,omitempty"`   // with --roofline
	Diagnostic *artifact.Diagnostic `json:"diagnostic,omitempty"` // with --gpu-timing
}

type ownLaunch struct {
	Source    string `json:"source"` // the launcher whose variables named the rank
	Auth      string `json:"auth"`   // kind of secret that the ranks met with
	Rank      int    `json:"rank"`
	WorldSize int    `json:"world_size"`
	Repeat    int    `json:"repeat_launch,omitempty"` // number of the launch with --repeat
	PID       int    `json:"pid"`
}

type ownHost struct {
	Name       string `json:"name"`
	Arch       string `json:"arch"`
	GoVersion  string `json:"go_version"`
	CPUs       int    `json:"allowed_cpus"`
	GOMAXPROCS int    `json:"gomaxprocs"`
}

// ownStream is what was published between the points, up to the end of the last.
type ownStream struct {
	Messages    uint64 `json:"messages"`    // sequence numbers given, heartbeats among them
	Subscribers uint64 `json:"subscribers"` // that there were in all
	Dropped     uint64 `json:"dropped"`     // because of queues that were full, once for each subscriber
}

// newOwn describes this process and its host.
func newOwn(id rank.Identity, auth string, engine map[string]string, evidence string) *own {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	return &own{
		Launch: ownLaunch{Source: id.Source, Auth: auth, Rank: id.Rank, WorldSize: id.Size, PID: os.Getpid()},
		Host:   ownHost{Name: name, Arch: runtime.GOARCH, GoVersion: runtime.Version(), CPUs: allowedCPUs(), GOMAXPROCS: runtime.GOMAXPROCS(0)},
		Engine: engine, Evidence: evidence,
	}
}

// allowedCPUs is the size of the process's affinity mask.
func allowedCPUs() int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return runtime.NumCPU()
	}
	return set.Count()
}
