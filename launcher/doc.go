// Package launcher starts one process per rank, on this host or on several, watches them, and leaves nothing behind.
//
//	plan, err := launcher.NewPlan(launcher.Options{...})   // who runs what, where and with which environment
//	end := launcher.Run(ctx, plan, launcher.Streams{...})   // spawn, watch, stop, and again where restarts are allowed
//	os.Exit(end.Status)
//
// # Two processes
//
// The calling process is the front: it reads the ranks' output, decides and reports. Before any rank it starts the
// keeper (package keeper), which is the parent of all ranks and the subreaper of whatever
// they leave. The two hold the ends of a socket pair; whoever sees the other end close kills everything. So nothing
// survives when either is killed with SIGKILL: ranks also carry a parent-death signal, and the keeper finds their
// descendants in /proc. Only the two dying at the same moment can leave grandchildren behind.
//
// The keeper is the program fpm-keeper in [Options.Siblings], or else a copy of the calling program, which must therefore call [keeper.IsKeeper] and
// [keeper.Main] first thing in main.
//
// # Several nodes
//
// Of the processes that start a job on several nodes one is the head ([Lead]); the others are agents ([Serve]). An agent is a
// front without decisions: it has a keeper of its own, to which it passes the head's orders, and it passes on what the keeper
// says, what the ranks print, and what can be seen of them, all through one authenticated connection. The head lets remote output
// come out of pipes of its own, so that everything behind them is as on one node. An agent that loses its head, and a head that
// loses an agent, kills what is left; so does every keeper that loses the process that started it.
//
// # First cause
//
// The first rank that fails opens a window of 100 ms, since the failure of one rank makes others fail. Of the ranks that
// failed in it, one that blames another in its state page is a victim; a rank that a signal killed precedes one with
// an exit status; then the one that ended first. What is stopped afterwards is a victim, never a cause.
package launcher
