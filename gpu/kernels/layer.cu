// The parts of a layer beside its matrix products and attention. Activations are (tokens, width) row by row; the residual stream is
// float32, all else bfloat16 with float32 arithmetic.

struct embed_args {
	const u32 *ids;      // (tokens); SAMPLED is the id sampled last in the token's slot
	const int *slots;    // (tokens): the sequence that a token belongs to
	const u32 *sampled;  // (slots)
	const bf16 *table;   // (vocab, hidden)
	float *x;            // (tokens, hidden)
	float *squares;      // (tokens): sum of squares
	const bf16 *norm;    // (hidden): weights of the norm that x goes through next, or null
	bf16 *normed;        // (tokens, hidden): x times these
	int hidden;
};
#define SAMPLED 0xffffffffu

extern "C" __global__ void embed(const embed_args a) {
	__shared__ float scratch[32];
	allow_next();
	i64 t = blockIdx.x;
	u32 id = a.ids[t];
	if (id == SAMPLED) id = a.sampled[a.slots[t]];
	float squares = 0;
	for (int i = threadIdx.x; i < a.hidden; i += blockDim.x) {
		float v = to_float(a.table[(i64)id * a.hidden + i]);
		a.x[t * a.hidden + i] = v;
		if (a.norm) a.normed[t * a.hidden + i] = to_bf16(v * to_float(a.norm[i]));
		squares += v * v;
	}
	squares = block_sum(squares, scratch);
	if (threadIdx.x == 0) a.squares[t] = squares;
}

// Four values, normalised.
DEVICE uint2 normalised(float4 v, uint2 w, float scale) {
	return uint2{pack(v.x * scale * as_float(w.x << 16), v.y * scale * as_float(w.x & 0xffff0000u)), pack(v.z * scale * as_float(w.y << 16), v.w * scale * as_float(w.y & 0xffff0000u))};
}

DEVICE float silu(float v) { return v / (1.0f + power2(-1.4426950408889634f * v)); }

struct norm_args {
	float *x;        // (tokens, hidden)
	const bf16 *y;   // (tokens, hidden): what is added to x first, or null
	const bf16 *w;   // (hidden)
	bf16 *out;       // (blocks, hidden)
	const int *pick; // (blocks): the token of each block, or null for its own number
	int hidden;
	float eps;
};

// RMSNorm of the residual stream. With pick x stays as it is. hidden is a multiple of 4.
extern "C" __global__ void __launch_bounds__(256) rms_norm(const norm_args a) {
	constexpr int HELD = 8; // groups of four values that a thread keeps; what a wider model has beyond is read twice
	__shared__ float scratch[32];
	allow_next();
	after_previous();
	const i64 t = a.pick ? a.pick[blockIdx.x] : blockIdx.x;
	float4 *x = (float4 *)(a.x + t * a.hidden);
	const uint2 *y = a.y ? (const uint2 *)(a.y + t * a.hidden) : 0, *w = (const uint2 *)a.w;
	uint2 *out = (uint2 *)(a.out + (i64)blockIdx.x * a.hidden);
	const int groups = a.hidden / 4;
	auto read = [&](int i) {
		float4 v = x[i];
		if (y) {
			const uint2 u = y[i];
			v = float4{v.x + as_float(u.x << 16), v.y + as_float(u.x & 0xffff0000u), v.z + as_float(u.y << 16), v.w + as_float(u.y & 0xffff0000u)};
		}
		return v;
	};
	float4 held[HELD];
	float squares = 0;
	auto square = [&](const float4 &v) { squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w; };
#pragma unroll
	for (int j = 0; j < HELD; j++) {
		const int i = threadIdx.x + j * 256;
		held[j] = i < groups ? read(i) : float4{0, 0, 0, 0};
	}
#pragma unroll
	for (int j = 0; j < HELD; j++) {
		const int i = threadIdx.x + j * 256;
		if (y && !a.pick && i < groups) x[i] = held[j];
		square(held[j]);
	}
	for (int i = threadIdx.x + HELD * 256; i < groups; i += 256) {
		const float4 v = read(i);
		if (y && !a.pick) x[i] = v;
		square(v);
	}
	const float scale = 1.0f / root(block_sum(squares, scratch) / (float)a.hidden + a.eps);
#pragma unroll
	for (int j = 0; j < HELD; j++) {
		const int i = threadIdx.x + j * 256;
		if (i < groups) out[i] = normalised(held[j], w[i], scale);
	}
	for (int i = threadIdx.x + HELD * 256; i < groups; i += 256) {
		float4 v = x[i];
		if (y && a.pick) v = read(i);
		out[i] = normalised(v, w[i], scale);
	}
}

struct keys_args {
	bf16 *qkv;            // (tokens, heads + 2 kv_heads, HEAD_SIZE)
	bf16 *cache;          // of the layer: (blocks, keys and values, kv_heads, block_size, HEAD_SIZE)
	const int *positions; // (tokens)
	const int *places;    // (tokens): block times block_size plus the place in the block; negative for padding, which is put nowhere
	const float *cosines; // (positions, half)
	const float *sines;   // (positions, half)
	const bf16 *q_norm;   // (HEAD_SIZE) or null
	const bf16 *k_norm;   // (HEAD_SIZE) or null
	int heads, kv_heads, block_size, half, tokens;
	float eps;
};

