// Attention of wide tiles on Hopper's group products (Shah et al., "FlashAttention-3", 2024), for head sizes 64 and 128. Two warps of a block have queries, keys and
// values copied ahead into shared memory. Each of two warp groups has 64 query rows: while the tensor cores multiply the weights of one stage's keys with
// their values, it makes the weights of the next one's, and the groups begin their products in turns, so that one makes weights while the other's products run.

#if defined(HOPPER) && (HEAD_SIZE == 64 || HEAD_SIZE == 128)

#define HOPPER_KEYS 128                              // of a stage
#define HOPPER_RING_KEYS 2                           // matrices: a stage's keys are read soon after they are there,
#define HOPPER_RING_VALUES 3                         // its values a stage later
#define HOPPER_RING (HOPPER_RING_KEYS + HOPPER_RING_VALUES)
#define HOPPER_BOX 16                                // keys that are copied at a time: they lie in one block of the cache
#define HOPPER_HALVES (HEAD_SIZE / 64)               // 64 columns each, in lines of 128 bytes
#define HOPPER_HALF (HOPPER_KEYS * 128)              // bytes of 64 columns of a stage's keys
#define HOPPER_MATRIX (HOPPER_HALF * HOPPER_HALVES)  // bytes of a stage's keys, and of its values
#define HOPPER_QUERIES (128 * 128)                   // bytes of 64 columns of a tile's queries; there is room for those of two tiles
#define HOPPER_GROWTH 8.0f                           // see hopper_weigh

struct attention_hopper_args {
	tensor_map cache;   // of the layer: (blocks, keys and values, kv_heads, block_size) times HEAD_SIZE, in boxes of HOPPER_BOX times 64
	tensor_map queries; // qkv: (tokens, heads + 2 kv_heads, HEAD_SIZE), in boxes of the tokens of a whole tile, the heads of a KV head, 64
	attention_args a;
};

// Barriers of the matrices of the rings, those of keys and then those of values, and of the queries of even and odd tiles: a matrix is there; a matrix is read.
struct hopper_barriers {
	u64 full[HOPPER_RING], empty[HOPPER_RING], queries_full[2], queries_empty[2];
	u64 landed; // what was copied of values that are then completed
};

// A matrix of one of the rings, and the parity of the round that it is in.
struct hopper_place {
	int matrix;
	u32 parity;
};
DEVICE hopper_place first_place(bool values) { return {values ? HOPPER_RING_KEYS : 0, 0}; }
DEVICE void advance(hopper_place &p, bool values) {
	if (++p.matrix == (values ? HOPPER_RING : HOPPER_RING_KEYS)) p.matrix = first_place(values).matrix, p.parity ^= 1;
}

// The tile of a pair, or the last one. Tiles and block tables are the step's, so that they can be read before the kernel before has ended.
DEVICE tile pair_tile(const attention_args &a, int pair, int pairs) { return a.wide[min(pair, pairs - 1) / a.kv_heads]; }

// What the copying warps do, one for keys and one for values: they begin the copies of all tiles of the block, one after the other, a lane a box. Keys after a tile's end are not copied; their
// weights are 0, and so are their values, since what is not a number stays so.
DEVICE void hopper_copy(const attention_hopper_args &args, int pairs, bool values, char *ring, char *queries, hopper_barriers &barriers) {
	constexpr int BOXES = HOPPER_KEYS / HOPPER_BOX, BOX_BYTES = HOPPER_BOX * 128, PARTS = HEAD_SIZE / 8;
	const attention_args &a = args.a;
	const int lane = threadIdx.x % 32, half = lane / BOXES, group = a.heads / a.kv_heads;
	hopper_place place = first_place(values);
	u32 landed = 0;
	int round = 0, pair = wide_pair(0);
	tile t = pair_tile(a, pair, pairs);
	after_previous();
	async_fence_global(); // for what the kernels before wrote
	while (pair < pairs) {
		const int odd = round & 1, turn = round >> 1 & 1, next_pair = wide_pair(++round);
		const tile next_tile = pair_tile(a, next_pair, pairs);
		const int kv = pair % a.kv_heads, end = t.position + t.tokens, begin = first_key(a, t, HOPPER_BOX);
		auto row_of = [&](int key) { // where the lane's box of the keys from here on is in the cache; -1: it has none
			key += lane % BOXES * HOPPER_BOX;
			if (half >= HOPPER_HALVES || key >= end) return -1;
			return ((a.tables[t.table + key / a.block_size] * 2 + values) * a.kv_heads + kv) * a.block_size + key % a.block_size;
		};
		int row = row_of(begin);
		for (int key = begin; key < end; key += HOPPER_KEYS) {
			const int next = row_of(key + HOPPER_KEYS);
			const bool cut = values && end - key < HOPPER_KEYS;
			char *matrix = ring + place.matrix * HOPPER_MATRIX;
			u64 *full = &barriers.full[place.matrix], *copied = cut ? &barriers.landed : full;
			barrier_wait(&barriers.empty[place.matrix], place.parity ^ 1);
			barrier_expect(copied, row >= 0 ? BOX_BYTES : 0);
			if (row >= 0) copy_box(matrix + half * HOPPER_HALF + lane % BOXES * BOX_BYTES, args.cache, copied, half * 64, row);
			if (cut) {
				barrier_wait(copied, landed);
				landed ^= 1;
				for (int i = (end - key) * PARTS + lane; i < HOPPER_KEYS * PARTS; i += 32)
					*(uint4 *)(matrix + i % PARTS / 8 * HOPPER_HALF + i / PARTS * 128 + i % 8 * 16) = uint4{0, 0, 0, 0};
				async_fence();
				barrier_arrive(full);
			}
			advance(place, values);
			row = next;
			if (values || key != begin) continue;
			barrier_wait(&barriers.queries_empty[odd], turn ^ 1);
			barrier_expect(&barriers.queries_full[odd], lane < HOPPER_HALVES ? 128 / group * group * 128 : 0);
			if (lane < HOPPER_HALVES) copy_box(queries + (odd * HOPPER_HALVES + lane) * HOPPER_QUERIES, args.queries, &barriers.queries_full[odd], lane * 64, kv * group, t.first);
		}
		pair = next_pair, t = next_tile;
	}
}

