// Package env is the environment that fpmrun gives to each rank, and nothing else: the names, one codec
// between the variables and a struct, and the arithmetic of the topology that both sides must agree on.
//
// The launcher fills a Set for each rank and appends its variables to the rank's environment:
//
//	s := env.Set{Rank: 3, WorldSize: 8, LocalRank: 3, LocalWorldSize: 8, Nodes: 1, RunID: id, ...}
//	cmd.Env = append(env.Strip(os.Environ()), s.Environ()...)
//
// The rank reads it back:
//
//	s, ok, err := env.Parse(os.Getenv)   // ok is false when FPM_RANK is not set
//
// Beside the FPM_* variables, Environ writes those that torchrun gives to its workers, so that a PyTorch
// program runs unchanged. Parse reads the FPM_* variables only; the identity that other launchers give is the
// business of package rank. Vars lists every variable with its type, default and origin.
package env
