// What compute capability 9.0 alone has: products of warp groups (four warps: 128 threads, the first one a multiple of 128) whose operands lie in shared memory,
// registers that warp groups hand over to each other, copies of boxes of tensors, and clusters of blocks that reach each other's shared memory (PTX ISA 8, "asynchronous warpgroup level matrix
// instructions", "setmaxnreg", "cp.async.bulk.tensor", "mapa").

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(HOST_PRIMITIVES)
#define HOPPER

// Describes a matrix of bfloat16 in shared memory to wgmma. It consists of lines of 64 values; eight lines, 1,024 bytes at a multiple of 1,024, are a group, and the groups follow each
// other. Part p of 16 bytes of line l lies at p ^ l % 8 in its line (the 128-byte swizzle). A line has 64 values along k of one row: 16 of them begin at a multiple of 32
// bytes after the first. Or, transposed, a line has 64 rows at one k, and the next 64 rows are more_rows bytes away.
DEVICE u64 matrix(const void *first, int more_rows = 16) {
	constexpr u64 SWIZZLE = 1ull << 62, NEXT_GROUP = 1024 >> 4;
	return SWIZZLE | NEXT_GROUP << 32 | (u64)(more_rows >> 4) << 16 | (shared_address(first) & 0x3ffff) >> 4;
}
// A described matrix that begins so many bytes later.
DEVICE u64 later(u64 matrix, int bytes) { return matrix + (u64)(bytes >> 4); }

// A tensor in global memory as the host described it, a part of a kernel's arguments, which are a __grid_constant__.
struct alignas(64) tensor_map {
	char bytes[128];
};

#ifndef HOST_PRIMITIVES
// wgmma adds a(64, 16) b(16, N), bfloat16, to d(64, N) in float32, or sets d to it where add is false. Warp w of the group has rows 16 w to 16 w + 15 of d, and d[i] of a lane is as mma's of
// columns 8 i to 8 i + 7. a is described in shared memory, and b too, its columns being the rows of a matrix; or a is in registers as mma's, and
// b's matrix transposed. It runs on its own from wgmma_begin on, which follows the writing of the registers that it takes; wgmma_wait waits until at most so many groups that wgmma_commit ended are left. hold keeps the
// compiler from moving other uses of d or a across it.
DEVICE void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT> DEVICE void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory"); }
template <int SIZE> DEVICE void hold(float (&d)[SIZE][4]) {
#pragma unroll
	for (int i = 0; i < SIZE; i++) asm volatile("" : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])::"memory");
}
template <int SIZE> DEVICE void hold(u32 (&a)[SIZE][4]) {
#pragma unroll
	for (int i = 0; i < SIZE; i++) asm volatile("" : "+r"(a[i][0]), "+r"(a[i][1]), "+r"(a[i][2]), "+r"(a[i][3])::"memory");
}

#define SUMS_4(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define SUMS_8(i) SUMS_4(i), SUMS_4(i + 1)
#define SUMS_16(i) SUMS_4(i), SUMS_4(i + 1), SUMS_4(i + 2), SUMS_4(i + 3)
#define SUMS_32(i) SUMS_16(i), SUMS_16(i + 4)
#define SUMS_64(i) SUMS_32(i), SUMS_32(i + 8)
#define PLACES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define PLACES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define PLACES_32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define PLACES_64 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

#define WGMMA(N, SUMS, PLACES, A, B, ADD, A_TRANSPOSED, B_TRANSPOSED) \
	"{\n.reg .pred p;\nsetp.ne.b32 p, " ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" PLACES "}, " A ", " B ", p, 1, 1, " A_TRANSPOSED B_TRANSPOSED ";\n}" : SUMS
