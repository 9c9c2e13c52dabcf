// Attention of many new tokens of a row on the tensor cores (Dao, "FlashAttention-2", 2023), for head sizes 64 and 128. A wide tile is up to 128 query
// rows: new tokens times the query heads of a KV head. Each of eight warps has 16 of them; blocks of 64 keys pass through a ring in shared memory
// that all of them read. Tiles come longest first, and blocks take them to and fro, so that all blocks end at about the same time.

#if HEAD_SIZE == 64 || HEAD_SIZE == 128

#define WIDE_WARPS 8
#define WIDE_KEYS 64
#define WIDE_STAGES 3
#define WIDE_HALF (WIDE_KEYS * HEAD_SIZE) // values of the keys of a stage, and of the values after them

// The pair of a wide tile and a KV head that a block takes in a round, to and fro: a.kv_heads pairs a tile.
DEVICE int wide_pair(int round) { return round * gridDim.x + (round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x); }

// The first key that any token of a tile sees, at a multiple of step.
DEVICE int first_key(const attention_args &a, const tile &t, int step) { return a.window == 0 ? 0 : max(0, t.position - a.window + 1) / step * step; }

// The scores of eight keys are as mma's results, those of the keys that a row does not see minus infinity.
template <int EIGHTS> DEVICE void hide(float (&s)[EIGHTS][4], int key, const int (&lowest)[2], const int (&highest)[2]) {
	key += threadIdx.x % 4 * 2;
#pragma unroll
	for (int h = 0; h < 2; h++) {
		const int low = lowest[h] - key, high = highest[h] - key;
#pragma unroll
		for (int n = 0; n < EIGHTS; n++)
#pragma unroll
			for (int e = 0; e < 2; e++)
				if (n * 8 + e < low || n * 8 + e > high) s[n][2 * h + e] = NEGATIVE_INFINITY;
	}
}

