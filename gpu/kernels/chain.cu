// Runs products of few tokens one after the other, in a block on each multiprocessor. The columns of a unit are shared out among eight warps in chunks of
// 64; each warp copies its chunks ahead into a ring of its own, across units and across products, since weights depend on nothing: memory does not stop
// between products, and begins before the kernel before this one has ended. Two more warps, which take turns, bring the tokens, add the sums of the eight,
// in their order, and write the result while these go on. Between products they wait for those of all blocks.
//
// The tokens are in shared memory, beside the rings; or, on Hopper, each warp holds the columns that it multiplies in registers all through a product, which leaves shared memory to
// long rings however many tokens there are.
//
// That may be waited for in one launch since all blocks of the grid run at the same time: there is at most one for each multiprocessor, and each takes more than half
// of its shared memory. Kernels before this one end by themselves, whatever has room beside a block (attention_few) too. The next one starts when all blocks have called allow_next: then all of them run.

#define STREAMS 8 // warps that read weights
#define FINISHERS 2
#define CHAIN_THREADS ((STREAMS + FINISHERS) * 32)
#define PADDING 8 // values between the tokens in shared memory, for other banks
#define BARRIER_BYTES 128
#define HELD_RING(TILES) (TILES == 1 ? 11 : 13) // chunks in the ring of a warp that holds its tokens in registers: for 8 tokens, what leaves room for attention_few
#define HELD_TURNS 8 // chunks of such a warp in a unit, at most
#define HELD_THREADS 384 // of 16 tokens: three warp groups, of which the last one gives registers to the others; two of its warps finish units

// Where part of 16 bytes of a row lies in a chunk, so that lanes that read four parts of two neighbouring rows find them in different banks.
DEVICE int held_part(int row, int part) { return part ^ (row & 1) * 4; }

// The sums of a unit are there, and are read, of every second unit; the tokens of a product are there.
struct chain_barriers {
	u64 full[FINISHERS], empty[FINISHERS], ready[PRODUCTS];
};

// A block's part of a product.
struct share {
	int units, first, step;   // of the blocks with the same columns
	int slice, begin, chunks; // its columns
	int turns;                // of each warp in a unit: at some the last ones have nothing
};

// Clusters of SIZE blocks have units that are as many times as large; the blocks of a cluster share its columns out by their rank.
template <int SIZE = 1> DEVICE share share_of(const product &p, int rank = 0) {
	share s;
	const int all = p.k / CHUNK, cluster = blockIdx.x / SIZE, group = cluster / p.splits;
	s.units = (units_of(p) + SIZE - 1) / SIZE;
	s.step = gridDim.x / SIZE / p.splits;
	s.first = group < s.step ? group : s.units; // blocks that are left over have no unit
	s.slice = cluster % p.splits;
	const int part = s.slice * SIZE + rank, parts = p.splits * SIZE;
	s.begin = all * part / parts, s.chunks = all * (part + 1) / parts - s.begin;
	s.turns = (s.chunks + STREAMS - 1) / STREAMS;
	return s;
}

// A barrier of all blocks of the grid. When all have come, the upper bit of a word has turned over and the others are as before, whatever the grid was:
// nothing is set back between the launches.
#define TURNED 0x80000000u
DEVICE void grid_arrive(u32 *word) {
	add_release(word, blockIdx.x == 0 ? TURNED - (gridDim.x - 1) : 1);
}
#define POLLS 4096 // between two looks at the host's memory: some milliseconds
// A word of the host ends the wait, so that a block that does not come is an error of the host's and no hanging device.
DEVICE void grid_await(const u32 *word, u32 before, const u32 *abort) {
	for (u32 i = 1; (load_acquire(word) ^ before) < TURNED; i++)
		if (i % POLLS == 0 && load_host(abort)) return;
}