DEVICE void wgmma(float (&d)[2][4], u64 a, u64 b, bool add) {
	asm volatile(WGMMA(16, SUMS_8(0), PLACES_8, "%8", "%9", "%10", "0, ", "0") : "l"(a), "l"(b), "r"((int)add) : "memory");
}
DEVICE void wgmma(float (&d)[4][4], u64 a, u64 b, bool add) {
	asm volatile(WGMMA(32, SUMS_16(0), PLACES_16, "%16", "%17", "%18", "0, ", "0") : "l"(a), "l"(b), "r"((int)add) : "memory");
}
DEVICE void wgmma(float (&d)[8][4], u64 a, u64 b, bool add) {
	asm volatile(WGMMA(64, SUMS_32(0), PLACES_32, "%32", "%33", "%34", "0, ", "0") : "l"(a), "l"(b), "r"((int)add) : "memory");
}
DEVICE void wgmma(float (&d)[16][4], u64 a, u64 b, bool add) {
	asm volatile(WGMMA(128, SUMS_64(0), PLACES_64, "%64", "%65", "%66", "0, ", "0") : "l"(a), "l"(b), "r"((int)add) : "memory");
}
DEVICE void wgmma(float (&d)[8][4], const u32 (&a)[4], u64 b, bool add) {
	asm volatile(WGMMA(64, SUMS_32(0), PLACES_32, "{%32, %33, %34, %35}", "%36", "%37", "", "1")
				 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add) : "memory");
}
DEVICE void wgmma(float (&d)[16][4], const u32 (&a)[4], u64 b, bool add) {
	asm volatile(WGMMA(128, SUMS_64(0), PLACES_64, "{%64, %65, %66, %67}", "%68", "%69", "", "1")
				 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add) : "memory");
}

// What this thread wrote to shared memory, copy_async's that it waited for included, is seen by products that are begun after a barrier from here.
DEVICE void async_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The registers that each thread of this warp group has from here on: fewer, given to the block; or more, as soon as they are there. A multiple of 8.
template <int REGISTERS> DEVICE void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS)); }
template <int REGISTERS> DEVICE void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS)); }

// Begins to copy the box at these coordinates, the fastest first, to a multiple of 1,024 bytes in shared memory; its bytes count at the barrier when they are there. One thread does it for all.
#define BOX(DIMENSIONS, COORDINATES, BARRIER) "cp.async.bulk.tensor." DIMENSIONS "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {" COORDINATES "}], [" BARRIER "];"
DEVICE void copy_box(void *to, const tensor_map &map, u64 *barrier, int x, int y) {
	asm volatile(BOX("2", "%2, %3", "%4") ::"r"(shared_address(to)), "l"(&map), "r"(x), "r"(y), "r"(shared_address(barrier)) : "memory");
}
DEVICE void copy_box(void *to, const tensor_map &map, u64 *barrier, int x, int y, int z) {
	asm volatile(BOX("3", "%2, %3, %4", "%5") ::"r"(shared_address(to)), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier)) : "memory");
}
DEVICE void copy_box(void *to, const tensor_map &map, u64 *barrier, int x, int y, int z, int u, int v) {
	asm volatile(BOX("5", "%2, %3, %4, %5, %6", "%7") ::"r"(shared_address(to)), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(u), "r"(v), "r"(shared_address(barrier)) : "memory");
}
DEVICE void prefetch_map(const tensor_map &map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

// Arrives, and lets the phase last until so many bytes of boxes more have come.
DEVICE void barrier_expect(u64 *barrier, int bytes) {
	asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared.b64 state, [%0], %1;\n}" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}
// Barriers that this thread initialised are seen by copies, and by the cluster, that begin after a barrier from here.
DEVICE void barrier_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// What this thread wrote to global memory, or knows to be written, is seen by copies of boxes that begin after it, or after a barrier from here.
DEVICE void async_fence_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// The place of this block in its cluster; all threads of the cluster meet.
DEVICE int cluster_rank() {
	int r;
	asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
	return r;
}
DEVICE void cluster_meet() { asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// What another block of the cluster has at the same place of its shared memory: its address, stores, and an arrival at a barrier, by which what was stored before is seen by those who wait there for the cluster.
DEVICE u32 address_at(int rank, const void *p) {
	u32 there;
	asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(p)), "r"(rank));
	return there;
}
DEVICE void store_at(int rank, float4 *to, float4 v) { asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address_at(rank, to)), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory"); }
DEVICE void store_at(int rank, float *to, float v) { asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address_at(rank, to)), "f"(v) : "memory"); }
DEVICE void barrier_arrive_at(int rank, u64 *barrier) { asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(address_at(rank, barrier)) : "memory"); }
DEVICE void barrier_wait_cluster(u64 *barrier, u32 parity) {
	u32 over;
	do
		asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(over) : "r"(shared_address(barrier)), "r"(parity) : "memory");
	while (!over);
}
#endif
#endif
