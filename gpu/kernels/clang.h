// What clang needs to parse the kernels without any CUDA header: the built-in variables and functions that NVRTC has by itself.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

struct __align__(16) uint4 {
	unsigned int x, y, z, w;
};
struct __align__(8) uint2 {
	unsigned int x, y;
};
struct __align__(8) float2 {
	float x, y;
};
struct __align__(16) float4 {
	float x, y, z, w;
};
struct index3 {
	unsigned int x, y, z;
};
#define REGISTERS(name) (index3{(unsigned)__nvvm_read_ptx_sreg_##name##_x(), (unsigned)__nvvm_read_ptx_sreg_##name##_y(), (unsigned)__nvvm_read_ptx_sreg_##name##_z()})
#define threadIdx REGISTERS(tid)
#define blockIdx REGISTERS(ctaid)
#define blockDim REGISTERS(ntid)
#define gridDim REGISTERS(nctaid)

static __device__ __forceinline__ float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
static __device__ __forceinline__ int min(int a, int b) { return a < b ? a : b; }
static __device__ __forceinline__ int max(int a, int b) { return a > b ? a : b; }
