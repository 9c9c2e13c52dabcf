// A sweep that only reads, for the rate at which the device can.

struct sweep_args {
	const uint4 *in; // (count)
	u32 *sums;       // (blocks): exclusive or of the words that a block read, so that no read is left out
	i64 count;
};

#define SWEEP_LOADS 8 // in flight for each thread

extern "C" __global__ void __launch_bounds__(512) sweep(const sweep_args a) {
	__shared__ int parts[16];
	i64 stride = (i64)gridDim.x * blockDim.x, i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
	u32 x = 0;
	for (; i + (SWEEP_LOADS - 1) * stride < a.count; i += SWEEP_LOADS * stride) {
		uint4 v[SWEEP_LOADS];
#pragma unroll
		for (int k = 0; k < SWEEP_LOADS; k++) v[k] = a.in[i + k * stride];
#pragma unroll
		for (int k = 0; k < SWEEP_LOADS; k++) x ^= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
	}
	for (; i < a.count; i += stride) x ^= a.in[i].x ^ a.in[i].y ^ a.in[i].z ^ a.in[i].w;
	for (int m = 16; m > 0; m >>= 1) x ^= (u32)lane_xor((int)x, m);
	if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = (int)x;
	__syncthreads();
	if (threadIdx.x > 0) return;
	for (int w = 1; w < blockDim.x / 32; w++) x ^= (u32)parts[w];
	a.sums[blockIdx.x] = x;
}
