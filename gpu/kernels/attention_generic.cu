// Attention for any head size that is a multiple of 8 and at most 256 and has no kernel of its own.

#if HEAD_SIZE != 64 && HEAD_SIZE != 128

#define KEYS 64 // between two corrections of the running softmax

extern "C" __global__ void __launch_bounds__(ATTENTION_THREADS, 1) attention(const attention_args a) {
	__shared__ __align__(16) float q[TILE][HEAD_SIZE];
	__shared__ float p[TILE][KEYS];
	__shared__ float top[TILE], sum[TILE], correct[TILE];
	__shared__ const bf16 *cached[KEYS]; // where the keys of a step begin
	const int group = a.heads / a.kv_heads, kv = blockIdx.y, tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
	const i64 to_value = (i64)a.kv_heads * a.block_size * HEAD_SIZE; // from a key to its value
	constexpr int COLUMNS = (HEAD_SIZE + ATTENTION_THREADS - 1) / ATTENTION_THREADS;

	allow_next();
	after_previous();

	const int first = a.starts[blockIdx.x], after = a.starts[blockIdx.x + 1];
	for (int i = first; i < after; i++) {
		const item it = a.items[i];
		const tile t = a.tiles[it.tile];
		const int rows = t.tokens * group;
		const int *table = a.tables + t.table;
		__syncthreads(); // the item before is over
		for (int j = tid; j < TILE * HEAD_SIZE; j += ATTENTION_THREADS) {
			int r = j / HEAD_SIZE, d = j % HEAD_SIZE;
			float v = 0;
			if (r < rows) v = to_float(a.qkv[query_row(a, t, kv, r, a.heads + 2 * a.kv_heads) * HEAD_SIZE + d]) * a.scale;
			q[r][d] = v;
		}
		if (tid < TILE) top[tid] = NEGATIVE_INFINITY, sum[tid] = 0;
		float acc[TILE][COLUMNS] = {};
		__syncthreads();

		for (int begin = it.begin; begin < it.end; begin += KEYS) {
			// Scores: each thread one key and half of the rows.
			{
				int key = begin + tid % KEYS, half = tid / KEYS * (TILE / 2);
				float s[TILE / 2] = {};
				if (key < it.end) {
					i64 block = table[key / a.block_size];
					const bf16 *k = a.cache + ((block * 2 * a.kv_heads + kv) * a.block_size + key % a.block_size) * HEAD_SIZE;
					if (half == 0) cached[tid] = k;
					for (int d = 0; d < HEAD_SIZE; d += 8) {
						uint4 w = *(const uint4 *)(k + d);
						float x[8] = {as_float(w.x << 16), as_float(w.x & 0xffff0000u), as_float(w.y << 16), as_float(w.y & 0xffff0000u),
							as_float(w.z << 16), as_float(w.z & 0xffff0000u), as_float(w.w << 16), as_float(w.w & 0xffff0000u)};
#pragma unroll
						for (int r = 0; r < TILE / 2; r++)
#pragma unroll
							for (int e = 0; e < 8; e++) s[r] += x[e] * q[half + r][d + e];
					}
				}
#pragma unroll
				for (int r = 0; r < TILE / 2; r++) {
					int position = t.position + (half + r) / group;
					bool seen = key < it.end && half + r < rows && key <= position && (a.window == 0 || key > position - a.window);
					p[half + r][tid % KEYS] = seen ? s[r] : NEGATIVE_INFINITY;
				}
			}
			__syncthreads();
			// Weights: each warp every fourth row.
			for (int r = warp; r < TILE; r += ATTENTION_THREADS / 32) {
				float u = p[r][lane], v = p[r][lane + 32];
				float before = top[r], now = fmaxf(before, warp_max(fmaxf(u, v)));
				float base = now == NEGATIVE_INFINITY ? 0.0f : now; // nothing seen yet: all weights are 0
				u = power2(u - base), v = power2(v - base);
				p[r][lane] = u, p[r][lane + 32] = v;
				float weights = warp_sum(u + v), c = power2(before - base);
				warp_fence(); // all lanes have read what the first one writes
				if (lane == 0) top[r] = now, correct[r] = c, sum[r] = sum[r] * c + weights;
			}
			__syncthreads();
			// Values: each thread one or two columns of all rows.
#pragma unroll
			for (int c = 0; c < COLUMNS; c++) {
				int d = tid + c * ATTENTION_THREADS;
				if (HEAD_SIZE % ATTENTION_THREADS == 0 || d < HEAD_SIZE) {
#pragma unroll
					for (int r = 0; r < TILE; r++) acc[r][c] *= correct[r];
					int last = min(KEYS, it.end - begin);
#pragma unroll 8
					for (int j = 0; j < last; j++) {
						float v = to_float(cached[j][to_value + d]);
#pragma unroll
						for (int r = 0; r < TILE; r++) acc[r][c] += p[r][j] * v;
					}
				}
			}
			__syncthreads();
		}

#pragma unroll
		for (int c = 0; c < COLUMNS; c++) {
			int d = tid + c * ATTENTION_THREADS;
			if (HEAD_SIZE % ATTENTION_THREADS == 0 || d < HEAD_SIZE) {
#pragma unroll
				for (int r = 0; r < TILE; r++)
					if (r < rows) put_values<1>(a, it, t, kv, r, d, {acc[r][c]}, top[r], sum[r]);
			}
		}
		join_items<TILE, 16>(a, t, kv);
	}
}

#endif
