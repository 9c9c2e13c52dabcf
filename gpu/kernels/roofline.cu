// A sweep that only reads, for the rate at which the device can.

struct sweep_args {
	const uint4 *const *pools; // that lie one behind the other, (each) of them
	u32 *sums;                 // (blocks): exclusive or of the words that a block read, so that no read is left out
	i64 each, count;           // of a pool, and of what is read in all
};

#define SWEEP_LOADS 8 // in flight for each thread

extern "C" __global__ void __launch_bounds__(512, 2) sweep(const sweep_args a) {
	__shared__ int parts[16];
	const i64 stride = (i64)gridDim.x * blockDim.x, first = (i64)blockIdx.x * blockDim.x + threadIdx.x;
	u32 x = 0;
	for (i64 begin = 0; begin < a.count; begin += a.each) {
		const uint4 *in = a.pools[begin / a.each];
		const i64 end = min(a.each, a.count - begin);
		for (i64 i = first; i < end; i += SWEEP_LOADS * stride) {
			uint4 v[SWEEP_LOADS];
#pragma unroll
			for (int k = 0; k < SWEEP_LOADS; k++) v[k] = i + k * stride < end ? in[i + k * stride] : uint4{0, 0, 0, 0};
#pragma unroll
			for (int k = 0; k < SWEEP_LOADS; k++) x ^= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
		}
	}
	for (int m = 16; m > 0; m >>= 1) x ^= (u32)lane_xor((int)x, m);
	if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = (int)x;
	__syncthreads();
	if (threadIdx.x > 0) return;
	for (int w = 1; w < blockDim.x / 32; w++) x ^= (u32)parts[w];
	a.sums[blockIdx.x] = x;
}