// Waits for the chunk that was begun ring - 1 chunks ago.
template <int TILES, bool HELD> DEVICE void wait_chunk(int ring) {
	if (HELD) wait_copies<HELD_RING(TILES) - 2>();
	else if (ring == 11) wait_copies<9>();
	else if (ring == 8) wait_copies<6>();
	else if (ring == 6) wait_copies<4>();
	else if (ring == 5) wait_copies<3>();
	else if (ring == 4) wait_copies<2>();
	else wait_copies<1>();
}

// The tokens' columns that a warp multiplies in a product, as mma's second operand: of each chunk columns 8 t to 8 t + 7 and 32 + 8 t to 32 + 8 t + 7 of token g, with g = lane / 4 and t = lane % 4.
template <int TILES> DEVICE void hold_tokens(const chain_args &a, const product &p, const share &s, uint4 (&held)[HELD_TURNS][TILES][2]) {
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const bf16 *from = p.in + (s.begin + warp) * CHUNK + lane % 4 * 8;
#pragma unroll
	for (int t = 0; t < HELD_TURNS; t++)
#pragma unroll
		for (int n = 0; n < TILES; n++)
#pragma unroll
			for (int half = 0; half < 2; half++)
				if (warp + t * STREAMS < s.chunks) held[t][n][half] = *(const uint4 *)(from + (i64)min(n * 8 + lane / 4, a.tokens - 1) * p.k + t * STREAMS * CHUNK + half * 32);
}

// Adds the products of a chunk with tokens that are held. Since the columns may come in any order, each lane reads of its two rows the columns that it has of its token.
template <int TILES> DEVICE void add_held(float (&acc)[TILES][4], const bf16 *chunk, const uint4 (&held)[TILES][2]) {
	const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
	for (int half = 0; half < 2; half++) {
		const bf16 *w = chunk + g * CHUNK + held_part(g, t + 4 * half) * 8;
		const uint4 upper = *(const uint4 *)w, lower = *(const uint4 *)(w + 8 * CHUNK); // rows g and g + 8
#pragma unroll
		for (int n = 0; n < TILES; n++) {
			mma(acc[n], {upper.x, lower.x, upper.y, lower.y}, held[n][half].x, held[n][half].y);
			mma(acc[n], {upper.z, lower.z, upper.w, lower.w}, held[n][half].z, held[n][half].w);
		}
	}
}

// Adds the products of a chunk with tokens in shared memory.
template <int TILES> DEVICE void add_chunk(float (&acc)[TILES][4], const bf16 *chunk, const bf16 *x, int stride, int tokens) {
	const int lane = threadIdx.x % 32;
	const bf16 *w = chunk + lane % 16 * CHUNK, *token = x + lane / 8 * 8;
#pragma unroll
	for (int k = 0; k < CHUNK / 16; k += 2) {
		u32 first[4], second[4];
		load_matrices(first, w + ((k * 2 + lane / 16) ^ (lane & 7)) * 8);
		load_matrices(second, w + ((k * 2 + 2 + lane / 16) ^ (lane & 7)) * 8);
#pragma unroll
		for (int n = 0; n < TILES; n++) {
			u32 c[4];
			load_matrices(c, token + min(n * 8 + lane % 8, tokens - 1) * stride + k * 16);
			mma(acc[n], first, c[0], c[1]);
			mma(acc[n], second, c[2], c[3]);
		}
	}
}

