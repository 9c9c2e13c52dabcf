//go:build linux && cgo

package cuda

// #include <stdlib.h>
// #include "program.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/fpmrun/fpmrun/gpu"
)

// ptr is an address in device memory.
type ptr uint64

// machine is a GPU that is open: its primary context, one stream, cuBLASLt, and what was allocated.
type machine struct {
	c      *C.machine
	blocks []ptr            // device memory
	graphs []unsafe.Pointer // that can be launched
	host   []unsafe.Pointer // pinned host memory
	bytes  int64            // of device memory
	stages gpu.Stages       // what was prepared

	algorithms *algorithms // of the products; nil leaves them to the library's guess
}

// Device is what the driver says of a GPU.
type Device struct {
	Name            string
	UUID            string // GPU-xxxxxxxx-...
	Capability      [2]int // compute capability, major and minor
	Multiprocessors int
	Memory          int64 // bytes

	clusters int // see fewDevice
}

// hopper says whether the device has Hopper's own instructions.
func (d *Device) hopper() bool { return d.Capability == [2]int{9, 0} }

// few is what the plans of chains depend on.
func (d *Device) few() fewDevice { return fewDevice{d.Multiprocessors, d.hopper(), d.clusters} }

// Devices describes the visible GPUs. Libraries must be open.
func Devices() ([]Device, error) {
	var list []Device
	for ordinal := 0; ; ordinal++ {
		var count C.int
		var name [128]C.char
		var uuid C.device_uuid
		var attributes [4]C.int
		var total C.size_t
		if err := check(C.describe_device(C.int(ordinal), &count, &name[0], 128, &uuid, &attributes[0], &total)); err != nil {
			var e *Error
			if errors.As(err, &e) && e.Code == noDevice {
				return nil, nil
			}
			return nil, fmt.Errorf("cuda: %w", err)
		}
		if ordinal >= int(count) {
			return list, nil
		}
		u := C.GoBytes(unsafe.Pointer(&uuid), 16)
		list = append(list, Device{
			Name: C.GoString(&name[0]), UUID: fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]),
			Capability: [2]int{int(attributes[0]), int(attributes[1])}, Multiprocessors: int(attributes[2]), Memory: int64(total),
		})
	}
}

// Free is a GPU's free memory in bytes.
func Free(ordinal int) (int64, error) {
	var free, total C.size_t
	if err := check(C.device_memory(C.int(ordinal), &free, &total)); err != nil {
		return 0, fmt.Errorf("cuda: memory of GPU %d: %w", ordinal, err)
	}
	return int64(free), nil
}

// noDevice is CUDA_ERROR_NO_DEVICE.
const noDevice = 100

func openMachine(ordinal int, synchronous bool) (*machine, error) {
	m := &machine{c: (*C.machine)(C.calloc(1, C.sizeof_machine))}
	m.c.workspace_size = workspaceSize
	if synchronous {
		m.c.synchronous = 1
	}
	if err := check(C.open_machine(m.c, C.int(ordinal))); err != nil {
		return nil, errors.Join(fmt.Errorf("cuda: open GPU %d: %w", ordinal, err), m.close())
	}
	return m, nil
}

// close frees everything.
func (m *machine) close() error {
	if m.c == nil {
		return nil
	}
	var errs []error
	for _, p := range m.graphs {
		errs = append(errs, check(C.release_graph(m.c, p)))
	}
	for _, p := range m.blocks {
		errs = append(errs, check(C.release(m.c, C.device_ptr(p))))
	}
	for _, p := range m.host {
		errs = append(errs, check(C.release_host(m.c, p)))
	}
	errs = append(errs, check(C.close_machine(m.c)))
	C.free(unsafe.Pointer(m.c))
	*m = machine{}
	return errors.Join(errs...)
}

// allocate takes device memory; what names it for the error.
func (m *machine) allocate(what string, bytes int64) (ptr, error) {
	var p C.device_ptr
	if err := check(C.allocate(m.c, &p, C.size_t(max(bytes, 16)))); err != nil {
		free, total, _ := m.memory()
		return 0, fmt.Errorf("cuda: %.2f GiB for %s: %w; %.2f of %.2f GiB are free", gib(bytes), what, err, gib(free), gib(total))
	}
	m.blocks = append(m.blocks, ptr(p))
	m.bytes += bytes
	return ptr(p), nil
}

// allocateHost takes pinned host memory that the device can reach at the second address.
func (m *machine) allocateHost(bytes int) (unsafe.Pointer, ptr, error) {
	var p unsafe.Pointer
	var d C.device_ptr
	if err := check(C.allocate_host(m.c, &p, &d, C.size_t(bytes))); err != nil {
		return nil, 0, fmt.Errorf("cuda: %d bytes of pinned host memory: %w", bytes, err)
	}
	m.host = append(m.host, p)
	return p, ptr(d), nil
}

// hostWord is a word of pinned host memory, which is 0, and its address for the device.
func (m *machine) hostWord() (*uint32, ptr, error) {
	p, at, err := m.allocateHost(4)
	if err != nil {
		return nil, 0, err
	}
	word := (*uint32)(p)
	*word = 0
	return word, at, nil
}

// memory is the device's free and total memory in bytes.
func (m *machine) memory() (free, total int64, err error) {
	var f, t C.size_t
	err = check(C.memory_info(m.c, &f, &t))
	return int64(f), int64(t), err
}

// copyIn copies host memory to the device and waits for it.
func (m *machine) copyIn(to ptr, from unsafe.Pointer, bytes int64) error {
	return check(C.copy_in(m.c, C.device_ptr(to), from, C.size_t(bytes)))
}

// copyInAsync copies pinned host memory, which must stay as it is until the stream has passed.
func (m *machine) copyInAsync(to ptr, from unsafe.Pointer, bytes int64) error {
	return check(C.copy_in_async(m.c, C.device_ptr(to), from, C.size_t(bytes)))
}

// copyOut copies device memory to the host after everything on the stream.
func (m *machine) copyOut(to unsafe.Pointer, from ptr, bytes int64) error {
	return check(C.copy_out(m.c, to, C.device_ptr(from), C.size_t(bytes)))
}

// fill sets bytes of device memory.
func (m *machine) fill(to ptr, value byte, bytes int64) error {
	return check(C.fill(m.c, C.device_ptr(to), C.uchar(value), C.size_t(bytes)))
}

func (m *machine) synchronize() error { return check(C.synchronize(m.c)) }

func gib(bytes int64) float64 { return float64(bytes) / (1 << 30) }
