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
DEVICE u32 as_bits(float v) {
	u32 bits;
	asm("mov.b32 %0, %1;" : "=r"(bits) : "f"(v));
	return bits;
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

// The value of another lane.
DEVICE int lane_get(int v, int lane) {
	int r;
	asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(r) : "r"(v), "r"(lane));
	return r;
}
DEVICE float lane_get(float v, int lane) {
	float r;
	asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(r) : "f"(v), "r"(lane));
	return r;
}

// Says on all lanes whether it is so on any.
DEVICE bool any_lane(bool is) {
	u32 r;
	asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %1, 0;\nvote.sync.any.pred p, p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(r) : "r"((u32)is));
	return r;
}

// Two values as bfloat16 in one word.
DEVICE u32 pack(float low, float high) {
	u32 r;
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
	return r;
}

// d(16, 8) += a(16, 16) b(16, 8) over a warp, bfloat16 with float32 sums. With g = lane / 4 and t = lane % 4 a lane has d(g, 2t), d(g, 2t + 1),
// d(g + 8, 2t), d(g + 8, 2t + 1); pairs of a at (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8); pairs of b at (2t, g), (2t + 8, g), one below the other.
DEVICE void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
	asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

DEVICE u32 shared_address(const void *p) {
	u64 r;
	asm("cvta.to.shared.u64 %0, %1;" : "=l"(r) : "l"(p));
	return (u32)r;
}
// Four 8 x 8 matrices of bfloat16 from shared memory: lane l brings row l % 8 of matrix l / 8 and gets the pair at (lane / 4, 2 (lane % 4)) of each.
DEVICE void load_matrices(u32 (&r)[4], const void *row) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}
// The same, each matrix transposed.
DEVICE void load_matrices_transposed(u32 (&r)[4], const void *row) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}

// An 8 x 8 matrix of bfloat16, of which each lane has a pair as load_matrices gives it, transposed.
DEVICE u32 transposed(u32 v) {
	u32 r;
	asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(v));
	return r;
}

// Starts to copy 16 bytes to shared memory; what is not valid becomes 0. Groups of copies end with commit_copies; wait_copies waits until at most
// so many groups of this thread are left.
DEVICE void copy_async(void *to, const void *from, bool valid) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(valid ? 16 : 0) : "memory");
}
DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> DEVICE void wait_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }

// A barrier of so many threads of a block, by its number from 1; come counts at it and goes on.
DEVICE void meet(int barrier, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }
DEVICE void come(int barrier, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }

// A barrier in shared memory for so many arrivals a phase; phases begin at 0 (PTX ISA 8, "mbarrier"). What was done before an arrival is seen by those that waited for its phase.
DEVICE void barrier_init(u64 *barrier, int arrivals) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory"); }
DEVICE void barrier_arrive(u64 *barrier) { asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(shared_address(barrier)) : "memory"); }
#if __CUDA_ARCH__ >= 900
#define PHASE_OVER "mbarrier.try_wait.parity.shared.b64" // sleeps a while
#else
#define PHASE_OVER "mbarrier.test_wait.parity.shared.b64"
#endif
// Waits for the end of a phase; parity is phase % 2, and the phase the current one or the one before.
DEVICE void barrier_wait(u64 *barrier, u32 parity) {
	u32 over;
	do
		asm volatile("{\n.reg .pred p;\n" PHASE_OVER " p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(over) : "r"(shared_address(barrier)), "r"(parity) : "memory");
	while (!over);
}

// A kernel may start before the one before it has ended: until after_previous it touches only what no kernel of the step writes. allow_next lets
// the next one start when all blocks have called it. Every block must call after_previous before it ends: who waits for a kernel relies on it for all before.
DEVICE void after_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
DEVICE void allow_next() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// Counts arrivals at a place in global memory: how many came before. What an arrived thread wrote is seen by those that arrive later.
DEVICE u32 arrive(u32 *at) {
	u32 before;
	asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(at) : "memory");
	return before;
}
// Adds without asking what was there; what the thread knows to be written is seen by those that read the sum with load_acquire.
DEVICE void add_release(u32 *at, u32 v) { asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory"); }
DEVICE u32 load_acquire(const u32 *at) {
	u32 v;
	asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
	return v;
}
// Four values that other blocks may read, or write, at any time; nothing is ordered by them.
DEVICE void store_relaxed(float4 *at, float4 v) { asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory"); }
DEVICE float4 load_relaxed(const float4 *at) {
	float4 v;
	asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(at) : "memory");
	return v;
}
// A word that the host may write at any time.
DEVICE u32 load_host(const u32 *at) {
	u32 v;
	asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
	return v;
}
DEVICE void device_fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

// Shared memory whose size the launch gives.
#define SHARED_MEMORY(name) extern __shared__ __align__(128) char name[]

// What was written before is seen by the host before what is written after.
DEVICE void system_fence() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
DEVICE void store_release(u32 *at, u32 v) { asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory"); }
#endif

// A value whose dependents are computed here, not ahead of a loop, where they would take registers all along.
DEVICE int recomputed(int v) {
	asm volatile("" : "+r"(v));
	return v;
}

DEVICE float to_float(bf16 v) { return as_float((u32)v << 16); }

DEVICE float warp_sum(float v) {
	for (int m = 16; m > 0; m >>= 1) v += lane_xor(v, m);
	return v;
}
DEVICE float warp_max(float v) {
	for (int m = 16; m > 0; m >>= 1) v = fmaxf(v, lane_xor(v, m));
	return v;
}

// The sum and the largest over four neighbouring lanes, which have the columns of a row in mma's results.
DEVICE float four_sum(float v) {
	v += lane_xor(v, 1);
	return v + lane_xor(v, 2);
}
DEVICE float four_max(float v) {
	v = fmaxf(v, lane_xor(v, 1));
	return fmaxf(v, lane_xor(v, 2));
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
