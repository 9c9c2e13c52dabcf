// Seeded weights and cache values, bit for bit those that package gpu/model makes on the host (SplitMix64: Steele, Lea, Flood 2014).

DEVICE bf16 random_value(u64 seed, u64 index, float scale, float offset) {
	u64 z = seed + (index + 1) * 0x9E3779B97F4A7C15ull;
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
	z = z ^ (z >> 31);
	int n = (int)(z & 0xffff) + (int)((z >> 16) & 0xffff) + (int)((z >> 32) & 0xffff) + (int)(z >> 48) - 2 * 0xffff;
	return to_bf16(add(offset, mul((float)n, scale)));
}

struct weights_args {
	bf16 *out; // (rows, columns)
	u64 seed;
	i64 row, column; // where the rectangle begins
	i64 rows, columns;
	i64 width; // columns of the whole tensor
	float scale, offset;
};

extern "C" __global__ void weights(const weights_args a) {
	for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < a.rows * a.columns; i += (i64)gridDim.x * blockDim.x)
		a.out[i] = random_value(a.seed, (u64)((a.row + i / a.columns) * a.width + a.column + i % a.columns), a.scale, a.offset);
}

struct pool_args {
	bf16 *out; // of the layer: (blocks, keys and values, kv_heads, block_size, head_size)
	u64 seed;
	i64 layer, blocks;
	int kv_heads, all_heads, first_head, per; // per is block_size times head_size
	float scale;
};

// The value depends on the place in the unsharded pool (layers, keys and values, blocks, heads, block_size, head_size).
extern "C" __global__ void pool(const pool_args a) {
	i64 count = a.blocks * 2 * a.kv_heads * a.per;
	for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x) {
		i64 inner = i % a.per, head = i / a.per % a.kv_heads, kind = i / a.per / a.kv_heads % 2, block = i / a.per / a.kv_heads / 2;
		i64 outer = (a.layer * 2 + kind) * a.blocks + block;
		a.out[i] = random_value(a.seed, (u64)((outer * a.all_heads + a.first_head + head) * a.per + inner), a.scale, 0.0f);
	}
}
