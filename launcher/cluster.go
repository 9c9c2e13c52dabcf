package launcher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/fpmrun/fpmrun/collective"
)

// Nodes is how a job runs on several nodes.
type Nodes struct {
	Nodes      int               // of the job; 0 and 1 are this node alone
	Node       int               // this one; the head is node 0
	Rendezvous string            // host:port where the head listens for the agents
	Token      collective.Secret // that the head and its agents trust each other with
	Spread     bool              // Segment.Ranks counts all nodes together, else each of them
	Places     []int             // with Spread: ranks of each node; nil are equal parts
	Step       bool              // the agents are started here, as a step of a Slurm allocation
	Command    []string          // command line, without what may differ between nodes; agents with another one are refused
	Build      string            // version of this program
}

// defaultGather is how long nodes may take to come when no join timeout is given.
const defaultGather = 2 * time.Minute

// cluster is the nodes of a job, seen from the head.
type cluster struct {
	options Options
	nodes   []*remote // by node; nil is the head's own, or one that has not come
	ln      net.Listener
	inbox   chan letter
	over    chan struct{}  // closed when nobody reads the inbox any more
	serving sync.WaitGroup // of connections
	refused sync.WaitGroup // farewells
	say     func(string)   // a line for people
	every   time.Duration  // that those who wait hear who is missing

	mu       sync.Mutex
	unproven map[string]error // host -> why its last connection was refused

	step *step // that started the agents; nil by hand
}

// newCluster listens for agents.
func newCluster(ctx context.Context, o Options, say func(string)) (*cluster, error) {
	address, err := listenOn(o.Nodes.Rendezvous)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--rendezvous %s: %w", o.Nodes.Rendezvous, err)
	}
	c := &cluster{options: o, nodes: make([]*remote, o.Nodes.Nodes), ln: ln, inbox: make(chan letter), over: make(chan struct{}), say: say, every: progressInterval, unproven: map[string]error{}}
	c.serving.Go(func() {
		collective.Peering{Token: o.Nodes.Token, RunID: peeringRun}.ServePeers(ctx, ln, func(conn net.Conn, _ int) { c.newRemote(conn) }, func(from net.Addr, err error) {
			host, _, _ := net.SplitHostPort(from.String())
			c.mu.Lock()
			defer c.mu.Unlock()
			c.unproven[host] = err
		})
	})
	return c, nil
}

// peeringRun names what heads and agents do together: which job it is follows from the token and the address.
const peeringRun = "fpmrun nodes"

// listenOn is where the head listens for a rendezvous: on the address itself where it is one of this host, else, since a
// host's name may resolve to an address that others do not come in on, on all.
func listenOn(rendezvous string) (string, error) {
	host, port, err := net.SplitHostPort(rendezvous)
	if err != nil {
		return "", fmt.Errorf("--rendezvous %s: want HOST:PORT: %w", rendezvous, err)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "", fmt.Errorf("--rendezvous %s: want HOST:PORT with a port from 1 to 65535", rendezvous)
	}
	if host == "localhost" {
		return net.JoinHostPort("127.0.0.1", port), nil
	}
	own, err := net.InterfaceAddrs()
	if ip := net.ParseIP(host); ip != nil && err == nil {
		for _, a := range own {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
				return rendezvous, nil
			}
		}
		if ip.IsLoopback() {
			return rendezvous, nil
		}
	}
	return net.JoinHostPort("", port), nil
}

// here reports whether the head runs ranks of node 0 itself.
func (c *cluster) here() bool { return !c.options.Nodes.Step }

// there are the nodes that agents run and that are not lost.
func (c *cluster) there() []*remote {
	if c == nil {
		return nil
	}
	var list []*remote
	for _, r := range c.nodes {
		if r != nil && r.lost == nil {
			list = append(list, r)
		}
	}
	return list
}

// absent are the numbers of the nodes that have not come.
func (c *cluster) absent() []int {
	var list []int
	for i, r := range c.nodes {
		if r == nil && !(i == 0 && c.here()) {
			list = append(list, i)
		}
	}
	return list
}

// interrupted says that a signal ended the waiting for nodes.
type interrupted struct{ sig syscall.Signal }

func (e interrupted) Error() string { return e.sig.String() }

// errOver says that a time limit ended the waiting for nodes.
var errOver = errors.New("time is over")

// await reads letters until take says that it has what it waits for.
func (c *cluster) await(ctx context.Context, s *session, limit <-chan time.Time, take func(letter) (bool, error)) error {
	progress := time.NewTicker(c.every)
	defer progress.Stop()
	for {
		select {
		case <-progress.C:
			if names := c.absentNames(); names != "" {
				c.say(fmt.Sprintf("waiting for %s of %d at %s", names, c.options.Nodes.Nodes, c.ln.Addr()))
			}
		case l := <-c.inbox:
			if done, err := take(l); done || err != nil {
				return err
			}
		case sig := <-s.signals:
			if ends(sig.(syscall.Signal)) {
				return interrupted{sig.(syscall.Signal)}
			}
		case <-limit:
			return errOver
		case err := <-c.step.ended():
			return fmt.Errorf("launcher: srun ended before its agents were here: %w", err)
		case <-ctx.Done():
			return interrupted{syscall.SIGTERM}
		}
	}
}

