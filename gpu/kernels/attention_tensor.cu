// Attention on the tensor cores, for head sizes 64 and 128. Each warp of a block takes every fourth group of 16 keys of an item by itself, with a ring
// of its own in shared memory that is filled ahead of use; the four results are joined at the item's end.

#if HEAD_SIZE == 64 || HEAD_SIZE == 128

#define ATTENTION_WARPS 4
#define GROUP 16   // keys that a warp takes at a time
#define STAGES 3   // groups in the ring
#define HALF_STAGE (GROUP * HEAD_SIZE) // values of the keys of a group, and of the values after them
#define JOIN_STRIDE (HEAD_SIZE + 8)    // for other banks

// The address of 16 bytes of a key in shared memory. They are permuted so that eight keys at one place lie in different banks.
DEVICE bf16 *key_part(bf16 *keys, int key, int part) { return keys + key * HEAD_SIZE + ((part ^ (key & 7)) * 8); }

// The keys that a lane's query rows see: rows first + g and first + g + 8 of a tile, with g = lane / 4.
DEVICE void seen_keys(const attention_args &a, const tile &t, int first, int (&lowest)[2], int (&highest)[2]) {
	const int group = a.heads / a.kv_heads;
#pragma unroll
	for (int h = 0; h < 2; h++) {
		const int r = first + threadIdx.x % 32 / 4 + 8 * h, position = t.position + r / group;
		highest[h] = r < t.tokens * group ? position : -1;
		lowest[h] = a.window == 0 ? 0 : position - a.window + 1;
	}
}

// What a lane brings of query rows first to first + 15 of a tile to mma.
DEVICE void load_queries(const attention_args &a, const tile &t, int kv, int first, u32 (&q)[HEAD_SIZE / 16][4]) {
#pragma unroll
	for (int h = 0; h < 2; h++) {
		const int r = first + threadIdx.x % 32 / 4 + 8 * h;
		const bool own = r < t.tokens * (a.heads / a.kv_heads);
		const bf16 *from = a.qkv + query_row(a, t, kv, own ? r : 0, a.heads + 2 * a.kv_heads) * HEAD_SIZE + threadIdx.x % 4 * 2;
#pragma unroll
		for (int k = 0; k < HEAD_SIZE / 16; k++) q[k][h] = *(const u32 *)(from + k * 16), q[k][h + 2] = *(const u32 *)(from + k * 16 + 8);
	}
}

// The scores of a warp's query rows with 16 keys.
DEVICE void score_keys(const u32 (&q)[HEAD_SIZE / 16][4], bf16 *keys, float (&s)[2][4]) {
	const int lane = threadIdx.x % 32;
#pragma unroll
	for (int k = 0; k < HEAD_SIZE / 16; k++) {
		u32 b[4];
		load_matrices(b, key_part(keys, lane / 16 * 8 + lane % 8, k * 2 + lane / 8 % 2));
		mma(s[0], q[k], b[0], b[1]);
		mma(s[1], q[k], b[2], b[3]);
	}
}

// What a lane's two query rows have been weighted with so far: the largest score, and the sum of weights of the keys that this lane has.
struct weighted {
	float top[2], sum[2];
};

// Makes weights of the scores of 16 keys from key on, and says what the sums before them are to be multiplied with.
DEVICE void weigh_keys(float scale, int key, const int (&lowest)[2], const int (&highest)[2], float (&s)[2][4], weighted &w, float (&correct)[2]) {
	key += 2 * (threadIdx.x % 4);
#pragma unroll
	for (int h = 0; h < 2; h++) {
		float best = w.top[h];
#pragma unroll
		for (int e = 0; e < 4; e++) {
			const int at = key + e / 2 * 8 + e % 2;
			float &v = s[e / 2][2 * h + e % 2];
			v = at >= lowest[h] && at <= highest[h] ? v * scale : NEGATIVE_INFINITY;
			best = fmaxf(best, v);
		}
		best = four_max(best);
		const float base = best == NEGATIVE_INFINITY ? 0.0f : best; // nothing seen yet: all weights are 0
		correct[h] = power2(w.top[h] - base);
		w.top[h] = best;
		w.sum[h] *= correct[h];
#pragma unroll
		for (int e = 0; e < 4; e++) {
			float &v = s[e / 2][2 * h + e % 2];
			v = power2(v - base);
			w.sum[h] += v;
		}
	}
}

// Adds 16 keys' values times their weights.
DEVICE void add_values(float (&acc)[HEAD_SIZE / 8][4], const float (&s)[2][4], const float (&correct)[2], bf16 *values) {
	const int lane = threadIdx.x % 32;
	const u32 p[4] = {pack(s[0][0], s[0][1]), pack(s[0][2], s[0][3]), pack(s[1][0], s[1][1]), pack(s[1][2], s[1][3])};
#pragma unroll
	for (int d = 0; d < HEAD_SIZE / 8; d += 2) {
		u32 b[4];
		load_matrices_transposed(b, key_part(values, lane % 16, d + lane / 16));
#pragma unroll
		for (int h = 0; h < 2; h++) {
			float(&c)[4] = acc[d + h];
			c[0] *= correct[0], c[1] *= correct[0], c[2] *= correct[1], c[3] *= correct[1];
			mma(c, p, b[2 * h], b[2 * h + 1]);
		}
	}
}

// What the warps of a block have weighted their query rows with.
struct weighed {
	float tops[ATTENTION_WARPS][TILE], sums[ATTENTION_WARPS][TILE];
};

