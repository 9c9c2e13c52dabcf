package rank

import (
	"context"
	"log/slog"
	"time"

	"github.com/fpmrun/fpmrun/collective"
)

// Options of Join beside the identity.
type Options struct {
	Getenv func(string) string // the process's environment
	Logger *slog.Logger

	RequireSecret bool // the launch's public name is not enough; so does FPM_REQUIRE_SECRET

	Thresholds collective.Thresholds // the same on all ranks; zero = the defaults
}

// How long a rank looks for rank 0. Pods may have to wait for a node, and for the image.
const (
	defaultJoinTimeout    = 2 * time.Minute
	kubernetesJoinTimeout = 10 * time.Minute
)

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
	for _, other := range id.Overruled {
		if id.Rank == 0 {
			o.Logger.Info("another launcher's variables say something else; FPM_IDENTITY chooses", "taken", id.String(), "other", other)
		}
	}
	if id.JoinTimeout == 0 && id.Source == FromKubernetes {
		id.JoinTimeout, cfg.JoinTimeout = kubernetesJoinTimeout, kubernetesJoinTimeout
	}
	m, auth, err := find(ctx, &id, &o)
	if err != nil {
		return nil, auth, err
	}
	if m.close != nil {
		defer m.close()
	}
	id.Rendezvous = []string{m.address}
	cfg.Token, cfg.Rendezvous, cfg.RunID = m.token, m.address, m.run
	if err := network(&cfg, id, o.Getenv); err != nil {
		return nil, auth, err
	}
	comm, err := collective.Join(ctx, cfg)
	return comm, auth, err
}

// find meets within the join's limit.
func find(ctx context.Context, id *Identity, o *Options) (meetingPoint, string, error) {
	limit := id.JoinTimeout
	if limit == 0 {
		limit = defaultJoinTimeout
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	m, err := meet(ctx, id, o)
	return m, m.auth, err
}