// gather waits until an agent of every node is here.
func (c *cluster) gather(ctx context.Context, s *session) error {
	wait := c.options.JoinTimeout
	if wait == 0 {
		wait = defaultGather
	}
	limit := newLimit(wait)
	defer limit.stop()
	err := error(nil)
	if len(c.absent()) > 0 {
		err = c.await(ctx, s, limit.C, func(l letter) (bool, error) {
			if err := c.arrive(l); err != nil {
				return false, err
			}
			return len(c.absent()) == 0, nil
		})
	}
	if errors.Is(err, errOver) {
		return c.missing(wait)
	}
	return err
}

// missing names the nodes that did not come.
func (c *cluster) missing(wait time.Duration) error {
	n := c.options.Nodes
	text := fmt.Sprintf("%s of %d did not come to %s within %v", c.absentNames(), n.Nodes, c.ln.Addr(), wait)
	if !n.Step {
		text += fmt.Sprintf("; start the same command there with --node-rank %d", c.absent()[0])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for host, err := range c.unproven {
		text += fmt.Sprintf("; a connection from %s did not prove that it has the token (%v)", host, err)
	}
	return errors.New(text)
}

// absentNames is node 1, or nodes 1, 2 and 3; "" when none is absent.
func (c *cluster) absentNames() string {
	var names []string
	for _, i := range c.absent() {
		names = append(names, strconv.Itoa(i))
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return "node " + names[0]
	}
	return "nodes " + joinWords(names)
}

// joinWords is "1, 2 and 3".
func joinWords(words []string) string {
	text := words[0]
	for i, w := range words[1:] {
		if i == len(words)-2 {
			text += " and " + w
		} else {
			text += ", " + w
		}
	}
	return text
}

// arrive takes a letter while nodes are still awaited. An error ends the job.
func (c *cluster) arrive(l letter) error {
	r := l.from
	switch {
	case l.err != nil:
		if r.Node >= 0 && c.nodes[r.Node] == r {
			return fmt.Errorf("%v was lost before all nodes had come: %s", r, lossText(l.err))
		}
		return nil
	case l.Signal != 0 && ends(l.Signal):
		return interrupted{l.Signal}
	case l.Failed != nil:
		return fmt.Errorf("%v: %s", r, l.Failed.Text)
	case l.Hello == nil:
		return nil
	}
	n, h := c.options.Nodes, *l.Hello
	who := fmt.Sprintf("the agent on host %s (pid %d)", h.Host, h.PID)
	fatal := func(status int, text string) error {
		c.refuse(r, status, text)
		return &planError{status, errors.New(text)}
	}
	switch {
	case h.Version != linkVersion:
		return fatal(1, fmt.Sprintf("%s speaks version %d (build %s), node 0 speaks version %d (build %s); install the same fpmrun on all nodes", who, h.Version, h.Build, linkVersion, n.Build))
	case h.Nodes != n.Nodes:
		return fatal(2, fmt.Sprintf("%s was started with --nnodes %d, node 0 with --nnodes %d", who, h.Nodes, n.Nodes))
	case h.Node < 0 || h.Node >= n.Nodes || h.Node == 0 && c.here():
		return fatal(2, fmt.Sprintf("%s has node rank %d; want 1 to %d, since node 0 listens here", who, h.Node, n.Nodes-1))
	case c.nodes[h.Node] != nil:
		text := fmt.Sprintf("%s has node rank %d, which %v (pid %d) has already", who, h.Node, c.nodes[h.Node], c.nodes[h.Node].PID)
		c.say(text)
		c.refuse(r, 2, text)
		return nil
	}
	if i := differ(h.Command, n.Command); i >= 0 {
		return fatal(2, fmt.Sprintf("node %d (host %s) was started with another command line: %s there, %s on node 0", h.Node, h.Host, wordAt(h.Command, i), wordAt(n.Command, i)))
	}
	if h.Build != n.Build {
		c.say(fmt.Sprintf("node %d (host %s) runs build %s of fpmrun, node 0 build %s", h.Node, h.Host, h.Build, n.Build))
	}
	r.hello = h
	c.nodes[h.Node] = r
	return nil
}

// refuse turns an agent away.
func (c *cluster) refuse(r *remote, status int, why string) {
	c.refused.Go(func() { r.link.farewell(toAgent{Refused: &ending{status, why}}) })
}

// differ is the position of the first word that is not the same; -1 when all are.
func differ(a, b []string) int {
	if slices.Equal(a, b) {
		return -1
	}
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func wordAt(words []string, i int) string {
	if i < len(words) {
		return strconv.Quote(words[i])
	}
	return "nothing more"
}

// close ends all links, telling the agents how the job ended, and what started them.
func (c *cluster) close(end End) {
	_ = c.ln.Close() // nothing is lost with it
	close(c.over)
	var farewells sync.WaitGroup
	for _, r := range c.nodes {
		if r != nil {
			farewells.Go(func() { r.link.farewell(toAgent{End: &ending{Status: end.Status, Text: end.text}}) })
		}
	}
	farewells.Wait()
	c.refused.Wait()
	c.serving.Wait()
	c.step.wait()
}
