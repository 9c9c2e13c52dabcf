// Package rank answers who a process is in its job, and joins it to the others.
//
//	identity, err := rank.Identify(getenv)                 // rank 3 of 8, started by fpmrun
//	topology, err := rank.Agree(identity, fromFlags)       // DP x PP x PCP x TP
//	comm, err := rank.Join(ctx, identity, rank.Options{})  // the collective layer's world
//
// A process takes its identity from the innermost launcher that left variables in its environment: fpmrun, Open MPI, MPICH or what else speaks its
// process manager's protocol, torchrun, Slurm, an Indexed Job of Kubernetes; else it is a world of one. FPM_IDENTITY forces one.
//
// Join finds rank 0 and a secret. fpmrun hands both out; elsewhere they are agreed on through the process manager or MUNGE, and as a last resort made from
// the launch's public name.
package rank
