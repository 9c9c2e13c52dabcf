// Runs the kernels on a CPU, for tests: the threads of a block are fibers of one thread that take turns at barriers and where lanes of a warp exchange
// values. Blocks run one after the other; those of a kernel with a barrier of its grid take turns where they wait for it.
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <deque>
#include <vector>

#define HOST_PRIMITIVES
#define finite finite_logits // the C library has another one
#define __global__
#define __device__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

#define SHARED_MEMORY(name) char *const name = shared_memory
#define SHARED_SIZE (227 << 10)
static char *shared_memory; // of the block that runs

struct alignas(8) uint2 {
	unsigned x, y;
};
struct alignas(8) float2 {
	float x, y;
};
struct alignas(16) uint4 {
	unsigned x, y, z, w;
};
struct alignas(16) float4 {
	float x, y, z, w;
};
struct index3 {
	unsigned x, y, z;
};

enum fiber_state { READY, AT_BARRIER, AT_WARP, AT_MEETING, AT_PHASE, AT_GRID, AT_CLUSTER, ENDED };

struct copy {
	char *to;
	const char *from; // null: zeros
};

// A product of a warp group: see hopper.h.
struct group_product {
	float *d;
	int columns;
	bool registers; // a is in them
	uint32_t a[4];
	uint64_t first, second;
	bool transposed, add;
};

struct fiber {
	ucontext_t context; // to begin with
	jmp_buf place;      // where it goes on: a jump saves no signal mask, which costs a system call
	index3 thread;
	fiber_state state;
	bool begun; // it has a place to go on at
	int barrier, round; // that it waits for at a meeting
	char *stack;
	std::deque<std::vector<copy>> copies; // that are not waited for, a group each; the last one is open
	std::deque<std::vector<group_product>> products; // the same
	const void *phases; // the barrier that it waits at for the end of a phase of this parity
	uint32_t parity;
};

// What the lanes of a warp bring to an operation that they do together.
struct lanes {
	uint32_t given[32];
	struct {
		uint32_t a[4], b[2];
		const unsigned short *row;
	} brought[32];
};

// A copy of a box that has not come yet.
struct box_copy {
	char *to; // in this block's shared memory
	std::vector<char> bytes;
	void *barrier;
};

// A block that is alive.
struct block {
	index3 index;
	size_t number;  // of those that are alive at once
	bool met;       // all its threads that are left wait for the cluster
	std::deque<box_copy> boxes;
	char *shared;
	fiber fibers[1024];
	lanes warps[32];
	struct {
		int came, round;
	} meetings[16]; // barriers with a number: threads that came, and how often they were complete
};

static std::deque<block> blocks; // kept for later launches
static block *own;               // the block that runs
static fiber *running;
static jmp_buf scheduler;
static index3 blockIdx, blockDim, gridDim;
static unsigned shared_size;              // that the launch gives, in bytes
static unsigned cluster_size;             // blocks of a cluster
static void (*kernel_body)(const void *args);
static const void *kernel_args;
#define threadIdx (running->thread)

static void wait_in(fiber_state state) {
	running->state = state;
	if (!_setjmp(running->place)) _longjmp(scheduler, 1);
}
static inline void __syncthreads() { wait_in(AT_BARRIER); }

static inline void meet(int barrier, int threads) {
	auto &m = own->meetings[barrier];
	running->barrier = barrier, running->round = m.round;
	if (++m.came == threads) m.came = 0, m.round++;
	if (m.round == running->round) wait_in(AT_MEETING);
}

static inline void come(int barrier, int threads) {
	auto &m = own->meetings[barrier];
	if (++m.came == threads) m.came = 0, m.round++;
}

static inline uint32_t exchange(uint32_t v, int from) {
	lanes &warp = own->warps[threadIdx.x / 32];
	warp.given[threadIdx.x % 32] = v;
	wait_in(AT_WARP); // all lanes have given
	uint32_t other = warp.given[from];
	wait_in(AT_WARP); // all lanes have taken
	return other;
}

// A fiber runs one thread after the other: to make one costs system calls.
static void fiber_main() {
	for (;;) {
		kernel_body(kernel_args);
		wait_in(ENDED);
	}
}

