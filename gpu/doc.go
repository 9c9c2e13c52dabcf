// Package gpu defines what a forward-pass engine is: it loads a model's geometry and weights, holds the
// paged KV cache, runs one step (a batch of prefill chunks and decode rows) and reports what it launched.
//
// The engines live in sub-packages: gpu/cpu (float32, the embedded default and the reference that every
// other engine is judged by), gpu/sim (latencies from a roofline formula, no arithmetic) and gpu/cuda.
// gpu/model reads geometries and makes weights, gpu/kv hands out the blocks of the KV cache. An engine never
// allocates cache blocks itself: whoever schedules the steps (rank/bench) owns the block tables, so that
// all engines run the same schedule.
//
// A step is launched with [Engine.Enqueue] and its result collected with [Engine.Await]; an engine whose
// Info says Async accepts a second step before the first was awaited. How close a step comes to what its device can do at most is told by a
// [Roofline] over the ceilings that the engine measures as a [Gauge].
package gpu
