// Package artifact holds what a benchmark run leaves behind and everything that has to be the same in every
// program that writes or reads it: points and grids, prompt content, the forward-pass-metrics (FPM) record,
// measurement evidence, the rank, merged and worker-probe documents, the merge and the checks.
//
// The schema is version 2 of the self-benchmark artifact of NVIDIA Dynamo's vLLM integration; a document written
// here is read by the existing consumers of that format.
//
// # The path of a run through this package
//
//	manifest or generated grid -> [Plan] -> []Point, with ids, replicas and a grid digest
//	point -> [Prompts] -> token ids and their hashes
//	step outputs -> raw [FPM]s -> [Measurement] -> the retained FPM of a [Result]
//	results of all ranks -> [Group] -> [Rank] document -> [Merge] -> merged document -> [Sidecar]
//
// A [Journal] holds a rank's points while the run goes on, [History] says which process measured which, with the evidence of its host, [Causes] what stands
// out in it, and [Repeat] compares launches.
//
// # Numbers
//
// Integers are written as integers and floats always with a point or an exponent ([Float]), so that a reader with
// strict types sees what was meant. Hashes are taken over canonical JSON ([Canonical]): keys sorted by code
// point, no spaces, everything outside ASCII escaped, floats as Python prints them.
//
// The package imports no other package of the project and does no benchmarking: it has no clock, no
// engine and no network.
package artifact
