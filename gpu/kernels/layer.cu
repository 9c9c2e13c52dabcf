// The parts of a layer beside its matrix products and attention. Activations are (tokens, width) row by row; the residual stream is
// float32, all else bfloat16 with float32 arithmetic.

struct embed_args {
	const u32 *ids;      // (tokens); SAMPLED is the id sampled last in the token's slot
	const int *slots;    // (tokens): the sequence that a token belongs to
	const u32 *sampled;  // (slots)
	const bf16 *table;   // (vocab, hidden)
	float *x;            // (tokens, hidden)
	float *squares;      // (tokens): sum of squares
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
		squares += v * v;
	}
	squares = block_sum(squares, scratch);
	if (threadIdx.x == 0) a.squares[t] = squares;
}

struct norm_args {
	float *x;        // (tokens, hidden)
	const bf16 *y;   // (tokens, hidden): what is added to x first, or null
	const bf16 *w;   // (hidden)
	bf16 *out;       // (blocks, hidden)
	const int *pick; // (blocks): the token of each block, or null for its own number
	int hidden;
	float eps;
};

// RMSNorm of the residual stream. With pick x stays as it is.
extern "C" __global__ void rms_norm(const norm_args a) {
	__shared__ float scratch[32];
	allow_next();
	after_previous();
	i64 t = a.pick ? a.pick[blockIdx.x] : blockIdx.x;
	float *x = a.x + t * a.hidden;
	const bf16 *y = a.y ? a.y + t * a.hidden : 0;
	bf16 *out = a.out + (i64)blockIdx.x * a.hidden;
	float squares = 0;
	for (int i = threadIdx.x; i < a.hidden; i += blockDim.x) {
		float v = x[i];
		if (y) {
			v += to_float(y[i]);
			if (!a.pick) x[i] = v;
		}
		squares += v * v;
	}
	float scale = 1.0f / root(block_sum(squares, scratch) / (float)a.hidden + a.eps);
	for (int i = threadIdx.x; i < a.hidden; i += blockDim.x) {
		float v = x[i];
		if (y && a.pick) v += to_float(y[i]);
		out[i] = to_bf16(v * scale * to_float(a.w[i]));
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
	int heads, kv_heads, block_size, half;
	float eps;
};

// Normalises and rotates queries and keys, in this order, and puts keys and values into the cache. One block for each head of each token, a
// thread for each of its values. Pair i of a head is values i and i + half.
extern "C" __global__ void keys(const keys_args a) {
	__shared__ float v[HEAD_SIZE];
	__shared__ float scratch[32];
	allow_next();
	after_previous();
	i64 t = blockIdx.x;
	int head = blockIdx.y, d = threadIdx.x;
	bf16 *at = a.qkv + (t * (a.heads + 2 * a.kv_heads) + head) * HEAD_SIZE + d;
	const bool own = d < HEAD_SIZE; // the last warp may have threads to spare
	float mine = own ? to_float(*at) : 0.0f;
	if (head < a.heads + a.kv_heads) {
		const bf16 *w = head < a.heads ? a.q_norm : a.k_norm;
		if (w) {
			float squares = block_sum(mine * mine, scratch);
			if (own) mine = to_float(to_bf16(mine * (1.0f / root(squares / (float)HEAD_SIZE + a.eps)) * to_float(w[d])));
		}
		if (own) v[d] = mine;
		__syncthreads();
		if (d < 2 * a.half) {
			int pair = d < a.half ? d : d - a.half;
			i64 angle = (i64)a.positions[t] * a.half + pair;
			float c = a.cosines[angle], s = a.sines[angle];
			mine = d < a.half ? mine * c - v[d + a.half] * s : mine * c + v[d - a.half] * s;
		}
	}
	if (!own) return;
	bf16 rounded = to_bf16(mine);
	if (head < a.heads) {
		*at = rounded;
		return;
	}
	if (a.places[t] < 0) return;
	int kind = head >= a.heads + a.kv_heads, kv = head - a.heads - kind * a.kv_heads;
	i64 block = a.places[t] / a.block_size, place = a.places[t] % a.block_size;
	a.cache[(((block * 2 + kind) * a.kv_heads + kv) * a.block_size + place) * HEAD_SIZE + d] = rounded;
}

struct gate_args {
	const bf16 *in; // (tokens, 2 width): gate, then up
	bf16 *out;      // (tokens, width)
	int width;
};

// SiLU of the gate times the up projection (SwiGLU).
extern "C" __global__ void gate(const gate_args a) {
	allow_next();
	after_previous();
	i64 t = blockIdx.y;
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < a.width; i += gridDim.x * blockDim.x) {
		float g = to_float(a.in[t * 2 * a.width + i]), u = to_float(a.in[t * 2 * a.width + a.width + i]);
		float silu = g / (1.0f + power2(-1.4426950408889634f * g));
		a.out[t * a.width + i] = to_bf16(to_float(to_bf16(silu)) * u);
	}
}