// What a warp does that reads weights.
template <int TILES, bool HELD> DEVICE void stream(const chain_args &a, bf16 *ring, float4 *sums, const bf16 *x, chain_barriers &b) {
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, length = HELD ? HELD_RING(TILES) : a.ring;
	int next = 0, turn = 0, slot = 0; // of the copies: product, turn in the unit, place in the ring
	share from = share_of(a.products[0]);
	int unit = from.first;
	const bf16 *weights = 0; // of the product
	u32 part[4];             // where in them this lane's 16 bytes of every fourth row are
	auto aim = [&] {
		while (unit >= from.units) { // of this product there is no more
			if (++next >= a.count) {
				from.chunks = 0;
				return;
			}
			from = share_of(a.products[next]), unit = from.first;
		}
		const product &p = a.products[next];
		weights = p.weights;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			int row[2], r = i * 4 + lane / 8;
			unit_rows(p, unit, r % 8, row);
			part[i] = (u32)min(row[i / 2], p.n - 1) * (u32)p.k + (from.begin + warp) * CHUNK + lane % 8 * 8;
		}
	};
	bf16 *const mine = ring + lane / 8 * CHUNK; // where its rows lie in a chunk
	auto fetch = [&] {
		if (warp + turn * STREAMS < from.chunks) {
			bf16 *to = mine + slot * CHUNK_VALUES;
#pragma unroll
			for (int i = 0; i < 4; i++) {
				const int r = i * 4 + lane / 8, place = HELD ? held_part(r, lane % 8) : lane % 8 ^ (r & 7);
				copy_async(to + i * 4 * CHUNK + place * 8, weights + part[i], true);
				part[i] += STREAMS * CHUNK;
			}
		}
		commit_copies();
		slot = slot + 1 == length ? 0 : slot + 1;
		if (next < a.count && ++turn == from.turns) {
			turn = 0, unit += from.step;
			aim();
		}
	};
	aim();
	for (int i = 0; i < length - 1; i++) fetch();

	int use = 0, count = 0; // place in the ring; units
	for (int i = 0; i < a.count; i++) {
		const share s = share_of(a.products[i]);
		uint4 held[HELD ? HELD_TURNS : 1][TILES][2] = {};
		if (HELD && i == 0) after_previous();
		else barrier_wait(&b.ready[i], 0);
		if constexpr (HELD)
			if (s.first < s.units) hold_tokens<TILES>(a, a.products[i], s, held);
		for (int at = s.first; at < s.units; at += s.step, count++) {
			float acc[TILES][4] = {};
			auto take = [&] { // the next chunk of the ring
				wait_chunk<TILES, HELD>(length);
				warp_fence(); // the chunk is here, and all lanes are through with the one before
				fetch();
				const bf16 *chunk = ring + use * CHUNK_VALUES;
				use = use + 1 == length ? 0 : use + 1;
				return chunk;
			};
			if constexpr (HELD) {
#pragma unroll
				for (int t = 0; t < HELD_TURNS; t++)
					if (t < s.turns) {
						const bf16 *chunk = take();
						if (warp + t * STREAMS < s.chunks) add_held<TILES>(acc, chunk, held[t]);
					}
			} else {
				for (int t = 0; t < s.turns; t++) {
					const bf16 *chunk = take();
					if (warp + t * STREAMS < s.chunks) add_chunk<TILES>(acc, chunk, x + (warp + t * STREAMS) * CHUNK, s.chunks * CHUNK + PADDING, a.tokens);
				}
			}
			const int half = count % FINISHERS;
			barrier_wait(&b.empty[half], count / FINISHERS % 2 ^ 1); // the sums of two units before are read
#pragma unroll
			for (int n = 0; n < TILES; n++) sums[((half * STREAMS + warp) * TILES + n) * 32 + lane] = float4{acc[n][0], acc[n][1], acc[n][2], acc[n][3]};
			barrier_arrive(&b.full[half]);
		}
	}
}

