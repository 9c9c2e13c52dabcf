package rank

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/fpmrun/fpmrun/collective"
)

// Options of Join beside the identity.
type Options struct {
	Getenv func(string) string // the process's environment
	Logger *slog.Logger

	Thresholds collective.Thresholds // the same on all ranks; zero = the defaults
}

// Join joins the world that the identity names. The second result is the kind of secret it was joined with.
func Join(ctx context.Context, id Identity, o Options) (*collective.Comm, string, error) {
	cfg := collective.Config{
		Rank: id.Rank, Size: id.Size, RunID: id.RunID, JoinTimeout: id.JoinTimeout, StateFile: id.StateFile, StatePage: id.LocalRank, JobFile: id.JobFile, Logger: o.Logger,
		Thresholds: o.Thresholds,
	}
	if id.Size == 1 {
		comm, err := collective.Join(ctx, cfg)
		return comm, AuthFile, err
	}
	if len(id.Rendezvous) == 0 {
		return nil, "", fmt.Errorf("rank: %d ranks and no rendezvous: the launcher (%s) named none", id.Size, id.Source)
	}
	token, auth, err := secret(id, o.Getenv)
	if err != nil {
		return nil, "", err
	}
	if auth == AuthPublic && id.Rank == 0 {
		o.Logger.Warn("no secret was given: the ranks are told from other jobs, not from other users; set FPM_TOKEN_FILE")
	}
	cfg.Token = token
	if err := network(&cfg, id, o.Getenv); err != nil {
		return nil, auth, err
	}
	if cfg.Rendezvous, err = meeting(ctx, id, token); err != nil {
		return nil, auth, err
	}
	comm, err := collective.Join(ctx, cfg)
	return comm, auth, err
}

// defaultJoinTimeout is how long a rank looks for the one that listens.
const defaultJoinTimeout = 2 * time.Minute

// meeting chooses among the candidates: rank 0 takes the first port that is free, the others the first at which somebody
// of this run listens. Whether that is rank 0 is told by the handshake of the join.
func meeting(ctx context.Context, id Identity, token []byte) (string, error) {
	if len(id.Rendezvous) == 1 {
		return id.Rendezvous[0], nil
	}
	if id.Rank == 0 {
		for _, address := range id.Rendezvous {
			if l, err := net.Listen("tcp", address); err == nil {
				return address, l.Close()
			}
		}
		return "", fmt.Errorf("rank: none of the ports of %v is free", id.Rendezvous)
	}
	limit := id.JoinTimeout
	if limit == 0 {
		limit = defaultJoinTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for {
		for _, address := range id.Rendezvous {
			if collective.Listens(ctx, address, id.RunID, token) {
				return address, nil
			}
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(fmt.Errorf("rank: nobody of this run listens at %s or the %d ports after it in the list", id.Rendezvous[0], len(id.Rendezvous)-1), ctx.Err())
		case <-retry.C:
		}
	}
}
