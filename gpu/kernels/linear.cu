// Matrix products of few tokens: out(tokens, n) = in(tokens, k) weights(n, k) transposed, where reading the weights takes all the time. A unit is 16
// rows of weights, the first operand of mma; the tokens are the second, 8 columns each. The columns of a unit are shared out among eight warps in
// chunks of 64; each warp copies its chunks ahead into a ring of its own, across units, and begins to before the kernel before this one has ended. Two
// more warps, which take turns, add the sums of the eight, in their order, and write the result while these go on.

#define STREAMS 8 // warps that read weights
#define LINEAR_THREADS ((STREAMS + 2) * 32)
#define CHUNK 64
#define CHUNK_VALUES (16 * CHUNK)
#define PADDING 8 // values between the tokens in shared memory, for other banks

struct linear_args {
	const void *in;       // (tokens, k): bfloat16, or with a norm the residual stream in float32
	const bf16 *norm;     // (k): weights of the norm, or null
	const float *squares; // (tokens, parts): sums of squares of parts of the residual stream, for the norm
	const bf16 *weights;  // (n, k)
	const bf16 *bias;     // (n) or null
	void *out;            // (tokens, n) bfloat16 or float32; the residual stream, to be added to; (tokens, n / 2) after the gate
	float *out_squares;   // (tokens, units) of the residual stream that was added to
	float *partial;       // (units, splits, TILES, 32, 4) where k is split among blocks
	u32 *arrived;         // (units), zero between the launches
	int tokens, n, k, splits, parts, ring; // ring is the number of chunks in one: 3, 4, 6 or 8
	float eps;            // of the norm
	// Of the rotation: see keys_args.
	int heads, kv_heads, block_size, half;
	bf16 *cache;
	const int *positions, *places;
	const float *cosines, *sines;
};

enum linear_kind { PLAIN, FLOAT, ADD, GATE, ROTATE };

// The rows of weights of a unit that a lane has: row g and row g + 8 of 16.
template <int KIND> DEVICE void unit_rows(const linear_args &a, int unit, int g, int (&row)[2]) {
	if (KIND == GATE) { // a gate row and its up row
		row[0] = unit * 8 + g, row[1] = a.n / 2 + row[0];
	} else if (KIND == ROTATE) { // the two values of a pair that is rotated
		constexpr int per = HEAD_SIZE / 16;
		row[0] = unit / per * HEAD_SIZE + unit % per * 8 + g, row[1] = row[0] + HEAD_SIZE / 2;
	} else {
		row[0] = unit * 16 + g, row[1] = row[0] + 8;
	}
}

// Writes what a unit gives for one token: v[0] of row g and v[1] of row g + 8.
template <int KIND> DEVICE void unit_out(const linear_args &a, const int (&row)[2], i64 token, const float (&v)[2]) {
	if (KIND == GATE) {
		if (row[0] < a.n / 2) ((bf16 *)a.out)[token * (a.n / 2) + row[0]] = to_bf16(silu(v[0]) * v[1]);
	} else if (KIND == ROTATE) {
		const int head = row[0] / HEAD_SIZE, pair = row[0] % HEAD_SIZE;
		float first = v[0], second = v[1];
		if (head < a.heads + a.kv_heads) {
			const i64 angle = (i64)a.positions[token] * a.half + pair;
			const float c = a.cosines[angle], s = a.sines[angle];
			first = v[0] * c - v[1] * s, second = v[1] * c + v[0] * s;
		}
		bf16 *to = (bf16 *)a.out + token * a.n + head * HEAD_SIZE;
		if (head >= a.heads) {
			const int place = a.places[token];
			if (place < 0) return;
			const int kind = head >= a.heads + a.kv_heads, kv = head - a.heads - kind * a.kv_heads;
			to = a.cache + ((((i64)(place / a.block_size) * 2 + kind) * a.kv_heads + kv) * a.block_size + place % a.block_size) * HEAD_SIZE;
		}
		to[pair] = to_bf16(first), to[pair + HEAD_SIZE / 2] = to_bf16(second);
	} else {
		for (int i = 0; i < 2; i++) {
			if (row[i] >= a.n) continue;
			const i64 at = token * a.n + row[i];
			if (KIND == PLAIN) ((bf16 *)a.out)[at] = to_bf16(v[i]);
			else ((float *)a.out)[at] = v[i];
		}
	}
}

