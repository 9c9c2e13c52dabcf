// Causal attention of new tokens over the paged cache with a running softmax (Milakov and Gimelshein 2018; Dao et al., "FlashAttention", 2022),
// split over the keys of long sequences (Dao et al., "Flash-Decoding", 2023): what its kernels share.
//
// A tile is up to TILE / group new tokens of one row with the query heads of one KV head: its query rows. The keys of all tiles are shared out
// among a fixed number of lists, one for each blockIdx.x; an item is a list's part of a tile. blockIdx.y is the KV head.

#define TILE 16
#define ATTENTION_THREADS 128
#define JOINED 32 // pieces that are joined at a time

struct item {
	int tile;       // in the tile list
	int begin, end; // keys; begin is a multiple of 16
	int piece;      // in the partial results, where the tile has several items
};

struct tile {
	int first, tokens; // in the step
	int position;      // of the first token
	int table;         // where its row's block table begins
	int piece, items;  // its first item's piece, and how many items it has
	int cached;        // keys that were in the cache before the step
};

struct attention_args {
	const bf16 *qkv;     // (tokens, heads + 2 kv_heads, HEAD_SIZE)
	const bf16 *cache;   // of the layer
	const int *tables;   // block numbers: the block tables of the rows, one behind the other
	const tile *tiles;
	const item *items;
	const int *starts;   // (lists + 1): first item of each list
	const tile *wide;    // of rows with many new tokens: up to 128 / group of them, in no list
	const int *wide_count;
	float *partial;      // (pieces, kv_heads, TILE, HEAD_SIZE + 2): weighted sum, largest score, sum of weights
	u32 *arrived;        // (pieces, kv_heads), zero between the launches: items of a tile that have ended
	bf16 *out;           // (tokens, heads, HEAD_SIZE)
	int heads, kv_heads, block_size, window;
	float scale;         // of the scores, times log2(e)
};

// The place of query row r of a tile in (tokens, heads).
DEVICE i64 query_row(const attention_args &a, const tile &t, int kv, int r, int heads) {
	const int group = a.heads / a.kv_heads;
	return (i64)(t.first + r / group) * heads + kv * group + r % group;
}

// Where the partial results of row r of a piece are.
DEVICE float *partial_row(const attention_args &a, int piece, int kv, int r) {
	return a.partial + (((i64)piece * a.kv_heads + kv) * TILE + r) * (HEAD_SIZE + 2);
}

// Puts value d of row r of an item where it belongs: the weighted sum, and what it was weighted with.
DEVICE void put_value(const attention_args &a, const item &it, const tile &t, int kv, int r, int d, float value, float top, float sum) {
	if (t.items == 1) {
		a.out[query_row(a, t, kv, r, a.heads) * HEAD_SIZE + d] = to_bf16(value / sum);
		return;
	}
	float *row = partial_row(a, it.piece, kv, r);
	row[d] = value;
	if (d == 0) row[HEAD_SIZE] = top, row[HEAD_SIZE + 1] = sum;
}

// Ends an item. The block that ends the last item of a tile joins them, in their order.
DEVICE void join_items(const attention_args &a, const tile &t, int kv) {
	__shared__ int last;
	if (t.items == 1) return;
	__syncthreads(); // all of the item is written
	if (threadIdx.x == 0) {
		u32 *at = a.arrived + (i64)t.piece * a.kv_heads + kv;
		device_fence();
		last = arrive(at) == t.items - 1;
		if (last) *at = 0;
	}
	__syncthreads();
	if (!last) return;
	device_fence();
	const int rows = t.tokens * (a.heads / a.kv_heads);
	const i64 stride = (i64)a.kv_heads * TILE * (HEAD_SIZE + 2);
	// The weight of each piece of a row, for so many pieces at a time: all are read together.
	__shared__ float weights[TILE][JOINED + 1], tops[TILE], sums[TILE];
	constexpr int COLUMNS = (TILE * HEAD_SIZE + ATTENTION_THREADS - 1) / ATTENTION_THREADS;
	float values[COLUMNS] = {};
	for (int from = 0; from < t.items; from += JOINED) {
		const int count = min(JOINED, t.items - from);
		for (int i = threadIdx.x; i < rows * count; i += ATTENTION_THREADS) weights[i / count][i % count] = partial_row(a, t.piece + from + i % count, kv, i / count)[HEAD_SIZE];
		__syncthreads();
		if (threadIdx.x < rows) {
			float *w = weights[threadIdx.x], top = from ? tops[threadIdx.x] : NEGATIVE_INFINITY, sum = from ? sums[threadIdx.x] : 0.0f;
			const float *piece = partial_row(a, t.piece + from, kv, threadIdx.x) + HEAD_SIZE + 1;
			float best = top;
			for (int s = 0; s < count; s++) best = fmaxf(best, w[s]);
			const float base = best == NEGATIVE_INFINITY ? 0.0f : best;
			w[JOINED] = power2(top - base); // of what was joined before
			sum *= w[JOINED];
#pragma unroll 8
			for (int s = 0; s < count; s++) {
				w[s] = power2(w[s] - base);
				sum += piece[s * stride] * w[s];
			}
			tops[threadIdx.x] = best, sums[threadIdx.x] = sum;
		}
		__syncthreads();
		const int tid = recomputed((int)threadIdx.x);
#pragma unroll
		for (int c = 0; c < COLUMNS; c++) {
			const int i = tid + c * ATTENTION_THREADS;
			if (i >= rows * HEAD_SIZE) break;
			const int r = i / HEAD_SIZE;
			const float *piece = partial_row(a, t.piece + from, kv, r) + i % HEAD_SIZE;
			float value = values[c] * weights[r][JOINED];
#pragma unroll 8
			for (int s = 0; s < count; s++) value += piece[s * stride] * weights[r][s];
			values[c] = value;
		}
		__syncthreads();
	}
#pragma unroll
	for (int c = 0; c < COLUMNS; c++) {
		const int i = threadIdx.x + c * ATTENTION_THREADS;
		if (i >= rows * HEAD_SIZE) break;
		a.out[query_row(a, t, kv, i / HEAD_SIZE, a.heads) * HEAD_SIZE + i % HEAD_SIZE] = to_bf16(values[c] / sums[i / HEAD_SIZE]);
	}
}
