package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/fpmrun/fpmrun/cmd/internal/flagvalue"
	"github.com/fpmrun/fpmrun/cmd/internal/mistake"
	"github.com/fpmrun/fpmrun/launcher"
	"github.com/fpmrun/fpmrun/rank/env"
)

// nodeFlags say how the job runs on several nodes.
type nodeFlags struct {
	via                               flagvalue.Choice
	nnodes, node, masterPort          flagvalue.Count
	perNode                           rankCount
	rendezvous, masterAddr, tokenFile string
}

// Variables in which torchrun's flags can be given, as operators that start torchrun do.
const (
	petNodes   = "PET_NNODES"
	petNode    = "PET_NODE_RANK"
	petAddr    = "PET_MASTER_ADDR"
	petPort    = "PET_MASTER_PORT"
	petPerNode = "PET_NPROC_PER_NODE"
)

// fromEnvironment takes what torchrun's variables say where no flag does. They count only together with a number of nodes.
func (f *nodeFlags) fromEnvironment(environ []string) error {
	if lookup(environ, petNodes) == "" {
		return nil
	}
	for _, v := range []struct {
		name  string
		given bool
		set   func(string) error
	}{
		{petNodes, f.nnodes.Given, f.nnodes.Set},
		{petNode, f.node.Given, f.node.Set},
		{petPort, f.masterPort.Given || f.rendezvous != "", f.masterPort.Set},
		{petPerNode, f.perNode.Given, f.perNode.Set},
	} {
		text := lookup(environ, v.name)
		if v.given || text == "" {
			continue
		}
		if v.name == petNodes && strings.Contains(text, ":") {
			low, high, _ := strings.Cut(text, ":")
			if low != high {
				return fmt.Errorf("%s=%s: want one number; the number of nodes does not change while a job runs", v.name, text)
			}
			text = low
		}
		if err := v.set(text); err != nil {
			return fmt.Errorf("%s=%s: %s", v.name, text, mistake.Wanted(err.Error()))
		}
	}
	if f.masterAddr == "" && f.rendezvous == "" {
		f.masterAddr = lookup(environ, petAddr)
	}
	return nil
}

// defaultMasterPort is torchrun's.
const defaultMasterPort = 29500

// nodes turns the flags into the launcher's options. words are the command line.
func (o *options) nodes(environ, words []string) (n launcher.Nodes, err error) {
	f := &o.nodeFlags
	if err := f.fromEnvironment(environ); err != nil {
		return n, err
	}
	if o.np.Given && f.perNode.Given {
		return n, errors.New("-np counts the ranks of all nodes, --nproc-per-node those of each; type one of them")
	}
	n = launcher.Nodes{Build: version, Spread: o.spread()}
	byHand := f.nnodes.Value > 1
	if f.nnodes.Given && f.via.Value == "srun" {
		return n, errors.New("--nnodes goes without --via srun, which takes the nodes of the allocation")
	}
	alloc, inside, err := launcher.FindAllocation(environ)
	switch {
	case byHand:
		n.Nodes, n.Node, n.Command = f.nnodes.Value, f.node.Value, command(words)
		return n, f.byHand(&n, environ)
	case f.via.Value == "srun" && !inside:
		return n, errors.New("--via srun: not in an allocation of Slurm, or in a task of a step already; type salloc -N 2 fpmrun ... or, in it, fpmrun")
	case err != nil:
		return n, err
	case f.via.Value == "srun" || f.via.Value == "auto" && inside && alloc.Nodes > 1 && !f.nnodes.Given:
		n.Step, n.Nodes = true, alloc.Nodes
		if !o.np.Given && !f.perNode.Given && !n.Spread && alloc.Tasks > 0 {
			o.np, n.Spread = rankCount{Value: alloc.Tasks, Given: true}, true
		}
		if o.np.Given && o.np.Value == alloc.Tasks {
			n.Places = alloc.Places
		}
	}
	return n, nil
}

// spread reports whether the number of ranks counts all nodes together: one that was given, but as --nproc-per-node.
func (o *options) spread() bool {
	return !o.perNode.Given && (o.np.Given && o.np.Value > 0 || o.ranks() > 0)
}

// byHand checks what only a job needs that is started by hand on each node.
func (f *nodeFlags) byHand(n *launcher.Nodes, environ []string) error {
	if f.rendezvous == "" && f.masterAddr != "" {
		port := defaultMasterPort
		if f.masterPort.Given {
			port = f.masterPort.Value
		}
		f.rendezvous = net.JoinHostPort(f.masterAddr, strconv.Itoa(port))
	}
	if n.Rendezvous = f.rendezvous; f.rendezvous == "" {
		return errors.New("--nnodes needs --rendezvous HOST:PORT, an address of node 0 and a port that is free there")
	}
	host, port, err := net.SplitHostPort(f.rendezvous)
	if number, bad := strconv.Atoi(port); err != nil || host == "" || bad != nil || number < 1 || number > 65535 {
		return fmt.Errorf("--rendezvous %s: want HOST:PORT, or [V6]:PORT, with a port from 1 to 65535", f.rendezvous)
	}
	if !f.node.Given {
		return fmt.Errorf("--nnodes %d needs --node-rank R on each node, from 0 to %d", n.Nodes, n.Nodes-1)
	}
	if n.Node >= n.Nodes {
		return fmt.Errorf("--node-rank %d: want 0 to %d with --nnodes %d", n.Node, n.Nodes-1, n.Nodes)
	}
	path := f.tokenFile
	if path == "" {
		path = lookup(environ, env.KeyTokenFile)
	}
	if path == "" {
		return errors.New("--nnodes needs --token-file FILE with the same secret on each node; make it with (umask 077; head -c 32 /dev/urandom | base64 >FILE)")
	}
	token, err := env.ReadToken(path)
	if err != nil {
		return fmt.Errorf("--token-file %s: %w", path, err)
	}
	if len(token) < 16 {
		return fmt.Errorf("--token-file %s: %d bytes, want at least 16", path, len(token))
	}
	n.Token = token
	return nil
}

// ownToEach are flags that may differ between the nodes of a job.
var ownToEach = []string{"node-rank", "rendezvous", "rdzv-endpoint", "master-addr", "master-port", "token-file", "iface", "events", "output-dir", "log-dir", "dry-run"}

// command is a command line without the flags that may differ between nodes.
func command(words []string) []string {
	var kept []string
	for i := 0; i < len(words); i++ {
		name, _, joined := strings.Cut(words[i], "=")
		name = strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
		if strings.HasPrefix(words[i], "-") && slices.Contains(ownToEach, name) {
			if !joined && name != "dry-run" {
				i++
			}
			continue
		}
		kept = append(kept, words[i])
	}
	return kept
}