// Normalises and rotates queries and keys, in this order, and puts keys and values into the cache. A warp for each head of each token; blockIdx.x counts
// blocks of 8 warps. Pair i of a head is values i and i + half.
extern "C" __global__ void __launch_bounds__(256) keys(const keys_args a) {
	constexpr int PER = (HEAD_SIZE + 63) / 64; // pairs of neighbouring values that a lane has
	__shared__ float rotated[8][HEAD_SIZE];
	allow_next();
	after_previous();
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, heads = a.heads + 2 * a.kv_heads;
	const i64 index = (i64)blockIdx.x * 8 + warp, t = index / heads;
	const int head = (int)(index % heads);
	if (t >= a.tokens) return;
	u32 *at = (u32 *)(a.qkv + index * HEAD_SIZE);
	float v[PER][2] = {};
#pragma unroll
	for (int j = 0; j < PER; j++) {
		const int pair = lane + j * 32;
		if (pair < HEAD_SIZE / 2) v[j][0] = as_float(at[pair] << 16), v[j][1] = as_float(at[pair] & 0xffff0000u);
	}
	if (head < a.heads + a.kv_heads) {
		const u32 *w = (const u32 *)(head < a.heads ? a.q_norm : a.k_norm);
		if (w) {
			float squares = 0;
#pragma unroll
			for (int j = 0; j < PER; j++) squares += v[j][0] * v[j][0] + v[j][1] * v[j][1];
			const float scale = 1.0f / root(warp_sum(squares) / (float)HEAD_SIZE + a.eps);
#pragma unroll
			for (int j = 0; j < PER; j++) {
				const int pair = lane + j * 32;
				if (pair >= HEAD_SIZE / 2) continue;
				v[j][0] = to_float(to_bf16(v[j][0] * scale * as_float(w[pair] << 16)));
				v[j][1] = to_float(to_bf16(v[j][1] * scale * as_float(w[pair] & 0xffff0000u)));
			}
		}
		float *own = rotated[warp];
#pragma unroll
		for (int j = 0; j < PER; j++)
			if (lane + j * 32 < HEAD_SIZE / 2) own[2 * (lane + j * 32)] = v[j][0], own[2 * (lane + j * 32) + 1] = v[j][1];
		warp_fence();
		const i64 angles = (i64)a.positions[t] * a.half;
#pragma unroll
		for (int j = 0; j < PER; j++)
#pragma unroll
			for (int e = 0; e < 2; e++) {
				const int d = 2 * (lane + j * 32) + e;
				if (d >= 2 * a.half) continue;
				const bool low = d < a.half;
				const i64 angle = angles + (low ? d : d - a.half);
				const float c = a.cosines[angle], s = a.sines[angle];
				v[j][e] = low ? v[j][e] * c - own[d + a.half] * s : v[j][e] * c + own[d - a.half] * s;
			}
	}
	u32 *to = at;
	if (head >= a.heads) {
		const int place = a.places[t];
		if (place < 0) return;
		const int kind = head >= a.heads + a.kv_heads, kv = head - a.heads - kind * a.kv_heads;
		to = (u32 *)(a.cache + ((((i64)(place / a.block_size) * 2 + kind) * a.kv_heads + kv) * a.block_size + place % a.block_size) * HEAD_SIZE);
	}
#pragma unroll
	for (int j = 0; j < PER; j++)
		if (lane + j * 32 < HEAD_SIZE / 2) to[lane + j * 32] = pack(v[j][0], v[j][1]);
}

struct gate_args {
	const bf16 *in; // (tokens, 2 width): gate, then up
	bf16 *out;      // (tokens, width)
	int width;      // a multiple of 2
};

// SiLU of the gate times the up projection (SwiGLU).
extern "C" __global__ void __launch_bounds__(256) gate(const gate_args a) {
	constexpr int AT_ONCE = 4;
	allow_next();
	after_previous();
	const i64 t = blockIdx.y;
	const int pairs = a.width / 2;
	const u32 *in = (const u32 *)(a.in + t * 2 * a.width);
	u32 *out = (u32 *)(a.out + t * a.width);
	const int first = blockIdx.x * 256 * AT_ONCE + threadIdx.x;
	u32 g[AT_ONCE], u[AT_ONCE];
#pragma unroll
	for (int j = 0; j < AT_ONCE; j++) {
		const int i = min(first + j * 256, pairs - 1);
		g[j] = in[i], u[j] = in[pairs + i];
	}
#pragma unroll
	for (int j = 0; j < AT_ONCE; j++)
		if (first + j * 256 < pairs) out[first + j * 256] = pack(silu(as_float(g[j] << 16)) * as_float(u[j] << 16), silu(as_float(g[j] & 0xffff0000u)) * as_float(u[j] & 0xffff0000u));
}
