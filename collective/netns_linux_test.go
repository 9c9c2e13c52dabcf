package collective

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// lab is two network namespaces with a cable between them: hosts as far as TCP can tell.
type lab struct {
	t     *testing.T
	names [2]string
}

// newLab skips the test where namespaces or cables cannot be made.
func newLab(t *testing.T) *lab {
	l := &lab{t: t}
	if _, err := exec.LookPath("ip"); err != nil || os.Getuid() != 0 {
		t.Skip("needs root and ip (iproute2) for two network namespaces")
	}
	for i := range l.names {
		l.names[i] = fmt.Sprintf("fpm%d%c", os.Getpid(), 'a'+i)
		if out, err := exec.Command("ip", "netns", "add", l.names[i]).CombinedOutput(); err != nil {
			t.Skipf("no network namespaces here: %s", out)
		}
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", l.names[i]).Run() })
	}
	if out, err := exec.Command("ip", "link", "add", "name", "cable", "netns", l.names[0], "type", "veth", "peer", "name", "cable", "netns", l.names[1]).CombinedOutput(); err != nil {
		t.Skipf("no veth pairs here: %s", out)
	}
	for side := range l.names {
		l.run(side, "ip link set lo up")
	}
	return l
}

// run runs commands, one a line, on one side.
func (l *lab) run(side int, commands string) {
	l.t.Helper()
	for line := range strings.Lines(commands) {
		words := append([]string{"netns", "exec", l.names[side]}, strings.Fields(line)...)
		if out, err := exec.Command("ip", words...).CombinedOutput(); err != nil {
			l.t.Fatalf("%s: %v: %s", strings.TrimSpace(line), err, out)
		}
	}
}

// start starts the ranks, the first half on one side, waits for all and says what went wrong. Once all are ready, cut is run.
func (l *lab) start(p gangRank, cut func()) error {
	errs := make([]error, p.Size)
	var wg, ready, ended sync.WaitGroup
	ready.Add(p.Size)
	ended.Add(p.Size)
	for rank := range p.Size {
		side := rank * 2 / p.Size
		p.Rank, p.Host = rank, fmt.Sprintf("side%d", side)
		if cut != nil {
			for p.CutOff = nil; len(p.CutOff) < p.Size/2; {
				p.CutOff = append(p.CutOff, (1-side)*p.Size/2+len(p.CutOff))
			}
		}
		process := p.begin(l.t, "ip", "netns", "exec", l.names[side])
		wg.Go(func() {
			lines := bufio.NewReader(process.stdout)
			_, _ = lines.ReadString('\n') // ready, or ended
			ready.Done()
			_, _ = lines.ReadString('\n') // done, or ended
			ended.Done()
			ended.Wait()
			_ = process.stdin.Close()
			if err := process.Wait(); err != nil {
				errs[rank] = fmt.Errorf("rank %d: %w\n%s", rank, err, process.said.String())
			}
		})
	}
	if cut != nil {
		ready.Wait()
		cut()
	}
	wg.Wait()
	return errors.Join(errs...)
}

// loseTheOthers is a rank's part when the network fails: an endless run of barriers ends with the ranks of the other side named, within the
// liveness limit of 5 s and what starved machines add.
func (p gangRank) loseTheOthers(ctx context.Context, c *Comm) error {
	fmt.Println("ready")
	last := time.Now()
	err := c.Barrier(ctx)
	for ; err == nil; err = c.Barrier(ctx) {
		last = time.Now()
	}
	took := time.Since(last)
	fmt.Println("done")
	_, _ = io.Copy(io.Discard, os.Stdin) // whoever leaves early would be the next one lost
	switch {
	case !names(err, p.CutOff...) || !lostOrAborted(err):
		return fmt.Errorf("none of the ranks %v is named: %w", p.CutOff, err)
	case took > 15*time.Second:
		return fmt.Errorf("after %v: %w", took, err)
	}
	return nil
}

const addresses4 = "ip addr add 192.0.2.%d/24 dev cable\nip link set cable up"

// Between two hosts: a slow cable with a small MTU on one side carries every operation, encrypted; then the cable is cut, or one end loses its
// address, so that packets vanish without a word.
func TestTwoHosts(t *testing.T) {
	for failure, ranks := range map[string]int{"ip link set cable down": 4, "ip addr del 192.0.2.2/24 dev cable": 2} { // ranks of one host need its address, too
		t.Run(failure, func(t *testing.T) {
			l := newLab(t)
			for side := range 2 {
				l.run(side, fmt.Sprintf(addresses4, side+1))
			}
			l.run(1, "ip link set cable mtu 1280")
			if out, err := exec.Command("ip", "netns", "exec", l.names[0], "tc", "qdisc", "add", "dev", "cable", "root", "tbf", "rate", "10mbit", "burst", "32kb", "latency", "400ms").CombinedOutput(); err != nil {
				t.Logf("the cable is not slowed down: %s", out)
			}
			p := gangRank{Size: ranks, Address: "192.0.2.1:7000", Victim: -1}
			if err := l.start(p, nil); err != nil {
				t.Errorf("every operation over the slow cable: %v", err)
			}
			if err := l.start(p, func() { l.run(1, failure) }); err != nil {
				t.Error(err)
			}
		})
	}
}

// Hosts that have no IPv4 address but the loopback one.
func TestTwoHostsIPv6Only(t *testing.T) {
	l := newLab(t)
	for side := range 2 {
		l.run(side, fmt.Sprintf("ip -6 addr add 2001:db8::%d/64 dev cable nodad\nip link set cable up", side+1))
	}
	if err := l.start(gangRank{Size: 4, Address: "[2001:db8::1]:7000", Victim: -1}, nil); err != nil {
		t.Error(err)
	}
}
