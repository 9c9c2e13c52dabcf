// The primitives of kernels/hopper.h on a CPU. Products are made when they are waited for, as late as they may be.

static inline uint32_t shared_address(const void *p) {
	intptr_t at = (const char *)p - shared_memory;
	if (at < 0 || at >= SHARED_SIZE) fprintf(stderr, "emulated kernel: a matrix outside of the block's memory\n"), exit(70);
	return (uint32_t)at;
}

// The value at a row and a k of a described matrix.
static inline float described(uint64_t matrix, int row, int k, bool transposed) {
	unsigned at = (matrix & 0x3fff) << 4, more_rows = (matrix >> 16 & 0x3fff) << 4, group = (matrix >> 32 & 0x3fff) << 4;
	if (matrix >> 62 != 1) fprintf(stderr, "emulated kernel: not a described matrix: %llx\n", (unsigned long long)matrix), exit(70);
	at += transposed ? row / 64 * more_rows + k / 8 * group + k % 8 * 128 + row % 64 * 2 : row / 8 * group + row % 8 * 128 + k * 2;
	at ^= at >> 3 & 0x70;
	unsigned short v;
	memcpy(&v, shared_memory + at, 2);
	return as_float((uint32_t)v << 16);
}

static inline void wgmma_begin() {}
static inline void wgmma_commit() { running->products.emplace_back(); }
template <typename T, int SIZE> static inline void hold(T (&)[SIZE][4]) {}

template <int SIZE> static inline void wgmma(float (&d)[SIZE][4], uint64_t a, uint64_t b, bool add) { running->products.back().push_back(group_product{d[0], 8 * SIZE, false, {}, a, b, false, add}); }
template <int SIZE> static inline void wgmma(float (&d)[SIZE][4], const uint32_t (&a)[4], uint64_t b, bool add) {
	running->products.back().push_back(group_product{d[0], 8 * SIZE, true, {a[0], a[1], a[2], a[3]}, 0, b, true, add});
}

// One product, done by a warp: all lanes bring the same.
static inline void multiply(size_t at) {
	static float left[32][16][16], right[32][256][16];
	int warp = threadIdx.x / 32, lane = own_lane(), g = lane / 4, t = lane % 4;
	const group_product &p = running->products.front()[at];
	wait_in(AT_WARP);
	for (int i = lane; i < p.columns * 16; i += 32) right[warp][i / 16][i % 16] = described(p.second, i / 16, i % 16, p.transposed);
	for (int e = 0; e < 8; e++) {
		int row = g + e / 2 % 2 * 8, k = 2 * t + e % 2 + e / 4 * 8;
		left[warp][row][k] = p.registers ? as_float(e % 2 ? p.a[e / 2] & 0xffff0000u : p.a[e / 2] << 16) : described(p.first, warp % 4 * 16 + row, k, false);
	}
	wait_in(AT_WARP);
	for (int i = 0; i < p.columns / 2; i++) {
		const float *a = left[warp][g + i / 2 % 2 * 8], *b = right[warp][i / 4 * 8 + 2 * t + i % 2];
		float sum = 0;
		for (int k = 0; k < 16; k++) sum += a[k] * b[k];
		p.d[i] = (p.add ? p.d[i] : 0) + sum;
	}
}
template <int LEFT> static inline void wgmma_wait() {
	for (; running->products.size() > LEFT + 1; running->products.pop_front())
		for (size_t i = 0; i < running->products.front().size(); i++) multiply(i);
}

static inline void async_fence() {}
template <int REGISTERS> static inline void fewer_registers() {}
template <int REGISTERS> static inline void more_registers() {}
