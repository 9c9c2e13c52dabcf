package rank

import (
	"fmt"

	"github.com/fpmrun/fpmrun/rank/env"
)

// fromTorchrun reads the variables that torchrun gives to its workers. MASTER_PORT is that of torch's own store; the ranks meet at MASTER_ADDR on ports that
// follow from the run's id.
func fromTorchrun(getenv func(string) string) (id Identity, found bool, err error) {
	if getenv(env.TorchRunID) == "" || getenv(env.TorchRank) == "" {
		return Identity{}, false, nil
	}
	n := numbers{getenv: getenv}
	id = Identity{Source: FromTorchrun, Rank: n.read(env.TorchRank, 0), Size: n.read(env.TorchWorldSize, 0),
		LocalRank: n.read(env.TorchLocalRank, 0), LocalSize: n.read(env.TorchLocalWorldSize, 1)}
	n.within(&id, env.TorchRank, env.TorchWorldSize)
	if n.err != nil {
		return Identity{}, true, n.err
	}
	// The id is none unless the user chose one, and then the same for every launch: the port of the store tells launches on one host apart.
	id.RunID = fmt.Sprintf("torchrun-%s.%s.%d", getenv(env.TorchRunID), getenv(env.TorchMasterPort), n.read(env.TorchRestartCount, 0))
	if id.Size > 1 {
		id.Host = getenv(env.TorchMasterAddr)
		if id.LocalSize == id.Size {
			id.Host = "127.0.0.1"
		}
		if id.Host != "" {
			id.Rendezvous = candidates(id.Host, id.RunID)
		}
	}
	if err := id.fromUser(getenv); err != nil {
		return Identity{}, true, err
	}
	if id.Size > 1 && len(id.Rendezvous) == 0 {
		return Identity{}, true, fmt.Errorf("started by torchrun (RANK=%d, WORLD_SIZE=%d) without MASTER_ADDR, the host of rank 0", id.Rank, id.Size)
	}
	return id, true, n.err
}
