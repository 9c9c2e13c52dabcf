package launcher

import (
	"syscall"

	"github.com/fpmrun/fpmrun/collective/state"
	"github.com/fpmrun/fpmrun/launcher/keeper"
)

// linkVersion is the version of the messages between the head and its agents. It changes with them.
const linkVersion = 1

// The dialogue of a link, as JSON: the agent says hello; for each attempt the head asks for the node's ranks, lays them
// out, and lets them go; the agent then tells what happens to them, and is done when nothing of them is left. The end of the job ends
// the link.

// toAgent is what the head says; one field is set.
type toAgent struct {
	Refused *ending        `json:"refused,omitempty"` // why this agent cannot take part; the last word
	Ask     *ask           `json:"ask,omitempty"`
	Lay     *lay           `json:"lay,omitempty"`
	Go      *departure     `json:"go,omitempty"`
	Signal  syscall.Signal `json:"signal,omitempty"` // to the process groups of the node's ranks
	Exit    *exitOf        `json:"exit,omitempty"`   // a rank of another node ended
	See     *glance        `json:"see,omitempty"`    // what the ranks that live are doing
	Pause   bool           `json:"pause,omitempty"`  // the job is suspended
	Resume  bool           `json:"resume,omitempty"`
	Finish  bool           `json:"finish,omitempty"` // the attempt is over: kill what is left
	End     *ending        `json:"end,omitempty"`    // of the job; the last word
}

// ask asks what a node has room for.
type ask struct {
	Options *Options `json:"options,omitempty"` // of an agent that has no command line of its own
	Counts  []int    `json:"counts,omitempty"`  // ranks of each program here; none: as the options say, for each node
	Attempt int      `json:"attempt"`
}

// lay says which ranks a node has.
type lay struct {
	layout
	RunID string `json:"run_id"`
	Host  string `json:"host,omitempty"` // rank 0 is there: reserve the meeting's ports, on this address unless a better one is known
}

// departure starts the ranks.
type departure struct {
	meeting
	Token  string `json:"token"`
	Stdin  int    `json:"stdin"` // as Options.Stdin, of world ranks
	Events bool   `json:"events,omitempty"`
}

// glance asks for a report.
type glance struct {
	Number int  `json:"number"`
	Full   bool `json:"full,omitempty"` // processes too; else operations only
}

// exitOf is the end of a rank.
type exitOf struct {
	Rank int        `json:"rank"`
	Exit state.Exit `json:"exit"`
}

// ending is how the job, or an agent's part in it, ended.
type ending struct {
	Status int    `json:"status"`         // exit status
	Text   string `json:"text,omitempty"` // the cause in words
}

// toHead is what an agent says; one field is set.
type toHead struct {
	Hello   *hello         `json:"hello,omitempty"`
	Counted []int          `json:"counted,omitempty"` // ranks of each program here
	Planned *planned       `json:"planned,omitempty"`
	Failed  *failure       `json:"failed,omitempty"`
	Notice  *keeper.Notice `json:"notice,omitempty"`
	Blames  *int           `json:"blames,omitempty"` // beside an exit: rank that the rank's last error names
	Joined  *joined        `json:"joined,omitempty"`
	Sights  *sights        `json:"sights,omitempty"`
	Signal  syscall.Signal `json:"signal,omitempty"` // that the agent got
	Done    bool           `json:"done,omitempty"`   // nothing of the attempt is left
}

// hello is who an agent is.
type hello struct {
	Version int      `json:"version"` // linkVersion
	Build   string   `json:"build"`
	Node    int      `json:"node"`
	Nodes   int      `json:"nodes"`
	Host    string   `json:"host"`
	PID     int      `json:"pid"`
	Command []string `json:"command,omitempty"` // that it was started with, without what may differ between nodes
}

// planned are a node's ranks.
type planned struct {
	Ranks    []Rank   `json:"ranks"`
	Warnings []string `json:"warnings,omitempty"`
	Bindings []string `json:"bindings,omitempty"`
	meeting
}

// failure is why a node cannot do what it should.
type failure struct {
	Status int    `json:"status"` // exit status: 126 or 127 of a program that cannot be started, 2 of wrong options, else 1
	Text   string `json:"text"`
}

// joined says that a rank has found the others.
type joined struct {
	Rank int `json:"rank"`
	PID  int `json:"pid"`
}

// sights are what ranks of a node do.
type sights struct {
	Number int     `json:"number"` // of the report
	Ranks  []sight `json:"ranks"`
}

// stderrFlow is the number of a rank's standard error among its flows.
const stderrFlow = 2

// flowOf numbers the flow of a rank's standard input (0), output (1) or error (2) in an attempt.
func flowOf(attempt, rank, stream int) uint32 {
	return uint32(attempt)<<18 | uint32(rank)<<2 | uint32(stream)
}
