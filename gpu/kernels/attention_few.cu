// Attention of few tokens, in blocks that have room on a multiprocessor beside a block of a chain (chain.cu): registers and shared memory are cut for that. While the chain before it still
// reads weights, a block reads its lists and the keys and values that were in the cache before the step, and waits. While it attends, the chain after it, which found its place as soon as
// the one before it had ended, fills its rings. So neither a launch nor the first reads take time of their own.
//
// A chain needs all its blocks at the same time and is not kept from that: these blocks wait for nothing but the end of the chain before them, whose blocks all run when they start.
//
// A tile has FEW_ROWS query rows at most. They are the columns of both products, which takes half of the registers that they take as rows: scores(16 keys, 8) = keys queries^T, and
// out(HEAD_SIZE, 8) += values^T weights.

#if HEAD_SIZE == 64 || HEAD_SIZE == 128

#define FEW_ROWS 8

// What a lane's two query rows, 2 (lane % 4) and the next one, have been weighted with so far: the largest score, and the sum of weights of the keys that this lane has.
struct few_sums {
	float top[2], sum[2];
	float acc[HEAD_SIZE / 16][4]; // of values 16 i + g and 16 i + 8 + g, with g = lane / 4
};

// The largest, and the sum, over the eight lanes that have a column of mma's results.
DEVICE float column_max(float v) {
	for (int m = 4; m < 32; m *= 2) v = fmaxf(v, lane_xor(v, m));
	return v;
}
DEVICE float column_sum(float v) {
	for (int m = 4; m < 32; m *= 2) v += lane_xor(v, m);
	return v;
}

// Makes weights of the scores of keys key + lane / 4 and 8 further, as mma takes them, and corrects the sums before them.
DEVICE void weigh_few(float scale, int key, const int (&lowest)[2], const int (&highest)[2], float (&s)[4], few_sums &sums, u32 (&weights)[2]) {
	key += threadIdx.x % 32 / 4;
#pragma unroll
	for (int e = 0; e < 2; e++) {
#pragma unroll
		for (int h = 0; h < 2; h++) {
			float &v = s[2 * h + e];
			v = key + 8 * h >= lowest[e] && key + 8 * h <= highest[e] ? v * scale : NEGATIVE_INFINITY;
		}
		const float best = fmaxf(sums.top[e], column_max(fmaxf(s[e], s[2 + e])));
		const float base = best == NEGATIVE_INFINITY ? 0.0f : best, correct = power2(sums.top[e] - base); // nothing seen yet: all weights are 0
		s[e] = power2(s[e] - base), s[2 + e] = power2(s[2 + e] - base);
		sums.top[e] = best;
		sums.sum[e] = sums.sum[e] * correct + s[e] + s[2 + e];
#pragma unroll
		for (int i = 0; i < HEAD_SIZE / 16; i++) sums.acc[i][e] *= correct, sums.acc[i][2 + e] *= correct;
	}
	weights[0] = transposed(pack(s[0], s[1])), weights[1] = transposed(pack(s[2], s[3]));
}

