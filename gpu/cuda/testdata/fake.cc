/* A driver, a cuBLASLt and an NVRTC in one library, without a GPU: memory is the host's, kernels are emulated, products are computed one value after the other. What real ones punish
 * ends the process: a call on a thread without the context, memory that is freed twice or not at all. FAKE_WITHOUT names a function that is missing,
 * FAKE_FAIL one that fails in a step, FAKE_LIMIT bytes of device memory, FAKE_SPILLS a kernel that has local memory. */
#include "emulate.h"

#include <time.h>

#include <functional>
#include <string>
#include <vector>

#include "hopper.h"

#include "../../kernels/base.h"

#include "../../kernels/hopper.h"

#include "../../kernels/layer.cu"

#include "../../kernels/linear.cu"

#include "../../kernels/chain.cu"

#include "../../kernels/chain_cluster.cu"

#include "../../kernels/attention.cu"

#include "../../kernels/attention_tensor.cu"

#include "../../kernels/attention_few.cu"

#include "../../kernels/attention_wide.cu"

#include "../../kernels/attention_hopper.cu"

#include "../../kernels/attention_generic.cu"

#include "../../kernels/sample.cu"

#include "../../kernels/random.cu"

#include "../../kernels/roofline.cu"

#include "../../kernels/progress.cu"

