#include "program.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	STREAM_NON_BLOCKING = 1,
	HOST_PORTABLE_MAPPED = 1 | 2,
	NOT_READY = 600,
	REAL_32F = 0,
	REAL_16BF = 14,
	COMPUTE_32F = 68,
	DESC_TRANSA = 3,
	DESC_EPILOGUE = 7,
	DESC_BIAS_POINTER = 8,
	EPILOGUE_BIAS = 4,
	OPERATION_T = 1,
	PREFERENCE_WORKSPACE = 1,
	CAPTURE_RELAXED = 2,
	PROGRAMMATIC_SERIALIZATION = 6,
	BLOCK_SHARED = 97,
	FUNCTION_SHARED = 1,
	DYNAMIC_SHARED = 8,
	SHARED_CARVEOUT = 9,
	TENSOR_BFLOAT16 = 9,
	SWIZZLE_128 = 3,
	PROMOTE_TO_256 = 3,
	JIT_ERROR_LOG = 5,
	JIT_ERROR_LOG_SIZE = 6,
};

failure open_machine(machine *m, int ordinal) {
	DRIVER_CALL(cuInit, 0);
	DRIVER_CALL(cuDeviceGet, &m->device, ordinal);
	DRIVER_CALL(cuDevicePrimaryCtxRetain, &m->context, m->device);
	DRIVER_CALL(cuCtxSetCurrent, m->context);
	DRIVER_CALL(cuStreamCreate, &m->stream, STREAM_NON_BLOCKING);
	BLAS_CALL(cublasLtCreate, &m->handle);
	DRIVER_CALL(cuMemAlloc, &m->workspace, m->workspace_size);
	return no_failure;
}

failure close_machine(machine *m) {
	if (!m->context) return no_failure;
	ENTER;
	for (int i = 0; i < m->plan_count; i++) {
		gemm_plan *p = &m->plans[i];
		blas.cublasLtMatmulDescDestroy(p->desc);
		blas.cublasLtMatrixLayoutDestroy(p->weights);
		blas.cublasLtMatrixLayoutDestroy(p->in);
		blas.cublasLtMatrixLayoutDestroy(p->out);
	}
	free(m->plans);
	m->plans = 0;
	m->plan_count = 0;
	if (m->workspace) DRIVER_CALL(cuMemFree, m->workspace);
	if (m->handle) BLAS_CALL(cublasLtDestroy, m->handle);
	if (m->stream) DRIVER_CALL(cuStreamDestroy, m->stream);
	m->context = 0;
	DRIVER_CALL(cuDevicePrimaryCtxRelease, m->device);
	return no_failure;
}

failure allocate(machine *m, device_ptr *p, size_t bytes) {
	ENTER;
	DRIVER_CALL(cuMemAlloc, p, bytes);
	return no_failure;
}

failure release(machine *m, device_ptr p) {
	ENTER;
	DRIVER_CALL(cuMemFree, p);
	return no_failure;
}

failure allocate_host(machine *m, void **p, device_ptr *d, size_t bytes) {
	ENTER;
	DRIVER_CALL(cuMemHostAlloc, p, bytes, HOST_PORTABLE_MAPPED);
	DRIVER_CALL(cuMemHostGetDevicePointer, d, *p, 0);
	memset(*p, 0, bytes);
	return no_failure;
}

failure release_host(machine *m, void *p) {
	ENTER;
	DRIVER_CALL(cuMemFreeHost, p);
	return no_failure;
}

failure copy_in_async(machine *m, device_ptr to, const void *from, size_t bytes) {
	ENTER;
	DRIVER_CALL(cuMemcpyHtoDAsync, to, from, bytes, m->stream);
	return no_failure;
}

failure copy_in(machine *m, device_ptr to, const void *from, size_t bytes) {
	ENTER;
	DRIVER_CALL(cuMemcpyHtoDAsync, to, from, bytes, m->stream);
	return synchronize(m);
}

failure copy_out(machine *m, void *to, device_ptr from, size_t bytes) {
	ENTER;
	DRIVER_CALL(cuMemcpyDtoHAsync, to, from, bytes, m->stream);
	return synchronize(m);
}

failure fill(machine *m, device_ptr to, unsigned char value, size_t bytes) {
	ENTER;
	DRIVER_CALL(cuMemsetD8Async, to, value, bytes, m->stream);
	return synchronize(m);
}

failure synchronize(machine *m) {
	ENTER;
	DRIVER_CALL(cuStreamSynchronize, m->stream);
	return no_failure;
}

failure compile(const char *source, const char *name, const char **options, int count, char **image, size_t *size, char **log) {
	void *program = 0;
	int code = nvrtc.nvrtcCreateProgram(&program, source, name, 0, 0, 0);
	if (code) return nvrtc_failed("nvrtcCreateProgram", code);
	code = nvrtc.nvrtcCompileProgram(program, count, options);
	size_t length = 0;
	if (!nvrtc.nvrtcGetProgramLogSize(program, &length) && length > 1 && (*log = calloc(1, length + 1))) nvrtc.nvrtcGetProgramLog(program, *log);
	const char *call = "nvrtcCompileProgram";
	if (!code && (code = nvrtc.nvrtcGetCUBINSize(program, size))) call = "nvrtcGetCUBINSize";
	if (!code) {
		*image = malloc(*size);
		code = *image ? nvrtc.nvrtcGetCUBIN(program, *image) : -1;
		call = "nvrtcGetCUBIN";
	}
	nvrtc.nvrtcDestroyProgram(&program);
	return code ? nvrtc_failed(call, code) : no_failure;
}

