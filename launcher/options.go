package launcher

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/fpmrun/fpmrun/rank/env"
)

// FailurePolicy says what the first failing rank means for the others.
type FailurePolicy string

// The failure policies.
const (
	Stop   FailurePolicy = "stop"   // the others are stopped
	Wait   FailurePolicy = "wait"   // the others run to their end, the job fails
	Ignore FailurePolicy = "ignore" // the others run to their end, the job succeeds if anything was started
)

// QuitPolicy says what SIGQUIT does.
type QuitPolicy string

// The quit policies.
const (
	Report QuitPolicy = "report" // the state of every rank is printed, and the job goes on
	Dump   QuitPolicy = "dump"   // and the ranks get the signal: those in Go print their stacks and die
)

// ConsolePolicy says what happens when a slow console has filled all room for output that waits.
type ConsolePolicy string

// The console policies.
const (
	Block ConsolePolicy = "block" // the ranks wait, as they would on a pipe
	Drop  ConsolePolicy = "drop"  // a line says how much was dropped
)

// Segment is one program of a job and how many ranks run it.
type Segment struct {
	Ranks   int // or RanksAuto, RanksPerGPU, RanksPerCPU
	Program string
	Args    []string
	Env     []string // NAME=VALUE, added to the job's
	Dir     string   // working directory; "" is the caller's
	GPUs    *GPUs    // that its ranks get; nil: as Options.Resources says
}

// Options are what a job is planned from.
type Options struct {
	Segments  []Segment
	Topology  env.Topology // 0 factors are derived; the zero value leaves the choice to the program
	Environ   []string     `json:"-"` // of the caller
	Env       []string     // NAME=VALUE for every rank
	Resources Resources    // what ranks get of the machine
	Siblings  string       `json:"-"` // folder in which programs named fpm* are looked up first; "" is none

	Stdin        int            // rank that reads the caller's stdin; StdinAll or StdinNone
	Timeout      time.Duration  // limit of the whole job; 0 is none
	KillGrace    time.Duration  // time between the stop signal and SIGKILL; 0 is 10 s
	KillSignal   syscall.Signal // stop signal; 0 is SIGTERM
	OnFailure    FailurePolicy  // "" is Stop
	OnQuit       QuitPolicy     // "" is Report
	Restarts     int            // how often a job that failed is started again
	JoinTimeout  time.Duration  // how long ranks may take to find each other; 0 is the ranks' default
	Iface        string         // interface, or network in CIDR form, that ranks on several hosts meet on; "" is by route
	TLS          string         // which connections between ranks are encrypted: auto, off or on; "" leaves it to FPM_TLS
	FlushPartial time.Duration  // a line without its newline is printed after; 0 is 100 ms, negative is never

	PTY         bool          // stdout is a pseudo terminal, on which C programs print line by line
	Tag         bool          // each output line begins with its rank
	Timestamp   bool          // each output line begins with the time
	OutputDir   string        // one file per rank and stream; "" is none
	Tee         bool          // with OutputDir: also to the console
	Files       map[int]Files // with OutputDir: which outputs of a rank are written there; OtherRanks is for ranks without an entry; nil is both
	Show        []int         // ranks that reach the console; nil is all
	SlowConsole ConsolePolicy // "" is Block
	OutputSpill int64         // bytes of the job's output that may wait on disk for a slow console, beside 1 MiB a rank in memory

	Nodes Nodes `json:"-"` // how it runs on several nodes

	Status time.Duration // interval of the line of liveness; 0 is none

	attempt int // restarts so far
}

// Files are outputs of a rank that are written into the output folder.
type Files int

// The outputs; their sum is both.
const (
	FileOut Files = 1
	FileErr Files = 2
)

// OtherRanks is the key in Options.Files for the ranks that have none.
const OtherRanks = -1

// Values of Options.Stdin besides a rank.
const (
	StdinNone = -1
	StdinAll  = -2
)

// Streams are the console of a job.
type Streams struct {
	In       *os.File
	Out, Err io.Writer
	Events   io.Writer // one JSON object a line for whatever happens; nil is none
}

// validate fills defaults in and reports every problem at once.
func (o *Options) validate(l layout) error {
	var errs []error
	if len(o.Segments) == 0 {
		errs = append(errs, errors.New("no program given"))
	}
	ranks := l.World
	for _, s := range o.Segments {
		if s.Ranks < 1 && l.Nodes == 1 { // one of several nodes may have no rank of a program
			errs = append(errs, fmt.Errorf("-np %d: want at least 1 rank", s.Ranks))
		}
	}
	if o.Stdin < StdinAll || o.Stdin >= max(ranks, 1) {
		errs = append(errs, fmt.Errorf("--stdin %d: want a rank from 0 to %d, all or none", o.Stdin, ranks-1))
	}
	for _, r := range o.Show {
		if r < 0 || r >= ranks {
			errs = append(errs, fmt.Errorf("--show %d: want ranks from 0 to %d", r, ranks-1))
		}
	}
	for r := range o.Files {
		if r < OtherRanks || r >= ranks {
			errs = append(errs, fmt.Errorf("--redirects %d: want ranks from 0 to %d", r, ranks-1))
		}
	}
	switch o.OnFailure {
	case "":
		o.OnFailure = Stop
	case Stop, Wait, Ignore:
	default:
		errs = append(errs, fmt.Errorf("--on-failure %s: want stop, wait or ignore", o.OnFailure))
	}
	switch o.OnQuit {
	case "":
		o.OnQuit = Report
	case Report, Dump:
	default:
		errs = append(errs, fmt.Errorf("--on-quit %s: want report or dump", o.OnQuit))
	}
	switch o.SlowConsole {
	case "":
		o.SlowConsole = Block
	case Block, Drop:
	default:
		errs = append(errs, fmt.Errorf("--on-slow-console %s: want block or drop", o.SlowConsole))
	}
	if o.Restarts < 0 {
		errs = append(errs, fmt.Errorf("--restarts %d: want 0 or more", o.Restarts))
	}
	if o.Iface != "" {
		if _, err := env.AddressOn(o.Iface); err != nil {
			errs = append(errs, fmt.Errorf("--iface %s: %w", o.Iface, err))
		}
	}
	if o.KillGrace == 0 {
		o.KillGrace = 10 * time.Second
	}
	if o.KillSignal == 0 {
		o.KillSignal = syscall.SIGTERM
	}
	if o.FlushPartial == 0 {
		o.FlushPartial = 100 * time.Millisecond
	}
	return errors.Join(errs...)
}

// writes reports whether an output of a rank, 0 for stdout and 1 for stderr, has a file in the output folder.
func (o *Options) writes(rank, output int) bool {
	if o.OutputDir == "" {
		return false
	}
	files, ok := o.Files[rank]
	if !ok {
		files, ok = o.Files[OtherRanks]
	}
	return o.Files == nil || ok && files&(FileOut<<output) != 0
}

// shows reports whether an output of a rank reaches the console.
func (o *Options) shows(rank, output int) bool {
	if o.writes(rank, output) && !o.Tee {
		return false
	}
	return o.Show == nil || slices.Contains(o.Show, rank)
}