extern "C" {

static const struct {
	const char *name;
	void (*body)(const void *args);
	bool together; // its blocks may wait for each other
} emulated[] = {
#define KERNEL(name) {#name, [](const void *args) { name(*(const name##_args *)args); }}
	KERNEL(embed), KERNEL(keys), KERNEL(gate), KERNEL(attention), KERNEL(argmax), KERNEL(publish), KERNEL(finite), KERNEL(weights), KERNEL(pool), KERNEL(sweep), KERNEL(mark),
	{"rms_norm", [](const void *args) { rms_norm(*(const norm_args *)args); }},
#if HEAD_SIZE == 64 || HEAD_SIZE == 128
	{"attention_few", [](const void *args) { attention_few(*(const attention_args *)args); }},
	{"attention_wide", [](const void *args) { attention_wide(*(const attention_args *)args); }},
	KERNEL(attention_hopper),
#endif
	{"chain_8", [](const void *args) { chain_8(*(const chain_args *)args); }, true},
	{"chain_16", [](const void *args) { chain_16(*(const chain_args *)args); }, true},
	{"chain_held_8", [](const void *args) { chain_held_8(*(const chain_args *)args); }, true},
	{"chain_held_16", [](const void *args) { chain_held_16(*(const chain_args *)args); }, true},
	{"chain_cluster_16", [](const void *args) { chain_cluster_16(*(const chain_cluster_args *)args); }, true},
	{"chain_cluster_32", [](const void *args) { chain_cluster_32(*(const chain_cluster_args *)args); }, true},
	{"chain_cluster_64", [](const void *args) { chain_cluster_64(*(const chain_cluster_args *)args); }, true},
};

#define MULTIPROCESSORS 6
#define CLUSTERED 12 // blocks of a grid of clusters, at most

static __thread void *current;
static int contexts, allocations, hosts, launches, graphs, events;
typedef std::vector<std::function<int()>> graph;
static graph *capturing; // what is launched goes there
static size_t taken;

static int die(const char *why) {
	fprintf(stderr, "fake driver: %s\n", why);
	exit(70);
}
static int fails(const char *name) {
	const char *which = getenv("FAKE_FAIL");
	return which && !strcmp(which, name) && launches > 0;
}
static int faulted; // a kernel read where nothing is: from then on every call in the context fails
#define ON_CONTEXT \
	if (!current) die(__func__); \
	if (faulted) return 700

int cuInit(unsigned f) { return f ? 1 : 0; }
int cuDriverGetVersion(int *v) { return *v = 13000, 0; }
int cuGetErrorName(int code, const char **s) { return *s = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_FAKE", 0; }
int cuGetErrorString(int code, const char **s) { return *s = code ? "made up" : "none", 0; }
int cuDeviceGetCount(int *n) { return *n = 1, 0; }
int cuDeviceGet(int *d, int i) { return *d = 7, i != 0; }
int cuDeviceGetName(char *s, int n, int d) { return snprintf(s, n, "Fake"), d != 7; }
int cuDeviceGetUuid(char *u, int d) { return memset(u, 0xab, 16), d != 7; }
int cuDeviceGetAttribute(int *v, int a, int d) { return *v = a == 75 ? 9 : a == 76 ? 0 : a == 97 ? 232448 : MULTIPROCESSORS, d != 7; }
int cuDeviceTotalMem(size_t *n, int d) { return *n = 1u << 30, d != 7; }
int cuDevicePrimaryCtxRetain(void **c, int d) { return contexts++, *c = &contexts, d != 7; }
int cuDevicePrimaryCtxRelease(int d) {
	if (--contexts == 0 && (allocations || hosts || graphs || events)) die("memory was not freed");
	return d != 7;
}
int cuCtxSetCurrent(void *c) { return current = c, 0; }
int cuMemGetInfo(size_t *f, size_t *t) { ON_CONTEXT; return *f = 900u << 20, *t = 1u << 30, 0; }
int cuMemAlloc(uint64_t *p, size_t n) {
	ON_CONTEXT;
	const char *limit = getenv("FAKE_LIMIT");
	if (limit && (taken += n) > strtoull(limit, 0, 10)) return 2;
	void *m = 0;
	if (posix_memalign(&m, 256, n)) return 2;
	memset(m, 0xff, n);
	allocations++;
	*p = (uint64_t)m;
	return 0;
}
int cuMemFree(uint64_t p) { ON_CONTEXT; return free((void *)p), allocations--, 0; }
int cuMemHostAlloc(void **p, size_t n, unsigned f) { ON_CONTEXT; return hosts++, *p = calloc(1, n), f != 3; }
int cuMemFreeHost(void *p) { ON_CONTEXT; return free(p), hosts--, 0; }
int cuMemHostGetDevicePointer(uint64_t *d, void *p, unsigned f) { return *d = (uint64_t)p, f != 0; }
int cuMemcpyHtoDAsync(uint64_t d, const void *s, size_t n, void *st) { ON_CONTEXT; if (capturing) die("a copy is captured"); return memcpy((void *)d, s, n), st == 0; }
int cuMemcpyDtoHAsync(void *d, uint64_t s, size_t n, void *st) { ON_CONTEXT; return memcpy(d, (void *)s, n), st == 0; }
int cuMemsetD8Async(uint64_t d, unsigned char v, size_t n, void *st) { ON_CONTEXT; return memset((void *)d, v, n), st == 0; }
int cuStreamCreate(void **s, unsigned f) { ON_CONTEXT; return *s = &allocations, f != 1; }
int cuStreamDestroy(void *s) { ON_CONTEXT; return s == 0; }
int cuStreamSynchronize(void *s) { ON_CONTEXT; return capturing ? 900 : s == 0; }
int cuStreamBeginCapture(void *s, int mode) { ON_CONTEXT; return capturing = new graph, !s || mode != 2; }
int cuStreamEndCapture(void *s, void **g) { ON_CONTEXT; return *g = capturing, capturing = 0, graphs++, fails("cuStreamEndCapture") ? 901 : !s; }
int cuGraphInstantiateWithFlags(void **e, void *g, unsigned long long f) { ON_CONTEXT; return *e = new graph(*(graph *)g), graphs++, f != 0; }
int cuGraphUpload(void *e, void *s) { ON_CONTEXT; return !e || !s; }
int cuGraphDestroy(void *g) { ON_CONTEXT; return delete (graph *)g, graphs--, 0; }
int cuGraphExecDestroy(void *e) { ON_CONTEXT; return delete (graph *)e, graphs--, 0; }
int cuGraphLaunch(void *e, void *s) {
	ON_CONTEXT;
	if (!s || capturing) return 1;
	for (auto &node : *(graph *)e)
		if (int code = node()) return code;
	return 0;
}
int cuStreamQuery(void *s) { ON_CONTEXT; return s == 0 ? 1 : fails("cuStreamQuery") ? 700 : 600; }
static double clock_ms() {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}
int cuEventCreate(void **e, unsigned f) { ON_CONTEXT; return *e = new double(0), events++, f != 0; }
int cuEventDestroy(void *e) { ON_CONTEXT; return delete (double *)e, events--, 0; }
int cuEventRecord(void *e, void *s) { ON_CONTEXT; return *(double *)e = clock_ms(), !s || capturing; }
int cuEventSynchronize(void *e) { ON_CONTEXT; return *(double *)e == 0; }
int cuEventElapsedTime(float *ms, void *from, void *to) { ON_CONTEXT; return *ms = *(double *)to - *(double *)from, !*(double *)from; }
int cuModuleLoadDataEx(void **m, const void *i, unsigned n, int *o, void **v) { ON_CONTEXT; return *m = (void *)i, !n || !o || !v || memcmp(i, "image", 5); }
int cuModuleUnload(void *m) { return m == 0; }
int cuModuleGetFunction(void **f, void *m, const char *name) { ON_CONTEXT; return *f = strdup(name), m == 0; }
int cuFuncSetAttribute(void *f, int a, int v) { ON_CONTEXT; return !f || (a != 8 && a != 9) || !v; }
/* What the driver's documentation asks of a tensor, where this engine could miss it. */
int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, uint64_t base, const uint64_t *sizes, const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill) {
	if ((uint64_t)map % 64 || type != 9 || rank < 2 || rank > 5 || base % 16 || interleave || swizzle != 3 || promotion < 0 || promotion > 3 || fill || box[0] * 2 > 128 || box[0] % 8) return 1;
	fake_tensor t = {TENSOR_MAGIC, base};
	t.rank = rank;
	for (unsigned d = 0; d < rank; d++) {
		if (!sizes[d] || sizes[d] > 1ull << 32 || !box[d] || box[d] > 256 || steps[d] != 1 || (d && (strides[d - 1] % 16 || strides[d - 1] >= 1ull << 40))) return 1;
		t.sizes[d] = sizes[d], t.box[d] = box[d];
		if (d) t.strides[d - 1] = strides[d - 1];
	}
	memcpy(map, &t, sizeof t);
	return 0;
}
int cuFuncGetAttribute(int *v, int a, void *f) {
	const char *spills = getenv("FAKE_SPILLS");
	*v = a == 3 ? (spills && f && !strcmp((char *)f, spills) ? 8 : 0) : a == 4 ? 40 : 0; /* bytes of local memory; registers; bytes of shared memory */
	return !a || !f;
}
#define ARGS_SIZE 2048
struct launch_attribute {
	int id, pad;
	unsigned value[16];
};
struct launch_config {
	unsigned grid[3], block[3], shared;
	void *stream;
	const launch_attribute *attributes;
	unsigned count;
};
int cuLaunchKernelEx(const launch_config *c, void *f, void **params, void **x) {
	ON_CONTEXT;
	if (!c->grid[0] || !c->grid[1] || !c->grid[2] || c->grid[1] > 65535 || c->grid[2] > 65535 || c->block[0] < 1 || c->block[0] > 1024 || c->block[1] != 1 || c->block[2] != 1 ||
		c->shared > SHARED_SIZE || !c->stream || !params || x || c->count > 2) return 1;
	unsigned cluster = 1;
	for (unsigned i = 0; i < c->count; i++) {
		const unsigned *v = c->attributes[i].value;
		if (c->attributes[i].id == 4 && v[0] > 0 && v[0] <= 8 && v[1] == 1 && v[2] == 1) cluster = v[0];
		else if (c->attributes[i].id != 6 || v[0] != 1) return 1;
	}
	if (c->grid[0] % cluster) return 1;
	if (capturing) { // arguments are copied at the launch
		std::string args((char *)params[0], ARGS_SIZE);
		launch_config later = *c;
		std::vector<launch_attribute> attributes(c->attributes, c->attributes + c->count);
		capturing->push_back([=] {
			void *copies[] = {(void *)args.data()};
			launch_config now = later;
			now.attributes = attributes.data();
			return cuLaunchKernelEx(&now, f, copies, x);
		});
		return 0;
	}
	static int hangs;
	if (hangs) return 0;
	if (!strcmp((char *)f, "fault")) return faulted = 1, 0; /* a launch does not wait */
	if (!strcmp((char *)f, "publish")) {
		launches++;
		if (fails("cuLaunchKernelEx")) return 719;
		if (fails("publish")) return hangs = 1, 0; /* the device does nothing any more */
	}
	for (unsigned i = 0; i < sizeof emulated / sizeof *emulated; i++)
		if (!strcmp(emulated[i].name, (char *)f)) {
			if (emulated[i].together && c->grid[0] > (cluster > 1 ? CLUSTERED : MULTIPROCESSORS)) die("blocks that may wait for each other are more than the multiprocessors");
			if (cluster > 1 && !emulated[i].together) die("blocks of a cluster run at the same time");
			alignas(64) char args[ARGS_SIZE];
			memcpy(args, params[0], ARGS_SIZE);
			return run_grid(emulated[i].body, args, index3{c->grid[0], c->grid[1], c->grid[2]}, c->block[0], c->shared, emulated[i].together, cluster), 0;
		}
	return 500; /* not found */
}

int cuOccupancyMaxActiveClusters(int *n, void *f, const launch_config *c) { ON_CONTEXT; return *n = CLUSTERED / c->attributes->value[0], !f || c->count != 1 || c->attributes->id != 4; }

static const struct {
	const char *name;
	void *function;
} table[] = {
#define F(name) {#name, (void *)name}
	F(cuEventCreate), F(cuEventDestroy), F(cuEventRecord), F(cuEventSynchronize), F(cuEventElapsedTime),
	F(cuInit), F(cuDriverGetVersion), F(cuGetErrorName), F(cuGetErrorString), F(cuDeviceGetCount), F(cuDeviceGet), F(cuDeviceGetName), F(cuDeviceGetUuid),
	F(cuDeviceGetAttribute), F(cuDeviceTotalMem), F(cuDevicePrimaryCtxRetain), F(cuDevicePrimaryCtxRelease), F(cuCtxSetCurrent), F(cuMemGetInfo), F(cuMemAlloc),
	F(cuMemFree), F(cuMemHostAlloc), F(cuMemFreeHost), F(cuMemHostGetDevicePointer), F(cuMemcpyHtoDAsync), F(cuMemcpyDtoHAsync), F(cuMemsetD8Async), F(cuStreamCreate),
	F(cuStreamDestroy), F(cuTensorMapEncodeTiled), F(cuStreamSynchronize), F(cuStreamQuery), F(cuModuleLoadDataEx), F(cuModuleUnload), F(cuModuleGetFunction), F(cuFuncGetAttribute), F(cuFuncSetAttribute), F(cuLaunchKernelEx), F(cuOccupancyMaxActiveClusters),
	F(cuStreamBeginCapture), F(cuStreamEndCapture), F(cuGraphInstantiateWithFlags), F(cuGraphUpload), F(cuGraphLaunch), F(cuGraphDestroy), F(cuGraphExecDestroy),
};
int cuGetProcAddress_v2(const char *name, void **f, int version, uint64_t flags, int *status) {
	const char *without = getenv("FAKE_WITHOUT");
	*f = 0;
	if (version < 2000 || version > 13000 || flags || !status) return 1;
	if (without && !strcmp(without, name)) return 0;
	for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
		if (!strcmp(table[i].name, name)) *f = table[i].function;
	return 0;
}

int cublasLtCreate(void **h) { return *h = &launches, 0; }
int cublasLtDestroy(void *h) { return h == 0; }
struct blas_product {
	const bf16 *bias;
};
struct layout {
	int type;
	uint64_t rows, columns;
};
int cublasLtMatmulDescCreate(void **d, int c, int s) { return *d = calloc(1, sizeof(blas_product)), c != 68 || s != 0; }
int cublasLtMatmulDescDestroy(void *d) { return free(d), 0; }
int cublasLtMatmulDescSetAttribute(void *d, int a, const void *v, size_t n) {
	if (a == 8) memcpy(&((blas_product *)d)->bias, v, n);
	return !d || !a || !v || !n;
}
int cublasLtMatrixLayoutCreate(void **l, int t, uint64_t r, uint64_t c, int64_t ld) {
	layout *m = (layout *)malloc(sizeof *m);
	*m = layout{t, r, c};
	return *l = m, (t != 0 && t != 14) || !c || ld != (int64_t)r;
}
int cublasLtMatrixLayoutDestroy(void *l) { return free(l), 0; }
int cublasLtMatmulPreferenceCreate(void **p) { return *p = malloc(1), 0; }
int cublasLtMatmulPreferenceDestroy(void *p) { return free(p), 0; }
int cublasLtMatmulPreferenceSetAttribute(void *p, int a, const void *v, size_t n) { return !p || a != 1 || !v || n != 8; }
int cublasLtMatmulAlgoGetHeuristic(void *h, void *d, void *a, void *b, void *c, void *e, void *p, int n, void *r, int *found) {
	/* The number of the algorithm is its first word; the last one does not take any product, and one is marked so. */
	static const uint64_t numbers[] = {1, 2, 3, 99};
	*found = n < 4 ? n : 4;
	for (int i = 0; i < *found; i++) {
		memset((char *)r + 96 * i, 0, 96);
		memcpy((char *)r + 96 * i, &numbers[i], 8);
		if (i == 1) *(int *)((char *)r + 96 * i + 72) = 15;
	}
	return !h || !d || !a || !b || !c || !e || !p || n < 1;
}
int cublasLtMatmul(void *h, void *d, const void *al, uint64_t a, void *la, uint64_t b, void *lb, const void *be, uint64_t c, void *lc, uint64_t e, void *le, const void *g, uint64_t w, size_t n, void *s) {
	ON_CONTEXT;
	if (!h || !d || *(float *)al != 1 || *(float *)be != 0 || c != e || lc != le || !g || !w || !n || !s) return 7;
	uint64_t number = *(const uint64_t *)g;
	if (number == 99) return 15;
	if (number != 1 && number != 3) die("a product runs with an algorithm that was not offered for it");
	if (capturing) {
		const float *one = (float *)al, *zero = (float *)be;
		capturing->push_back([=] { return cublasLtMatmul(h, d, one, a, la, b, lb, zero, c, lc, e, le, g, w, n, s); });
		return 0;
	}
	const layout *weights = (layout *)la, *in = (layout *)lb, *out = (layout *)le;
	if (weights->rows != in->rows || out->rows != weights->columns || out->columns != in->columns) return 7;
	const bf16 *x = (bf16 *)b, *y = (bf16 *)a, *bias = ((blas_product *)d)->bias;
	for (uint64_t t = 0; t < out->columns; t++)
		for (uint64_t j = 0; j < out->rows; j++) {
			float sum = 0;
			for (uint64_t k = 0; k < in->rows; k++) sum += to_float(x[t * in->rows + k]) * to_float(y[j * in->rows + k]);
			if (bias) sum += to_float(bias[j]);
			if (out->type == 0) ((float *)e)[t * out->rows + j] = sum;
			else ((bf16 *)e)[t * out->rows + j] = to_bf16(sum);
		}
	return 0;
}
size_t cublasLtGetVersion(void) { return 130000; }
const char *cublasLtGetStatusName(int code) { return code ? "CUBLAS_STATUS_FAKE" : "CUBLAS_STATUS_SUCCESS"; }

int nvrtcVersion(int *a, int *b) { return *a = 13, *b = 0, 0; }
int nvrtcCreateProgram(void **p, const char *s, const char *n, int h, const char **t, const char **m) { return *p = malloc(1), !s || !n || h || t || m; }
int nvrtcDestroyProgram(void **p) { return free(*p), 0; }
int nvrtcCompileProgram(void *p, int n, const char **o) {
	const char *which = getenv("FAKE_FAIL");
	return which && !strcmp(which, "builtins") ? 7 : which && !strcmp(which, "source") ? 6 : !p || !n || !o;
}
int nvrtcGetProgramLogSize(void *p, size_t *n) { return *n = 20, !p; }
int nvrtcGetProgramLog(void *p, char *s) { return strcpy(s, "line 1: made up"), !p; }
int nvrtcGetCUBINSize(void *p, size_t *n) { return *n = 6, !p; }
int nvrtcGetCUBIN(void *p, char *s) { return memcpy(s, "image", 6), !p; }
const char *nvrtcGetErrorString(int code) { return code == 7 ? "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE" : "NVRTC_ERROR_COMPILATION"; }
}
