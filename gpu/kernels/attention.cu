// Causal attention of new tokens over the paged cache with a running softmax (Milakov and Gimelshein 2018; Dao et al., "FlashAttention", 2022),
// split over the keys of long sequences (Dao et al., "Flash-Decoding", 2023). Any head size that is a multiple of 8 and at most 256.
//
// A tile is up to TILE / group new tokens of one row with the query heads of one KV head: its query rows. A tile's keys are cut into one
// or more pieces, each an item of the work list. A fixed number of blocks takes the items one after the other; blockIdx.y is the KV head.

#define TILE 16
#define KEYS 64
#define THREADS 128

struct item {
	int tile;       // in the tile list
	int begin, end; // keys
};

struct tile {
	int first, tokens; // in the step
	int position;      // of the first token
	int table;         // row of the block tables
	int item, items;   // its items
};

struct attention_args {
	const bf16 *qkv;     // (tokens, heads + 2 kv_heads, HEAD_SIZE)
	const bf16 *cache;   // of the layer
	const int *tables;   // (rows, table_width): block numbers
	const tile *tiles;
	const item *items;
	const int *counts;   // tiles, items
	float *partial;      // (items, kv_heads, TILE, HEAD_SIZE + 2): weighted sum, largest score, sum of weights
	bf16 *out;           // (tokens, heads, HEAD_SIZE)
	int heads, kv_heads, block_size, table_width, window;
	float scale;         // of the scores, times log2(e)
};

extern "C" __global__ void __launch_bounds__(THREADS) attention(const attention_args a) {
	__shared__ __align__(16) float q[TILE][HEAD_SIZE];
	__shared__ float p[TILE][KEYS];
	__shared__ float top[TILE], sum[TILE], correct[TILE];
	__shared__ const bf16 *cached[KEYS]; // where the keys of a step begin
	const int group = a.heads / a.kv_heads, kv = blockIdx.y, tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
	const int count = a.counts[1];
	const i64 to_value = (i64)a.kv_heads * a.block_size * HEAD_SIZE; // from a key to its value
	constexpr int COLUMNS = (HEAD_SIZE + THREADS - 1) / THREADS;

	for (int i = blockIdx.x; i < count; i += gridDim.x) {
		const item it = a.items[i];
		const tile t = a.tiles[it.tile];
		const int rows = t.tokens * group;
		const int *table = a.tables + (i64)t.table * a.table_width;
		__syncthreads(); // the item before is over
		for (int j = tid; j < TILE * HEAD_SIZE; j += THREADS) {
			int r = j / HEAD_SIZE, d = j % HEAD_SIZE;
			float v = 0;
			if (r < rows) v = to_float(a.qkv[((i64)(t.first + r / group) * (a.heads + 2 * a.kv_heads) + kv * group + r % group) * HEAD_SIZE + d]) * a.scale;
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
			for (int r = warp; r < TILE; r += THREADS / 32) {
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
				int d = tid + c * THREADS;
				if (HEAD_SIZE % THREADS == 0 || d < HEAD_SIZE) {
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
			int d = tid + c * THREADS;
			if (HEAD_SIZE % THREADS == 0 || d < HEAD_SIZE) {
#pragma unroll
				for (int r = 0; r < TILE; r++) {
					if (r < rows && t.items == 1)
						a.out[((i64)(t.first + r / group) * a.heads + kv * group + r % group) * HEAD_SIZE + d] = to_bf16(acc[r][c] / sum[r]);
					if (r < rows && t.items > 1) a.partial[(((i64)i * a.kv_heads + kv) * TILE + r) * (HEAD_SIZE + 2) + d] = acc[r][c];
				}
			}
		}
		if (t.items > 1 && tid < rows) {
			float *end = a.partial + (((i64)i * a.kv_heads + kv) * TILE + tid) * (HEAD_SIZE + 2) + HEAD_SIZE;
			end[0] = top[tid], end[1] = sum[tid];
		}
	}
}

// Joins the pieces of tiles that have several, in their order.
extern "C" __global__ void __launch_bounds__(THREADS) combine(const attention_args a) {
	const int group = a.heads / a.kv_heads, kv = blockIdx.y, tid = threadIdx.x;
	const int count = a.counts[0];
	for (int i = blockIdx.x; i < count; i += gridDim.x) {
		const tile t = a.tiles[i];
		if (t.items == 1) continue;
		for (int r = 0; r < t.tokens * group; r++) {
			const float *piece = a.partial + (((i64)t.item * a.kv_heads + kv) * TILE + r) * (HEAD_SIZE + 2);
			const i64 stride = (i64)a.kv_heads * TILE * (HEAD_SIZE + 2);
			float top = NEGATIVE_INFINITY, sum = 0;
			for (int s = 0; s < t.items; s++) top = fmaxf(top, piece[s * stride + HEAD_SIZE]);
			for (int s = 0; s < t.items; s++) sum += piece[s * stride + HEAD_SIZE + 1] * power2(piece[s * stride + HEAD_SIZE] - top);
			for (int d = tid; d < HEAD_SIZE; d += THREADS) {
				float v = 0;
				for (int s = 0; s < t.items; s++) v += piece[s * stride + d] * power2(piece[s * stride + HEAD_SIZE] - top);
				a.out[((i64)(t.first + r / group) * a.heads + kv * group + r % group) * HEAD_SIZE + d] = to_bf16(v / sum);
			}
		}
	}
}
