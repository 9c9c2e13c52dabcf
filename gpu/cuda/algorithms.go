//go:build linux && cgo

package cuda

// #include "algorithms.h"
import "C"

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fpmrun/fpmrun/gpu"
)

// mostAlgorithms is how many of the library's algorithms are tried for a product; its first guess is not always the best.
const mostAlgorithms = 8

// A candidate is timed over about trialTime, in at most trialRuns runs after one that is not timed.
const (
	trialTime = 2 * time.Millisecond
	trialRuns = 20
)

// algorithms are the choices for the products of one kind of GPU with one driver and one cuBLASLt. They are kept in the user's cache folder, so that every rank and every
// launch runs the same: of several processes that need a choice one makes it, under a lock, and the others read it. Without a folder that can be written each process
// has choices of its own.
type algorithms struct {
	path   string // "" without a folder
	chosen map[string][]byte
}

func newAlgorithms(d Device, l *Libraries) *algorithms {
	a := &algorithms{chosen: map[string][]byte{}}
	dir, err := os.UserCacheDir()
	if err == nil {
		dir = filepath.Join(dir, "fpmrun", "algorithms")
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		key := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d", d.Name, l.Driver, l.CublasLt))
		a.path = filepath.Join(dir, fmt.Sprintf("%x.json", key[:16]))
	}
	return a
}

// choose is the choice for a product: one that was made before, or else what pick says.
func (a *algorithms) choose(product string, pick func() ([]byte, error)) ([]byte, error) {
	if known := a.chosen[product]; known != nil {
		return known, nil
	}
	if a.path != "" {
		if lock, err := os.OpenFile(a.path+".lock", os.O_CREATE|os.O_RDWR, 0o644); err == nil {
			defer lock.Close()
			if unix.Flock(int(lock.Fd()), unix.LOCK_EX) == nil {
				a.read()
			}
		}
	}
	if known := a.chosen[product]; known != nil {
		return known, nil
	}
	picked, err := pick()
	if err != nil {
		return nil, err
	}
	a.chosen[product] = picked
	a.write()
	return picked, nil
}

// read takes in what others chose; a file that cannot be read is made anew.
func (a *algorithms) read() {
	var file map[string][]byte
	text, err := os.ReadFile(a.path)
	if err != nil || json.Unmarshal(text, &file) != nil {
		return
	}
	for product, choice := range file {
		if len(choice) == C.sizeof_blas_algo {
			a.chosen[product] = choice
		}
	}
}

// write keeps the choices; a cache that cannot be written costs time only.
func (a *algorithms) write() {
	if a.path == "" {
		return
	}
	text, err := json.Marshal(a.chosen)
	if err != nil {
		return
	}
	if err := os.WriteFile(a.path+".tmp", text, 0o644); err == nil {
		_ = os.Rename(a.path+".tmp", a.path)
	}
}

// selectAlgorithm sets the algorithm of a planned product, which is tried on the memory that it will work on.
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
		trial := builder{m: b.m}
		var c C.command
		c.kind, c.plan, c.in, c.weights, c.out = C.GEMM, plan, C.device_ptr(in), C.device_ptr(weights), C.device_ptr(out)
		trial.add("gemm", product, c)
		p, err := trial.build()
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
