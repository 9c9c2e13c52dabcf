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

// blocksPerProcessor is how many blocks of attention a multiprocessor has.
func blocksPerProcessor(headDim int) int {
	if tensorHeads(headDim) {
		return 2
	}
	return 4
}

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
