// Package rank answers who a process is in its job, and joins it to the others.
//
//	identity, err := rank.Identify(getenv)                 // rank 3 of 8, started by fpmrun
//	topology, err := rank.Agree(identity, fromFlags)       // DP x PP x PCP x TP
//	comm, err := rank.Join(ctx, identity, rank.Options{})  // the collective layer's world
//
// A process takes its identity from the innermost launcher that left variables in its environment: fpmrun, else Slurm,
// else it is a world of one. FPM_IDENTITY=fpmrun, slurm or none forces one. Several processes of another launcher are
// refused: each would take itself for the whole world.
package rank
