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
// # What requests are made of
//
// Prompts are a function of the content seed, the coordinate, the DP rank and the slot ([artifact.Content]): uniform ids, or with a [Text]
// windows or conversations of it. Prefill points read prefixes that were registered only, or that earlier steps computed. Decode points read whatever
// the pool holds; where the experts of a model are spread over ranks, so that the ids choose who computes, they borrow the blocks of chains that were
// computed from text: one fleet of chains for each batch size, on all ranks or on none.
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
// Each finished point is in the rank's journal before the next one starts, so that a later process can go on where this one was killed ([Config].Resume).
// With [Config].HostEvidence the document also says what the process and the host did around each point and over each step.
//
// With [Config].Roofline it also says what the device could do at most during the run, and how far each point is from that ([Session.Floors]).
//
// [Session.Run] returns the rank document whatever happened: complete, partial after a stop at a point boundary, or
// failed. [Publish] writes it, gathers the documents of all ranks on rank 0, merges them, probes every worker and writes the
// merged document and the probe's sidecar; from then on it answers [MetricsMethod], and a [MetricsServer] can show the same over HTTP.
package bench
