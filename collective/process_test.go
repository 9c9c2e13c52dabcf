package collective

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// gangRank is what one process of TestProcesses does: it is this test program, started again.
type gangRank struct {
	Rank, Size int
	Address    string
	Op         string // "" = every operation, with a rank late in each
	Victim     int    // kills itself in the operation; -1 = nobody
	Host       string // "" = its host's own name
	CutOff     []int  // the ranks that the network takes away, once all are ready
}

const gangKey = "FPM_TEST_GANG"

func TestMain(m *testing.M) {
	text, ok := os.LookupEnv(gangKey)
	if !ok {
		os.Exit(m.Run())
	}
	var p gangRank
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = p.play(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// play is a rank's whole life.
func (p gangRank) play(ctx context.Context) error {
	c, err := Join(ctx, Config{Rank: p.Rank, Size: p.Size, Rendezvous: p.Address, Host: p.Host, Token: Secret("0123456789abcdef"), JoinTimeout: 30 * time.Second,
		Timeout: 20 * time.Second, Handlers: map[string]Handler{"rank": func(context.Context, *Request) (any, error) { return p.Rank, nil }}})
	if err != nil {
		return err
	}
	// The victim may be past this barrier, and gone, when others are still in it.
	if err := c.Barrier(ctx); err != nil && p.Op == "" {
		return err
	}
	if p.CutOff != nil {
		return p.loseTheOthers(ctx, c)
	}
	for i, op := range eachOperation() {
		switch {
		case p.Op == "":
			if i%p.Size == p.Rank {
				time.Sleep(5 * time.Millisecond) // this rank is late
			}
			if err := op.run(ctx, c, i%p.Size); err != nil {
				return fmt.Errorf("%s: %w", op.name, err)
			}
		case p.Op == op.name && p.Rank == p.Victim:
			go func() {
				time.Sleep(time.Duration(rand.Int64N(int64(2 * time.Millisecond)))) // somewhere in the operation
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}()
			_ = op.run(ctx, c, i%p.Size)
			select {}
		case p.Op == op.name:
			err := p.survive(ctx, c, op, i%p.Size)
			// Nobody leaves while another still tries: this rank would be the next one lost.
			fmt.Println("done")
			_, _ = io.Copy(io.Discard, os.Stdin)
			return err
		}
	}
	if err := c.Barrier(ctx); err != nil { // calls do not keep ranks together
		return err
	}
	return c.Close()
}

// survive runs the operation and then barriers until the loss of the victim is known, which must not take long.
func (p gangRank) survive(ctx context.Context, c *Comm, op tried, root int) error {
	begin := time.Now()
	err := op.run(ctx, c, root)
	for err == nil {
		err = c.Barrier(ctx)
	}
	if !lostOrAborted(err) {
		return fmt.Errorf("%s: %w", op.name, err)
	}
	if !names(err, p.Victim) {
		return fmt.Errorf("%s: rank %d is not named: %w", op.name, p.Victim, err)
	}
	// Generous, because the whole gang shares the machine with other tests.
	if took := time.Since(begin); took > 10*time.Second {
		return fmt.Errorf("%s: after %v: %w", op.name, took, err)
	}
	return nil
}

// lostOrAborted reports whether an operation ended as it must when a rank is gone.
func lostOrAborted(err error) bool {
	var e *Error
	return errors.As(err, &e) && (errors.Is(err, ErrPeerLost) || errors.Is(err, ErrAborted))
}

// names reports whether an error blames one of the ranks, or misses it.
func names(err error, ranks ...int) bool {
	var e *Error
	return errors.As(err, &e) && (slices.Contains(ranks, e.Blamed) ||
		slices.ContainsFunc(e.Missing, func(m Missing) bool { return slices.Contains(ranks, m.Rank) }))
}

// player is the process of a rank that has been started.
type player struct {
	*exec.Cmd
	stdin  io.WriteCloser
	stdout io.Reader
	said   *bytes.Buffer // on stderr
}

// begin starts the rank's process, as an argument of the command before when there is one.
func (p gangRank) begin(t *testing.T, before ...string) player {
	cmd := p.command(t, before...)
	out := &bytes.Buffer{}
	cmd.Stderr = out
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return player{cmd, stdin, stdout, out}
}

// command is the rank's process.
func (p gangRank) command(t *testing.T, before ...string) *exec.Cmd {
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	words := append(before, os.Args[0])
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Env = append(os.Environ(), gangKey+"="+string(text), "GOMAXPROCS=1")
	return cmd
}

// gang starts a world of processes and returns what went wrong in any of them, the victim apart.
func gang(t *testing.T, p gangRank) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.Address = l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	errs := make([]error, p.Size)
	var wg, trying sync.WaitGroup
	trying.Add(1)
	for rank := range p.Size {
		p.Rank = rank
		process := p.begin(t)
		trying.Add(1)
		wg.Go(func() {
			_, _ = process.stdout.Read(make([]byte, 1)) // it is done, or has ended
			trying.Done()
			trying.Wait()
			_ = process.stdin.Close()
			err := process.Wait()
			if rank == p.Victim {
				if err == nil || !strings.Contains(err.Error(), "killed") {
					errs[rank] = fmt.Errorf("the victim, rank %d, ended with %w", rank, err)
				}
			} else if err != nil {
				errs[rank] = fmt.Errorf("rank %d: %w\n%s", rank, err, process.said.String())
			}
		})
	}
	trying.Done()
	wg.Wait()
	return errors.Join(errs...)
}

// Real processes over TCP: in one gang every operation with a rank late, then for each operation a gang of which a rank kills itself in it.
func TestProcesses(t *testing.T) {
	for _, n := range worldSizes[1:] {
		if err := gang(t, gangRank{Size: n, Victim: -1}); err != nil {
			t.Errorf("%d ranks, one late: %v", n, err)
		}
		for i, op := range eachOperation() {
			if err := gang(t, gangRank{Size: n, Op: op.name, Victim: i * 3 % n}); err != nil {
				t.Errorf("%s, rank %d of %d killed: %v", op.name, i*3%n, n, err)
			}
		}
	}
}
