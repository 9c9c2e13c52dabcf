// Runs chains as chain.cu does, for more tokens than a block can hold beside its rings, on Hopper: four blocks, a cluster, share the columns of a product, so that each
// has only a quarter of the tokens' in its shared memory. A unit is 64 rows. A warp copies the weights of the block's columns ahead in boxes, across units and across
// products; a warp group multiplies them with the tokens (wgmma), and each of its warps gives its 16 rows to one of the four blocks, which adds the four
// blocks' sums, in their order, and ends the rows as a unit of chain.cu.

#ifdef HOPPER

#define CLUSTER 4
#define CLUSTER_BOX (64 * 128)   // bytes of 64 rows of a chunk
#define CLUSTER_RING_MOST 24     // boxes
#define CLUSTER_HEAD 1024        // bytes of the barriers and of the tokens' scales
#define TOKEN_PARTS 4            // of a block's tokens: products begin with the first one
#define CLUSTER_FINISHER 2       // first warp of those that end units
#define CLUSTER_MULTIPLIER 4     // first warp of those that multiply

struct chain_cluster_args {
	tensor_map weights[PRODUCTS]; // (heads, units of a head, rows g and g + 8 of a unit, g, k), in boxes of (1, 4, 2, 8, 64): heads that are rotated, else one of all units
	tensor_map tokens[PRODUCTS];  // (tokens, k), in boxes of (8 TILES, 64)
	chain_args a;                 // ring is the number of boxes in one, splits that of clusters among which columns are split
};

struct cluster_barriers {
	u64 full[CLUSTER_RING_MOST], empty[CLUSTER_RING_MOST]; // a box is there; is read
	u64 tokens[TOKEN_PARTS];                               // a part of a product's is there
	u64 sums[FINISHERS], read[FINISHERS][CLUSTER];         // of every second unit: the sums of all blocks are here; those that each block was given are read
	u64 scales;                                            // all blocks have found theirs
};

// A block's part of a product. Units are of 64 rows; all blocks of a cluster have the same ones.
DEVICE share cluster_share(const product &p) { return share_of<CLUSTER>(p, cluster_rank()); }

// Begins the copies of the weights of all products: one thread does it.
DEVICE void cluster_stream(const chain_cluster_args &args, char *ring, cluster_barriers &b) {
	const chain_args &a = args.a;
	int slot = 0;
	u32 parity = 1;
	for (int i = 0; i < a.count; i++) {
		const product &p = a.products[i];
		const share s = cluster_share(p);
		const int per = p.kind == ROTATE ? HEAD_SIZE / 16 : units_of(p); // units of 16 rows in a head
		for (int unit = s.first; unit < s.units; unit += s.step)
			for (int c = 0; c < s.chunks; c++) {
				barrier_wait(&b.empty[slot], parity);
				barrier_expect(&b.full[slot], CLUSTER_BOX);
				copy_box(ring + slot * CLUSTER_BOX, args.weights[i], &b.full[slot], (s.begin + c) * CHUNK, 0, 0, unit * CLUSTER % per, unit * CLUSTER / per);
				if (++slot == a.ring) slot = 0, parity ^= 1;
			}
	}
}

// Begins the copies of the tokens of a product: one thread does it, when they are written.
template <int TILES> DEVICE void cluster_tokens(const chain_cluster_args &args, int i, const share &s, char *tokens, cluster_barriers &b) {
	async_fence_global();
	for (int part = 0; part < TOKEN_PARTS; part++) {
		const int from = s.chunks * part / TOKEN_PARTS, to = s.first < s.units ? s.chunks * (part + 1) / TOKEN_PARTS : from;
		barrier_expect(&b.tokens[part], (to - from) * TILES * 1024);
		for (int c = from; c < to; c++) copy_box(tokens + c * TILES * 1024, args.tokens[i], &b.tokens[part], (s.begin + c) * CHUNK, 0);
	}
}