// Lets the fibers of a range that are not ended go on when all of them wait in one state. Says whether any is left.
static bool release(unsigned begin, unsigned end, fiber_state state, bool *moved) {
	bool all = true, any = false;
	for (unsigned i = begin; i < end; i++) {
		if (own->fibers[i].state == ENDED) continue;
		any = true;
		all = all && own->fibers[i].state == state;
	}
	for (unsigned i = begin; any && all && i < end; i++)
		if (own->fibers[i].state == state) own->fibers[i].state = READY, *moved = true;
	return any;
}

static inline bool phase_over(const void *barrier, uint32_t parity);
static inline void phase_bytes(void *barrier, int bytes);

static inline block *cluster_block(int rank) { return &blocks[own->number / cluster_size * cluster_size + rank]; }

// A box comes.
static inline void deliver(block *b) {
	box_copy &c = b->boxes.front();
	memcpy(c.to, c.bytes.data(), c.bytes.size());
	phase_bytes(c.barrier, -(int)c.bytes.size());
	b->boxes.pop_front();
}

static void begin_block(block *b, index3 index) {
	const size_t size = 64 << 10;
	if (!b->shared && posix_memalign((void **)&b->shared, 1024, SHARED_SIZE)) exit(70);
	b->index = index;
	b->met = false;
	b->boxes.clear();
	for (unsigned i = 0; i < blockDim.x; i++) {
		fiber *f = &b->fibers[i];
		if (!f->stack) {
			f->stack = (char *)malloc(size);
			getcontext(&f->context);
			f->context.uc_stack.ss_sp = f->stack;
			f->context.uc_stack.ss_size = size;
			f->context.uc_link = 0;
			makecontext(&f->context, fiber_main, 0);
		}
		f->thread = index3{i, 0, 0};
		f->state = READY;
		f->copies.assign(1, {});
		f->products.assign(1, {});
	}
	memset(b->shared, 0xff, shared_size);
}

// Runs a block until it ends, or until all that is left waits for the grid. Says whether it has ended, and whether anything but such waiting went on.
static bool run_block(block *b, bool *progress) {
	own = b, blockIdx = b->index, shared_memory = b->shared;
	for (unsigned i = 0; i < blockDim.x; i++)
		if (b->fibers[i].state == AT_GRID) b->fibers[i].state = READY;
	for (;;) {
		static bool moved;
		moved = false;
		for (volatile unsigned i = 0; i < blockDim.x; i++) {
			if (own->fibers[i].state != READY) continue;
			running = &own->fibers[i];
			if (_setjmp(scheduler)) { // it waits
				if (running->state != AT_GRID) moved = true;
				continue;
			}
			if (running->begun) _longjmp(running->place, 1);
			running->begun = true;
			setcontext(&running->context);
		}
		for (unsigned w = 0; w < blockDim.x; w += 32) release(w, w + 32 < blockDim.x ? w + 32 : blockDim.x, AT_WARP, &moved);
		bool grid = false;
		for (unsigned i = 0; i < blockDim.x; i++) {
			fiber &f = own->fibers[i];
			if (f.state == AT_MEETING && own->meetings[f.barrier].round != f.round) f.state = READY, moved = true;
			if (f.state == AT_PHASE && phase_over(f.phases, f.parity)) f.state = READY, moved = true;
			grid = grid || f.state == AT_GRID;
		}
		bool cluster = false;
		for (unsigned i = 0; i < blockDim.x; i++) cluster = cluster || own->fibers[i].state == AT_CLUSTER;
		if (!moved && !own->boxes.empty()) deliver(own), moved = true; // as late as may be
		*progress = *progress || moved;
		if (!release(0, blockDim.x, AT_BARRIER, &moved)) {
			for (auto &m : own->meetings)
				if (m.came) fprintf(stderr, "emulated kernel: a barrier was left half full by block %u, %u\n", blockIdx.x, blockIdx.y), exit(70);
			return true;
		}
		if (moved) continue;
		bool all = cluster;
		for (unsigned i = 0; i < blockDim.x; i++) all = all && (own->fibers[i].state == AT_CLUSTER || own->fibers[i].state == ENDED);
		if (all && !own->met) own->met = *progress = true;
		bool phase = false; // another block of the cluster may end it
		for (unsigned i = 0; cluster_size > 1 && i < blockDim.x; i++) phase = phase || own->fibers[i].state == AT_PHASE;
		if (grid || cluster || phase) return false;
		fprintf(stderr, "emulated kernel: threads of block %u, %u wait in different places\n", blockIdx.x, blockIdx.y);
		exit(70);
	}
}

