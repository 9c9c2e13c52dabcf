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

// What the fake driver makes of a described tensor.
struct fake_tensor {
	uint64_t magic, base, sizes[5], strides[4];
	uint32_t rank, box[5];
};
#define TENSOR_MAGIC 0x7e4502ull

// Copies are made at once, every second one to a place beside, from where it comes as late as it may.
static inline void copy_boxes(int blocks, void *to, const char *map, unsigned long long *barrier, const int *at) {
	static unsigned turn;
	fake_tensor t;
	memcpy(&t, map, sizeof t);
	const uint32_t place = shared_address(to), bell = shared_address(barrier);
	if (t.magic != TENSOR_MAGIC || place % 1024) fprintf(stderr, "emulated kernel: no tensor, or a box at %u\n", place), exit(70);
	size_t lines = 1, line = t.box[0] * 2;
	for (unsigned d = 1; d < t.rank; d++) lines *= t.box[d];
	std::vector<char> bytes(lines * line);
	for (size_t i = 0; i < lines; i++) {
		const char *from = (const char *)t.base;
		bool inside = true;
		size_t rest = i;
		for (unsigned d = 1; d < t.rank; d++) {
			const int64_t c = at[d] + (int64_t)(rest % t.box[d]);
			rest /= t.box[d];
			inside = inside && c >= 0 && c < (int64_t)t.sizes[d];
			from += c * (int64_t)t.strides[d - 1];
		}
		for (unsigned k = 0; k < t.box[0]; k++) {
			const int64_t c = at[0] + (int64_t)k;
			size_t where = i * line + k * 2;
			where ^= where >> 3 & 0x70;
			if (inside && c >= 0 && c < (int64_t)t.sizes[0]) memcpy(&bytes[where], from + c * 2, 2);
			else memset(&bytes[where], 0, 2);
		}
	}
	for (unsigned i = 0; i < cluster_size; i++) {
		if (!(blocks >> i & 1)) continue;
		block *b = cluster_block(i);
		b->boxes.push_back(box_copy{b->shared + place, bytes, b->shared + bell});
		if (++turn % 2) while (!b->boxes.empty()) deliver(b);
	}
}
static inline int cluster_rank() { return (int)(own->number % cluster_size); }
template <typename MAP, typename... AT> static inline void copy_box(void *to, const MAP &map, unsigned long long *barrier, AT... at) {
	const int list[] = {at...};
	copy_boxes(1 << cluster_rank(), to, map.bytes, barrier, list);
}
template <typename MAP> static inline void prefetch_map(const MAP &map) {}
static inline void barrier_expect(unsigned long long *barrier, int bytes) {
	phase_bytes(barrier, bytes);
	barrier_arrive(barrier);
}
static inline void barrier_fence() {}
static inline void async_fence_global() {}
static inline void cluster_meet() {
	if (cluster_size > 1) wait_in(AT_CLUSTER);
	else __syncthreads();
}
static inline void barrier_arrive_at(int rank, unsigned long long *barrier) { barrier_arrive((unsigned long long *)(cluster_block(rank)->shared + shared_address(barrier))); }
template <typename T> static inline void store_at(int rank, T *to, T v) { *(T *)(cluster_block(rank)->shared + shared_address(to)) = v; }
static inline void barrier_wait_cluster(unsigned long long *barrier, uint32_t parity) { barrier_wait(barrier, parity); }
