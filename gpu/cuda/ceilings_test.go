//go:build linux && cgo

package cuda

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/fpmrun/fpmrun/gpu"
)

// A sweep reads every word of the part of the pool that it is over, and the product is one of random matrices.
func TestCeilings(t *testing.T) {
	needGPU(t)
	e := openEngine(t, graphs(t, "NONE"))
	want := e.poolBytes() + e.poolBytes()/2/16*16
	c, err := e.newCeilings(want, 48)
	if err != nil {
		t.Fatal(err)
	}
	defer c.free()
	d, err := c.measure(t.Context())
	if err != nil || d.ReadRate <= 0 || d.MathRate <= 0 || c.bytes != want {
		t.Fatalf("%+v of %d bytes, want %d: %v", d, c.bytes, want, err)
	}
	sums := make([]uint32, c.blocks)
	if err := e.machine.copyOut(unsafe.Pointer(&sums[0]), c.sums, 4*int64(c.blocks)); err != nil {
		t.Fatal(err)
	}
	var got, all uint32
	for _, s := range sums {
		got ^= s
	}
	// All of the first layer's pool and half of the second one's.
	left := int(want) / 4
	for _, layer := range pool(t, e)[:2] {
		words := unsafe.Slice((*uint32)(unsafe.Pointer(&layer[0])), min(left, int(e.poolBytes())/4))
		for _, w := range words {
			all ^= w
		}
		left -= len(words)
	}
	if got != all || all == 0 {
		t.Errorf("the words read have the sum %x, want %x", got, all)
	}
	y := make([]uint16, 48*48)
	if err := e.machine.copyOut(unsafe.Pointer(&y[0]), c.y, int64(2*len(y))); err != nil {
		t.Fatal(err)
	}
	distinct := map[uint16]bool{}
	for _, v := range y {
		distinct[v] = true
	}
	if len(distinct) < len(y)/8 {
		t.Errorf("%d values of the product are different, of %d", len(distinct), len(y))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.measure(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// The library computes each product of a step for all layers, and its time is theirs.
func TestCeilingsOfTheLibrary(t *testing.T) {
	needGPU(t)
	e := openEngine(t, graphs(t, "NONE"))
	for _, c := range []struct{ tokens, rows int }{{1, 1}, {40, 3}} {
		if took, err := e.Products(t.Context(), c.tokens, c.rows); err != nil || took <= 0 {
			t.Errorf("%d tokens, %d rows: %v, %v", c.tokens, c.rows, took, err)
		}
	}
	if len(e.gemms) != 2*5 {
		t.Errorf("%d kinds of products, want 5 for each number of tokens", len(e.gemms))
	}
	if _, err := e.Products(t.Context(), e.layout.tokens+1, 1); err == nil {
		t.Error("more tokens than a step has were taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Products(ctx, 1, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// A pool that caches hold proves nothing, and no step may be in flight.
func TestCeilingsAreRefused(t *testing.T) {
	needGPU(t)
	cfg := graphs(t, "NONE")
	e := openEngine(t, cfg)
	if _, err := e.Ceilings(t.Context()); !errors.Is(err, gpu.ErrConfig) || !strings.Contains(err.Error(), "--kv-blocks") {
		t.Errorf("with a small pool: %v", err)
	}
	if err := e.Enqueue(fiveRows(cfg)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Ceilings(t.Context()); !errors.Is(err, errBusy) {
		t.Errorf("beside a step: %v", err)
	}
	if err := e.Await(t.Context(), &gpu.Output{}); err != nil {
		t.Fatal(err)
	}
}

// What the ceilings take counts in what the engine needs when they will be measured.
func TestCeilingsNeedMemory(t *testing.T) {
	cfg := configuration(geometry(t, "llama-3.1-8b", ""))
	without := Need(&cfg, 132)
	cfg.Ceilings = true
	if with := Need(&cfg, 132); with.Fixed()-without.Fixed() != 3*2*8192*8192 {
		t.Errorf("%d bytes more", with.Fixed()-without.Fixed())
	}
}
