/* A step as plain data: an array of commands that one call runs on one stream. */
#ifndef FPM_PROGRAM_H
#define FPM_PROGRAM_H

#include "door.h"

#define ARGS_SIZE 2048

typedef enum { KERNEL = 1, GEMM = 2, GRAPH = 3 } command_kind;

/* A matrix product that cuBLASLt was asked about: row-major out(m, n) = in(m, k) weights(n, k) transposed, with a bias or none. The library counts in
 * columns, so it computes the transposed product: out(n, m) = weights(k, n) transposed times in(k, m). */
typedef struct {
	void *desc, *weights, *in, *out;
	blas_algo algo;
	size_t workspace;
} gemm_plan;

typedef struct {
	char name[24];
	command_kind kind;
	/* of a kernel; of a graph, the executable one */
	void *function;
	unsigned grid[3], block, shared;
	unsigned cluster; /* blocks that run at the same time, neighbours in x; 0 or 1: each by itself */
	int early; /* may start before the command before it has ended: it waits itself where it must */
	char args[ARGS_SIZE];
	/* of a matrix product */
	int plan;
	device_ptr weights, in, out;
} command;

typedef struct {
	void *context, *stream, *handle;
	int device;
	device_ptr workspace;
	size_t workspace_size;
	gemm_plan *plans;
	int plan_count;
	int synchronous; /* wait after each command, to find the one that fails */
} machine;

/* A context is current per thread and a goroutine moves between threads, so every entry makes it current: some 50 ns. */
#define ENTER DRIVER_CALL(cuCtxSetCurrent, m->context)

/* What the driver says of a device: compute capability, multiprocessors and L2 bytes are the attributes. */
failure describe_device(int ordinal, int *count, char *name, int size, device_uuid *uuid, int attributes[4], size_t *total);

failure device_memory(int ordinal, size_t *free_bytes, size_t *total);

failure open_machine(machine *m, int ordinal);
failure close_machine(machine *m);

failure allocate(machine *m, device_ptr *p, size_t bytes);
failure release(machine *m, device_ptr p);
failure allocate_host(machine *m, void **p, device_ptr *d, size_t bytes);
failure release_host(machine *m, void *p);
failure copy_in(machine *m, device_ptr to, const void *from, size_t bytes);
failure copy_in_async(machine *m, device_ptr to, const void *from, size_t bytes);
failure copy_out(machine *m, void *to, device_ptr from, size_t bytes);
failure fill(machine *m, device_ptr to, unsigned char value, size_t bytes);
failure synchronize(machine *m);
failure memory_info(machine *m, size_t *free_bytes, size_t *total);

/* CLOCK_MONOTONIC in nanoseconds. */
int64_t monotonic(void);

failure compile(const char *source, const char *name, const char **options, int count, char **image, size_t *size, char **log);
failure load_module(machine *m, void **module, const void *image, char *log, size_t size);
/* The function may use all shared memory that a block can have. */
failure find_function(machine *m, void **function, void *module, const char *name);

/* Describes a tensor of bfloat16 in device memory to the copy engine: sizes, strides in bytes of all dimensions but the first, and the box that one
 * copy brings, its first dimension in lines with the 128-byte swizzle (see matrix in hopper.h). What lies outside of the tensor reads as 0. */
failure encode_tensor(machine *m, char *map, unsigned rank, device_ptr base, const uint64_t *sizes, const uint64_t *strides, const uint32_t *box);

/* Asks cuBLASLt for the product's algorithm; type of out is 0 for float32 and 14 for bfloat16. */
failure plan_gemm(machine *m, uint64_t tokens, uint64_t n, uint64_t k, int out_type, device_ptr bias, int *plan);

/* Asks cuBLASLt for at most so many algorithms of a product, the one that it thinks best first. */
failure ask_algorithms(machine *m, const gemm_plan *p, blas_result *results, int most, int *found);

/* Runs commands; at is the one that failed. */
failure run(machine *m, const command *commands, int count, int *at);

/* Says whether anything that was launched has failed; does not wait. */
failure device_failed(machine *m);

/* Captures commands into a graph that one launch runs, and brings it to the device; at is the command that could not be captured. */
failure capture(machine *m, const command *commands, int count, int *at, void **graph);
failure release_graph(machine *m, void *graph);

/* Polls a word in host memory until it is at least value (in the order of serial numbers). arrival is CLOCK_MONOTONIC when it was seen, in
 * nanoseconds; outcome is 0 when it came, 1 when deadline nanoseconds passed, 2 when stop became non-zero. */
failure await(machine *m, const volatile uint32_t *flag, uint32_t value, int64_t deadline, const volatile uint32_t *stop, int64_t *arrival, int *outcome);

#endif
