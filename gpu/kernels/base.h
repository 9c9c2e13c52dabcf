// What all kernels share: bfloat16 as 16-bit integers converted by PTX, arithmetic with a fixed rounding, and reductions in a fixed order.
// Nothing of the CUDA toolkit is included.

typedef unsigned short bf16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define DEVICE static __device__ __forceinline__

#ifndef HOST_PRIMITIVES // the tests have their own, to run the kernels on a CPU
DEVICE float as_float(u32 bits) {
	float f;
	asm("mov.b32 %0, %1;" : "=f"(f) : "r"(bits));
	return f;
}
DEVICE bf16 to_bf16(float v) {
	bf16 r;
	asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(v));
	return r;
}

DEVICE float mul(float a, float b) {
	float r;
	asm("mul.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
	return r;
}
DEVICE float add(float a, float b) {
	float r;
	asm("add.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
	return r;
}
DEVICE float root(float v) {
	float r;
	asm("sqrt.rn.f32 %0, %1;" : "=f"(r) : "f"(v));
	return r;
}
// 2 to the power of v; minus infinity gives 0.
DEVICE float power2(float v) {
	float r;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
	return r;
}

DEVICE float lane_xor(float v, int mask) {
	float r;
	asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(r) : "f"(v), "r"(mask));
	return r;
}
DEVICE int lane_xor(int v, int mask) {
	int r;
	asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(r) : "r"(v), "r"(mask));
	return r;
}
// What the lanes of a warp did before is seen by all of them after.
DEVICE void warp_fence() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

// What was written before is seen by the host before what is written after.
DEVICE void system_fence() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
DEVICE void store_release(u32 *at, u32 v) { asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory"); }
#endif

DEVICE float to_float(bf16 v) { return as_float((u32)v << 16); }

DEVICE float warp_sum(float v) {
	for (int m = 16; m > 0; m >>= 1) v += lane_xor(v, m);
	return v;
}
DEVICE float warp_max(float v) {
	for (int m = 16; m > 0; m >>= 1) v = fmaxf(v, lane_xor(v, m));
	return v;
}

// The sum over a block of whole warps, on every thread. scratch holds 32 values.
DEVICE float block_sum(float v, float *scratch) {
	v = warp_sum(v);
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = (blockDim.x + 31) / 32;
	__syncthreads(); // an earlier use of scratch is over
	if (lane == 0) scratch[warp] = v;
	__syncthreads();
	return warp_sum(lane < warps ? scratch[lane] : 0.0f);
}

#define NEGATIVE_INFINITY as_float(0xff800000u)