// Runs a kernel; together: all blocks are alive at once, else one at a time.
static void run_grid(void (*body)(const void *), const void *args, index3 grid, unsigned threads, unsigned shared, bool together, unsigned cluster) {
	kernel_body = body;
	kernel_args = args;
	gridDim = grid;
	shared_size = shared;
	cluster_size = cluster;
	blockDim = index3{threads, 1, 1};
	std::vector<block *> alive;
	for (unsigned z = 0; z < grid.z; z++)
		for (unsigned y = 0; y < grid.y; y++)
			for (unsigned x = 0; x < grid.x; x++) {
				if (blocks.size() <= alive.size()) blocks.emplace_back();
				block *b = &blocks[alive.size()];
				begin_block(b, index3{x, y, z});
				b->number = alive.size();
				bool progress = false;
				if (together) alive.push_back(b);
				else if (!run_block(b, &progress)) fprintf(stderr, "emulated kernel: a block waits for the grid\n"), exit(70);
			}
	for (int idle = 0; !alive.empty(); idle++) { // a thread may ask for several values in turn, each of which is there already
		bool progress = false;
		for (size_t i = alive.size(); i-- > 0;) // the last one first
			if (run_block(alive[i], &progress)) alive.erase(alive.begin() + i), progress = true;
		for (size_t i = 0; i + cluster <= blocks.size(); i += cluster) { // clusters that have met
			bool all = true;
			for (size_t j = i; j < i + cluster; j++) all = all && blocks[j].met;
			for (size_t j = i; all && j < i + cluster; j++) {
				blocks[j].met = false, progress = true;
				for (unsigned f = 0; f < threads; f++)
					if (blocks[j].fibers[f].state == AT_CLUSTER) blocks[j].fibers[f].state = READY;
			}
		}
		if (progress) idle = 0;
		if (idle > 100) fprintf(stderr, "emulated kernel: the blocks of the grid wait for what none of them does\n"), exit(70);
	}
}

// The primitives that the kernels have in PTX.
static inline float as_float(uint32_t bits) {
	float f;
	memcpy(&f, &bits, 4);
	return f;
}
static inline uint32_t as_bits(float f) {
	uint32_t bits;
	memcpy(&bits, &f, 4);
	return bits;
}
static inline unsigned short to_bf16(float v) {
	uint32_t bits = as_bits(v);
	if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
	return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
static inline float mul(float a, float b) { return a * b; }
static inline float add(float a, float b) { return a + b; }
static inline float root(float v) { return sqrtf(v); }
static inline float power2(float v) { return exp2f(v); }
static inline int own_lane() { return threadIdx.x % 32; }
static inline float lane_xor(float v, int mask) { return as_float(exchange(as_bits(v), own_lane() ^ mask)); }
static inline int lane_xor(int v, int mask) { return (int)exchange((uint32_t)v, own_lane() ^ mask); }
static inline int lane_get(int v, int lane) { return (int)exchange((uint32_t)v, lane); }
static inline float lane_get(float v, int lane) { return as_float(exchange(as_bits(v), lane)); }
static inline bool any_lane(bool is) {
	lanes &warp = own->warps[threadIdx.x / 32];
	warp.given[own_lane()] = is;
	wait_in(AT_WARP);
	bool any = false;
	for (uint32_t given : warp.given) any = any || given;
	wait_in(AT_WARP);
	return any;
}
static inline void warp_fence() { wait_in(AT_WARP); }
static inline void device_fence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void system_fence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void store_release(unsigned *at, unsigned v) { __atomic_store_n(at, v, __ATOMIC_RELEASE); }
static inline unsigned arrive(unsigned *at) { return __atomic_fetch_add(at, 1, __ATOMIC_ACQ_REL); }
static inline void add_release(unsigned *at, unsigned v) { __atomic_fetch_add(at, v, __ATOMIC_ACQ_REL); }
static inline unsigned load_acquire(const unsigned *at) { // what is asked for again and again lets the other blocks run
	wait_in(AT_GRID);
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}
static inline void store_relaxed(float4 *at, float4 v) { *at = v; }
static inline float4 load_relaxed(const float4 *at) {
	wait_in(AT_GRID);
	return *at;
}
static inline unsigned load_host(const unsigned *at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
static inline void after_previous() {}
static inline void allow_next() {}
static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }
static inline uint32_t pack(float low, float high) { return to_bf16(low) | (uint32_t)to_bf16(high) << 16; }

// Copies are made when they are waited for, as late as they may be.
static inline void copy_async(void *to, const void *from, bool valid) { running->copies.back().push_back(copy{(char *)to, valid ? (const char *)from : 0}); }
static inline void commit_copies() { running->copies.emplace_back(); }
template <int LEFT> static inline void wait_copies() {
	for (; running->copies.size() > LEFT + 1; running->copies.pop_front())
		for (const copy &c : running->copies.front()) c.from ? memcpy(c.to, c.from, 16) : memset(c.to, 0, 16);
}

static inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
	auto *warp = own->warps[threadIdx.x / 32].brought;
	int lane = own_lane(), g = lane / 4, t = lane % 4;
	memcpy(warp[lane].a, a, sizeof a);
	warp[lane].b[0] = b0, warp[lane].b[1] = b1;
	wait_in(AT_WARP);
	auto half = [](uint32_t word, int i) { return as_float(i ? word & 0xffff0000u : word << 16); };
	for (int e = 0; e < 4; e++) {
		int row = g + e / 2 * 8, column = 2 * t + e % 2;
		float sum = 0;
		for (int k = 0; k < 16; k++)
			sum += half(warp[row % 8 * 4 + k % 8 / 2].a[row / 8 + k / 8 * 2], k % 2) * half(warp[column * 4 + k % 8 / 2].b[k / 8], k % 2);
		d[e] += sum;
	}
	wait_in(AT_WARP);
}