failure load_module(machine *m, void **module, const void *image, char *log, size_t size) {
	ENTER;
	int options[] = {JIT_ERROR_LOG, JIT_ERROR_LOG_SIZE};
	void *values[] = {log, (void *)size};
	DRIVER_CALL(cuModuleLoadDataEx, module, image, 2, options, values);
	return no_failure;
}

failure find_function(machine *m, void **function, void *module, const char *name) {
	ENTER;
	int most, own;
	DRIVER_CALL(cuModuleGetFunction, function, module, name);
	DRIVER_CALL(cuDeviceGetAttribute, &most, BLOCK_SHARED, m->device);
	DRIVER_CALL(cuFuncGetAttribute, &own, FUNCTION_SHARED, *function);
	DRIVER_CALL(cuFuncSetAttribute, *function, DYNAMIC_SHARED, most - own);
	/* Kernels that overlap need one split between cache and shared memory. */
	DRIVER_CALL(cuFuncSetAttribute, *function, SHARED_CARVEOUT, 100);
	return no_failure;
}

failure encode_tensor(machine *m, char *map, unsigned rank, device_ptr base, const uint64_t *sizes, const uint64_t *strides, const uint32_t *box) {
	ENTER;
	static const uint32_t steps[5] = {1, 1, 1, 1, 1};
	tensor_map aligned; /* as the driver wants it */
	DRIVER_CALL(cuTensorMapEncodeTiled, &aligned, TENSOR_BFLOAT16, rank, base, sizes, strides, box, steps, 0, SWIZZLE_128, PROMOTE_TO_256, 0);
	memcpy(map, aligned.bytes, sizeof aligned.bytes);
	return no_failure;
}

failure ask_algorithms(machine *m, const gemm_plan *p, blas_result *results, int most, int *found) {
	void *preference = 0;
	BLAS_CALL(cublasLtMatmulPreferenceCreate, &preference);
	int code = blas.cublasLtMatmulPreferenceSetAttribute(preference, PREFERENCE_WORKSPACE, &m->workspace_size, sizeof m->workspace_size);
	if (!code) code = blas.cublasLtMatmulAlgoGetHeuristic(m->handle, p->desc, p->weights, p->in, p->out, p->out, preference, most, results, found);
	blas.cublasLtMatmulPreferenceDestroy(preference);
	return code ? blas_failed("cublasLtMatmulAlgoGetHeuristic", code) : no_failure;
}

failure plan_gemm(machine *m, uint64_t tokens, uint64_t n, uint64_t k, int out_type, device_ptr bias, int *plan) {
	ENTER;
	gemm_plan p = {0};
	int transpose = OPERATION_T, epilogue = EPILOGUE_BIAS, found = 0;
	BLAS_CALL(cublasLtMatmulDescCreate, &p.desc, COMPUTE_32F, REAL_32F);
	BLAS_CALL(cublasLtMatmulDescSetAttribute, p.desc, DESC_TRANSA, &transpose, sizeof transpose);
	if (bias) {
		BLAS_CALL(cublasLtMatmulDescSetAttribute, p.desc, DESC_EPILOGUE, &epilogue, sizeof epilogue);
		BLAS_CALL(cublasLtMatmulDescSetAttribute, p.desc, DESC_BIAS_POINTER, &bias, sizeof bias);
	}
	BLAS_CALL(cublasLtMatrixLayoutCreate, &p.weights, REAL_16BF, k, n, k);
	BLAS_CALL(cublasLtMatrixLayoutCreate, &p.in, REAL_16BF, k, tokens, k);
	BLAS_CALL(cublasLtMatrixLayoutCreate, &p.out, out_type, n, tokens, n);
	blas_result result;
	failure f = ask_algorithms(m, &p, &result, 1, &found);
	if (f.call) return f;
	if (!found) return blas_failed("cublasLtMatmulAlgoGetHeuristic", 15 /* not supported */);
	p.algo = result.algo;
	p.workspace = result.workspace;
	gemm_plan *plans = realloc(m->plans, (m->plan_count + 1) * sizeof *plans);
	if (!plans) return blas_failed("realloc", 3);
	m->plans = plans;
	m->plans[m->plan_count] = p;
	*plan = m->plan_count++;
	return no_failure;
}