// Adds the sums of the splits of a unit, of which this is the block's count-th in the product. One of the blocks does it, each in turn, and writes the unit; the others give it theirs. Says whether this is
// the one. What they are given in is its own message: a word in which no bit is 0 (no sum is that: what is not a number has other bits) is one that is still to come, and is put back when it was read.
// So this takes one way through memory. That all blocks run, and come to the units in the same order, makes sure that it ends.
template <int TILES> DEVICE bool join_splits(const chain_args &a, const share &s, int splits, int unit, int count, float4 (&total)[TILES]) {
	const int lane = threadIdx.x % 32, owner = count % splits;
	float4 *parts = (float4 *)a.partial + (i64)unit * splits * TILES * 32 + lane;
	if (s.slice != owner) {
#pragma unroll
		for (int n = 0; n < TILES; n++) store_relaxed(parts + (s.slice * TILES + n) * 32, total[n]);
		return false;
	}
	constexpr int AT_ONCE = TILES < 4 ? 4 / TILES : 1; // blocks whose sums are read at the same time
	const float still = as_float(0xffffffffu);
	for (int first = 0; first < splits; first += AT_ONCE) {
		float4 v[AT_ONCE][TILES];
		bool here = false;
		for (u32 polls = 1; !here; polls++) {
#pragma unroll
			for (int j = 0; j < AT_ONCE; j++)
#pragma unroll
				for (int n = 0; n < TILES; n++) v[j][n] = first + j < splits && first + j != owner ? load_relaxed(parts + ((first + j) * TILES + n) * 32) : float4{0, 0, 0, 0};
			here = true;
#pragma unroll
			for (int j = 0; j < AT_ONCE; j++)
#pragma unroll
				for (int n = 0; n < TILES; n++) here = here && as_bits(v[j][n].x) != ~0u && as_bits(v[j][n].y) != ~0u && as_bits(v[j][n].z) != ~0u && as_bits(v[j][n].w) != ~0u;
			if (polls % POLLS == 0 && load_host(a.abort)) here = true;
		}
#pragma unroll
		for (int j = 0; j < AT_ONCE; j++)
#pragma unroll
			for (int n = 0; n < TILES; n++) {
				if (first + j < splits && first + j != owner) store_relaxed(parts + ((first + j) * TILES + n) * 32, float4{still, still, still, still});
				total[n].x += v[j][n].x, total[n].y += v[j][n].y, total[n].z += v[j][n].z, total[n].w += v[j][n].w; // its own come first: the order is the same in every launch
			}
	}
	warp_fence(); // all lanes go on together
	return true;
}

// Begins to bring a product's tokens to shared memory: two warps do. All blocks are through with those of the product before.
DEVICE void bring_tokens(const chain_args &a, const product &p, const share &s, bf16 *x) {
	const int length = s.chunks * CHUNK;
	if (s.first < s.units)
		for (int token = 0; token < a.tokens; token++)
			for (int at = (threadIdx.x - STREAMS * 32) * 8; at < length; at += FINISHERS * 32 * 8)
				copy_async(x + token * (length + PADDING) + at, p.in + (i64)token * p.k + s.begin * CHUNK + at, true);
	commit_copies();
}

// What a token is to be multiplied with, or the last one: so many neighbouring lanes find it together, and each has it.
DEVICE float token_scale(const chain_args &a, const product &p, int token, int lanes) {
	if (!p.squares) return 1.0f;
	const int own = threadIdx.x % lanes, fours = p.parts % 4 ? 0 : p.parts; // parts that can be read four at a time
	const float *squares = p.squares + min(token, a.tokens - 1) * p.parts;
	float sum = 0;
#pragma unroll 8
	for (int i = own * 4; i < fours; i += lanes * 4) {
		const float4 s = *(const float4 *)(squares + i);
		sum += s.x + s.y + s.z + s.w;
	}
	for (int i = fours + own; i < p.parts; i += lanes) sum += squares[i];
	for (int m = 1; m < lanes; m *= 2) sum += lane_xor(sum, m);
	return 1.0f / root(sum / (float)p.k + a.eps);
}

// What this lane's tokens are to be multiplied with: tokens 2 t and 2 t + 1 of each eight. All tokens' squares are read at the same time: one after the other they would take longer than a unit.
template <int TILES> DEVICE void read_scales(const chain_args &a, const product &p, float (&scale)[TILES][2]) {
	const int lane = threadIdx.x % 32, t = lane % 4;
	int lanes = 32; // for each token
	while (32 / lanes < a.tokens) lanes /= 2;
	const float v = token_scale(a, p, lane / lanes, lanes);
#pragma unroll
	for (int n = 0; n < TILES; n++)
#pragma unroll
		for (int e = 0; e < 2; e++) scale[n][e] = lane_get(v, min(n * 8 + 2 * t + e, a.tokens - 1) * lanes);
}

