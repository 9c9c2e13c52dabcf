// Command launchprog is a rank that does what its arguments say, one after the other; "2:barrier" is for rank 2 only. What fails is
// printed and ends it with status 1.
//
//	join             find the others            crash           die of SIGKILL
//	barrier          wait for all, =D at most D exit=N          end with a status
//	allreduce        sum over all               touch=FILE      say that it came so far
//	callall=D        call all, rank 1 hangs     open=FIFO       wait until its writer closes it
//	loop             barriers, errors ignored   stranger        send garbage to the rendezvous
//	leave            close the world            spin            barriers until one fails
//	drop             close all sockets          sleep=D         do nothing
//	stop             stop until SIGCONT
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/rank"
)

func main() {
	id, err := rank.Identify(os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	p := &player{id: id}
	for _, word := range os.Args[1:] {
		if who, rest, ok := strings.Cut(word, ":"); ok {
			if who != strconv.Itoa(id.Rank) {
				continue
			}
			word = rest
		}
		name, value, _ := strings.Cut(word, "=")
		if err := p.play(context.Background(), name, value); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", word, err)
			os.Exit(1)
		}
	}
}

type player struct {
	id   rank.Identity
	comm *collective.Comm
}

func (p *player) play(ctx context.Context, name, value string) error {
	switch name {
	case "join":
		var err error
		p.comm, _, err = rank.Join(ctx, p.id, rank.Options{Getenv: os.Getenv, Logger: slog.Default()})
		if err == nil {
			err = p.comm.Handle("answer", p.answer)
		}
		return err
	case "barrier":
		if value != "" {
			limit, err := time.ParseDuration(value)
			if err != nil {
				return err
			}
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		return p.comm.Barrier(ctx)
	case "stop":
		return syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case "allreduce":
		sum, err := collective.AllReduce(ctx, p.comm, []int64{int64(p.id.Rank)}, collective.Sum)
		if err == nil && int(sum[0]) != p.id.Size*(p.id.Size-1)/2 {
			err = fmt.Errorf("sum %d", sum[0])
		}
		return err
	case "callall":
		return p.callAll(ctx, value)
	case "loop":
		for {
			_ = p.comm.Barrier(ctx)
		}
	case "spin":
		for {
			if err := p.comm.Barrier(ctx); err != nil {
				return err
			}
		}
	case "drop":
		return dropSockets()
	case "sleep":
		d, err := time.ParseDuration(value)
		if err != nil {
			return err
		}
		time.Sleep(d)
	case "leave":
		return p.comm.Close() //nolint:contextcheck // leaving is bounded by the linger
	case "crash":
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "exit":
		status, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		os.Exit(status)
	case "touch":
		return os.WriteFile(value, nil, 0o644)
	case "open":
		file, err := os.Open(value)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, file)
		return errors.Join(err, file.Close())
	case "stranger":
		return stranger(os.Getenv("FPM_RENDEZVOUS"))
	default:
		return errors.New("unknown")
	}
	return nil
}

// dropSockets ends all connections without a word, as the end of a process does before it can be seen.
func dropSockets() error {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, file := range files {
		target, err := os.Readlink("/proc/self/fd/" + file.Name())
		fd, bad := strconv.Atoi(file.Name())
		if err != nil || bad != nil || !strings.HasPrefix(target, "socket:") {
			continue
		}
		if _, err := syscall.Getpeername(fd); err == nil { // it is no listener
			_ = syscall.Shutdown(fd, syscall.SHUT_RDWR) // one that has ended meanwhile is what is wanted
		}
	}
	return nil
}

// answer never comes from rank 1 to the first caller.
func (p *player) answer(ctx context.Context, _ *collective.Request) (any, error) {
	if p.id.Rank == 1 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return p.id.Rank, nil
}

// callAll prints who answered within the time.
func (p *player) callAll(ctx context.Context, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for _, r := range p.comm.CallAll(ctx, "answer", nil) {
		switch {
		case errors.Is(r.Err, collective.ErrTimeout):
			fmt.Printf("rank %d: timeout\n", r.Rank)
		case r.Err != nil:
			fmt.Printf("rank %d: %v\n", r.Rank, r.Err)
		default:
			fmt.Printf("rank %d: answered\n", r.Rank)
		}
	}
	return nil
}

// stranger connects without knowing the secret; it must be turned away.
func stranger(address string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the other side closes it, too
	if _, err := conn.Write([]byte("POST /pickle HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n")); err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err
	}
	buf := make([]byte, 1<<16)
	for {
		if _, err := conn.Read(buf); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return errors.New("a stranger was not turned away")
			}
			return nil
		}
	}
}
