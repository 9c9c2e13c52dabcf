package rank

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fpmrun/fpmrun/rank/env"
)

// fromKubernetes reads the index of a pod of an Indexed Job, and what the Job's manifest has to say beside it: the number of ranks, rank 0's name in the headless
// service, and the secret. A Job of one pod needs none of it.
func fromKubernetes(getenv func(string) string) (id Identity, found bool, err error) {
	index := getenv("JOB_COMPLETION_INDEX")
	if index == "" {
		return Identity{}, false, nil
	}
	n := numbers{getenv: getenv}
	id = Identity{Source: FromKubernetes, Rank: n.read("JOB_COMPLETION_INDEX", 0), Size: n.read(env.KeyWorldSize, 1), LocalSize: 1}
	if n.err != nil {
		return Identity{}, true, n.err
	}
	var missing []string
	for _, v := range []struct {
		is   bool
		what string
	}{
		{getenv(env.KeyWorldSize) != "", env.KeyWorldSize + " (the Job's completions)"},
		{getenv(env.KeyRendezvous) != "", env.KeyRendezvous + " (pod 0's name in the headless service, and a port)"},
		{getenv(env.KeyTokenFile) != "" || getenv(env.KeyToken) != "", env.KeyTokenFile + " (a Secret, mounted with mode 0600)"},
	} {
		if !v.is {
			missing = append(missing, v.what)
		}
	}
	if len(missing) > 0 && !(id.Rank == 0 && id.Size == 1 && len(missing) == 3) {
		return Identity{}, true, fmt.Errorf("started by Kubernetes (JOB_COMPLETION_INDEX=%s), but the manifest does not set %s; examples/kubernetes has one that does", index, strings.Join(missing, ", "))
	}
	n.within(&id, "JOB_COMPLETION_INDEX", env.KeyWorldSize)
	if n.err != nil {
		return Identity{}, true, n.err
	}
	if err := id.fromUser(getenv); err != nil {
		return Identity{}, true, err
	}
	if id.RunID = getenv(env.KeyRunID); id.RunID == "" {
		id.RunID = "kubernetes-" + getenv(env.KeyRendezvous)
	}
	if id.Size > 1 && len(id.Rendezvous) != 1 {
		return Identity{}, true, errors.New(env.KeyRendezvous + " names no address")
	}
	return id, true, nil
}