// Waits for the kernel before this one and brings columns begin to begin + length of the tokens to shared memory, normalised where there is a norm.
DEVICE void bring_tokens(const linear_args &a, bf16 *x, int begin, int length, float *scales) {
	const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, stride = length + PADDING;
	if (!a.norm) {
		const int words = length / 8;
		after_previous();
		for (int i = tid; i < a.tokens * words; i += LINEAR_THREADS) {
			const int token = i / words, at = i % words * 8;
			copy_async(x + token * stride + at, (const bf16 *)a.in + (i64)token * a.k + begin + at, true);
		}
		commit_copies();
		wait_copies<0>();
		return;
	}
	constexpr int AHEAD = 8; // that a thread reads before the scales are known
	const int words = length / 4, all = a.tokens * words;
	const uint2 *norm = (const uint2 *)(a.norm + begin);
	const float *in = (const float *)a.in + begin;
	float4 values[AHEAD];
	uint2 weights[AHEAD];
#pragma unroll
	for (int j = 0; j < AHEAD; j++) weights[j] = norm[(tid + j * LINEAR_THREADS) % words];
	after_previous();
#pragma unroll
	for (int j = 0; j < AHEAD; j++) {
		const int i = min(tid + j * LINEAR_THREADS, all - 1);
		values[j] = *(const float4 *)(in + (i64)(i / words) * a.k + i % words * 4);
	}
	for (int token = warp; token < a.tokens; token += STREAMS + 2) {
		float squares = 0;
#pragma unroll 8
		for (int i = lane; i < a.parts; i += 32) squares += a.squares[token * a.parts + i];
		squares = warp_sum(squares);
		if (lane == 0) scales[token] = 1.0f / root(squares / (float)a.k + a.eps);
	}
	__syncthreads();
#pragma unroll
	for (int j = 0; j < AHEAD; j++) {
		const int i = tid + j * LINEAR_THREADS;
		if (i < all) *(uint2 *)(x + i / words * stride + i % words * 4) = normalised(values[j], weights[j], scales[i / words]);
	}
#pragma unroll 8
	for (int i = tid + AHEAD * LINEAR_THREADS; i < all; i += LINEAR_THREADS)
		*(uint2 *)(x + i / words * stride + i % words * 4) = normalised(*(const float4 *)(in + (i64)(i / words) * a.k + i % words * 4), norm[i % words], scales[i / words]);
}

// Barriers of the sums of every second unit: the eight warps have written theirs, and the warp that ends the unit has read them.
struct linear_barriers {
	u64 written[2], read[2];
};

// The columns that a block takes, and its units.
struct linear_part {
	int units, first, step; // of the grid's blocks with the same columns
	int slice, begin, chunks;
	int turns; // of each warp in a unit: at some the last ones have nothing
};

