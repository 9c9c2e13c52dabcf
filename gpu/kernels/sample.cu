// Greedy sampling: the lowest id among the largest logits of each row, and its way to the host.

struct argmax_args {
	const float *logits; // (rows, vocab)
	const int *slots;    // (rows): the sequence that a row belongs to; negative for padding
	u32 *sampled;        // (slots): id sampled last
	u32 *ids;            // (rows)
	int vocab;
};

extern "C" __global__ void __launch_bounds__(1024) argmax(const argmax_args a) {
	constexpr int AT_ONCE = 16; // reads of a thread
	__shared__ float values[32];
	__shared__ int ids[32];
	allow_next();
	after_previous();
	const float *row = a.logits + (i64)blockIdx.x * a.vocab;
	float best = NEGATIVE_INFINITY;
	int id = 0x7fffffff;
	for (int i = threadIdx.x; i < a.vocab; i += AT_ONCE * 1024) {
		float v[AT_ONCE];
#pragma unroll
		for (int j = 0; j < AT_ONCE; j++) v[j] = row[min(i + j * 1024, a.vocab - 1)];
#pragma unroll
		for (int j = 0; j < AT_ONCE; j++)
			if (v[j] > best) best = v[j], id = min(i + j * 1024, a.vocab - 1); // of equal ones the first stays: a thread's ids ascend
	}
	for (int m = 16; m > 0; m >>= 1) {
		float v = lane_xor(best, m);
		int other = lane_xor(id, m);
		if (v > best || (v == best && other < id)) best = v, id = other;
	}
	if (threadIdx.x % 32 == 0) values[threadIdx.x / 32] = best, ids[threadIdx.x / 32] = id;
	__syncthreads();
	if (threadIdx.x > 0) return;
	for (int w = 1; w < blockDim.x / 32; w++)
		if (values[w] > best || (values[w] == best && ids[w] < id)) best = values[w], id = ids[w];
	if (id == 0x7fffffff) id = 0; // no logit is a number
	if (a.slots[blockIdx.x] >= 0) a.sampled[a.slots[blockIdx.x]] = (u32)id;
	a.ids[blockIdx.x] = (u32)id;
}

struct publish_args {
	const u32 *ids;  // (rows)
	u32 *host;       // (2, size) in pinned host memory, for even and odd steps: ids, and in the last place the number of the step that they are of
	const u32 *step; // its number
	int rows, size;
};

extern "C" __global__ void publish(const publish_args a) {
	after_previous();
	u32 *host = a.host + *a.step % 2 * a.size;
	for (int i = threadIdx.x; i < a.rows; i += blockDim.x) host[i] = a.ids[i];
	system_fence();
	__syncthreads();
	if (threadIdx.x == 0) store_release(host + a.size - 1, *a.step);
}

struct finite_args {
	const float *logits;
	u32 *bad; // becomes 1 when one is infinite or not a number
	i64 count;
};

extern "C" __global__ void finite(const finite_args a) {
	for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += (i64)gridDim.x * blockDim.x) {
		float v = a.logits[i];
		if (!(v - v == 0.0f)) *a.bad = 1;
	}
}