// Makes weights of scores: 2 to the power of what they are above the largest one so far. top and sum are of row g and g + 8; what was summed before has to be
// multiplied by correct.
template <int EIGHTS> DEVICE void weigh(float (&s)[EIGHTS][4], float scale, float (&top)[2], float (&sum)[2], float (&correct)[2]) {
#pragma unroll
	for (int h = 0; h < 2; h++) {
		float best = NEGATIVE_INFINITY;
#pragma unroll
		for (int n = 0; n < EIGHTS; n++) best = fmaxf(best, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
		best = fmaxf(top[h], four_max(best) * scale); // the scale is positive
		const float base = best == NEGATIVE_INFINITY ? 0.0f : best; // nothing seen yet: all weights are 0
		correct[h] = power2(top[h] - base);
		top[h] = best;
		sum[h] *= correct[h];
#pragma unroll
		for (int n = 0; n < EIGHTS; n++)
#pragma unroll
			for (int e = 2 * h; e < 2 * h + 2; e++) {
				s[n][e] = power2(s[n][e] * scale - base);
				sum[h] += s[n][e];
			}
	}
}

// The weights of keys 16 k to 16 k + 15 in bfloat16, as mma takes them.
template <int EIGHTS> DEVICE void pack_weights(const float (&s)[EIGHTS][4], int k, u32 (&p)[4]) {
	p[0] = pack(s[2 * k][0], s[2 * k][1]), p[1] = pack(s[2 * k][2], s[2 * k][3]), p[2] = pack(s[2 * k + 1][0], s[2 * k + 1][1]), p[3] = pack(s[2 * k + 1][2], s[2 * k + 1][3]);
}

// Multiplies what was summed before.
DEVICE void correct_sums(float (&acc)[HEAD_SIZE / 8][4], const float (&correct)[2]) {
#pragma unroll
	for (int d = 0; d < HEAD_SIZE / 8; d++) acc[d][0] *= correct[0], acc[d][1] *= correct[0], acc[d][2] *= correct[1], acc[d][3] *= correct[1];
}

// Four neighbouring lanes have four words each: lane i gets word i of each of them, in their order.
DEVICE void four_swap(u32 (&w)[4]) {
#pragma unroll
	for (int m = 1; m < 4; m *= 2)
#pragma unroll
		for (int i = 0; i < 4; i++) {
			if (i & m) continue;
			const bool high = threadIdx.x & m;
			const u32 other = (u32)lane_xor((int)(high ? w[i] : w[i | m]), m);
			if (high) w[i] = other;
			else w[i | m] = other;
		}
}

// Writes what a warp has of query rows first to first + 15 of a tile, 16 bytes at a time.
DEVICE void put_rows(const attention_args &a, const tile &t, int kv, int first, const float (&acc)[HEAD_SIZE / 8][4], const float (&sum)[2]) {
#pragma unroll
	for (int h = 0; h < 2; h++) {
		const float scale = 1.0f / four_sum(sum[h]);
		const int r = first + threadIdx.x % 32 / 4 + 8 * h;
		const bool own = r < t.tokens * (a.heads / a.kv_heads);
		uint4 *to = (uint4 *)(a.out + query_row(a, t, kv, own ? r : 0, a.heads) * HEAD_SIZE) + threadIdx.x % 4;
#pragma unroll
		for (int d = 0; d < HEAD_SIZE / 8; d += 4) {
			u32 w[4];
#pragma unroll
			for (int i = 0; i < 4; i++) w[i] = pack(acc[d + i][2 * h] * scale, acc[d + i][2 * h + 1] * scale);
			four_swap(w);
			if (own) to[d] = uint4{w[0], w[1], w[2], w[3]};
		}
	}
}

extern "C" __global__ void __launch_bounds__(WIDE_WARPS * 32, 1) attention_wide(const attention_args a) {
	SHARED_MEMORY(memory); // (WIDE_STAGES, keys and values, WIDE_KEYS, HEAD_SIZE)
	constexpr int PARTS = HEAD_SIZE / 8, ROWS = WIDE_WARPS * 32 / PARTS; // of 16 bytes in a key; keys that the block copies at a time
	bf16 *ring = (bf16 *)memory;
	const int group = a.heads / a.kv_heads, tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
	const i64 to_value = (i64)a.kv_heads * a.block_size * HEAD_SIZE; // from a key to its value
	allow_next();
	after_previous();

	const int pairs = *a.wide_count * a.kv_heads;
	for (int round = 0; round * gridDim.x < pairs; round++) {
		const int pair = wide_pair(round);
		if (pair >= pairs) continue;
		const tile t = a.wide[pair / a.kv_heads];
		const int kv = pair % a.kv_heads, rows = t.tokens * group, end = t.position + t.tokens;
		const int begin = first_key(a, t, WIDE_KEYS);
		const int *table = a.tables + t.table;
		auto fetch = [&](int key, int stage) {
			if (key < end) {
				bf16 *to = ring + stage * 2 * WIDE_HALF;
				const int part = tid % PARTS;
#pragma unroll
				for (int j = 0; j < WIDE_KEYS / ROWS; j++) {
					const int row = tid / PARTS + j * ROWS, at = min(key + row, end - 1);
					const bf16 *k = a.cache + (((i64)table[at / a.block_size] * 2 * a.kv_heads + kv) * a.block_size + at % a.block_size) * HEAD_SIZE + part * 8;
					copy_async(key_part(to, row, part), k, key + row < end);
					copy_async(key_part(to + WIDE_HALF, row, part), k + to_value, key + row < end);
				}
			}
			commit_copies();
		};
		__syncthreads(); // the tile before is over
#pragma unroll
		for (int s = 0; s < WIDE_STAGES - 1; s++) fetch(begin + s * WIDE_KEYS, s);

		u32 q[HEAD_SIZE / 16][4];
		int lowest[2], highest[2];
		load_queries(a, t, kv, warp * 16, q);
		seen_keys(a, t, warp * 16, lowest, highest);
		const int all_see = t.position + warp * 16 / group;                       // keys up to this one are seen by all rows of the warp
		const int none_sees = t.position + min(warp * 16 + 15, rows - 1) / group; // keys after this one by none
		const bool own = warp * 16 < rows;
		float acc[HEAD_SIZE / 8][4] = {}, top[2] = {NEGATIVE_INFINITY, NEGATIVE_INFINITY}, sum[2] = {0, 0};

		int stage = 0, next = WIDE_STAGES - 1;
		for (int key = begin; key < end; key += WIDE_KEYS) {
			wait_copies<WIDE_STAGES - 2>();
			__syncthreads(); // the keys are here, and all warps are through with those before
			fetch(key + (WIDE_STAGES - 1) * WIDE_KEYS, next);
			bf16 *keys = ring + stage * 2 * WIDE_HALF, *values = keys + WIDE_HALF;
			stage = stage + 1 == WIDE_STAGES ? 0 : stage + 1, next = next + 1 == WIDE_STAGES ? 0 : next + 1;
			if (!own || key > none_sees) continue;
			float s[WIDE_KEYS / 8][4] = {};
#pragma unroll
			for (int k = 0; k < HEAD_SIZE / 16; k++)
#pragma unroll
				for (int n = 0; n < WIDE_KEYS / 8; n += 2) {
					u32 b[4];
					load_matrices(b, key_part(keys, n * 8 + lane / 16 * 8 + lane % 8, k * 2 + lane / 8 % 2));
					mma(s[n], q[k], b[0], b[1]);
					mma(s[n + 1], q[k], b[2], b[3]);
				}
			if (key + WIDE_KEYS - 1 > all_see || a.window > 0) hide(s, key, lowest, highest);
			float correct[2];
			weigh(s, a.scale, top, sum, correct);
			correct_sums(acc, correct);
#pragma unroll
			for (int k = 0; k < WIDE_KEYS / 16; k++) {
				u32 p[4];
				pack_weights(s, k, p);
#pragma unroll
				for (int d = 0; d < HEAD_SIZE / 8; d += 2) {
					u32 b[4];
					load_matrices_transposed(b, key_part(values, k * 16 + lane % 16, d + lane / 16));
					mma(acc[d], p, b[0], b[1]);
					mma(acc[d + 1], p, b[2], b[3]);
				}
			}
		}
		wait_copies<0>();
		put_rows(a, t, kv, warp * 16, acc, sum);
	}
}

#endif
