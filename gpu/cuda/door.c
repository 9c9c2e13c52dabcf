#define _GNU_SOURCE
#include "door.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct driver_table cuda;
struct blas_table blas;
struct nvrtc_table nvrtc;

static failure refused(const char *call, int code, const char *text) {
	failure f = {call, code, ""};
	snprintf(f.text, sizeof f.text, "%s", text ? text : "");
	return f;
}

failure driver_failed(const char *call, int code) {
	const char *name = 0, *text = 0;
	if (cuda.cuGetErrorName) cuda.cuGetErrorName(code, &name);
	if (cuda.cuGetErrorString) cuda.cuGetErrorString(code, &text);
	failure f = {call, code, ""};
	snprintf(f.text, sizeof f.text, "%s: %s", name ? name : "unknown error", text ? text : "");
	return f;
}

failure blas_failed(const char *call, int code) {
	return refused(call, code, blas.cublasLtGetStatusName ? blas.cublasLtGetStatusName(code) : "");
}

failure nvrtc_failed(const char *call, int code) {
	return refused(call, code, nvrtc.nvrtcGetErrorString ? nvrtc.nvrtcGetErrorString(code) : "");
}

/* dlerror belongs to the thread, so it is read where the call was made. */
static failure unopened(void) { return refused("dlopen", -1, dlerror()); }

static void found_at(void *symbol, char *where, size_t size) {
	Dl_info info;
	if (where && dladdr(symbol, &info) && info.dli_fname) snprintf(where, size, "%s", info.dli_fname);
}

typedef int (*get_proc)(const char *name, void **function, int version, uint64_t flags, int *status);

failure open_driver(const char *file) {
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!library) return unopened();
	get_proc get;
	*(void **)&get = dlsym(library, "cuGetProcAddress_v2");
	if (!get) return refused("cuGetProcAddress_v2", -1, "the driver does not have it; CUDA 12.0 or later is needed");
	/* A driver older than the declared interface answers with an error of its own; a missing function with a null pointer. */
#define FETCH(name, version, params) \
	{ \
		void *function = 0; \
		int status = 0, code = get(#name, &function, version, 0, &status); \
		if (code || !function) return refused(#name, code, "the driver does not have this function; a newer driver is needed"); \
		*(void **)&cuda.name = function; \
	}
	DRIVER(FETCH)
	return no_failure;
}

#define TAKE(table, name) \
	{ \
		void *function = dlsym(library, #name); \
		if (!function) return refused(#name, -1, "the library does not have this function; a newer version is needed"); \
		*(void **)&table.name = function; \
	}

failure open_blas(const char *file, char *where, size_t size) {
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!library) return unopened();
#define TAKE_BLAS(name, params) TAKE(blas, name)
	BLAS(TAKE_BLAS)
	TAKE(blas, cublasLtGetVersion)
	TAKE(blas, cublasLtGetStatusName)
	found_at(*(void **)&blas.cublasLtCreate, where, size);
	return no_failure;
}

failure open_nvrtc(const char *file, char *where, size_t size) {
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!library) return unopened();
#define TAKE_NVRTC(name, params) TAKE(nvrtc, name)
	NVRTC(TAKE_NVRTC)
	TAKE(nvrtc, nvrtcGetErrorString)
	found_at(*(void **)&nvrtc.nvrtcVersion, where, size);
	return no_failure;
}

int driver_version(int *version) { return cuda.cuDriverGetVersion(version); }
size_t blas_version(void) { return blas.cublasLtGetVersion(); }
int nvrtc_version(int *major, int *minor) { return nvrtc.nvrtcVersion(major, minor); }
