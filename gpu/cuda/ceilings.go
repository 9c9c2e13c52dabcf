//go:build linux && cgo

package cuda

import (
	"context"
	"fmt"
	"math"
	"unsafe"

	"github.com/fpmrun/fpmrun/gpu"
)

// Each ceiling is measured over several passes in one burst, so that what a launch costs does not count.
const (
	sweepPasses   = 4
	productPasses = 8
)

// ceilings is what measures a device at its best.
type ceilings struct {
	m       *machine
	sweep   *program // over all of the KV pool that is read, once
	product *program
	bytes   int64 // of a sweep
	side    int
	sums    ptr // (blocks) of each sweep
	blocks  int
	x, w, y ptr        // (side, side)
	best    gpu.Device // of all readings
}

// newCeilings prepares a sweep over the KV pool, over bytes or as much as there is, and a product of square matrices.
func (e *Engine) newCeilings(bytes int64, side int) (*ceilings, error) {
	c := &ceilings{m: e.machine, side: side, blocks: sweepBlocks * max(1, e.device.Multiprocessors)}
	var err error
	if c.sums, err = e.machine.allocate("sums of a sweep", 4*int64(c.blocks)); err != nil {
		return nil, err
	}
	// One launch reads the pools of many layers: between launches the device would idle, which is no part of what it can do.
	layers := min(int64(len(e.cache)), (bytes+e.poolBytes()-1)/e.poolBytes())
	c.bytes = min(bytes, layers*e.poolBytes()) / 16 * 16
	pools, err := e.machine.allocate("the list of what a sweep reads", 8*layers)
	if err != nil {
		return nil, err
	}
	if err := e.machine.copyIn(pools, unsafe.Pointer(&e.cache[0]), 8*layers); err != nil {
		return nil, err
	}
	sweep := builder{m: e.machine, functions: e.functions}
	kernel(&sweep, "sweep", "read the KV pool", [3]int{c.blocks, 1, 1}, 512,
		sweepArgs{pools: pools, sums: c.sums, each: e.poolBytes() / 16, count: c.bytes / 16})
	if c.sweep, err = sweep.build(); err != nil {
		return nil, err
	}
	n := int64(side)
	for i, at := range []*ptr{&c.x, &c.w, &c.y} {
		if *at, err = e.machine.allocate("the product whose rate is a ceiling (--roofline)", ceilingBytes(n)/3); err != nil {
			return nil, err
		}
		b := builder{m: e.machine, functions: e.functions}
		kernel(&b, "weights", "random matrix", [3]int{spread(n * n), 1, 1}, 256, weightsArgs{out: *at, seed: uint64(i), rows: n, columns: n, width: n, scale: 1.0 / (1 << 17)})
		if err := runOnce(&b); err != nil {
			return nil, err
		}
	}
	product := builder{m: e.machine, functions: e.functions, gemms: e.gemms}
	product.gemm("product whose rate is a ceiling", gemmShape{tokens: side, n: side, k: side}, c.x, c.w, c.y)
	if c.product, err = product.build(); err != nil {
		return nil, err
	}
	return c, e.machine.synchronize()
}

// passes runs a program several times and waits for it.
func (c *ceilings) passes(p *program, n int) error {
	for range n {
		if err := p.run(c.m); err != nil {
			return err
		}
	}
	return c.m.synchronize()
}

func (c *ceilings) measure(ctx context.Context) (gpu.Device, error) {
	var d gpu.Device
	var err error
	if d.ReadRate, err = gpu.BestRate(ctx, sweepPasses*float64(c.bytes), c.best.ReadRate, func() error { return c.passes(c.sweep, sweepPasses) }); err != nil {
		return d, err
	}
	if d.MathRate, err = gpu.BestRate(ctx, productPasses*2*math.Pow(float64(c.side), 3), c.best.MathRate, func() error { return c.passes(c.product, productPasses) }); err != nil {
		return d, err
	}
	c.best = gpu.Device{ReadRate: max(c.best.ReadRate, d.ReadRate), MathRate: max(c.best.MathRate, d.MathRate)}
	return d, nil
}

// free gives the commands back; the device memory is the machine's.
func (c *ceilings) free() {
	if c != nil {
		c.sweep.free()
		c.product.free()
	}
}

// Ceilings reads 8 GiB of the KV pool, or all of a smaller one, and multiplies matrices of 8192 rows in bfloat16 through cuBLASLt. See gpu.Gauge.
func (e *Engine) Ceilings(ctx context.Context) (gpu.Device, error) {
	switch {
	case e.broken != nil:
		return gpu.Device{}, e.broken
	case len(e.flight) > 0:
		return gpu.Device{}, errBusy
	}
	if e.ceilings == nil {
		pool := e.poolBytes() * int64(len(e.cache))
		if pool < sweepBytes/8 {
			return gpu.Device{}, fmt.Errorf("%w --roofline: a KV pool of %.2f GiB stays in the caches that a sweep must miss; raise --kv-blocks to %.0f times as many", gpu.ErrConfig, gib(pool), math.Ceil(sweepBytes/float64(pool)))
		}
		var err error
		if e.ceilings, err = e.newCeilings(sweepBytes, productSide); err != nil {
			return gpu.Device{}, e.fail(err)
		}
	}
	d, err := e.ceilings.measure(ctx)
	if err != nil {
		return d, e.fail(fmt.Errorf("cuda: measuring the ceilings: %w", err))
	}
	d.Memory = e.device.Memory
	return d, nil
}