// Begins the scores of 64 query rows and a stage's keys.
DEVICE void hopper_scores(float (&s)[HOPPER_KEYS / 8][4], const char *queries, const char *keys) {
	const u64 rows = matrix(queries), columns = matrix(keys);
#pragma unroll
	for (int k = 0; k < HEAD_SIZE / 16; k++) wgmma(s, later(rows, k / 4 * HOPPER_QUERIES + k % 4 * 32), later(columns, k / 4 * HOPPER_HALF + k % 4 * 32), k > 0);
	wgmma_commit();
}

// Begins to add a stage's values with the weights of its keys.
DEVICE void hopper_values(float (&acc)[HEAD_SIZE / 8][4], const u32 (&p)[HOPPER_KEYS / 16][4], const char *values) {
	const u64 described = matrix(values, HOPPER_HALF);
#pragma unroll
	for (int k = 0; k < HOPPER_KEYS / 16; k++) wgmma(acc, p[k], later(described, k * 2048), true);
	wgmma_commit();
}

// Makes weights of scores as weigh does, but above a largest score that may have been passed by up to HOPPER_GROWTH since: then what was summed before needs no correction, which correct, 1, says.
// The result is the same: weights and their sum are larger by one factor.
DEVICE void hopper_weigh(float (&s)[HOPPER_KEYS / 8][4], float scale, float (&top)[2], float (&sum)[2], float (&correct)[2]) {
	float best[2][2];
#pragma unroll
	for (int e = 0; e < 4; e++) best[e / 2][e % 2] = s[0][e];
#pragma unroll
	for (int n = 1; n < HOPPER_KEYS / 8; n++)
#pragma unroll
		for (int e = 0; e < 4; e++) best[e / 2][e % 2] = fmaxf(best[e / 2][e % 2], s[n][e]);
	float base[2];
#pragma unroll
	for (int h = 0; h < 2; h++) {
		const float now = four_max(fmaxf(best[h][0], best[h][1])) * scale; // the scale is positive
		const bool grown = now > top[h] + HOPPER_GROWTH;
		correct[h] = grown ? power2(top[h] - now) : 1.0f;
		if (grown) top[h] = now;
		base[h] = top[h] == NEGATIVE_INFINITY ? 0.0f : top[h]; // nothing seen yet: all weights are 0
		sum[h] *= correct[h];
	}
#pragma unroll
	for (int n = 0; n < HOPPER_KEYS / 8; n++)
#pragma unroll
		for (int e = 0; e < 4; e++) {
			s[n][e] = power2(s[n][e] * scale - base[e / 2]);
			sum[e / 2] += s[n][e];
		}
}

