// How far the device is, for a host that waits in vain.

struct mark_args {
	u32 *host; // in pinned host memory
	u32 number;
};

extern "C" __global__ void __launch_bounds__(32) mark(const mark_args a) {
	if (threadIdx.x == 0) store_release(a.host, a.number);
}