extern "C" __global__ void __launch_bounds__(ATTENTION_THREADS, 4) attention_few(const attention_args a) {
	SHARED_MEMORY(memory); // of each warp 16 keys and their values; at the end of an item the results of the warps, (warps, FEW_ROWS, JOIN_STRIDE) float32
	__shared__ weighed all;
	__shared__ item it;
	__shared__ tile t;
	constexpr int ITEM_WORDS = sizeof(item) / 4, TILE_WORDS = sizeof(tile) / 4;
	const int group = a.heads / a.kv_heads, kv = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t4 = lane % 4;
	const i64 to_value = (i64)a.kv_heads * a.block_size * HEAD_SIZE; // from a key to its value
	bf16 *keys = (bf16 *)memory + warp * 2 * HALF_STAGE, *values = keys + HALF_STAGE;
	allow_next();

	const int first = a.starts[blockIdx.x], after = a.starts[blockIdx.x + 1];
	if (first == after) after_previous(); // that the kernel has ended says that those before it have
	for (int i = first; i < after; i++) {
		__syncthreads(); // the item before is over
		if (threadIdx.x < ITEM_WORDS) ((int *)&it)[threadIdx.x] = ((const int *)(a.items + i))[threadIdx.x];
		else if (threadIdx.x < ITEM_WORDS + TILE_WORDS) ((int *)&t)[threadIdx.x - ITEM_WORDS] = ((const int *)(a.tiles + a.items[i].tile))[threadIdx.x - ITEM_WORDS];
		__syncthreads();
		const int from = it.begin + warp * GROUP, groups = (max(0, it.end - from) + ATTENTION_WARPS * GROUP - 1) / (ATTENTION_WARPS * GROUP);
		int known = 0; // block numbers of 32 groups, one in each lane
		auto look_up = [&](int n) {
			const int key = from + (n + lane) * ATTENTION_WARPS * GROUP;
			known = key < it.end ? a.tables[t.table + key / a.block_size] : 0;
		};
		// Begins to copy keys low to high - 1 of group n, or their values; what is not in the item becomes 0.
		auto fetch = [&](int n, bool of_values, int low, int high) {
			if (n < groups && from + n * ATTENTION_WARPS * GROUP + GROUP > low) {
				constexpr int PARTS = HEAD_SIZE / 8, ROWS = 32 / PARTS; // of 16 bytes in a key; keys at a time
				const u32 tid = (u32)recomputed((int)threadIdx.x), part = tid % PARTS, row = tid % 32 / PARTS;
				const int key = from + n * ATTENTION_WARPS * GROUP;
				const bf16 *k = a.cache + (((i64)lane_get(known, n % 32) * 2 * a.kv_heads + kv) * a.block_size + key % a.block_size) * HEAD_SIZE + (of_values ? to_value : 0) + tid % 32 * 8;
				const int begin = low - key - (int)row, end = high - key - (int)row, there = it.end - key - (int)row;
#pragma unroll
				for (int j = 0; j < GROUP; j += ROWS)
					if (j >= begin && j < end) copy_async(key_part(of_values ? values : keys, (int)row + j, (int)part), k + j * HEAD_SIZE, j < there);
			}
			commit_copies();
		};
		const bf16 *query = a.qkv + query_row(a, t, kv, g < t.tokens * group ? g : 0, a.heads + 2 * a.kv_heads) * HEAD_SIZE + t4 * 2;
		int lowest[2], highest[2]; // keys that the lane's query rows see
#pragma unroll
		for (int e = 0; e < 2; e++) {
			const int r = 2 * t4 + e, position = t.position + r / group;
			highest[e] = r < t.tokens * group ? min(position, it.end - 1) : -1;
			lowest[e] = a.window == 0 ? 0 : position - a.window + 1;
		}
		constexpr int ALL = 1 << 30;
		look_up(0);
		fetch(0, false, 0, t.cached);
		fetch(0, true, 0, t.cached);
		after_previous();
		fetch(0, false, t.cached, ALL); // keys of this step
		fetch(0, true, t.cached, ALL);

		few_sums sums = {{NEGATIVE_INFINITY, NEGATIVE_INFINITY}, {0, 0}, {}};

		for (int n = 0; n < groups; n++) {
			const int lane = recomputed(threadIdx.x % 32);
			float s[4] = {};
			u32 weights[2], q[HEAD_SIZE / 16][2]; // read again for each group: there are no registers to keep them
#pragma unroll
			for (int k = 0; k < HEAD_SIZE / 16; k++) q[k][0] = *(const u32 *)(query + k * 16), q[k][1] = *(const u32 *)(query + k * 16 + 8);
			wait_copies<1>();
			warp_fence(); // the keys are here
#pragma unroll
			for (int k = 0; k < HEAD_SIZE / 16; k++) {
				u32 b[4];
				load_matrices(b, key_part(keys, lane % 16, k * 2 + lane / 16));
				mma(s, b, q[k][0], q[k][1]);
			}
			warp_fence(); // all lanes are through with them
			if ((n + 1) % 32 == 0) look_up(n + 1);
			fetch(n + 1, false, 0, ALL);
			weigh_few(a.scale, from + n * ATTENTION_WARPS * GROUP, lowest, highest, s, sums, weights);
			wait_copies<1>();
			warp_fence(); // the values are here
#pragma unroll
			for (int i = 0; i < HEAD_SIZE / 16; i++) {
				u32 b[4];
				load_matrices_transposed(b, key_part(values, lane / 16 * 8 + lane % 8, i * 2 + lane / 8 % 2));
				mma(sums.acc[i], b, weights[0], weights[1]);
			}
			warp_fence(); // all lanes are through with them
			fetch(n + 1, true, 0, ALL);
		}

		wait_copies<0>();
		__syncthreads(); // all warps are through with their keys and values
		float *results = (float *)memory + warp * FEW_ROWS * JOIN_STRIDE + 2 * t4 * JOIN_STRIDE + g;
#pragma unroll
		for (int e = 0; e < 2; e++) {
			sums.sum[e] = column_sum(sums.sum[e]);
			if (g == 0) all.tops[warp][2 * t4 + e] = sums.top[e], all.sums[warp][2 * t4 + e] = sums.sum[e];
#pragma unroll
			for (int i = 0; i < HEAD_SIZE / 16; i++) results[e * JOIN_STRIDE + i * 16] = sums.acc[i][e], results[e * JOIN_STRIDE + i * 16 + 8] = sums.acc[i][2 + e];
		}
		join_warps<FEW_ROWS>(a, it, t, kv, (float *)memory, all);
	}
}

#endif