// What the warps that end units do between two products: all blocks meet. One thread speaks for the block.
DEVICE void end_product(const chain_args &a, bool speaks, u32 &before) {
	meet(1, FINISHERS * 32); // all of the block's units are written
	if (speaks) {
		grid_arrive(a.turns);
		grid_await(a.turns, before, a.abort), before ^= TURNED;
	}
	meet(1, FINISHERS * 32);
}

// Adds the sums of a unit (GIVERS, TILES, 32) that were given, in their order.
template <int TILES, int GIVERS> DEVICE void add_sums(const float4 *sums, float4 (&total)[TILES]) {
#pragma unroll
	for (int n = 0; n < TILES; n++) {
		total[n] = float4{0, 0, 0, 0};
#pragma unroll
		for (int from = 0; from < GIVERS; from++) {
			const float4 v = sums[(from * TILES + n) * 32 + threadIdx.x % 32];
			total[n].x += v.x, total[n].y += v.y, total[n].z += v.z, total[n].w += v.w;
		}
	}
}

// What the sums of a unit's rows g and g + 8 are added to, and are to be multiplied with for the norm after: of each eight tokens 2 t and 2 t + 1.
template <int TILES> struct addends {
	float added[TILES][2][2], norm[2];
};
template <int TILES> DEVICE addends<TILES> read_addends(const chain_args &a, const product &p, const int (&row)[2]) {
	addends<TILES> to = {};
#pragma unroll
	for (int e = 0; e < 2; e++) {
		if (row[e] >= p.n) continue;
		if (p.norm) to.norm[e] = to_float(p.norm[row[e]]);
		const float bias = p.bias ? to_float(p.bias[row[e]]) : 0.0f;
#pragma unroll
		for (int n = 0; n < TILES; n++)
#pragma unroll
			for (int j = 0; j < 2; j++) {
				const int token = n * 8 + 2 * (threadIdx.x % 4) + j;
				to.added[n][j][e] = bias;
				if (p.kind == ADD && token < a.tokens) to.added[n][j][e] += ((const float *)p.out)[(i64)token * p.n + row[e]];
			}
	}
	return to;
}

// Ends a unit: its sums are there.
template <int TILES> DEVICE void write_unit(const chain_args &a, const product &p, int unit, int units, const int (&row)[2], const float4 (&total)[TILES], const float (&scale)[TILES][2], const addends<TILES> &to) {
	const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
	for (int n = 0; n < TILES; n++)
#pragma unroll
		for (int e = 0; e < 2; e++) {
			const int token = n * 8 + 2 * t + e;
			const float v[2] = {(e ? total[n].y : total[n].x) * scale[n][e] + to.added[n][e][0], (e ? total[n].w : total[n].z) * scale[n][e] + to.added[n][e][1]};
			if (token < a.tokens) unit_out(a, p, row, token, v, to.norm);
			if (p.kind == ADD) {
				float squares = (row[0] < p.n ? v[0] * v[0] : 0.0f) + (row[1] < p.n ? v[1] * v[1] : 0.0f);
				for (int m = 4; m < 32; m <<= 1) squares += lane_xor(squares, m);
				if (g == 0 && token < a.tokens) p.out_squares[(i64)token * units + unit] = squares;
			}
		}
}