static inline void load_matrices(uint32_t (&r)[4], const void *row) {
	auto *warp = own->warps[threadIdx.x / 32].brought;
	warp[own_lane()].row = (const unsigned short *)row;
	wait_in(AT_WARP);
	for (int m = 0; m < 4; m++) memcpy(&r[m], warp[m * 8 + own_lane() / 4].row + own_lane() % 4 * 2, 4);
	wait_in(AT_WARP);
}
static inline void load_matrices_transposed(uint32_t (&r)[4], const void *row) {
	auto *warp = own->warps[threadIdx.x / 32].brought;
	warp[own_lane()].row = (const unsigned short *)row;
	wait_in(AT_WARP);
	for (int m = 0; m < 4; m++) {
		int at = m * 8 + own_lane() % 4 * 2, column = own_lane() / 4;
		r[m] = warp[at].row[column] | (uint32_t)warp[at + 1].row[column] << 16;
	}
	wait_in(AT_WARP);
}

static inline uint32_t transposed(uint32_t v) {
	const int g = own_lane() / 4, t = own_lane() % 4, shift = g % 2 * 16;
	uint32_t low = exchange(v, 8 * t + g / 2), high = exchange(v, 8 * t + 4 + g / 2);
	return (low >> shift & 0xffff) | (high >> shift) << 16;
}

// A barrier in shared memory, in its 64 bits.
struct phases {
	uint16_t arrivals, missing;
	int32_t bytes : 31; // that are still to come
	uint32_t odd : 1;   // the phase
};
static inline void barrier_init(unsigned long long *at, int arrivals) { *(phases *)at = phases{(uint16_t)arrivals, (uint16_t)arrivals, 0, 0}; }
static inline void end_phase(phases *b) {
	if (b->missing == 0 && b->bytes == 0) b->missing = b->arrivals, b->odd ^= 1;
}
static inline void barrier_arrive(unsigned long long *at) {
	phases *b = (phases *)at;
	if (b->missing-- == 0) fprintf(stderr, "emulated kernel: an arrival too much at a barrier\n"), exit(70);
	end_phase(b);
}
static inline void phase_bytes(void *at, int bytes) {
	phases *b = (phases *)at;
	b->bytes += bytes;
	if (bytes < 0) end_phase(b);
}
static inline bool phase_over(const void *at, uint32_t parity) { return ((const struct phases *)at)->odd != parity; }
static inline void barrier_wait(unsigned long long *at, uint32_t parity) {
	running->phases = at, running->parity = parity;
	if (!phase_over(at, parity)) wait_in(AT_PHASE);
}