// What the warp group does.
template <int TILES> DEVICE void cluster_multiply(const chain_args &a, const char *ring, const char *tokens, float4 *sums, cluster_barriers &b) {
	const int lane = threadIdx.x % 32, to = threadIdx.x % 128 / 32, rank = cluster_rank(); // the block that gets this warp's rows
	int slot = 0, count = 0;                                                                 // place in the ring; units
	u32 parity = 0;
	for (int i = 0; i < a.count; i++) {
		const share s = cluster_share(a.products[i]);
		int here = 0; // parts of the tokens
		for (int unit = s.first; unit < s.units; unit += s.step, count++) {
			float acc[TILES][4] = {};
			int before = -1; // box of the products that were begun before
			auto leave = [&] {
				if (before >= 0 && lane == 0) barrier_arrive(&b.empty[before]);
			};
			for (int c = 0; c < s.chunks; c++) {
				while (here < TOKEN_PARTS && c >= s.chunks * here / TOKEN_PARTS) barrier_wait(&b.tokens[here++], i & 1);
				barrier_wait(&b.full[slot], parity);
				const u64 rows = matrix(ring + slot * CLUSTER_BOX), columns = matrix(tokens + c * TILES * 1024);
				hold(acc);
				wgmma_begin();
#pragma unroll
				for (int k = 0; k < CHUNK / 16; k++) wgmma(acc, later(rows, k * 32), later(columns, k * 32), c > 0 || k > 0);
				wgmma_commit();
				wgmma_wait<1>();
				leave();
				before = slot;
				if (++slot == a.ring) slot = 0, parity ^= 1;
			}
			wgmma_wait<0>();
			hold(acc);
			leave();
			const int half = count % FINISHERS;
			barrier_wait_cluster(&b.read[half][to], count / FINISHERS % 2 ^ 1); // what it was given two units before
#pragma unroll
			for (int n = 0; n < TILES; n++) store_at(to, sums + ((half * CLUSTER + rank) * TILES + n) * 32 + lane, float4{acc[n][0], acc[n][1], acc[n][2], acc[n][3]});
			warp_fence();
			if (lane == 0) barrier_arrive_at(to, &b.sums[half]);
		}
		while (here < TOKEN_PARTS) barrier_wait(&b.tokens[here++], i & 1); // of a block without units too: no phase is missed
	}
}

// What the tokens are to be multiplied with: each of the warps that end units finds it for some tokens, and gives it to the whole cluster.
template <int TILES> DEVICE void cluster_scales(const chain_args &a, const product &p, int half, float *scales, cluster_barriers &b) {
	constexpr int LANES = 32 / TILES; // for each token
	const int lane = threadIdx.x % 32, token = (cluster_rank() * FINISHERS + half) * TILES + lane / LANES;
	const float v = token_scale(a, p, token, LANES);
	if (lane % LANES < CLUSTER) store_at(lane % LANES, scales + token, v);
	warp_fence();
	if (lane < CLUSTER) barrier_arrive_at(lane, &b.scales);
}