// What a warp does that ends units, every second one of the block.
template <int TILES, bool HELD> DEVICE void finish(const chain_args &a, const float4 *sums, bf16 *x, chain_barriers &b) {
	const int lane = threadIdx.x % 32, half = threadIdx.x / 32 - STREAMS, g = lane / 4;
	int count = 0; // units of the block
	u32 before = 0;
	after_previous();
	const bool speaks = half == 0 && lane == 0; // for the block
	if (a.count > 1 && speaks) before = load_acquire(a.turns) & TURNED; // it does not turn before this block comes
	for (int i = 0; i < a.count; i++) {
		const product &p = a.products[i];
		const share s = share_of(p);
		if (i > 0) end_product(a, speaks, before);
		if (HELD) barrier_arrive(&b.ready[i]);
		else bring_tokens(a, p, s, x);
		float scale[TILES][2];
		read_scales<TILES>(a, p, scale);
		if (!HELD) {
			wait_copies<0>();
			barrier_arrive(&b.ready[i]);
		}
		for (int unit = s.first; unit < s.units; unit += s.step, count++) {
			if (count % FINISHERS != half) continue;
			int row[2];
			unit_rows(p, unit, g, row);
			const addends<TILES> to = read_addends<TILES>(a, p, row);
			barrier_wait(&b.full[half], count / FINISHERS % 2);
			float4 total[TILES];
			add_sums<TILES, STREAMS>(sums + half * STREAMS * TILES * 32, total);
			barrier_arrive(&b.empty[half]); // they may be written again
			if (p.splits > 1 && !join_splits<TILES>(a, s, p.splits, unit, (unit - s.first) / s.step, total)) continue;
			write_unit<TILES>(a, p, unit, s.units, row, total, scale, to);
		}
	}
}

// TILES times 8 tokens at most.
template <int TILES, bool HELD> DEVICE void chain(const chain_args &a) {
	SHARED_MEMORY(memory);
	const int length = HELD ? HELD_RING(TILES) : a.ring;
	chain_barriers &b = *(chain_barriers *)memory;
	bf16 *rings = (bf16 *)(memory + BARRIER_BYTES);                     // (streams, ring, 16, CHUNK)
	float4 *sums = (float4 *)(rings + STREAMS * length * CHUNK_VALUES); // (2, streams, TILES, 32): of this unit and the one before
	bf16 *x = (bf16 *)(sums + FINISHERS * STREAMS * TILES * 32);        // (tokens, chunks CHUNK + PADDING), where they are not held
	const int warp = threadIdx.x / 32;
	allow_next();
	// Each thread arrives by itself: race checkers do not take one lane's arrival for its warp's.
	if (threadIdx.x < FINISHERS) barrier_init(&b.full[threadIdx.x], STREAMS * 32), barrier_init(&b.empty[threadIdx.x], 32);
	if (threadIdx.x < PRODUCTS) barrier_init(&b.ready[threadIdx.x], FINISHERS * 32);
	__syncthreads();
	if (warp < STREAMS) {
#ifdef HOPPER
		if (HELD && TILES == 2) more_registers<200>();
#endif
		stream<TILES, HELD>(a, rings + warp * length * CHUNK_VALUES, sums, x, b);
	} else {
#ifdef HOPPER
		if (HELD && TILES == 2) fewer_registers<104>();
#endif
		if (warp < STREAMS + FINISHERS) finish<TILES, HELD>(a, sums, x, b);
	}
}

extern "C" __global__ void __launch_bounds__(CHAIN_THREADS, 1) chain_8(const __grid_constant__ chain_args a) { chain<1, false>(a); }
extern "C" __global__ void __launch_bounds__(CHAIN_THREADS, 1) chain_16(const __grid_constant__ chain_args a) { chain<2, false>(a); }
#ifdef HOPPER
// 128 registers at most, as a block of 512 threads could have: a multiprocessor has four parts, and beside three warps of this one in a part there is room for one of attention_few.
extern "C" __global__ void __launch_bounds__(512, 1) chain_held_8(const __grid_constant__ chain_args a) { chain<1, true>(a); }
extern "C" __global__ void __launch_bounds__(HELD_THREADS, 1) chain_held_16(const __grid_constant__ chain_args a) { chain<2, true>(a); }
#endif