// Joins the results of the warps, (warps, ROWS, JOIN_STRIDE), and puts them where the item's belong.
template <int ROWS> DEVICE void join_warps(const attention_args &a, const item &it, const tile &t, int kv, const float *results, const weighed &all) {
	__syncthreads();
	for (int j = recomputed((int)threadIdx.x); j < t.tokens * (a.heads / a.kv_heads) * (HEAD_SIZE / 4); j += ATTENTION_THREADS) {
		const int r = j / (HEAD_SIZE / 4), d = j % (HEAD_SIZE / 4) * 4;
		float best = NEGATIVE_INFINITY, weights = 0, value[4] = {};
#pragma unroll
		for (int w = 0; w < ATTENTION_WARPS; w++) best = fmaxf(best, all.tops[w][r]);
#pragma unroll
		for (int w = 0; w < ATTENTION_WARPS; w++) {
			const float weight = best == NEGATIVE_INFINITY ? 0.0f : power2(all.tops[w][r] - best);
			const float4 v = *(const float4 *)(results + (w * ROWS + r) * JOIN_STRIDE + d);
			weights += all.sums[w][r] * weight;
			value[0] += v.x * weight, value[1] += v.y * weight, value[2] += v.z * weight, value[3] += v.w * weight;
		}
		put_values<4>(a, it, t, kv, r, d, value, best, weights);
	}
	join_items<ROWS, ROWS>(a, t, kv);
}

extern "C" __global__ void __launch_bounds__(ATTENTION_THREADS, 2) attention(const attention_args a) {
	SHARED_MEMORY(memory); // the rings; at the end of an item the results of the warps: (warps, TILE, JOIN_STRIDE) float32
	__shared__ weighed all;
	const int kv = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t4 = lane % 4;
	const i64 to_value = (i64)a.kv_heads * a.block_size * HEAD_SIZE; // from a key to its value
	bf16 *ring = (bf16 *)memory + warp * STAGES * 2 * HALF_STAGE;
	allow_next();

	const int first = a.starts[blockIdx.x], after = a.starts[blockIdx.x + 1];
	if (first == after) after_previous(); // that the kernel has ended says that those before it have
	for (int i = first; i < after; i++) {
		const item it = a.items[i];
		const tile t = a.tiles[it.tile];
		const int *table = a.tables + t.table;
		const int from = it.begin + warp * GROUP, groups = (max(0, it.end - from) + ATTENTION_WARPS * GROUP - 1) / (ATTENTION_WARPS * GROUP);
		int known = 0; // block numbers of 32 groups, one in each lane
		auto fetch = [&](int n) {
			if (n % 32 == 0) {
				int key = from + (n + lane) * ATTENTION_WARPS * GROUP;
				known = key < it.end ? table[key / a.block_size] : 0;
			}
			if (n < groups) {
				const int key = from + n * ATTENTION_WARPS * GROUP;
				const bf16 *k = a.cache + (((i64)lane_get(known, n % 32) * 2 * a.kv_heads + kv) * a.block_size + key % a.block_size) * HEAD_SIZE;
				bf16 *to = ring + n % STAGES * 2 * HALF_STAGE;
#pragma unroll
				for (int j = 0; j < HALF_STAGE / 8 / 32; j++) {
					const int part = (j * 32 + lane) % (HEAD_SIZE / 8), row = (j * 32 + lane) / (HEAD_SIZE / 8);
					const bool valid = key + row < it.end;
					copy_async(key_part(to, row, part), k + row * HEAD_SIZE + part * 8, valid);
					copy_async(key_part(to + HALF_STAGE, row, part), k + to_value + row * HEAD_SIZE + part * 8, valid);
				}
			}
			commit_copies();
		};
		__syncthreads(); // the item before is over
		if (it.begin + (STAGES - 1) * ATTENTION_WARPS * GROUP > t.cached) after_previous(); // keys of this step are among the first ones
#pragma unroll
		for (int n = 0; n < STAGES - 1; n++) fetch(n);
		after_previous();

		u32 q[HEAD_SIZE / 16][4];
		int lowest[2], highest[2];
		load_queries(a, t, kv, 0, q);
		seen_keys(a, t, 0, lowest, highest);
		highest[0] = min(highest[0], it.end - 1), highest[1] = min(highest[1], it.end - 1);
		float acc[HEAD_SIZE / 8][4] = {};
		weighted own = {{NEGATIVE_INFINITY, NEGATIVE_INFINITY}, {0, 0}};

		for (int n = 0; n < groups; n++) {
			wait_copies<STAGES - 2>();
			warp_fence(); // group n is here, and all lanes are through with group n - 1
			fetch(n + STAGES - 1);
			bf16 *keys = ring + n % STAGES * 2 * HALF_STAGE;
			float s[2][4] = {}, correct[2];
			score_keys(q, keys, s);
			weigh_keys(a.scale, from + n * ATTENTION_WARPS * GROUP, lowest, highest, s, own, correct);
			add_values(acc, s, correct, keys + HALF_STAGE);
		}
		wait_copies<0>();
		__syncthreads(); // all warps are through with their rings
		float *results = (float *)memory + warp * TILE * JOIN_STRIDE;
#pragma unroll
		for (int h = 0; h < 2; h++) {
			own.sum[h] = four_sum(own.sum[h]);
			if (t4 == 0) all.tops[warp][g + 8 * h] = own.top[h], all.sums[warp][g + 8 * h] = own.sum[h];
#pragma unroll
			for (int d = 0; d < HEAD_SIZE / 8; d++) *(float2 *)(results + (g + 8 * h) * JOIN_STRIDE + d * 8 + 2 * t4) = float2{acc[d][2 * h], acc[d][2 * h + 1]};
		}
		join_warps<TILE>(a, it, t, kv, (float *)memory, all);
	}
}

#endif
