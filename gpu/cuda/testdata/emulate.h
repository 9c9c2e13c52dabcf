// Runs the kernels on a CPU, for tests: the threads of a block are fibers of one thread that take turns at barriers and where lanes of a warp exchange
// values. Blocks run one after the other.
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define HOST_PRIMITIVES
#define finite finite_logits // the C library has another one
#define __global__
#define __device__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

struct uint4 {
	unsigned x, y, z, w;
};
struct index3 {
	unsigned x, y, z;
};

enum fiber_state { READY, AT_BARRIER, AT_WARP, ENDED };

struct fiber {
	ucontext_t context; // to begin with
	jmp_buf place;      // where it goes on: a jump saves no signal mask, which costs a system call
	index3 thread;
	fiber_state state;
	bool begun;
	char *stack;
};

static fiber fibers[1024];
static fiber *running;
static jmp_buf scheduler;
static index3 blockIdx, blockDim, gridDim;
static uint32_t exchanged[32][32]; // what the lanes of each warp gave
static void (*kernel_body)(const void *args);
static const void *kernel_args;
#define threadIdx (running->thread)

static void wait_in(fiber_state state) {
	running->state = state;
	if (!_setjmp(running->place)) _longjmp(scheduler, 1);
}
static inline void __syncthreads() { wait_in(AT_BARRIER); }

static inline uint32_t exchange(uint32_t v, int mask) {
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	exchanged[warp][lane] = v;
	wait_in(AT_WARP); // all lanes have given
	uint32_t other = exchanged[warp][lane ^ mask];
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
	}
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
		if (!release(0, blockDim.x, AT_BARRIER, &moved)) return;
		if (!moved) {
			fprintf(stderr, "emulated kernel: threads of block %u, %u wait in different places\n", blockIdx.x, blockIdx.y);
			exit(70);
		}
	}
}

static void run_grid(void (*body)(const void *), const void *args, index3 grid, unsigned threads) {
	kernel_body = body;
	kernel_args = args;
	gridDim = grid;
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
static inline float lane_xor(float v, int mask) { return as_float(exchange(as_bits(v), mask)); }
static inline int lane_xor(int v, int mask) { return (int)exchange((uint32_t)v, mask); }
static inline void warp_fence() { wait_in(AT_WARP); }
static inline void system_fence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void store_release(unsigned *at, unsigned v) { __atomic_store_n(at, v, __ATOMIC_RELEASE); }
static inline int min(int a, int b) { return a < b ? a : b; }
