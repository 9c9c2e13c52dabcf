// Package bench measures single forward passes over a grid of points and leaves the evidence.
//
// Every DP rank is one engine: its leader (tensor, pipeline and context rank 0) schedules steps, the other workers
// of the engine execute the same steps ([Follower]). The leaders agree on what they can hold, on the grid, on every
// point's start, result and skip, and on when to stop; they exchange this over the collective layer. A run is
//
//	capacity -> grid -> global warm-up -> for each point: boundary, preparation, start, steps, result -> cleanup
//
// The leader tells its workers of each step in one message of 64 bytes. Engines that share experts ([Config].ExpertParallel) take every
// step together, those with nothing to compute a step without rows.
//
// # What is timed
//
// A prefill point is one step, from the group's start signal to the arrival of its output on the host. A decode
// point is an admission step, which is recorded and discarded, and one or more steady steps, each from the arrival of the
// step before to its own. Everything a step needs is allocated before the start signal; between the signal and
// the last arrival nothing is allocated, logged, exchanged or collected.
//
// # What is kept
//
// [Session.Run] returns the rank document whatever happened: complete, partial after a stop at a point boundary, or
// failed. [Publish] writes it, gathers the documents of all ranks on rank 0, merges them, probes every worker and writes the
// merged document and the probe's sidecar.
package bench
