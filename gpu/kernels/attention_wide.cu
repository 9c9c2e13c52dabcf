// Attention of many new tokens of a row on the tensor cores (Dao, "FlashAttention-2", 2023), for head sizes 64 and 128. A wide tile is up to 128 query
// rows: new tokens times the query heads of a KV head. Each of eight warps has 16 of them; blocks of 64 keys pass through a ring in shared memory
// that all of them read. Tiles come longest first, and blocks take them to and fro, so that all blocks end at about the same time.

#if HEAD_SIZE == 64 || HEAD_SIZE == 128

#define WIDE_WARPS 8
#define WIDE_KEYS 64
#define WIDE_STAGES 3
#define WIDE_HALF (WIDE_KEYS * HEAD_SIZE) // values of the keys of a stage, and of the values after them

extern "C" __global__ void __launch_bounds__(WIDE_WARPS * 32, 1) attention_wide(const attention_args a) {
	SHARED_MEMORY(memory); // (WIDE_STAGES, keys and values, WIDE_KEYS, HEAD_SIZE)
	constexpr int PARTS = HEAD_SIZE / 8, ROWS = WIDE_WARPS * 32 / PARTS; // of 16 bytes in a key; keys that the block copies at a time
	bf16 *ring = (bf16 *)memory;
	const int group = a.heads / a.kv_heads, tid = threadIdx.x, lane = tid % 32, warp = tid / 32, g = lane / 4, t4 = lane % 4;
	const i64 to_value = (i64)a.kv_heads * a.block_size * HEAD_SIZE; // from a key to its value
	allow_next();
	after_previous();

	const int pairs = *a.wide_count * a.kv_heads;
	for (int round = 0; round * gridDim.x < pairs; round++) {
		const int pair = round * gridDim.x + (round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
		if (pair >= pairs) continue;
		const tile t = a.wide[pair / a.kv_heads];
		const int kv = pair % a.kv_heads, rows = t.tokens * group, end = t.position + t.tokens;
		const int begin = a.window == 0 ? 0 : max(0, t.position - a.window + 1) / WIDE_KEYS * WIDE_KEYS;
		const int *table = a.tables + (i64)t.table * a.table_width;
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
		load_queries(a, t, kv, warp * 16, q, lowest, highest);
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
			if (key + WIDE_KEYS - 1 > all_see || a.window > 0) {
#pragma unroll
				for (int n = 0; n < WIDE_KEYS / 8; n++)
#pragma unroll
					for (int e = 0; e < 4; e++) {
						const int at = key + n * 8 + 2 * t4 + e % 2;
						if (at < lowest[e / 2] || at > highest[e / 2]) s[n][e] = NEGATIVE_INFINITY;
					}
			}
			float correct[2];
#pragma unroll
			for (int h = 0; h < 2; h++) {
				float best = NEGATIVE_INFINITY;
#pragma unroll
				for (int n = 0; n < WIDE_KEYS / 8; n++) best = fmaxf(best, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
				best = fmaxf(top[h], four_max(best) * a.scale); // the scale is positive
				const float base = best == NEGATIVE_INFINITY ? 0.0f : best; // nothing seen yet: all weights are 0
				correct[h] = power2(top[h] - base);
				top[h] = best;
				sum[h] *= correct[h];
#pragma unroll
				for (int n = 0; n < WIDE_KEYS / 8; n++)
#pragma unroll
					for (int e = 2 * h; e < 2 * h + 2; e++) {
						s[n][e] = power2(s[n][e] * a.scale - base);
						sum[h] += s[n][e];
					}
			}
#pragma unroll
			for (int d = 0; d < HEAD_SIZE / 8; d++) acc[d][0] *= correct[0], acc[d][1] *= correct[0], acc[d][2] *= correct[1], acc[d][3] *= correct[1];
#pragma unroll
			for (int k = 0; k < WIDE_KEYS / 16; k++) {
				const u32 p[4] = {pack(s[2 * k][0], s[2 * k][1]), pack(s[2 * k][2], s[2 * k][3]), pack(s[2 * k + 1][0], s[2 * k + 1][1]), pack(s[2 * k + 1][2], s[2 * k + 1][3])};
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
#pragma unroll
		for (int h = 0; h < 2; h++) {
			sum[h] = four_sum(sum[h]);
			const int r = warp * 16 + g + 8 * h;
			if (r >= rows) continue;
			u32 *to = (u32 *)(a.out + query_row(a, t, kv, r, a.heads) * HEAD_SIZE) + t4;
			const float scale = 1.0f / sum[h];
#pragma unroll
			for (int d = 0; d < HEAD_SIZE / 8; d++) to[d * 4] = pack(acc[d][2 * h] * scale, acc[d][2 * h + 1] * scale);
		}
	}
}

#endif
