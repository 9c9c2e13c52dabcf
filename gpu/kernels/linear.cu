// Matrix products of few tokens: out(tokens, n) = in(tokens, k) weights(n, k) transposed, where reading the weights takes all the time. Each weight
// is read once, from memory into the registers that the tensor cores take it from: a unit of 16 rows of weights is the first operand of
// mma, the tokens are the second, of 8 columns each. The warps of a block share the columns k of a unit, so their sums are added at its end, in the
// order of the warps. Loads run ahead of their use across units, and begin before the kernel before this one has ended.
//
// Columns are taken in chunks of 64. In a chunk lane t of four holds columns 8t to 8t + 7 and 32 + 8t to 32 + 8t + 7 of its rows, and of its token:
// operands may have their columns in any order as long as both have the same.

#define LINEAR_WARPS 8
#define CHUNK 64
#define RING 4    // chunks that a warp has in flight
#define PADDING 32 // values between the tokens in shared memory, for other banks

struct linear_args {
	const void *in;      // (tokens, k): bfloat16, or with a norm the residual stream in float32
	const bf16 *norm;    // (k): weights of the norm
	const bf16 *weights; // (n, k)
	const bf16 *bias;    // (n) or null
	void *out;           // (tokens, n) bfloat16 or float32; the residual stream, to be added to; (tokens, n / 2) after the gate
	float *partial;      // (units, splits, TILES, 32, 4) where k is split among blocks
	u32 *arrived;        // (units), zero between the launches
	int tokens, n, k, splits;
	float eps;           // of the norm
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
template <int KIND> DEVICE void unit_out(const linear_args &a, int unit, const int (&row)[2], i64 token, float (&v)[2]) {
	for (int i = 0; i < 2; i++)
		if (a.bias && row[i] < a.n) v[i] += to_float(a.bias[row[i]]);
	if (KIND == GATE) {
		if (row[0] < a.n / 2) ((bf16 *)a.out)[token * (a.n / 2) + row[0]] = to_bf16(v[0] / (1.0f + power2(-1.4426950408889634f * v[0])) * v[1]);
		return;
	}
	if (KIND == ROTATE) {
		int head = row[0] / HEAD_SIZE, pair = row[0] % HEAD_SIZE;
		if (head < a.heads + a.kv_heads) {
			i64 angle = (i64)a.positions[token] * a.half + pair;
			float c = a.cosines[angle], s = a.sines[angle], first = v[0] * c - v[1] * s;
			v[1] = v[1] * c + v[0] * s, v[0] = first;
		}
		bf16 *to = (bf16 *)a.out + token * a.n + head * HEAD_SIZE;
		if (head >= a.heads) {
			if (a.places[token] < 0) return;
			int kind = head >= a.heads + a.kv_heads, kv = head - a.heads - kind * a.kv_heads;
			i64 block = a.places[token] / a.block_size, place = a.places[token] % a.block_size;
			to = a.cache + (((block * 2 + kind) * a.kv_heads + kv) * a.block_size + place) * HEAD_SIZE;
		}
		to[pair] = to_bf16(v[0]), to[pair + HEAD_SIZE / 2] = to_bf16(v[1]);
		return;
	}
	for (int i = 0; i < 2; i++) {
		if (row[i] >= a.n) continue;
		i64 at = token * a.n + row[i];
		if (KIND == PLAIN) ((bf16 *)a.out)[at] = to_bf16(v[i]);
		if (KIND == FLOAT) ((float *)a.out)[at] = v[i];
		if (KIND == ADD) ((float *)a.out)[at] += v[i];
	}
}

// Brings columns begin to begin + length of the tokens to shared memory, normalised where there is a norm. scratch holds a value for each warp of each token.
DEVICE void bring_tokens(const linear_args &a, bf16 *x, int begin, int length, float *scratch) {
	const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, stride = length + PADDING;
	if (!a.norm) {
		const int words = length / 8;
		for (int i = tid; i < a.tokens * words; i += LINEAR_WARPS * 32) {
			int token = i / words, at = i % words * 8;
			*(uint4 *)(x + token * stride + at) = *(const uint4 *)((const bf16 *)a.in + (i64)token * a.k + begin + at);
		}
		return;
	}
	for (int token = 0; token < a.tokens; token++) {
		const float4 *in = (const float4 *)((const float *)a.in + (i64)token * a.k);
		float squares = 0;
#pragma unroll 4
		for (int i = tid; i < a.k / 4; i += LINEAR_WARPS * 32) {
			float4 v = in[i];
			squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
		}
		squares = warp_sum(squares);
		if (lane == 0) scratch[token * LINEAR_WARPS + warp] = squares;
	}
	__syncthreads();
	for (int token = 0; token < a.tokens; token++) {
		const float4 *in = (const float4 *)((const float *)a.in + (i64)token * a.k + begin);
		const uint2 *norm = (const uint2 *)(a.norm + begin);
		float squares = 0;
		for (int w = 0; w < LINEAR_WARPS; w++) squares += scratch[token * LINEAR_WARPS + w];
		const float scale = 1.0f / root(squares / (float)a.k + a.eps);
#pragma unroll 4
		for (int i = tid; i < length / 4; i += LINEAR_WARPS * 32) {
			float4 v = in[i];
			uint2 w = norm[i];
			*(uint2 *)(x + token * stride + 4 * i) = uint2{pack(v.x * scale * as_float(w.x << 16), v.y * scale * as_float(w.x & 0xffff0000u)),
				pack(v.z * scale * as_float(w.y << 16), v.w * scale * as_float(w.y & 0xffff0000u))};
		}
	}
}

// TILES times 8 tokens at most.
template <int KIND, int TILES> DEVICE void linear(const linear_args &a) {
	SHARED_MEMORY(memory);
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
	const int units = KIND == GATE ? (a.n / 2 + 7) / 8 : (a.n + 15) / 16;
	const int slice = blockIdx.x % a.splits, first = blockIdx.x / a.splits, step = gridDim.x / a.splits;
	const int all = a.k / CHUNK, begin = all * slice / a.splits, chunks = all * (slice + 1) / a.splits - begin;
	const int turns = (chunks + LINEAR_WARPS * RING - 1) / (LINEAR_WARPS * RING) * RING; // of each warp in a unit: some may have nothing
	const int stride = chunks * CHUNK + PADDING;
	float4 *sums = (float4 *)memory;               // (2, warps, TILES, 32): of this unit and the one before
	bf16 *x = (bf16 *)(sums + 2 * LINEAR_WARPS * TILES * 32); // (tokens, stride)
	allow_next();

	uint4 ring[RING][4]; // of a chunk: row g, left and right half of its columns; row g + 8
	int load_unit = first, load_turn = 0;
	const bf16 *load_at[2];
	auto aim = [&] {
		int row[2];
		unit_rows<KIND>(a, load_unit, g, row);
		for (int i = 0; i < 2; i++) load_at[i] = a.weights + (i64)min(row[i], a.n - 1) * a.k + (begin + warp) * CHUNK + t * 8;
	};
	auto load = [&](uint4 (&to)[4]) {
		if (load_unit < units && warp + load_turn * LINEAR_WARPS < chunks) {
			to[0] = load_once(load_at[0]), to[1] = load_once(load_at[0] + CHUNK / 2);
			to[2] = load_once(load_at[1]), to[3] = load_once(load_at[1] + CHUNK / 2);
		} else {
			to[0] = to[1] = to[2] = to[3] = uint4{0, 0, 0, 0};
		}
		load_at[0] += LINEAR_WARPS * CHUNK, load_at[1] += LINEAR_WARPS * CHUNK;
		if (++load_turn == turns) load_turn = 0, load_unit += step, aim();
	};
	aim();
#pragma unroll
	for (int s = 0; s < RING; s++) load(ring[s]);

	after_previous();
	bring_tokens(a, x, begin * CHUNK, chunks * CHUNK, (float *)sums);
	__syncthreads();

	int count = 0;
	for (int unit = first; unit < units; unit += step, count++) {
		float acc[TILES][4] = {};
		for (int turn = 0; turn < turns; turn += RING) {
#pragma unroll
			for (int s = 0; s < RING; s++) {
				const int chunk = warp + (turn + s) * LINEAR_WARPS;
				if (chunk < chunks) {
#pragma unroll
					for (int n = 0; n < TILES; n++) {
						uint4 left = {0, 0, 0, 0}, right = {0, 0, 0, 0};
						if (n * 8 + g < a.tokens) {
							const bf16 *at = x + (n * 8 + g) * stride + chunk * CHUNK + t * 8;
							left = *(const uint4 *)at, right = *(const uint4 *)(at + CHUNK / 2);
						}
						mma(acc[n], {ring[s][0].x, ring[s][2].x, ring[s][0].y, ring[s][2].y}, left.x, left.y);
						mma(acc[n], {ring[s][0].z, ring[s][2].z, ring[s][0].w, ring[s][2].w}, left.z, left.w);
						mma(acc[n], {ring[s][1].x, ring[s][3].x, ring[s][1].y, ring[s][3].y}, right.x, right.y);
						mma(acc[n], {ring[s][1].z, ring[s][3].z, ring[s][1].w, ring[s][3].w}, right.z, right.w);
					}
				}
				load(ring[s]);
			}
		}
		float4 *mine = sums + count % 2 * LINEAR_WARPS * TILES * 32;
#pragma unroll
		for (int n = 0; n < TILES; n++) mine[(warp * TILES + n) * 32 + lane] = float4{acc[n][0], acc[n][1], acc[n][2], acc[n][3]};
		__syncthreads(); // two units on all have read what is written next
		if (warp != count % LINEAR_WARPS) continue; // the warps take turns at the end of a unit
		float4 total[TILES];
#pragma unroll
		for (int n = 0; n < TILES; n++) {
			total[n] = mine[n * 32 + lane];
			for (int w = 1; w < LINEAR_WARPS; w++) {
				float4 v = mine[(w * TILES + n) * 32 + lane];
				total[n].x += v.x, total[n].y += v.y, total[n].z += v.z, total[n].w += v.w;
			}
		}
		if (a.splits > 1) {
			float4 *part = (float4 *)a.partial + ((i64)unit * a.splits + slice) * TILES * 32 + lane;
#pragma unroll
			for (int n = 0; n < TILES; n++) part[n * 32] = total[n];
			device_fence();
			warp_fence();
			int before = 0;
			if (lane == 0) before = (int)arrive(a.arrived + unit);
			if (lane_get(before, 0) != a.splits - 1) continue; // the last one adds
			device_fence();
			part -= slice * TILES * 32;
#pragma unroll
			for (int n = 0; n < TILES; n++) {
				total[n] = part[n * 32];
				for (int s = 1; s < a.splits; s++) {
					float4 v = part[(s * TILES + n) * 32];
					total[n].x += v.x, total[n].y += v.y, total[n].z += v.z, total[n].w += v.w;
				}
			}
			if (lane == 0) a.arrived[unit] = 0;
		}
		int row[2];
		unit_rows<KIND>(a, unit, g, row);
#pragma unroll
		for (int n = 0; n < TILES; n++) {
			int token = n * 8 + 2 * t;
			float even[2] = {total[n].x, total[n].z}, odd[2] = {total[n].y, total[n].w};
			if (token < a.tokens) unit_out<KIND>(a, unit, row, token, even);
			if (token + 1 < a.tokens) unit_out<KIND>(a, unit, row, token + 1, odd);
		}
	}
}

#define LINEAR(name, KIND) \
	extern "C" __global__ void __launch_bounds__(LINEAR_WARPS * 32, 2) name##_8(const linear_args a) { linear<KIND, 1>(a); } \
	extern "C" __global__ void __launch_bounds__(LINEAR_WARPS * 32, 2) name##_16(const linear_args a) { linear<KIND, 2>(a); }
LINEAR(linear_plain, PLAIN)
LINEAR(linear_float, FLOAT)
LINEAR(linear_add, ADD)
LINEAR(linear_gate, GATE)
LINEAR(linear_rotate, ROTATE)
