// Causal attention of new tokens over the paged cache with a running softmax (Milakov and Gimelshein 2018; Dao et al., "FlashAttention", 2022),
// split over the keys of long sequences (Dao et al., "Flash-Decoding", 2023): what its kernels share.
//
// A tile is up to TILE / group new tokens of one row with the query heads of one KV head: its query rows. The keys of all tiles are shared out
// among a fixed number of lists, one for each blockIdx.x; an item is a list's part of a tile. blockIdx.y is the KV head.

#define TILE 16
#define ATTENTION_THREADS 128
#define JOINED 32 // pieces that are joined at a time: a lane each
#define PIECE_SIZE (TILE * (HEAD_SIZE + 2)) // of partial results: weighted sums of all rows, then the largest score and the sum of weights of each

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
	float *partial;      // (pieces, kv_heads, PIECE_SIZE)
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

// Where the partial results of a piece are.
DEVICE float *partial_piece(const attention_args &a, int piece, int kv) { return a.partial + ((i64)piece * a.kv_heads + kv) * PIECE_SIZE; }

// Puts COUNT values from d on of row r of an item where they belong: weighted sums, and what they were weighted with.
template <int COUNT> DEVICE void put_values(const attention_args &a, const item &it, const tile &t, int kv, int r, int d, const float (&value)[COUNT], float top, float sum) {
	if (t.items == 1) {
		bf16 *to = a.out + query_row(a, t, kv, r, a.heads) * HEAD_SIZE + d;
		if (COUNT == 4) *(uint2 *)to = uint2{pack(value[0] / sum, value[1 % COUNT] / sum), pack(value[2 % COUNT] / sum, value[3 % COUNT] / sum)};
		else
			for (int i = 0; i < COUNT; i++) to[i] = to_bf16(value[i] / sum);
		return;
	}
	float *piece = partial_piece(a, it.piece, kv), *to = piece + r * HEAD_SIZE + d;
	if (COUNT == 4) *(float4 *)to = float4{value[0], value[1 % COUNT], value[2 % COUNT], value[3 % COUNT]};
	else
		for (int i = 0; i < COUNT; i++) to[i] = value[i];
	if (d == 0) *(float2 *)(piece + TILE * HEAD_SIZE + 2 * r) = float2{top, sum};
}

// Ends an item of ROWS query rows at most. The block that ends the last item of a tile joins them, in their order. Each step is a wait for memory, so as many pieces are read at the same time as
// there are registers for.
template <int ROWS, int AT_ONCE> DEVICE void join_items(const attention_args &a, const tile &t, int kv) {
	__shared__ int last;
	if (t.items == 1) return;
	__syncthreads(); // all of the item is written
	if (threadIdx.x == 0) {
		u32 *at = a.arrived + (i64)t.piece * a.kv_heads + kv;
		last = arrive(at) == t.items - 1;
		if (last) *at = 0;
	}
	__syncthreads();
	if (!last) return;
	const int rows = t.tokens * (a.heads / a.kv_heads), tid = recomputed((int)threadIdx.x), lane = tid % 32;
	const i64 stride = (i64)a.kv_heads * PIECE_SIZE;
	__shared__ float weights[ROWS][JOINED + 1], tops[ROWS], sums[ROWS]; // of each piece of a row, and of what was joined before
	constexpr int COLUMNS = (ROWS * HEAD_SIZE / 4 + ATTENTION_THREADS - 1) / ATTENTION_THREADS;
	float4 values[COLUMNS] = {};
	for (int from = 0; from < t.items; from += JOINED) {
		const int count = min(JOINED, t.items - from);
		const float *pieces = partial_piece(a, t.piece + from, kv);
		float4 read[AT_ONCE];
		auto begin = [&](int four, int first) { // of pieces first to first + AT_ONCE - 1
#pragma unroll
			for (int s = 0; s < AT_ONCE; s++) read[s] = first + s < count ? *(const float4 *)(pieces + (first + s) * stride + four * 4) : float4{0, 0, 0, 0};
		};
		if (tid < rows * (HEAD_SIZE / 4)) begin(tid, 0);
		for (int r = tid / 32; r < rows; r += ATTENTION_THREADS / 32) {
			const float2 piece = lane < count ? *(const float2 *)(pieces + lane * stride + TILE * HEAD_SIZE + 2 * r) : float2{NEGATIVE_INFINITY, 0};
			const float before = from ? tops[r] : NEGATIVE_INFINITY, sum = from ? sums[r] : 0.0f, best = fmaxf(before, warp_max(piece.x));
			const float base = best == NEGATIVE_INFINITY ? 0.0f : best, weight = power2(piece.x - base), keep = power2(before - base);
			weights[r][lane] = weight;
			const float total = warp_sum(piece.y * weight);
			warp_fence(); // all lanes have read what the first one writes
			if (lane == 0) weights[r][JOINED] = keep, tops[r] = best, sums[r] = sum * keep + total;
		}
		__syncthreads();
#pragma unroll
		for (int c = 0; c < COLUMNS; c++) {
			const int four = tid + c * ATTENTION_THREADS;
			if (four >= rows * (HEAD_SIZE / 4)) break;
			const float *w = weights[four / (HEAD_SIZE / 4)];
			float4 &v = values[c];
			v = float4{v.x * w[JOINED], v.y * w[JOINED], v.z * w[JOINED], v.w * w[JOINED]};
			for (int first = 0; first < count; first += AT_ONCE) {
				if (c > 0 || first > 0) begin(four, first);
#pragma unroll
				for (int s = 0; s < AT_ONCE; s++) {
					const float weight = w[first + s];
					v.x += read[s].x * weight, v.y += read[s].y * weight, v.z += read[s].z * weight, v.w += read[s].w * weight;
				}
			}
		}
		__syncthreads();
	}
#pragma unroll
	for (int c = 0; c < COLUMNS; c++) {
		const int four = tid + c * ATTENTION_THREADS, r = four / (HEAD_SIZE / 4);
		if (r >= rows) break;
		const float4 v = values[c];
		*(uint2 *)(a.out + query_row(a, t, kv, r, a.heads) * HEAD_SIZE + four % (HEAD_SIZE / 4) * 4) = uint2{pack(v.x / sums[r], v.y / sums[r]), pack(v.z / sums[r], v.w / sums[r])};
	}
}
