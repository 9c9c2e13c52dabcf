package rank

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fpmrun/fpmrun/rank/env"
)

// munge makes and opens credentials by the programs munge and unmunge, which every cluster with Slurm's usual authentication has. A credential says which user
// made it, and can be restricted to one who may open it.
type munge struct {
	socket string // of munged; empty: the programs' own default
}

// mungeSocket is where munged listens unless FPM_MUNGE_SOCKET says otherwise.
const mungeSocket = "/run/munge/munge.socket.2"

// findMunge is the munge of this host; ok is false where it has none.
func findMunge(getenv func(string) string) (m munge, ok bool) {
	m.socket = getenv(env.KeyMungeSocket)
	socket := m.socket
	if socket == "" {
		socket = mungeSocket
	}
	if _, err := os.Stat(socket); err != nil {
		return m, false
	}
	for _, program := range []string{"munge", "unmunge"} {
		if _, err := exec.LookPath(program); err != nil {
			return m, false
		}
	}
	return m, true
}

func (m munge) command(ctx context.Context, program string, flags ...string) *exec.Cmd {
	if m.socket != "" {
		flags = append(flags, "--socket="+m.socket)
	}
	return exec.CommandContext(ctx, program, flags...)
}

// seal makes a credential that only this user can open.
func (m munge) seal(ctx context.Context, payload string) (string, error) {
	cmd := m.command(ctx, "munge", "--restrict-uid="+strconv.Itoa(os.Geteuid()))
	cmd.Stdin = strings.NewReader(payload)
	text, err := cmd.Output()
	if err != nil {
		return "", said("munge", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// mungeUID is the line of a credential's description that names who made it.
var mungeUID = regexp.MustCompile(`(?m)^UID:\s+(?:\S+ \()?(\d+)\)?\s*$`)

// open is what a credential holds; one that another user made is refused.
func (m munge) open(ctx context.Context, credential string) (string, error) {
	cmd := m.command(ctx, "unmunge", "--keys=UID", "--numeric")
	cmd.Stdin = strings.NewReader(credential)
	text, err := cmd.Output()
	if err != nil {
		return "", said("unmunge", err)
	}
	described, payload, ok := bytes.Cut(text, []byte("\n\n"))
	who := mungeUID.FindSubmatch(append(described, '\n'))
	if !ok || who == nil {
		return "", errors.New("unmunge: names no user")
	}
	if string(who[1]) != strconv.Itoa(os.Geteuid()) {
		return "", fmt.Errorf("a process of user %s, not of user %d, listens there", who[1], os.Geteuid())
	}
	return string(payload), nil
}

// said is an error of a program with the last line that it printed.
func said(program string, err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
		return fmt.Errorf("%s: %s (status %d)", program, lines[len(lines)-1], exit.ExitCode())
	}
	return err
}

// handshakeLimit is how long a peer may take for its part of a few bytes.
const handshakeLimit = 5 * time.Second

// What is said at the place where the secret is handed out: a line with the run and a nonce, and a credential with both and the secret.
const (
	mungeGreeting = "fpm-munge-1"
	mungeYes      = "fpm-munge-1 wait" // the run is this one, and a credential is on its way
	maxGreeting   = 256                // bytes
	maxCredential = 8 << 10            // bytes
	mungeFirst    = time.Second        // for the first line: most who listen at a candidate port are somebody else
	mungeLimit    = 30 * time.Second   // for the credential, behind those of other ranks
	mungeAtOnce   = 8                  // credentials that are made at a time
	mungeWaiting  = 1024               // connections
)

// mungeDesk is rank 0's place at one of the candidate ports, where whoever asks gets a credential with the secret that only this user can open. Who
// asks need not prove anything: what another user gets is of no use to him.
type mungeDesk struct {
	munge    munge
	listener net.Listener
	run      string // hash of the run's name
	secret   string // and the address of the rendezvous
	logger   *slog.Logger
	busy     chan struct{} // a place for each credential that is being made
	waiting  chan struct{} // one for each connection
	wg       sync.WaitGroup
}

// meetByMunge agrees on a fresh secret and an address between processes of one user.
func meetByMunge(ctx context.Context, id *Identity, m munge, logger *slog.Logger) (meetingPoint, error) {
	run := runSum(id.RunID)
	if _, err := m.seal(ctx, ""); err != nil {
		return meetingPoint{auth: AuthMunge}, fmt.Errorf("rank: munged is there but cannot be used: %w; give FPM_TOKEN_FILE, or set FPM_MUNGE_SOCKET=/none to do without MUNGE", err)
	}
	if id.Rank != 0 {
		return m.ask(ctx, id, run)
	}
	point := meetingPoint{auth: AuthMunge, run: id.RunID}
	var err error
	if point.token, err = freshToken(); err != nil {
		return point, err
	}
	d := &mungeDesk{munge: m, run: run, logger: logger, busy: make(chan struct{}, mungeAtOnce), waiting: make(chan struct{}, mungeWaiting)}
	for i, address := range id.Rendezvous {
		if d.listener, err = net.Listen("tcp", onAllInterfaces(address)); err != nil {
			continue
		}
		// The last one that is free, so that who looks for the desk comes to it late.
		rest := slices.Clone(id.Rendezvous[i+1:])
		slices.Reverse(rest)
		if point.address, err = freeAddress(rest); err != nil {
			return point, errors.Join(err, d.listener.Close())
		}
		d.secret = string(point.token) + " " + point.address
		d.wg.Go(d.serve)
		point.close = d.close
		return point, nil
	}
	return point, fmt.Errorf("rank: none of the ports of %v is free", id.Rendezvous)
}

// runSum stands for a run's name where spaces would disturb.
func runSum(run string) string {
	sum := sha256.Sum256([]byte("fpm munge " + run))
	return hex.EncodeToString(sum[:16])
}

func (d *mungeDesk) close() {
	_ = d.listener.Close() // ends serve
	d.wg.Wait()
}

func (d *mungeDesk) serve() {
	for {
		conn, err := d.listener.Accept()
		if err != nil {
			return
		}
		select {
		case d.waiting <- struct{}{}:
		default: // it tries again
			_ = conn.Close()
			continue
		}
		d.wg.Go(func() {
			defer func() { <-d.waiting }()
			if err := d.answer(conn); err != nil {
				d.logger.Debug("nobody got the secret", "asked", conn.RemoteAddr().String(), "err", err)
			}
			_ = conn.Close()
		})
	}
}

func (d *mungeDesk) answer(conn net.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), mungeLimit)
	defer cancel()
	if err := conn.SetDeadline(time.Now().Add(handshakeLimit)); err != nil {
		return err
	}
	line, err := greeting(conn)
	if err != nil {
		return err
	}
	words := strings.Fields(line)
	if len(words) != 3 || words[0] != mungeGreeting || words[1] != d.run {
		return errors.New("it is of another run")
	}
	if _, err := conn.Write([]byte(mungeYes + "\n")); err != nil {
		return err
	}
	select {
	case d.busy <- struct{}{}:
		defer func() { <-d.busy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := conn.SetDeadline(time.Now().Add(handshakeLimit)); err != nil {
		return err
	}
	credential, err := d.munge.seal(ctx, line+" "+d.secret)
	if err != nil {
		d.logger.Warn("a rank got no secret", "asked", conn.RemoteAddr().String(), "err", err)
		return nil
	}
	_, err = conn.Write([]byte(credential))
	return err
}

// greeting reads a line byte by byte, since nothing may be read beyond its limit.
func greeting(r io.Reader) (string, error) {
	var line []byte
	b := make([]byte, 1)
	for len(line) < maxGreeting {
		if _, err := io.ReadFull(r, b); err != nil {
			return "", err
		}
		if b[0] == '\n' {
			return string(line), nil
		}
		line = append(line, b[0])
	}
	return "", fmt.Errorf("more than %d bytes without an end of line", maxGreeting)
}

// ask goes through the candidates until one hands out a secret of this run that this user can open.
func (m munge) ask(ctx context.Context, id *Identity, run string) (meetingPoint, error) {
	point := meetingPoint{auth: AuthMunge, run: id.RunID}
	var why error
	err := retry(ctx, func() bool {
		for _, address := range id.Rendezvous {
			secret, err := m.askAt(ctx, address, run)
			if err != nil {
				if !errors.Is(err, errNobody) && (why == nil || ctx.Err() == nil) { // what the end of the time cuts off says less than what came before
					why = fmt.Errorf("%s: %w", address, err)
				}
				continue
			}
			token, rendezvous, ok := strings.Cut(secret, " ")
			if ok && len(token) >= 16 {
				point.token, point.address = []byte(token), rendezvous
				return true
			}
		}
		return false
	})
	if err != nil {
		if why == nil {
			why = errors.New("nobody listens")
		}
		err = errors.Join(fmt.Errorf("rank: no secret by MUNGE from rank 0 at %s or the %d ports after it in the list: %w", id.Rendezvous[0], len(id.Rendezvous)-1, why), err)
	}
	return point, err
}

// errNobody is an address at which no rank of the run listens.
var errNobody = errors.New("no rank 0 of this run")

func (m munge) askAt(ctx context.Context, address, run string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, mungeLimit)
	defer cancel()
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", errNobody
	}
	defer func() { _ = conn.Close() }() // everything was read
	if err := conn.SetDeadline(time.Now().Add(mungeFirst)); err != nil {
		return "", err
	}
	nonce := make([]byte, 16)
	rand.Read(nonce) // never fails
	line := mungeGreeting + " " + run + " " + hex.EncodeToString(nonce)
	if _, err := conn.Write([]byte(line + "\n")); err != nil {
		return "", errNobody
	}
	if answer, err := greeting(conn); err != nil || answer != mungeYes {
		return "", errNobody
	}
	if err := conn.SetDeadline(time.Now().Add(mungeLimit)); err != nil {
		return "", err
	}
	credential, err := io.ReadAll(io.LimitReader(conn, maxCredential))
	if err != nil || len(credential) == 0 {
		return "", errNobody
	}
	payload, err := m.open(ctx, string(credential))
	if err != nil {
		return "", err
	}
	secret, ok := strings.CutPrefix(payload, line+" ")
	if !ok {
		return "", errNobody
	}
	return secret, nil
}
