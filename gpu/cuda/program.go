//go:build linux && cgo

package cuda

// #include <stdlib.h>
// #include "program.h"
import "C"

import (
	"fmt"
	"strings"
	"time"
	"unsafe"

	"github.com/fpmrun/fpmrun/gpu"
)

// program is a step of a shape: commands in C memory, in the order in which they run.
type program struct {
	shape    shape
	took     time.Duration // the last step; 0 before there was one
	commands *C.command
	count    int
	names    []string // what each is for, such as "layer 3: qkv"
}

// commands is a list of them, and what each is for.
type commands struct {
	list  []C.command
	names []string
}

// builder collects the commands of a program.
type builder struct {
	m         *machine
	functions functions
	gemms     map[gemmShape]C.int
	weights   *weights  // on which products are tried; nil: on their own alone
	progress  *progress // nil but for --debug-progress
	commands
	err error
}

// gemmShape tells matrix products apart that need a plan of their own.
type gemmShape struct {
	tokens, n, k int
	float        bool // the result is float32
	bias         ptr
}

// kernel adds a kernel with its arguments.
func kernel[T any](b *builder, name, purpose string, grid [3]int, block int, args T) {
	sharedKernel(b, name, purpose, grid, block, 0, args)
}

// alone are the kernels that do not wait for the one before them by themselves.
var alone = map[string]bool{"embed": true, "weights": true, "pool": true, "finite": true, "sweep": true, "mark": true}

// sharedKernel adds a kernel that has so many bytes of shared memory beside its own.
func sharedKernel[T any](b *builder, name, purpose string, grid [3]int, block, shared int, args T) {
	clusterKernel(b, name, purpose, grid, block, shared, 1, args)
}

// clusterKernel adds a kernel of which so many blocks, neighbours in x, run at the same time and reach each other's shared memory.
func clusterKernel[T any](b *builder, name, purpose string, grid [3]int, block, shared, cluster int, args T) {
	raw := bytesOf(&args)
	if len(raw) > C.ARGS_SIZE {
		panic("cuda: the arguments of kernel " + name + " do not fit a command")
	}
	var c C.command
	c.kind, c.function, c.block, c.shared, c.cluster = C.KERNEL, b.functions[name], C.uint(block), C.uint(shared), C.uint(cluster)
	if !alone[name] {
		c.early = 1
	}
	for i, n := range grid {
		c.grid[i] = C.uint(n)
	}
	for i, v := range raw {
		c.args[i] = C.char(v)
	}
	b.add(name, purpose, c)
}

// gemm adds out(tokens, n) = in(tokens, k) weights(n, k) transposed, plus bias(n).
func (b *builder) gemm(purpose string, shape gemmShape, in, weights, out ptr) {
	plan, known := b.gemms[shape]
	if !known && b.err == nil {
		begin := gpu.Monotonic()
		kind := C.int(14)
		if shape.float {
			kind = 0
		}
		if err := check(C.plan_gemm(b.m.c, C.uint64_t(shape.tokens), C.uint64_t(shape.n), C.uint64_t(shape.k), kind, C.device_ptr(shape.bias), &plan)); err != nil {
			b.err = fmt.Errorf("cuda: %s, a product of %d x %d by %d x %d: %w", purpose, shape.tokens, shape.k, shape.k, shape.n, err)
		}
		if b.err == nil {
			if err := b.selectAlgorithm(shape, plan, in, weights, out); err != nil {
				b.err = fmt.Errorf("cuda: choose an algorithm for %s: %w", purpose, err)
			}
		}
		b.gemms[shape] = plan
		b.m.stages.Lap("selection", begin)
	}
	b.product(purpose, plan, in, weights, out)
}

// product adds a planned product.
func (b *builder) product(purpose string, plan C.int, in, weights, out ptr) {
	var c C.command
	c.kind, c.plan, c.in, c.weights, c.out = C.GEMM, plan, C.device_ptr(in), C.device_ptr(weights), C.device_ptr(out)
	b.add("gemm", purpose, c)
}

// add adds a command under a name, and what marks its end.
func (b *builder) add(name, purpose string, c C.command) {
	b.commands.add(name, purpose, c)
	if b.progress != nil {
		b.progress.mark(b, purpose)
	}
}

// add adds a command under a name.
func (l *commands) add(name, purpose string, c C.command) {
	for i := 0; i < len(name) && i < len(c.name)-1; i++ {
		c.name[i] = C.char(name[i])
	}
	l.list = append(l.list, c)
	l.names = append(l.names, purpose)
}

// build moves the commands to C memory.
func (b *builder) build() (*program, error) {
	if b.err != nil {
		return nil, b.err
	}
	p := &program{count: len(b.list), names: b.names}
	p.commands = (*C.command)(C.malloc(C.size_t(len(b.list)) * C.sizeof_command))
	copy(unsafe.Slice(p.commands, p.count), b.list)
	return p, nil
}

func (p *program) free() { C.free(unsafe.Pointer(p.commands)) }

// findCommand is the advice where a failure is seen after the commands were launched.
const findCommand = Synchronous + "=1 finds the command"

// run starts all commands; the error names the one that failed, or at which it was seen that the device had failed.
func (p *program) run(m *machine) error {
	var at C.int
	if err := check(C.run(m.c, p.commands, C.int(p.count), &at)); err != nil {
		err = fmt.Errorf("cuda: command %d of %d, %s (%s): %w", at, p.count, p.names[at], C.GoString(&unsafe.Slice(p.commands, p.count)[at].name[0]), err)
		if failed := check(C.device_failed(m.c)); failed != nil && m.c.synchronous == 0 { // whatever was launched last is told of a failure
			err = fmt.Errorf("%w; the device had failed at this command or one before it: %w (%s)", err, failed, findCommand)
		}
		return err
	}
	return nil
}

// String lists the commands with what does not depend on addresses.
func (p *program) String() string {
	var s strings.Builder
	for i, c := range unsafe.Slice(p.commands, p.count) {
		fmt.Fprintf(&s, "%3d %-10s", i, C.GoString(&c.name[0]))
		if c.kind == C.KERNEL {
			fmt.Fprintf(&s, " grid %d x %d x %d, %d threads", c.grid[0], c.grid[1], c.grid[2], c.block)
		}
		if c.cluster > 1 {
			fmt.Fprintf(&s, ", clusters of %d", c.cluster)
		}
		if c.shared > 0 {
			fmt.Fprintf(&s, ", %d bytes shared", c.shared)
		}
		if c.kind == C.GEMM {
			fmt.Fprintf(&s, " plan %d", c.plan)
		}
		fmt.Fprintf(&s, ": %s\n", p.names[i])
	}
	return s.String()
}
