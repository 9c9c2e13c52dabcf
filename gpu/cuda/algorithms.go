//go:build linux && cgo

package cuda

// #include "algorithms.h"
import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unsafe"

	"github.com/fpmrun/fpmrun/gpu"
)

// mostAlgorithms is how many of the library's algorithms are tried for a product; its first guess is not always the best.
const mostAlgorithms = 8

// A candidate is timed over about trialTime, in at most trialRuns runs after one that is not timed. A run is the product with the weights of as many layers as have trialBytes together: in
// a step weights come from memory, not from a cache, and the products follow each other.
const (
	trialTime  = 2 * time.Millisecond
	trialRuns  = 20
	trialBytes = 192 << 20
)

// algorithms are the choices for the products of one kind of GPU with one driver and one cuBLASLt. They are in the cache, so that every rank and every launch runs the
// same. Without a cache each process has choices of its own.
type algorithms struct {
	cache  cache
	chosen map[string][]byte
}

func newAlgorithms(d Device, l *Libraries) *algorithms {
	return &algorithms{cache: newCache("algorithms", ".json", "weights of several layers", d.Name, strconv.Itoa(l.Driver), strconv.Itoa(l.CublasLt)), chosen: map[string][]byte{}}
}

// choose is the choice for a product: one that was made before, or else what pick says.
func (a *algorithms) choose(product string, pick func() ([]byte, error)) ([]byte, error) {
	if known := a.chosen[product]; known != nil {
		return known, nil
	}
	text, ok, unlock := a.cache.lock()
	defer unlock()
	if ok {
		a.read(text)
	}
	if known := a.chosen[product]; known != nil {
		return known, nil
	}
	picked, err := pick()
	if err != nil {
		return nil, err
	}
	a.chosen[product] = picked
	if text, err := json.Marshal(a.chosen); err == nil {
		a.cache.write(text)
	}
	return picked, nil
}

// read takes in what others chose; a text that cannot be read is made anew.
func (a *algorithms) read(text []byte) {
	var file map[string][]byte
	if json.Unmarshal(text, &file) != nil {
		return
	}
	for product, choice := range file {
		if len(choice) == C.sizeof_blas_algo {
			a.chosen[product] = choice
		}
	}
}

// selectAlgorithm sets the algorithm of a planned product, which is tried on the memory that it and those like it will work on.
func (b *builder) selectAlgorithm(s gemmShape, plan C.int, in, weights, out ptr) error {
	if b.m.algorithms == nil {
		return nil
	}
	product := fmt.Sprintf("%d tokens, %d from %d, float %v, bias %v", s.tokens, s.n, s.k, s.float, s.bias != 0)
	choice, err := b.m.algorithms.choose(product, func() ([]byte, error) {
		var list [mostAlgorithms]C.blas_algo
		var found C.int
		if err := check(C.list_algorithms(b.m.c, plan, &list[0], mostAlgorithms, &found)); err != nil {
			return nil, err
		}
		p, err := b.trialOf(product, s, plan, in, weights, out)
		if err != nil {
			return nil, err
		}
		defer p.free()
		best, least := -1, time.Duration(0)
		for i := range int(found) {
			C.set_algorithm(b.m.c, plan, &list[i])
			took, err := b.m.trial(p)
			if e, ok := errors.AsType[*Error](err); ok && e.Call == "cublasLtMatmul" {
				continue // one that does not take the product after all
			}
			if err != nil {
				return nil, err
			}
			if best < 0 || took < least {
				best, least = i, took
			}
		}
		if best < 0 {
			return nil, fmt.Errorf("none of %d algorithms works", int(found))
		}
		return C.GoBytes(unsafe.Pointer(&list[best]), C.sizeof_blas_algo), nil
	})
	if err == nil {
		var algo C.blas_algo
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&algo)), C.sizeof_blas_algo), choice)
		C.set_algorithm(b.m.c, plan, &algo)
	}
	return err
}

// trialOf is the product with the weights of several layers, one after the other.
func (b *builder) trialOf(product string, s gemmShape, plan C.int, in, weights, out ptr) (*program, error) {
	trial, matrices, bytes := builder{m: b.m}, []ptr{weights}, 2*s.n*s.k
	if b.weights != nil {
		matrices = b.weights.alike(weights)
	}
	for _, w := range matrices[:min(len(matrices), (trialBytes+bytes-1)/bytes)] {
		trial.product(product, plan, in, w, out)
	}
	return trial.build()
}

// trial is how long one run of a program takes, the fastest of several.
func (m *machine) trial(p *program) (time.Duration, error) {
	least, spent := time.Duration(0), time.Duration(0)
	for i := 0; i <= trialRuns && (i < 3 || spent < trialTime); i++ {
		began := gpu.Monotonic()
		if err := p.run(m); err != nil {
			return 0, err
		}
		if err := m.synchronize(); err != nil {
			return 0, err
		}
		took := time.Duration(gpu.Monotonic() - began)
		if i == 0 {
			continue
		}
		if spent += took; least == 0 || took < least {
			least = took
		}
	}
	return least, nil
}
