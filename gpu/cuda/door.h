/* The door to the CUDA libraries: tables of functions that are filled when a library is opened at run time. The declarations are this project's
 * own; only functions and values that the engine uses are here. */
#ifndef FPM_DOOR_H
#define FPM_DOOR_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t device_ptr;
typedef struct {
	char bytes[16];
} device_uuid;
typedef struct {
	_Alignas(64) char bytes[128];
} tensor_map;
typedef struct {
	uint64_t data[8];
} blas_algo;
typedef struct {
	blas_algo algo;
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
} blas_result;

typedef struct {
	int id, pad;
	union {
		int flag;
		unsigned size[3];
		char bytes[64];
	} value;
} launch_attribute;
enum { CLUSTER_DIMENSION = 4 }; /* its id where size is that of the clusters that blocks form */
typedef struct {
	unsigned grid[3], block[3], shared;
	void *stream;
	launch_attribute *attributes;
	unsigned count;
} launch_config;

/* Driver functions: name, the CUDA version whose interface is declared (1000 major + 10 minor), parameters. */
#define DRIVER(X) \
	X(cuInit, 2000, (unsigned flags)) \
	X(cuDriverGetVersion, 2020, (int *version)) \
	X(cuGetErrorName, 6000, (int code, const char **text)) \
	X(cuGetErrorString, 6000, (int code, const char **text)) \
	X(cuDeviceGetCount, 2000, (int *count)) \
	X(cuDeviceGet, 2000, (int *device, int ordinal)) \
	X(cuDeviceGetName, 2000, (char *name, int size, int device)) \
	X(cuDeviceGetUuid, 11040, (device_uuid * uuid, int device)) \
	X(cuDeviceGetAttribute, 2000, (int *value, int attribute, int device)) \
	X(cuDeviceTotalMem, 3020, (size_t *bytes, int device)) \
	X(cuDevicePrimaryCtxRetain, 7000, (void **context, int device)) \
	X(cuDevicePrimaryCtxRelease, 11000, (int device)) \
	X(cuCtxSetCurrent, 4000, (void *context)) \
	X(cuMemGetInfo, 3020, (size_t *free, size_t *total)) \
	X(cuMemAlloc, 3020, (device_ptr * p, size_t bytes)) \
	X(cuMemFree, 3020, (device_ptr p)) \
	X(cuMemHostAlloc, 2020, (void **p, size_t bytes, unsigned flags)) \
	X(cuMemFreeHost, 2000, (void *p)) \
	X(cuMemHostGetDevicePointer, 3020, (device_ptr * d, void *p, unsigned flags)) \
	X(cuMemcpyHtoDAsync, 3020, (device_ptr to, const void *from, size_t bytes, void *stream)) \
	X(cuMemcpyDtoHAsync, 3020, (void *to, device_ptr from, size_t bytes, void *stream)) \
	X(cuMemsetD8Async, 3020, (device_ptr to, unsigned char value, size_t bytes, void *stream)) \
	X(cuStreamCreate, 2000, (void **stream, unsigned flags)) \
	X(cuStreamDestroy, 4000, (void *stream)) \
	X(cuStreamSynchronize, 2000, (void *stream)) \
	X(cuStreamQuery, 2000, (void *stream)) \
	X(cuEventCreate, 2000, (void **event, unsigned flags)) \
	X(cuEventDestroy, 4000, (void *event)) \
	X(cuEventRecord, 2000, (void *event, void *stream)) \
	X(cuEventSynchronize, 2000, (void *event)) \
	X(cuEventElapsedTime, 2000, (float *milliseconds, void *from, void *to)) \
	X(cuModuleLoadDataEx, 2010, (void **module, const void *image, unsigned n, int *options, void **values)) \
	X(cuModuleUnload, 2000, (void *module)) \
	X(cuModuleGetFunction, 2000, (void **function, void *module, const char *name)) \
	X(cuFuncGetAttribute, 2020, (int *value, int attribute, void *function)) \
	X(cuStreamBeginCapture, 10010, (void *stream, int mode)) \
	X(cuStreamEndCapture, 10000, (void *stream, void **graph)) \
	X(cuGraphInstantiateWithFlags, 11040, (void **exec, void *graph, unsigned long long flags)) \
	X(cuGraphUpload, 11010, (void *exec, void *stream)) \
	X(cuGraphLaunch, 10000, (void *exec, void *stream)) \
	X(cuGraphDestroy, 10000, (void *graph)) \
	X(cuGraphExecDestroy, 10000, (void *exec)) \
	X(cuTensorMapEncodeTiled, 12000, (tensor_map * map, int type, unsigned rank, device_ptr base, const uint64_t *sizes, const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill)) \
	X(cuFuncSetAttribute, 9000, (void *function, int attribute, int value)) \
	X(cuOccupancyMaxActiveClusters, 12000, (int *clusters, void *function, const launch_config *config)) \
	X(cuLaunchKernelEx, 11060, (const launch_config *config, void *function, void **params, void **extra))