// What a warp does that reads weights.
template <int KIND, int TILES> DEVICE void stream(const linear_args &a, const linear_part &p, bf16 *ring, float4 *sums, bf16 *x, linear_barriers &barriers) {
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, stride = p.chunks * CHUNK + PADDING;
	int unit = p.first, turn = 0, slot = 0; // of the copies
	const bf16 *from[4];                    // this lane's 16 bytes of every fourth row
	auto aim = [&] {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			int row[2], r = i * 4 + lane / 8;
			unit_rows<KIND>(a, unit, r % 8, row);
			from[i] = a.weights + (i64)min(row[i / 2], a.n - 1) * a.k + (p.begin + warp) * CHUNK + lane % 8 * 8;
		}
	};
	auto fetch = [&] {
		if (unit < p.units && warp + turn * STREAMS < p.chunks) {
			bf16 *to = ring + slot * CHUNK_VALUES;
#pragma unroll
			for (int i = 0; i < 4; i++) {
				const int r = i * 4 + lane / 8;
				copy_async(to + r * CHUNK + ((lane % 8 ^ (r & 7)) * 8), from[i] + turn * STREAMS * CHUNK, true);
			}
		}
		commit_copies();
		slot = slot + 1 == a.ring ? 0 : slot + 1;
		if (++turn == p.turns) {
			turn = 0, unit += p.step;
			aim();
		}
	};
	aim();
	for (int i = 0; i < a.ring - 1; i++) fetch();
	bring_tokens(a, x, p.begin * CHUNK, p.chunks * CHUNK, (float *)sums);
	__syncthreads();

	int use = 0;
	for (int at = p.first, count = 0; at < p.units; at += p.step, count++) {
		float acc[TILES][4] = {};
		for (int i = 0; i < p.turns; i++) {
			if (a.ring == 8) wait_copies<6>();
			else if (a.ring == 6) wait_copies<4>();
			else if (a.ring == 4) wait_copies<2>();
			else wait_copies<1>();
			warp_fence(); // the chunk is here, and all lanes are through with the one before
			fetch();
			const int chunk = warp + i * STREAMS;
			if (chunk < p.chunks) {
				const bf16 *w = ring + use * CHUNK_VALUES + lane % 16 * CHUNK, *token = x + chunk * CHUNK + lane / 8 * 8;
#pragma unroll
				for (int k = 0; k < CHUNK / 16; k += 2) {
					u32 first[4], second[4];
					load_matrices(first, w + ((k * 2 + lane / 16) ^ (lane & 7)) * 8);
					load_matrices(second, w + ((k * 2 + 2 + lane / 16) ^ (lane & 7)) * 8);
#pragma unroll
					for (int n = 0; n < TILES; n++) {
						u32 b[4];
						load_matrices(b, token + min(n * 8 + lane % 8, a.tokens - 1) * stride + k * 16);
						mma(acc[n], first, b[0], b[1]);
						mma(acc[n], second, b[2], b[3]);
					}
				}
			}
			use = use + 1 == a.ring ? 0 : use + 1;
		}
		if (count >= 2) barrier_wait(&barriers.read[count % 2], count / 2 - 1 & 1); // the sums of two units before
#pragma unroll
		for (int n = 0; n < TILES; n++) sums[((count % 2 * STREAMS + warp) * TILES + n) * 32 + lane] = float4{acc[n][0], acc[n][1], acc[n][2], acc[n][3]};
		barrier_arrive(&barriers.written[count % 2]);
	}
}

