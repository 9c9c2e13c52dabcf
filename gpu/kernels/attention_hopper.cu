// Attention of wide tiles on Hopper's group products (Shah et al., "FlashAttention-3", 2024), for head sizes 64 and 128. One warp group of a block copies keys and
// values ahead into a ring in shared memory. Each of two more has 64 query rows: while the tensor cores multiply the weights of one stage's keys with
// their values, it makes the weights of the next one's.

#if defined(HOPPER) && (HEAD_SIZE == 64 || HEAD_SIZE == 128)

#define HOPPER_KEYS 64  // of a stage of the ring
#define HOPPER_STAGES 3
#define HOPPER_AHEAD 4                               // matrices whose copies a thread has begun without waiting for them; fewer than the ring has
#define HOPPER_HALF (HOPPER_KEYS * 128)              // bytes of 64 columns of a stage's keys: a line of 128 bytes each
#define HOPPER_MATRIX (HOPPER_HALF * HEAD_SIZE / 64) // bytes of a stage's keys, and of its values
#define HOPPER_QUERIES (64 * HEAD_SIZE * 2)          // bytes of the queries of a warp group, in lines as the keys

// Barriers of the matrices of the ring, two a stage: keys and values. A matrix is there; a matrix is read.
struct hopper_barriers {
	u64 full[2 * HOPPER_STAGES], empty[2 * HOPPER_STAGES];
};

// A matrix of the ring, and the parity of the round that it is in.
struct hopper_place {
	int matrix;
	u32 parity;
};
DEVICE void advance(hopper_place &p, int matrices) {
	p.matrix += matrices;
	if (p.matrix >= 2 * HOPPER_STAGES) p.matrix -= 2 * HOPPER_STAGES, p.parity ^= 1;
}

// Where 16 bytes of a row are in lines of 64 columns, so many bytes for each 64.
DEVICE int hopper_part(int row, int part, int half) { return part / 8 * half + row * 128 + (part % 8 ^ row % 8) * 16; }

// What the first warp group does: it copies the keys and values of all tiles of the block, one after the other.
DEVICE void hopper_copy(const attention_args &a, int pairs, char *ring, hopper_barriers &barriers) {
	constexpr int PARTS = HEAD_SIZE / 8, ROWS = 128 / PARTS; // of 16 bytes in a key; keys that the group copies at a time
	const int part = threadIdx.x % PARTS, row = threadIdx.x / PARTS;
	const int to = hopper_part(row, part, HOPPER_HALF);
	const i64 to_value = (i64)a.kv_heads * a.block_size * HEAD_SIZE, block = 2 * to_value; // from a key to its value, and from a block to the next
	int shift = 0; // of a position, to its block's place in the table
	while (1 << shift < a.block_size) shift++;
	hopper_place place = {0, 0}, told = {0, 0};
	auto tell = [&] {
		async_fence();
		barrier_arrive(&barriers.full[told.matrix]);
		advance(told, 1);
	};
	int begun = 0; // copies of a matrix, HOPPER_AHEAD at most
	for (int round = 0; round * gridDim.x < pairs; round++) {
		const int pair = wide_pair(round);
		if (pair >= pairs) continue;
		const tile t = a.wide[pair / a.kv_heads];
		const int kv = pair % a.kv_heads, end = t.position + t.tokens;
		const int *table = a.tables + t.table;
		const bf16 *head = a.cache + (i64)kv * a.block_size * HEAD_SIZE + part * 8;
		for (int key = first_key(a, t, HOPPER_KEYS); key < end; key += HOPPER_KEYS) {
			int blocks[HOPPER_KEYS / 16]; // of 16 keys each
#pragma unroll
			for (int g = 0; g < HOPPER_KEYS / 16; g++) blocks[g] = table[min(key + g * 16, end - 1) >> shift];
#pragma unroll
			for (int values = 0; values < 2; values++) {
				barrier_wait(&barriers.empty[place.matrix], place.parity ^ 1);
				char *matrix = ring + place.matrix * HOPPER_MATRIX + to;
#pragma unroll
				for (int j = 0; j < HOPPER_KEYS / ROWS; j++) {
					const int at = key + j * ROWS + row;
					copy_async(matrix + j * ROWS * 128, head + blocks[j * ROWS / 16] * block + (at & a.block_size - 1) * HEAD_SIZE + values * to_value, at < end);
				}
				commit_copies();
				advance(place, 1);
				if (begun < HOPPER_AHEAD) {
					begun++;
				} else {
					wait_copies<HOPPER_AHEAD>();
					tell();
				}
			}
		}
	}
	wait_copies<0>();
	while (begun-- > 0) tell();
}

// Brings 64 query rows of a tile to shared memory, for one warp group.
DEVICE void hopper_queries(const attention_args &a, const tile &t, int kv, int first, char *queries, int barrier) {
	constexpr int PARTS = HEAD_SIZE / 8, ROWS = 128 / PARTS;
	const int part = threadIdx.x % PARTS, rows = t.tokens * (a.heads / a.kv_heads);
	meet(barrier, 128); // all warps are through with the tile before
#pragma unroll
	for (int j = 0; j < 64 / ROWS; j++) {
		const int row = threadIdx.x % 128 / PARTS + j * ROWS;
		uint4 v = {0, 0, 0, 0};
		if (first + row < rows) v = *(const uint4 *)(a.qkv + query_row(a, t, kv, first + row, a.heads + 2 * a.kv_heads) * HEAD_SIZE + part * 8);
		*(uint4 *)(queries + hopper_part(row, part, 64 * 128)) = v;
	}
	async_fence();
	meet(barrier, 128);
}