#define BLAS(X) \
	X(cublasLtCreate, (void **handle)) \
	X(cublasLtDestroy, (void *handle)) \
	X(cublasLtMatmulDescCreate, (void **desc, int compute, int scale)) \
	X(cublasLtMatmulDescDestroy, (void *desc)) \
	X(cublasLtMatmulDescSetAttribute, (void *desc, int attribute, const void *value, size_t size)) \
	X(cublasLtMatrixLayoutCreate, (void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld)) \
	X(cublasLtMatrixLayoutDestroy, (void *layout)) \
	X(cublasLtMatmulPreferenceCreate, (void **pref)) \
	X(cublasLtMatmulPreferenceDestroy, (void *pref)) \
	X(cublasLtMatmulPreferenceSetAttribute, (void *pref, int attribute, const void *value, size_t size)) \
	X(cublasLtMatmulAlgoGetHeuristic, (void *handle, void *desc, void *a, void *b, void *c, void *d, void *pref, int count, blas_result *results, int *found)) \
	X(cublasLtMatmul, (void *handle, void *desc, const void *alpha, device_ptr a, void *al, device_ptr b, void *bl, const void *beta, device_ptr c, void *cl, device_ptr d, void *dl, const blas_algo *algo, device_ptr workspace, size_t size, void *stream))

#define NVRTC(X) \
	X(nvrtcVersion, (int *major, int *minor)) \
	X(nvrtcCreateProgram, (void **program, const char *source, const char *name, int headers, const char **texts, const char **names)) \
	X(nvrtcDestroyProgram, (void **program)) \
	X(nvrtcCompileProgram, (void *program, int options, const char **texts)) \
	X(nvrtcGetProgramLogSize, (void *program, size_t *size)) \
	X(nvrtcGetProgramLog, (void *program, char *log)) \
	X(nvrtcGetCUBINSize, (void *program, size_t *size)) \
	X(nvrtcGetCUBIN, (void *program, char *image))

#define SLOT3(name, version, params) int(*name) params;
#define SLOT2(name, params) int(*name) params;
extern struct driver_table {
	DRIVER(SLOT3)
} cuda;
extern struct blas_table {
	BLAS(SLOT2)
	size_t (*cublasLtGetVersion)(void);
	const char *(*cublasLtGetStatusName)(int);
} blas;
extern struct nvrtc_table {
	NVRTC(SLOT2)
	const char *(*nvrtcGetErrorString)(int);
} nvrtc;

/* What went wrong: nothing when call is null. */
typedef struct {
	const char *call; /* the function, or the library that could not be opened */
	int code;
	char text[512]; /* the library's own words */
} failure;

/* Open a library by its file name or path. where gets the path that it was found at. */
failure open_driver(const char *file);
failure open_blas(const char *file, char *where, size_t size);
failure open_nvrtc(const char *file, char *where, size_t size);

/* Versions, of libraries that are open. */
int driver_version(int *version);
size_t blas_version(void);
int nvrtc_version(int *major, int *minor);

/* failed describes a status of one of the libraries. */
failure driver_failed(const char *call, int code);
failure blas_failed(const char *call, int code);
failure nvrtc_failed(const char *call, int code);

#define DRIVER_CALL(name, ...) \
	do { \
		int code_ = cuda.name(__VA_ARGS__); \
		if (code_) return driver_failed(#name, code_); \
	} while (0)
#define BLAS_CALL(name, ...) \
	do { \
		int code_ = blas.name(__VA_ARGS__); \
		if (code_) return blas_failed(#name, code_); \
	} while (0)

static const failure no_failure = {0};

#endif
