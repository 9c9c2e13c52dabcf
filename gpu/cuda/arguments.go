//go:build linux && cgo

package cuda

import "unsafe"

// The kernels' arguments, member by member as the sources of package kernels declare them.

type embedArgs struct {
	ids, slots, sampled, table, x, squares, norm, normed ptr
	hidden                                               int32
}

type normArgs struct {
	x, y, w, out, pick ptr
	hidden             int32
	eps                float32
}

type keysArgs struct {
	qkv, cache, positions, places, cosines, sines, qNorm, kNorm ptr
	heads, kvHeads, blockSize, half, tokens                     int32
	eps                                                         float32
}

type gateArgs struct {
	in, out ptr
	width   int32
}

type attentionArgs struct {
	qkv, cache, tables, tiles, items, starts, wide, wideCount, partial, arrived, out ptr
	heads, kvHeads, blockSize, window                                                int32
	scale                                                                            float32
}

type attentionHopperArgs struct {
	cache, queries tensorMap
	attention      attentionArgs
}

type product struct {
	in, squares, weights, bias, out, outSquares, norm, normed ptr
	kind, n, k, splits, parts                                 int32
}

type chainArgs struct {
	products                                 [fewProducts]product
	partial, turns, abort                    ptr
	count, tokens, ring                      int32
	eps                                      float32
	heads, kvHeads, blockSize, half          int32
	cache, positions, places, cosines, sines ptr
}

type chainClusterArgs struct {
	weights, tokens [fewProducts]tensorMap
	chain           chainArgs
}

type argmaxArgs struct {
	logits, slots, sampled, ids ptr
	vocab                       int32
}

type publishArgs struct {
	ids, host, step ptr
	rows, size      int32
}

type finiteArgs struct {
	logits, bad ptr
	count       int64
}

type weightsArgs struct {
	out           ptr
	seed          uint64
	_             [2]int64 // where in the tensor: whole ones are made
	rows, columns int64
	width         int64
	scale, offset float32
}

type poolArgs struct {
	out                       ptr
	seed                      uint64
	layer, blocks             int64
	kvHeads, allHeads, _, per int32 // no first head: all are here
	scale                     float32
}

type sweepArgs struct {
	pools, sums ptr
	each, count int64
}

type markArgs struct {
	host   ptr
	number uint32
}

// bytesOf is an argument structure as C has it.
func bytesOf[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }
