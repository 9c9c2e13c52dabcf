// Runs the kernels on a CPU, for tests: the threads of a block are fibers of one thread that take turns at barriers and where lanes of a warp exchange
// values. Blocks run one after the other.
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
#define __align__(n) __attribute__((aligned(n)))

#define SHARED_MEMORY(name) char *const name = shared_memory
alignas(1024) static char shared_memory[227 << 10];

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

enum fiber_state { READY, AT_BARRIER, AT_WARP, AT_MEETING, AT_PHASE, ENDED };

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
	bool begun;
	int barrier, round; // that it waits for at a meeting
	char *stack;
	std::deque<std::vector<copy>> copies; // that are not waited for, a group each; the last one is open
	std::deque<std::vector<group_product>> products; // the same
	const void *phases; // the barrier that it waits at for the end of a phase of this parity
	uint32_t parity;
};

static fiber fibers[1024];
static fiber *running;
static jmp_buf scheduler;
static index3 blockIdx, blockDim, gridDim;
static uint32_t exchanged[32][32]; // what the lanes of each warp gave
static unsigned shared_size;              // that the launch gives, in bytes
static void (*kernel_body)(const void *args);
static const void *kernel_args;
#define threadIdx (running->thread)

static void wait_in(fiber_state state) {
	running->state = state;
	if (!_setjmp(running->place)) _longjmp(scheduler, 1);
}
static inline void __syncthreads() { wait_in(AT_BARRIER); }

// Barriers with a number: threads that came, and how often they were complete.
static struct {
	int came, round;
} meetings[16];

static inline void meet(int barrier, int threads) {
	running->barrier = barrier, running->round = meetings[barrier].round;
	if (++meetings[barrier].came == threads) meetings[barrier].came = 0, meetings[barrier].round++;
	if (meetings[barrier].round == running->round) wait_in(AT_MEETING);
}

static inline uint32_t exchange(uint32_t v, int from) {
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	exchanged[warp][lane] = v;
	wait_in(AT_WARP); // all lanes have given
	uint32_t other = exchanged[warp][from];
	wait_in(AT_WARP); // all lanes have taken
	return other;
}

static void fiber_main() {
	kernel_body(kernel_args);
	wait_in(ENDED);
}

// Lets the fibers of a range that are not ended go on when all of them wait in one state. Says whether any is left.
static bool release(unsigned begin, unsigned end, fiber_state state, bool *moved) {
	bool all = true, any = false;
	for (unsigned i = begin; i < end; i++) {
		if (fibers[i].state == ENDED) continue;
		any = true;
		all = all && fibers[i].state == state;
	}
	for (unsigned i = begin; any && all && i < end; i++)
		if (fibers[i].state == state) fibers[i].state = READY, *moved = true;
	return any;
}

static inline bool phase_over(const void *barrier, uint32_t parity);

static void run_block() {
	const size_t size = 64 << 10;
	for (unsigned i = 0; i < blockDim.x; i++) {
		fiber *f = &fibers[i];
		if (!f->stack) f->stack = (char *)malloc(size);
		getcontext(&f->context);
		f->context.uc_stack.ss_sp = f->stack;
		f->context.uc_stack.ss_size = size;
		f->context.uc_link = 0;
		makecontext(&f->context, fiber_main, 0);
		f->thread = index3{i, 0, 0};
		f->state = READY;
		f->begun = false;
		f->copies.assign(1, {});
		f->products.assign(1, {});
	}
	memset(shared_memory, 0xff, shared_size);
	for (;;) {
		static bool moved;
		moved = false;
		for (volatile unsigned i = 0; i < blockDim.x; i++) {
			if (fibers[i].state != READY) continue;
			running = &fibers[i];
			moved = true;
			if (_setjmp(scheduler)) continue; // it waits
			if (running->begun) _longjmp(running->place, 1);
			running->begun = true;
			setcontext(&running->context);
		}
		for (unsigned w = 0; w < blockDim.x; w += 32) release(w, w + 32 < blockDim.x ? w + 32 : blockDim.x, AT_WARP, &moved);
		for (unsigned i = 0; i < blockDim.x; i++)
			if (fibers[i].state == AT_MEETING && meetings[fibers[i].barrier].round != fibers[i].round) fibers[i].state = READY, moved = true;
		for (unsigned i = 0; i < blockDim.x; i++)
			if (fibers[i].state == AT_PHASE && phase_over(fibers[i].phases, fibers[i].parity)) fibers[i].state = READY, moved = true;
		if (!release(0, blockDim.x, AT_BARRIER, &moved)) {
			for (auto &m : meetings)
				if (m.came) fprintf(stderr, "emulated kernel: a barrier was left half full by block %u, %u\n", blockIdx.x, blockIdx.y), exit(70);
			return;
		}
		if (!moved) {
			fprintf(stderr, "emulated kernel: threads of block %u, %u wait in different places\n", blockIdx.x, blockIdx.y);
			exit(70);
		}
	}
}

static void run_grid(void (*body)(const void *), const void *args, index3 grid, unsigned threads, unsigned shared) {
	kernel_body = body;
	kernel_args = args;
	gridDim = grid;
	shared_size = shared;
	blockDim = index3{threads, 1, 1};
	for (blockIdx.z = 0; blockIdx.z < grid.z; blockIdx.z++)
		for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
			for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) run_block();
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
static inline void warp_fence() { wait_in(AT_WARP); }
static inline void device_fence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void system_fence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void store_release(unsigned *at, unsigned v) { __atomic_store_n(at, v, __ATOMIC_RELEASE); }
static inline unsigned arrive(unsigned *at) { return __atomic_fetch_add(at, 1, __ATOMIC_ACQ_REL); }
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

// What the lanes of a warp bring to an operation that they do together.
static struct {
	uint32_t a[4], b[2];
	const unsigned short *row;
} brought[32][32];

static inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
	auto *warp = brought[threadIdx.x / 32];
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
	auto *warp = brought[threadIdx.x / 32];
	warp[own_lane()].row = (const unsigned short *)row;
	wait_in(AT_WARP);
	for (int m = 0; m < 4; m++) memcpy(&r[m], warp[m * 8 + own_lane() / 4].row + own_lane() % 4 * 2, 4);
	wait_in(AT_WARP);
}
static inline void load_matrices_transposed(uint32_t (&r)[4], const void *row) {
	auto *warp = brought[threadIdx.x / 32];
	warp[own_lane()].row = (const unsigned short *)row;
	wait_in(AT_WARP);
	for (int m = 0; m < 4; m++) {
		int at = m * 8 + own_lane() % 4 * 2, column = own_lane() / 4;
		r[m] = warp[at].row[column] | (uint32_t)warp[at + 1].row[column] << 16;
	}
	wait_in(AT_WARP);
}