// What a warp does that ends units, every second one of the block.
template <int KIND, int TILES> DEVICE void finish(const linear_args &a, const linear_part &p, const float4 *sums, bf16 *x, linear_barriers &barriers) {
	const int lane = threadIdx.x % 32, turn = threadIdx.x / 32 - STREAMS, g = lane / 4, t = lane % 4;
	bring_tokens(a, x, p.begin * CHUNK, p.chunks * CHUNK, (float *)sums);
	__syncthreads();
	u32 parity = 0;
	for (int unit = p.first + turn * p.step; unit < p.units; unit += 2 * p.step, parity ^= 1) {
		int row[2];
		unit_rows<KIND>(a, unit, g, row);
		float before[TILES][2][2] = {}; // what the sums are added to: of the token's row g and g + 8
#pragma unroll
		for (int n = 0; n < TILES; n++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				const int token = n * 8 + 2 * t + e / 2, r = row[e % 2];
				if (token >= a.tokens || r >= a.n) continue;
				if (a.bias) before[n][e / 2][e % 2] = to_float(a.bias[r]);
				if (KIND == ADD) before[n][e / 2][e % 2] += ((const float *)a.out)[(i64)token * a.n + r];
			}
		barrier_wait(&barriers.written[turn], parity);
		float4 total[TILES];
#pragma unroll
		for (int n = 0; n < TILES; n++) {
			total[n] = float4{0, 0, 0, 0};
#pragma unroll
			for (int w = 0; w < STREAMS; w++) {
				const float4 v = sums[((turn * STREAMS + w) * TILES + n) * 32 + lane];
				total[n].x += v.x, total[n].y += v.y, total[n].z += v.z, total[n].w += v.w;
			}
		}
		barrier_arrive(&barriers.read[turn]); // they may be written again
		if (a.splits > 1) {
			float4 *part = (float4 *)a.partial + ((i64)unit * a.splits + p.slice) * TILES * 32 + lane;
#pragma unroll
			for (int n = 0; n < TILES; n++) part[n * 32] = total[n];
			device_fence();
			warp_fence();
			int others = 0;
			if (lane == 0) others = (int)arrive(a.arrived + unit);
			if (lane_get(others, 0) != a.splits - 1) continue; // the last one adds
			device_fence();
			part -= p.slice * TILES * 32;
#pragma unroll
			for (int n = 0; n < TILES; n++) {
				total[n] = float4{0, 0, 0, 0};
				for (int s = 0; s < a.splits; s++) {
					const float4 v = part[(s * TILES + n) * 32];
					total[n].x += v.x, total[n].y += v.y, total[n].z += v.z, total[n].w += v.w;
				}
			}
			if (lane == 0) a.arrived[unit] = 0;
		}
#pragma unroll
		for (int n = 0; n < TILES; n++)
#pragma unroll
			for (int e = 0; e < 2; e++) {
				const int token = n * 8 + 2 * t + e;
				const float v[2] = {(e ? total[n].y : total[n].x) + before[n][e][0], (e ? total[n].w : total[n].z) + before[n][e][1]};
				if (token < a.tokens) unit_out<KIND>(a, row, token, v);
				if (KIND == ADD) {
					float squares = (row[0] < a.n ? v[0] * v[0] : 0.0f) + (row[1] < a.n ? v[1] * v[1] : 0.0f);
					for (int m = 4; m < 32; m <<= 1) squares += lane_xor(squares, m);
					if (g == 0 && token < a.tokens) a.out_squares[(i64)token * p.units + unit] = squares;
				}
			}
	}
}

// TILES times 8 tokens at most.
template <int KIND, int TILES> DEVICE void linear(const linear_args &a) {
	SHARED_MEMORY(memory);
	__shared__ linear_barriers barriers;
	linear_part p;
	const int all = a.k / CHUNK;
	p.units = KIND == GATE ? (a.n / 2 + 7) / 8 : (a.n + 15) / 16;
	p.slice = blockIdx.x % a.splits, p.first = blockIdx.x / a.splits, p.step = gridDim.x / a.splits;
	p.begin = all * p.slice / a.splits, p.chunks = all * (p.slice + 1) / a.splits - p.begin;
	p.turns = (p.chunks + STREAMS - 1) / STREAMS;
	bf16 *rings = (bf16 *)memory;                              // (streams, ring, 16, CHUNK)
	float4 *sums = (float4 *)(rings + STREAMS * a.ring * CHUNK_VALUES); // (2, streams, TILES, 32): of this unit and the one before
	bf16 *x = (bf16 *)(sums + 2 * STREAMS * TILES * 32);       // (tokens, chunks CHUNK + PADDING)
	const int warp = threadIdx.x / 32;
	allow_next();
	if (threadIdx.x < 2) barrier_init(&barriers.written[threadIdx.x], STREAMS * 32), barrier_init(&barriers.read[threadIdx.x], 32);
	if (warp < STREAMS) stream<KIND, TILES>(a, p, rings + warp * a.ring * CHUNK_VALUES, sums, x, barriers);
	else finish<KIND, TILES>(a, p, sums, x, barriers);
}

#define LINEAR(name, KIND) \
	extern "C" __global__ void __launch_bounds__(LINEAR_THREADS, 1) name##_8(const linear_args a) { linear<KIND, 1>(a); } \
	extern "C" __global__ void __launch_bounds__(LINEAR_THREADS, 1) name##_16(const linear_args a) { linear<KIND, 2>(a); }
LINEAR(linear_plain, PLAIN)
LINEAR(linear_float, FLOAT)
LINEAR(linear_add, ADD)
LINEAR(linear_gate, GATE)
LINEAR(linear_rotate, ROTATE)
