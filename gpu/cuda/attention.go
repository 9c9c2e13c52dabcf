package cuda

import (
	"github.com/fpmrun/fpmrun/gpu/kernels"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// tensorHeads says whether the tensor cores' attention serves a head size; else the generic one does.
func tensorHeads(headDim int) bool { return headDim == 64 || headDim == 128 }

// attentionBackend names the attention implementation of a head size, on compute capability 9.0 or elsewhere.
func attentionBackend(headDim int, hopper bool) string {
	switch {
	case !tensorHeads(headDim):
		return "CUDA_PAGED_GENERIC"
	case hopper:
		return "CUDA_PAGED_WGMMA" // of many new tokens; mma attends the others
	default:
		return "CUDA_PAGED_MMA"
	}
}

// attentionShared is the dynamic shared memory of a block of attention in bytes: for each of 4 warps a ring of 3 groups of 16 keys and values, where later
// the results of the warps are.
func attentionShared(headDim int) int {
	if !tensorHeads(headDim) {
		return 0
	}
	return max(4*3*2*16*headDim*2, 4*tileRows*(headDim+8)*4)
}

// attentionCut is how attention is cut: each multiprocessor has as many blocks as fit.
func attentionCut(g *model.Geometry, multiprocessors int) cut {
	blocks := 4
	if tensorHeads(g.HeadDim) {
		blocks = 2
	}
	return cut{lists: max(1, blocks*multiprocessors/g.KVHeads), rows: tileRows, piece: 2 * keyStep, wideMin: wideMin(g, multiprocessors), chained: fewTokens}
}

// besideMost is up to how many tokens of a step attention runs beside the chain before it, in attention_few.cu: more tokens have more keys to read than its blocks can. 0 turns it off.
const besideMost = 4

// besideCut is how attention is cut that runs beside a chain, nil where none does: a block for each multiprocessor.
func besideCut(g *model.Geometry, d fewDevice) *cut {
	if besideMost == 0 || !d.hopper || !tensorHeads(g.HeadDim) || g.Heads/g.KVHeads > fewRows {
		return nil
	}
	return &cut{lists: max(1, d.multiprocessors/g.KVHeads), rows: fewRows, piece: keyStep}
}

// besideShared is the dynamic shared memory of a block of attention_few in bytes: for each of 4 warps 16 keys and values, where later the results of the warps are.
func besideShared(headDim int) int { return max(4*2*16*headDim*2, 4*fewRows*(headDim+8)*4) }

// wideMin is how many wide tiles a step must have to be worth it: as many as keep half of the multiprocessors busy; 0 where they are not served.
func wideMin(g *model.Geometry, multiprocessors int) int {
	if !tensorHeads(g.HeadDim) {
		return 0
	}
	return max(1, multiprocessors/2/g.KVHeads)
}

// wideKernel is how wide tiles are attended.
type wideKernel struct {
	name    string
	threads int
	shared  int // dynamic shared memory of a block in bytes
}

// wideKernelFor is the kernel of wide tiles of a head size, on compute capability 9.0 or elsewhere: attention_hopper.cu, whose stages have 128 keys, which has the queries and 128 bytes of barriers there too and begins at a multiple of
// 1,024 bytes, or attention_wide.cu, whose stages have 64. Each has a ring of three stages of keys and values.
func wideKernelFor(headDim int, hopper bool) wideKernel {
	const stages = 3
	if hopper {
		return wideKernel{kernels.Hopper, 384, max(1024+(stages*2+1)*128*headDim*2+128, sharedMost/2+1024)}
	}
	return wideKernel{kernels.Wide, 256, stages * 2 * 64 * headDim * 2}
}
