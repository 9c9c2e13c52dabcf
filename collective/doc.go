// Package collective lets the ranks of a job talk: barrier, broadcast, gather, scatter, allgather, all-to-all, reductions,
// sub-groups, and calls of named methods, over TCP. It imports no other package of the project and works without the launcher.
//
// # A first program
//
//	comm, err := collective.Join(ctx, collective.Config{
//		Rank: rank, Size: size, Rendezvous: "127.0.0.1:4711", Token: token, RunID: "today",
//	})
//	if err != nil { ... }
//	defer comm.Close()
//	sum, err := collective.AllReduce(ctx, comm, []float64{x}, collective.Sum)
//
// Under fpmrun, rank.Identify and rank.Join fill the Config in from the environment.
//
// # What a caller must do
//
// All ranks of a group call the same operations in the same order, one at a time; a Comm is an ordered channel. For a
// second channel between the same ranks use Dup, for a part of them Split. Two operations at once on one Comm are
// ErrConcurrent; different Comms, and calls, may be used at once by different goroutines.
//
// # Limits and errors
//
// Every operation ends at its context's deadline or after Config.Timeout, whichever comes first, and when a rank that it
// needs is lost: at once when its connection closes or the launcher saw its end, after Config.Liveness when it
// falls silent. The error is an *Error: the operation, its sequence number, the rank that is to blame, the ranks that are
// missing and what was last known of each. errors.Is tells the class: ErrTimeout, ErrPeerLost, ErrMismatch, ErrAborted,
// ErrConcurrent, ErrClosed; it holds for errors that came over a call, too.
//
// An error of an operation breaks its group for good: later operations return the first error at once. There is no
// repair; start a new world. Arguments that are refused (ErrInvalid) before anything was sent break nothing, and
// neither does a call that fails.
//
// # Memory
//
// Slices passed in belong to the operation until it returns; results are fresh memory, or the caller's in the Into
// forms. Reductions combine in an order that depends on the group, its hosts and the length alone, so that a result has the
// same bits on all ranks and in every run. A barrier, and an allreduce into the caller's memory, allocate nothing in steady state.
//
// Connections are opened when something is first said on them: after Join a rank has those of the control tree, log2(size) at most; a barrier
// or a tree adds as many data connections. A data connection costs 14 KiB in the process, a control connection about 20 KiB, and each the
// kernel's socket buffers.
//
// # Calls
//
// Call waits for one rank's answer, CallAll for that of each rank, CallEvery for all of them or the first failure; Notify waits for none, and
// Stream reads a long answer as the handler writes it. A call is made at most once. At most 64 handlers run at a time; Close ends
// their contexts and does not wait for handlers that go on all the same.
//
// # Security
//
// Both sides of every connection prove that they know the token before anything else is read. Connections that leave the host
// then go on under TLS 1.3, unless Config.TLS says otherwise. docs/security.md has what that protects from, and what not.
package collective