// Begins the scores of 64 query rows and a stage's keys.
DEVICE void hopper_scores(float (&s)[HOPPER_KEYS / 8][4], const char *queries, const char *keys) {
	const u64 rows = matrix(queries), columns = matrix(keys);
#pragma unroll
	for (int k = 0; k < HEAD_SIZE / 16; k++) wgmma(s, later(rows, k / 4 * 64 * 128 + k % 4 * 32), later(columns, k / 4 * HOPPER_HALF + k % 4 * 32), k > 0);
	wgmma_commit();
}

// Begins to add a stage's values with the weights of its keys.
DEVICE void hopper_values(float (&acc)[HEAD_SIZE / 8][4], const u32 (&p)[HOPPER_KEYS / 16][4], const char *values) {
	const u64 described = matrix(values, HOPPER_HALF);
#pragma unroll
	for (int k = 0; k < HOPPER_KEYS / 16; k++) wgmma(acc, p[k], later(described, k * 2048), true);
	wgmma_commit();
}

// What the other two do with the tiles of the block.
DEVICE void hopper_attend(const attention_args &a, int pairs, const char *ring, char *queries, hopper_barriers &barriers) {
	const int lane = threadIdx.x % 32, half = threadIdx.x / 128 - 1; // of the query rows of a tile
	const int first = half * 64 + threadIdx.x % 128 / 32 * 16;      // of the warp's query rows
	const int group = a.heads / a.kv_heads;
	queries += half * HOPPER_QUERIES;
	hopper_place keys = {0, 0}, values = {1, 0};
	auto wait_full = [&](const hopper_place &p) {
		barrier_wait(&barriers.full[p.matrix], p.parity);
		return ring + p.matrix * HOPPER_MATRIX;
	};
	auto leave = [&](hopper_place &p) { // the warp has read the matrix
		if (lane == 0) barrier_arrive(&barriers.empty[p.matrix]);
		advance(p, 2);
	};
	for (int round = 0; round * gridDim.x < pairs; round++) {
		const int pair = wide_pair(round);
		if (pair >= pairs) continue;
		const tile t = a.wide[pair / a.kv_heads];
		const int kv = pair % a.kv_heads, end = t.position + t.tokens, all_see = t.position + first / group;
		u32 p[HOPPER_KEYS / 16][4];
		int lowest[2], highest[2];
		seen_keys(a, t, first, lowest, highest);
		hopper_queries(a, t, kv, half * 64, queries, 1 + half);
		float s[HOPPER_KEYS / 8][4], acc[HEAD_SIZE / 8][4] = {}, top[2] = {NEGATIVE_INFINITY, NEGATIVE_INFINITY}, sum[2] = {0, 0}, correct[2];
		auto soften = [&](int key) { // scores to weights
			if (key + HOPPER_KEYS - 1 > all_see || a.window > 0) hide(s, key, lowest, highest);
			weigh(s, a.scale, top, sum, correct);
			hold(s);
		};
		auto take_weights = [&] {
#pragma unroll
			for (int k = 0; k < HOPPER_KEYS / 16; k++) pack_weights(s, k, p[k]);
		};

		int key = first_key(a, t, HOPPER_KEYS);
		const char *matrix = wait_full(keys);
		wgmma_begin();
		hopper_scores(s, queries, matrix);
		wgmma_wait<0>();
		hold(s);
		leave(keys);
		soften(key);
		take_weights();
		while ((key += HOPPER_KEYS) < end) {
			matrix = wait_full(keys);
			hold(acc), hold(p);
			wgmma_begin();
			hopper_scores(s, queries, matrix);
			hopper_values(acc, p, wait_full(values)); // of the stage before
			wgmma_wait<1>();
			hold(s);
			leave(keys);
			soften(key);
			wgmma_wait<0>();
			hold(acc), hold(p);
			leave(values);
			correct_sums(acc, correct);
			take_weights();
		}
		matrix = wait_full(values);
		hold(acc), hold(p);
		wgmma_begin();
		hopper_values(acc, p, matrix);
		wgmma_wait<0>();
		hold(acc);
		leave(values);
		put_rows(a, t, kv, first, acc, sum);
	}
}

extern "C" __global__ void __launch_bounds__(384, 1) attention_hopper(const attention_args a) {
	SHARED_MEMORY(memory); // (HOPPER_STAGES, keys and values, HEAD_SIZE / 64, HOPPER_KEYS, 64), from a multiple of 1,024 on, and the queries (2, HEAD_SIZE / 64, 64, 64)
	__shared__ hopper_barriers barriers;
	char *ring = memory + (-shared_address(memory) & 1023);
	allow_next();
	if (threadIdx.x < 2 * HOPPER_STAGES) {
		barrier_init(&barriers.full[threadIdx.x], 128);
		barrier_init(&barriers.empty[threadIdx.x], 8); // a lane of each warp
	}
	__syncthreads();
	after_previous();
	const int pairs = *a.wide_count * a.kv_heads;
	if (threadIdx.x < 128) {
		fewer_registers<40>();
		hopper_copy(a, pairs, ring, barriers);
	} else {
		more_registers<232>();
		hopper_attend(a, pairs, ring, ring + 2 * HOPPER_STAGES * HOPPER_MATRIX, barriers);
	}
}

#endif