// What a warp does that ends units, every second one of the block.
template <int TILES> DEVICE void cluster_finish(const chain_cluster_args &args, const float4 *sums, float *scales, char *tokens, cluster_barriers &b) {
	const chain_args &a = args.a;
	const int lane = threadIdx.x % 32, half = threadIdx.x / 32 - CLUSTER_FINISHER, g = lane / 4, t = lane % 4, rank = cluster_rank();
	int count = 0; // units of the cluster
	u32 before = 0;
	after_previous();
	const bool speaks = half == 0 && lane == 0; // for the block
	if (a.count > 1 && speaks) before = load_acquire(a.turns) & TURNED; // it does not turn before this block comes
	for (int i = 0; i < a.count; i++) {
		const product &p = a.products[i];
		const share s = cluster_share(p);
		const int units = units_of(p);
		if (i > 0) end_product(a, speaks, before);
		if (speaks) cluster_tokens<TILES>(args, i, s, tokens, b);
		warp_fence();
		cluster_scales<TILES>(a, p, half, scales, b);
		barrier_wait_cluster(&b.scales, i & 1);
		float scale[TILES][2];
#pragma unroll
		for (int n = 0; n < TILES; n++) scale[n][0] = scales[n * 8 + 2 * t], scale[n][1] = scales[n * 8 + 2 * t + 1];
		for (int unit = s.first; unit < s.units; unit += s.step, count++) {
			if (count % FINISHERS != half) continue;
			const int own = unit * CLUSTER + rank; // of 16 rows
			int row[2];
			unit_rows(p, own, g, row);
			addends<TILES> to = {};
			if (own < units) to = read_addends<TILES>(a, p, row);
			barrier_wait_cluster(&b.sums[half], count / FINISHERS % 2);
			float4 total[TILES];
			add_sums<TILES, CLUSTER>(sums + half * CLUSTER * TILES * 32, total);
			warp_fence();
			if (lane < CLUSTER) barrier_arrive_at(lane, &b.read[half][rank]); // they may be written again
			if (own >= units || p.splits > 1 && !join_splits<TILES>(a, s, p.splits, own, (unit - s.first) / s.step, total)) continue;
			write_unit<TILES>(a, p, own, units, row, total, scale, to);
		}
	}
}

// 8 TILES tokens at most.
template <int TILES> DEVICE void chain_cluster(const chain_cluster_args &args) {
	SHARED_MEMORY(memory); // from a multiple of 1,024 on: the barriers and scales (8 TILES), boxes (ring, 64, CHUNK), tokens (chunks, 8 TILES, CHUNK), sums (2, CLUSTER, TILES, 32) of this unit and the one before
	const chain_args &a = args.a;
	char *head = memory + (-shared_address(memory) & 1023), *ring = head + CLUSTER_HEAD, *tokens = ring + a.ring * CLUSTER_BOX;
	cluster_barriers &b = *(cluster_barriers *)head;
	float *scales = (float *)(head + sizeof(cluster_barriers));
	int chunks = 0; // of a block, at most
	for (int i = 0; i < a.count; i++) chunks = max(chunks, (a.products[i].k / CHUNK + CLUSTER * a.products[i].splits - 1) / (CLUSTER * a.products[i].splits));
	float4 *sums = (float4 *)(tokens + chunks * TILES * 1024);
	const int warp = threadIdx.x / 32;
	allow_next();
	if (threadIdx.x < CLUSTER_RING_MOST) barrier_init(&b.full[threadIdx.x], 1), barrier_init(&b.empty[threadIdx.x], 4);
	if (threadIdx.x < TOKEN_PARTS) barrier_init(&b.tokens[threadIdx.x], 1);
	if (threadIdx.x < FINISHERS * CLUSTER) barrier_init(&b.read[threadIdx.x / CLUSTER][threadIdx.x % CLUSTER], 1);
	if (threadIdx.x < FINISHERS) barrier_init(&b.sums[threadIdx.x], CLUSTER);
	if (threadIdx.x == 0) barrier_init(&b.scales, CLUSTER * FINISHERS);
	barrier_fence();
	cluster_meet();
	if (threadIdx.x == 0) cluster_stream(args, ring, b);
	warp_fence(); // the first warp waits for its one thread
	if (warp >= CLUSTER_MULTIPLIER) cluster_multiply<TILES>(a, ring, tokens, sums, b);
	else if (warp >= CLUSTER_FINISHER) cluster_finish<TILES>(args, sums, scales, tokens, b);
	__syncthreads();
	cluster_meet(); // nobody reaches for the memory of a block that has ended
}

extern "C" __global__ void __launch_bounds__(256, 1) chain_cluster_16(const __grid_constant__ chain_cluster_args args) { chain_cluster<2>(args); }
extern "C" __global__ void __launch_bounds__(256, 1) chain_cluster_32(const __grid_constant__ chain_cluster_args args) { chain_cluster<4>(args); }
extern "C" __global__ void __launch_bounds__(256, 1) chain_cluster_64(const __grid_constant__ chain_cluster_args args) { chain_cluster<8>(args); }
#endif
