// Matrix products of few tokens: out(tokens, n) = in(tokens, k) weights(n, k) transposed, where reading the weights takes all the time. What a product
// is; chain.cu computes them. A unit is 16 rows of weights, the first operand of mma; the tokens are the second, 8 columns each.

#define CHUNK 64
#define CHUNK_VALUES (16 * CHUNK)
#define PRODUCTS 4 // of a chain

enum product_kind { PLAIN, FLOAT, ADD, GATE, ROTATE };

struct product {
	const bf16 *in;       // (tokens, k)
	const float *squares; // (tokens, parts) or null: sums of squares of parts of the rows, by whose norm in is still to be divided
	const bf16 *weights;  // (n, k)
	const bf16 *bias;     // (n) or null
	void *out;            // (tokens, n) bfloat16 or float32; the residual stream, to be added to; (tokens, n / 2) after the gate
	float *out_squares;   // (tokens, units) of the residual stream that was added to
	const bf16 *norm;     // (n): weights of the norm that the residual stream goes through next, or null
	bf16 *normed;         // (tokens, n): the residual stream times these
	int kind, n, k, splits, parts; // k is split among so many blocks
};

struct chain_args {
	product products[PRODUCTS];
	float *partial; // (units, splits, TILES, 32, 4) where k is split among blocks; all bits are 1 between the launches
	u32 *turns;     // one word: see grid_arrive
	const u32 *abort; // in the host's memory: not 0 when the host gives up
	int count, tokens, ring; // ring is the number of chunks in one: 3, 4, 5, 6, 8 or 11
	float eps;               // of the norms
	// Of the rotation: see keys_args.
	int heads, kv_heads, block_size, half;
	bf16 *cache;
	const int *positions, *places;
	const float *cosines, *sines;
};

DEVICE int units_of(const product &p) { return p.kind == GATE ? (p.n / 2 + 7) / 8 : (p.n + 15) / 16; }

// The rows of weights of a unit that a lane has: row g and row g + 8 of 16.
DEVICE void unit_rows(const product &p, int unit, int g, int (&row)[2]) {
	if (p.kind == GATE) { // a gate row and its up row
		row[0] = unit * 8 + g, row[1] = p.n / 2 + row[0];
	} else if (p.kind == ROTATE) { // the two values of a pair that is rotated
		constexpr int per = HEAD_SIZE / 16;
		row[0] = unit / per * HEAD_SIZE + unit % per * 8 + g, row[1] = row[0] + HEAD_SIZE / 2;
	} else {
		row[0] = unit * 16 + g, row[1] = row[0] + 8;
	}
}

// Rotates the values of a pair, and puts keys and values into the cache.
DEVICE void rotate_out(const chain_args &a, const product &p, int row, i64 token, const float (&v)[2]) {
	const int head = row / HEAD_SIZE, pair = row % HEAD_SIZE;
	float first = v[0], second = v[1];
	if (head < a.heads + a.kv_heads) {
		const i64 angle = (i64)a.positions[token] * a.half + pair;
		const float c = a.cosines[angle], s = a.sines[angle];
		first = v[0] * c - v[1] * s, second = v[1] * c + v[0] * s;
	}
	bf16 *to = (bf16 *)p.out + token * p.n + head * HEAD_SIZE;
	if (head >= a.heads) {
		const int place = a.places[token];
		if (place < 0) return;
		const int kind = head >= a.heads + a.kv_heads, kv = head - a.heads - kind * a.kv_heads;
		to = a.cache + ((((i64)(place / a.block_size) * 2 + kind) * a.kv_heads + kv) * a.block_size + place % a.block_size) * HEAD_SIZE;
	}
	to[pair] = to_bf16(first), to[pair + HEAD_SIZE / 2] = to_bf16(second);
}

// Writes what a unit gives for one token: v[0] of row g and v[1] of row g + 8.
DEVICE void unit_out(const chain_args &a, const product &p, const int (&row)[2], i64 token, const float (&v)[2], const float (&norm)[2]) {
	if (p.kind == GATE) {
		if (row[0] < p.n / 2) ((bf16 *)p.out)[token * (p.n / 2) + row[0]] = to_bf16(silu(v[0]) * v[1]);
		return;
	}
	if (p.kind == ROTATE) return rotate_out(a, p, row[0], token, v);
#pragma unroll
	for (int i = 0; i < 2; i++) {
		if (row[i] >= p.n) continue;
		const i64 at = token * p.n + row[i];
		if (p.kind == PLAIN) ((bf16 *)p.out)[at] = to_bf16(v[i]);
		else ((float *)p.out)[at] = v[i];
		if (p.norm) p.normed[at] = to_bf16(v[i] * norm[i]);
	}
}
