// Package cpu is the forward pass in float32 on the host: the engine that runs on every machine, and the
// reference that the others are judged by.
//
// One engine is one tensor-parallel worker. It holds its shard of the weights, its part of the paged KV
// cache and a fixed set of worker goroutines; a step allocates nothing. Matrix products are cut into tiles for kernels
// in AVX-512 or AVX2, or for gonum's where a processor has neither; attention is computed block by block of the cache
// with a running softmax, so that keys and values past the end of a sequence are never touched. Latent attention caches
// the compressed vectors and attends to them as to one KV head.
//
//	e, err := cpu.New(gpu.Config{Geometry: g, Weights: model.Random(1, g), Blocks: 64, BlockSize: 16,
//		MaxBatchedTokens: 64, MaxSeqs: 4, MaxModelLen: 256})
//	defer e.Close()
//	err = e.Enqueue(&gpu.Step{Rows: []gpu.Row{{Tokens: prompt, Blocks: table}}})
//	err = e.Await(ctx, &out)
//
// Tensor parallelism is Megatron's: query, key, value, gate and up projections are split by output rows, the
// other two by input columns, with a sum over the group after each; the embedding and the head are split
// over the vocabulary. When there are more workers than KV heads, several workers hold the same head.
//
// Routed experts are split the same way, every expert over the whole group. In an expert-parallel group, which may
// span several engines, each worker holds some experts whole, and the tokens travel to them and back; all engines of
// the group then step together, an idle one with a step that has no rows.
//
// The package does not schedule, does not own block tables and has no CUDA graphs.
package cpu