// What the other two do with the tiles of the block.
DEVICE void hopper_attend(const attention_args &a, int pairs, const char *ring, const char *queries, hopper_barriers &barriers) {
	const int lane = threadIdx.x % 32, half = threadIdx.x / 128 - 1; // of the query rows of a tile
	const int first = half * 64 + threadIdx.x % 128 / 32 * 16;      // of the warp's query rows
	const int group = a.heads / a.kv_heads;
	queries += half * 64 * 128;
	hopper_place keys = first_place(false), values = first_place(true);
	auto wait_full = [&](const hopper_place &p) {
		barrier_wait(&barriers.full[p.matrix], p.parity);
		return ring + p.matrix * HOPPER_MATRIX;
	};
	auto leave = [&](const hopper_place &p) { // the warp has read the matrix
		if (lane == 0) barrier_arrive(&barriers.empty[p.matrix]);
	};
	auto take_turn = [&] { meet(1 + half, 256); };
	auto give_turn = [&] { come(2 - half, 256); };
	int round = 0, pair = wide_pair(0);
	tile t = pair_tile(a, pair, pairs);
	float s[HOPPER_KEYS / 8][4];
	auto begin_tile = [&](bool is) { // begins the first scores of a tile, or, where there is none, scores of nothing: the compiler wants the same products on all ways
		if (is) {
			wait_full(keys);
			barrier_wait(&barriers.queries_full[round & 1], round >> 1 & 1);
			take_turn();
		}
		wgmma_begin();
		hopper_scores(s, queries + (round & 1) * HOPPER_HALVES * HOPPER_QUERIES, ring + keys.matrix * HOPPER_MATRIX);
		if (is) give_turn();
	};
	after_previous();
	if (pair >= pairs) return;
	if (half == 1) give_turn();
	begin_tile(true);
	while (pair < pairs) {
		const int kv = pair % a.kv_heads, end = t.position + t.tokens;
		const int all_to = t.position + first / group, all_from = a.window ? t.position + (first + 15) / group - a.window + 1 : 0; // keys that all rows of the warp see
		u32 p[HOPPER_KEYS / 16][4] = {};
		float acc[HEAD_SIZE / 8][4] = {}, top[2] = {NEGATIVE_INFINITY, NEGATIVE_INFINITY}, sum[2] = {0, 0}, correct[2];
		auto soften = [&](int key) { // scores to weights
			if (key + HOPPER_KEYS - 1 > all_to || key < all_from) {
				int lowest[2], highest[2];
				seen_keys(a, t, first, lowest, highest);
				hide(s, key, lowest, highest);
			}
			hopper_weigh(s, a.scale, top, sum, correct);
			hold(s);
		};
		auto take_scores = [&](int key) { // when they are there
			hold(s);
			leave(keys);
			advance(keys, false);
			if (key + HOPPER_KEYS >= end && lane == 0) barrier_arrive(&barriers.queries_empty[round & 1]);
			soften(key);
		};

		const int begin = first_key(a, t, HOPPER_BOX);
		const char *matrix;
		wgmma_wait<0>();
		take_scores(begin);
		// The loop begins before the wait for the products with values, and the wait for keys is before it too: within one piece of code the compiler would put it before the weights are made.
		for (int key = begin;;) {
			const bool more = end - key > HOPPER_KEYS;
			if (more) matrix = wait_full(keys);
			wgmma_wait<0>();
			hold(acc), hold(p);
			if (key > begin) leave(values), advance(values, true);
			if (any_lane(correct[0] != 1.0f || correct[1] != 1.0f)) correct_sums(acc, correct);
#pragma unroll
			for (int k = 0; k < HOPPER_KEYS / 16; k++) pack_weights(s, k, p[k]);
			if (!more) break;
			key += HOPPER_KEYS;
			take_turn();
			hold(acc), hold(p);
			wgmma_begin();
			hopper_scores(s, queries + (round & 1) * HOPPER_HALVES * HOPPER_QUERIES, matrix);
			hopper_values(acc, p, wait_full(values)); // of the stage before
			give_turn();
			wgmma_wait<1>();
			take_scores(key);
		}
		matrix = wait_full(values);
		hold(acc), hold(p);
		wgmma_begin();
		hopper_values(acc, p, matrix);
		pair = wide_pair(++round);
		const tile next = pair_tile(a, pair, pairs);
		begin_tile(pair < pairs); // goes on while the results are written
		wgmma_wait<1>();
		hold(acc);
		leave(values);
		advance(values, true);
		put_rows(a, t, kv, first, acc, sum);
		t = next;
	}
	wgmma_wait<0>();
	hold(s);
	if (half == 0) take_turn(); // the last one, which nobody needs
}

extern "C" __global__ void __launch_bounds__(384, 1) attention_hopper(const __grid_constant__ attention_hopper_args args) {
	SHARED_MEMORY(memory); // (HOPPER_RING, HOPPER_HALVES, HOPPER_KEYS, 64), from a multiple of 1,024 on, queries (2, HOPPER_HALVES, 128, 64), and the barriers
	char *ring = memory + (-shared_address(memory) & 1023), *queries = ring + HOPPER_RING * HOPPER_MATRIX;
	hopper_barriers &barriers = *(hopper_barriers *)(queries + 2 * HOPPER_HALVES * HOPPER_QUERIES);
	allow_next();
	if (threadIdx.x == 0) prefetch_map(args.cache), prefetch_map(args.queries);
	if (threadIdx.x < HOPPER_RING) {
		barrier_init(&barriers.full[threadIdx.x], 32);
		barrier_init(&barriers.empty[threadIdx.x], 8); // a lane of each warp
	}
	if (threadIdx.x < 2) {
		barrier_init(&barriers.queries_full[threadIdx.x], 32);
		barrier_init(&barriers.queries_empty[threadIdx.x], 8);
	}
	if (threadIdx.x == 0) barrier_init(&barriers.landed, 32);
	barrier_fence();
	__syncthreads();
	const int pairs = *args.a.wide_count * args.a.kv_heads;
	if (pairs == 0) {
		after_previous();
	} else if (threadIdx.x < 128) {
		fewer_registers<56>();
		if (threadIdx.x < 64) hopper_copy(args, pairs, threadIdx.x >= 32, ring, queries, barriers);
	} else {
		more_registers<224>();
		hopper_attend(args.a, pairs, ring, queries, barriers);
	}
}

#endif
