package cpu

import (
	"context"
	"math"

	"github.com/fpmrun/fpmrun/gpu"
)

// What is measured for a ceiling: a sweep over more memory than caches hold, and a product of square matrices.
const (
	sweepBytes  = 1 << 30
	productSide = 1024
)

// CeilingBytes is the memory that Ceilings takes.
const CeilingBytes = sweepBytes + 3*4*productSide*productSide

// sweepParts is how many parts the memory of a sweep is shared out in.
const sweepParts = 256

// ceilings measures what the threads of an engine reach.
type ceilings struct {
	threads *threads
	matmul  *matmul
	memory  []uint64
	sums    [sweepParts]uint64 // of each part
	side    int
	x, w, y []float32  // (side, side)
	best    gpu.Device // of all readings
}

func newCeilings(t *threads, m *matmul, bytes, side int) *ceilings {
	c := &ceilings{threads: t, matmul: m, memory: make([]uint64, bytes/8), side: side, x: make([]float32, side*side), w: make([]float32, side*side), y: make([]float32, side*side)}
	t.run(sweepParts, func(_, part int) {
		state := uint64(part)
		for i := range c.part(part) {
			state = state*6364136223846793005 + 1442695040888963407 // the generator of MMIX (Knuth)
			c.part(part)[i] = state
		}
	})
	for i := range c.x {
		c.x[i], c.w[i] = value(c.memory[i%len(c.memory)]), value(c.memory[(i+side)%len(c.memory)])
	}
	return c
}

// value is a number from -1 to 1 of random bits.
func value(bits uint64) float32 { return float32(bits>>40)/(1<<23) - 1 }

func (c *ceilings) part(i int) []uint64 {
	n := len(c.memory)
	return c.memory[i*n/sweepParts : (i+1)*n/sweepParts]
}

// sweep reads all of the memory once.
func (c *ceilings) sweep() error {
	c.threads.run(sweepParts, func(_, part int) { c.sums[part] = sumOf(c.part(part)) })
	return nil
}

// sumOf adds words in several chains, so that a processor's loads and not its additions are what takes time.
func sumOf(words []uint64) uint64 {
	var a, b, c, d uint64
	for ; len(words) >= 16; words = words[16:] {
		w := words[:16]
		a += w[0] + w[4] + w[8] + w[12]
		b += w[1] + w[5] + w[9] + w[13]
		c += w[2] + w[6] + w[10] + w[14]
		d += w[3] + w[7] + w[11] + w[15]
	}
	for _, w := range words {
		a += w
	}
	return a + b + c + d
}

func (c *ceilings) product() error {
	c.matmul.run(c.y, c.x, c.w, nil, c.side, c.side, c.side)
	return nil
}

func (c *ceilings) measure(ctx context.Context) (gpu.Device, error) {
	var d gpu.Device
	var err error
	if d.ReadRate, err = gpu.BestRate(ctx, float64(8*len(c.memory)), c.best.ReadRate, c.sweep); err != nil {
		return d, err
	}
	if d.MathRate, err = gpu.BestRate(ctx, 2*math.Pow(float64(c.side), 3), c.best.MathRate, c.product); err != nil {
		return d, err
	}
	c.best = gpu.Device{ReadRate: max(c.best.ReadRate, d.ReadRate), MathRate: max(c.best.MathRate, d.MathRate)}
	return d, nil
}

// Ceilings sweeps over 1 GiB and multiplies matrices of 1024 rows in float32, both on all threads of the engine. See gpu.Gauge.
func (e *Engine) Ceilings(ctx context.Context) (gpu.Device, error) {
	switch {
	case e.broken != nil:
		return gpu.Device{}, e.broken
	case e.inFlight:
		return gpu.Device{}, errInFlight
	}
	if e.ceilings == nil {
		e.ceilings = newCeilings(e.threads, e.matmul, sweepBytes, productSide)
	}
	return e.ceilings.measure(ctx)
}