/* Puts commands on the stream. */
static failure launch(machine *m, const command *commands, int count, int *at, int synchronous) {
	static const float one = 1, zero = 0;
	for (int i = 0; i < count; i++) {
		const command *c = &commands[i];
		*at = i;
		if (c->kind == GRAPH) {
			DRIVER_CALL(cuGraphLaunch, c->function, m->stream);
		} else if (c->kind == KERNEL) {
			void *params[] = {(void *)c->args};
			launch_attribute attributes[2];
			unsigned count = 0;
			if (c->early) attributes[count++] = (launch_attribute){.id = PROGRAMMATIC_SERIALIZATION, .value.flag = 1};
			if (c->cluster > 1) attributes[count++] = (launch_attribute){.id = CLUSTER_DIMENSION, .value.size = {c->cluster, 1, 1}};
			launch_config config = {{c->grid[0], c->grid[1], c->grid[2]}, {c->block, 1, 1}, c->shared, m->stream, attributes, count};
			DRIVER_CALL(cuLaunchKernelEx, &config, c->function, params, 0);
		} else {
			const gemm_plan *p = &m->plans[c->plan];
			BLAS_CALL(cublasLtMatmul, m->handle, p->desc, &one, c->weights, p->weights, c->in, p->in, &zero, c->out, p->out, c->out, p->out, &p->algo, m->workspace,
				m->workspace_size, m->stream);
		}
		if (synchronous) DRIVER_CALL(cuStreamSynchronize, m->stream);
	}
	return no_failure;
}

failure run(machine *m, const command *commands, int count, int *at) {
	ENTER;
	return launch(m, commands, count, at, m->synchronous);
}

failure capture(machine *m, const command *commands, int count, int *at, void **graph) {
	ENTER;
	/* Only this thread uses the context, and the library of products may load its kernels while it is captured. */
	DRIVER_CALL(cuStreamBeginCapture, m->stream, CAPTURE_RELAXED);
	failure f = launch(m, commands, count, at, 0);
	void *captured = 0;
	int code = cuda.cuStreamEndCapture(m->stream, &captured);
	if (f.call) {
		if (captured) cuda.cuGraphDestroy(captured);
		return f;
	}
	if (code) return driver_failed("cuStreamEndCapture", code);
	code = cuda.cuGraphInstantiateWithFlags(graph, captured, 0);
	cuda.cuGraphDestroy(captured);
	if (code) return driver_failed("cuGraphInstantiateWithFlags", code);
	DRIVER_CALL(cuGraphUpload, *graph, m->stream);
	return no_failure;
}

failure release_graph(machine *m, void *graph) {
	ENTER;
	DRIVER_CALL(cuGraphExecDestroy, graph);
	return no_failure;
}

static int64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

failure await(machine *m, const volatile uint32_t *flag, uint32_t value, int64_t deadline, const volatile uint32_t *stop, int64_t *arrival, int *outcome) {
	ENTER;
	int64_t begin = now();
	for (unsigned turn = 1;; turn++) {
		if ((int32_t)(__atomic_load_n(flag, __ATOMIC_ACQUIRE) - value) >= 0) {
			*arrival = now();
			*outcome = 0;
			return no_failure;
		}
		if (turn % 4096) continue;
		/* Once in a while: a failed launch, the caller's wish and the deadline. */
		int code = cuda.cuStreamQuery(m->stream);
		if (code && code != NOT_READY) return driver_failed("cuStreamQuery", code);
		*outcome = *stop ? 2 : now() - begin > deadline ? 1 : 0;
		if (*outcome) return no_failure;
	}
}

failure device_failed(machine *m) {
	ENTER;
	int code = cuda.cuStreamQuery(m->stream);
	return code && code != NOT_READY ? driver_failed("cuStreamQuery", code) : no_failure;
}

failure describe_device(int ordinal, int *count, char *name, int size, device_uuid *uuid, int attributes[4], size_t *total) {
	static const int wanted[4] = {75 /* compute capability, major */, 76 /* minor */, 16 /* multiprocessors */, 38 /* L2 bytes */};
	int device;
	DRIVER_CALL(cuInit, 0);
	DRIVER_CALL(cuDeviceGetCount, count);
	if (ordinal >= *count) return no_failure;
	DRIVER_CALL(cuDeviceGet, &device, ordinal);
	DRIVER_CALL(cuDeviceGetName, name, size, device);
	DRIVER_CALL(cuDeviceGetUuid, uuid, device);
	for (int i = 0; i < 4; i++) DRIVER_CALL(cuDeviceGetAttribute, &attributes[i], wanted[i], device);
	DRIVER_CALL(cuDeviceTotalMem, total, device);
	return no_failure;
}

failure device_memory(int ordinal, size_t *free_bytes, size_t *total) {
	int device;
	void *context;
	DRIVER_CALL(cuInit, 0);
	DRIVER_CALL(cuDeviceGet, &device, ordinal);
	DRIVER_CALL(cuDevicePrimaryCtxRetain, &context, device);
	DRIVER_CALL(cuCtxSetCurrent, context);
	DRIVER_CALL(cuMemGetInfo, free_bytes, total);
	DRIVER_CALL(cuDevicePrimaryCtxRelease, device);
	return no_failure;
}

failure memory_info(machine *m, size_t *free_bytes, size_t *total) {
	ENTER;
	DRIVER_CALL(cuMemGetInfo, free_bytes, total);
	return no_failure;
}

int64_t monotonic(void) { return now(); }
