package rank

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/rank/env"
)

// meetingPoint is what the ranks of a world must know alike before they can join.
type meetingPoint struct {
	token   []byte
	auth    string // kind of secret
	address string // host:port of rank 0
	run     string // name of the launch
	close   func() // nil, or ends what rank 0 keeps open until all have come
}

// errNoSecret is a world that only has a public name to meet by, where that is not enough.
var errNoSecret = errors.New("rank: the ranks have only the launch's public name to meet by, and a secret is required: give FPM_TOKEN_FILE or FPM_TOKEN, or start the ranks with fpmrun, with srun --mpi=pmi2, or where munged runs")

// meet agrees on the secret and the address, by the first way that there is: a file, a variable, the process manager, MUNGE, and else the launch's public name.
func meet(ctx context.Context, id *Identity, o *Options) (meetingPoint, error) {
	given := id.TokenFile != "" || o.Getenv(env.KeyToken) != ""
	if !given && id.PMI != "" {
		return meetByPMI(ctx, id)
	}
	if len(id.Rendezvous) == 0 {
		return meetingPoint{}, fmt.Errorf("rank: %d ranks and no rendezvous: the launcher (%s) named none", id.Size, id.Source)
	}
	if m, there := findMunge(o.Getenv); !given && there && id.Source == FromSlurm && len(id.Rendezvous) > 1 {
		return meetByMunge(ctx, id, m, o.Logger)
	}
	m := meetingPoint{run: id.RunID}
	var err error
	if m.token, m.auth, err = secret(*id, o.Getenv); err != nil {
		return m, err
	}
	if m.auth == AuthPublic {
		must, err := o.RequireSecret, error(nil)
		if word := o.Getenv(env.KeyRequireSecret); word != "" && !must {
			must, err = strconv.ParseBool(word)
		}
		if err != nil {
			return m, fmt.Errorf("%s=%s: want 1 or 0", env.KeyRequireSecret, o.Getenv(env.KeyRequireSecret))
		}
		if must {
			return m, errNoSecret
		}
		if id.Rank == 0 {
			o.Logger.Warn("no secret was given: the ranks are told from other jobs, not from other users; set FPM_TOKEN_FILE")
		}
	}
	m.address, err = meeting(ctx, *id, m.token, o.Logger)
	return m, err
}

// freshToken is a secret for one launch.
func freshToken() ([]byte, error) {
	b := make([]byte, 32)
	if _, err := rand.Read(b); err != nil {
		return nil, err
	}
	return []byte(hex.EncodeToString(b)), nil
}

// meeting chooses among the candidates: rank 0 takes the first port that is free, the others the first at which somebody
// of this run listens. Whether that is rank 0 is told by the handshake of the join.
func meeting(ctx context.Context, id Identity, token []byte, logger *slog.Logger) (string, error) {
	if len(id.Rendezvous) == 1 {
		if id.Rank == 0 {
			return id.Rendezvous[0], nil
		}
		return id.Rendezvous[0], resolved(ctx, id.Rendezvous[0], logger)
	}
	if id.Rank == 0 {
		return freeAddress(id.Rendezvous)
	}
	found := ""
	err := retry(ctx, func() bool {
		for _, address := range id.Rendezvous {
			if collective.Listens(ctx, address, id.RunID, token) {
				found = address
				return true
			}
		}
		return false
	})
	if err != nil {
		return "", errors.Join(fmt.Errorf("rank: nobody of this run listens at %s or the %d ports after it in the list", id.Rendezvous[0], len(id.Rendezvous)-1), err)
	}
	return found, nil
}

// firstProgress is when a rank that waits first says for what; it does so again after twice the time, and so on.
const firstProgress = 2 * time.Second

// resolved waits until the rendezvous' host has an address: the name of a pod has none before that pod has been placed.
func resolved(ctx context.Context, address string, logger *slog.Logger) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	began, next := time.Now(), firstProgress
	last := error(nil)
	err = retry(ctx, func() bool {
		if _, last = net.DefaultResolver.LookupHost(ctx, host); last == nil {
			return true
		}
		if time.Since(began) >= next {
			logger.Info("waiting for rank 0: its name does not resolve yet", "host", host, "for", next, "err", last)
			next *= 2
		}
		return false
	})
	if err != nil {
		return errors.Join(fmt.Errorf("rank: rank 0 is missing: its name %s did not resolve: %w", host, last), err)
	}
	return nil
}

// retryPause is between two attempts to find rank 0.
const retryPause = 50 * time.Millisecond

// retry tries until it is done or ctx ends, whose error it is.
func retry(ctx context.Context, done func() bool) error {
	again := time.NewTicker(retryPause)
	defer again.Stop()
	for {
		if done() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again.C:
		}
	}
}

// candidatePorts is how many ports rank 0 may choose from, in case some are taken.
const candidatePorts = 16

// candidates are addresses of rank 0 that all ranks compute from the name of the run: ports below the ephemeral range, the
// first that is free is used.
func candidates(host, run string) []string {
	const low, high = 10000, 32000
	sum := sha256.Sum256([]byte("fpm rendezvous " + run))
	list := make([]string, candidatePorts)
	for i := range list {
		port := low + int(binary.BigEndian.Uint16(sum[2*i:]))%(high-low)
		list[i] = net.JoinHostPort(host, strconv.Itoa(port))
	}
	return list
}

// freeAddress is the first of the candidates whose port is free here.
func freeAddress(list []string) (string, error) {
	for _, address := range list {
		if l, err := net.Listen("tcp", onAllInterfaces(address)); err == nil {
			return address, l.Close()
		}
	}
	return "", fmt.Errorf("rank: none of the ports of %v is free", list)
}

// onAllInterfaces is where to listen for those who dial an address: at the address itself when it is a loopback one, else at its port on all interfaces, since
// a host's name need not stand for the interface that the others come in on.
func onAllInterfaces(address string) string {
	if isLoopback(address) {
		return address
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return net.JoinHostPort("", port)
}
