//go:build linux && cgo

package cuda

// #include <stdlib.h>
// #include "program.h"
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/fpmrun/fpmrun/gpu/kernels"
)

// functions are the kernels of a loaded module by name.
type functions map[string]unsafe.Pointer

// loadKernels compiles the kernels for a device, or reads what an earlier run compiled, and loads them.
func (m *machine) loadKernels(d Device, l *Libraries, headSize int) (functions, error) {
	image, err := cached(kernels.Source(), l.NVRTC, compileOptions(d, headSize))
	if err != nil {
		return nil, err
	}
	return m.load(image, kernels.NamesFor(headSize, d.hopper()))
}

// compileOptions are the compiler's for the kernels of a device and a head size.
func compileOptions(d Device, headSize int) []string {
	return []string{"--gpu-architecture=" + architecture(d), "--std=c++17", fmt.Sprintf("-DHEAD_SIZE=%d", headSize)}
}

// load brings machine code to the device and finds kernels in it.
func (m *machine) load(image []byte, names []string) (functions, error) {
	const logSize = 4096
	log := (*C.char)(C.calloc(1, logSize))
	defer C.free(unsafe.Pointer(log))
	data := C.CBytes(image)
	defer C.free(data)
	var module unsafe.Pointer
	if err := check(C.load_module(m.c, &module, data, log, logSize)); err != nil {
		return nil, fmt.Errorf("cuda: load the kernels: %w: %s", err, C.GoString(log))
	}
	found := functions{}
	for _, name := range names {
		text := C.CString(name)
		var f unsafe.Pointer
		err := check(C.find_function(m.c, &f, module, text))
		C.free(unsafe.Pointer(text))
		if err != nil {
			return nil, fmt.Errorf("cuda: kernel %s: %w", name, err)
		}
		found[name] = f
	}
	return found, nil
}

// architecture is the machine code that is made for a device. Hopper's own instructions need the "a".
func architecture(d Device) string {
	name := fmt.Sprintf("sm_%d%d", d.Capability[0], d.Capability[1])
	if name == "sm_90" {
		name += "a"
	}
	return name
}

// cached is the machine code of a source, which one process compiles and the cache keeps.
func cached(source, compiler string, options []string) ([]byte, error) {
	c := newCache("kernels", ".cubin", append([]string{compiler, source}, options...)...)
	image, ok, unlock := c.lock()
	defer unlock()
	if ok {
		return image, nil
	}
	image, _, err := compile(source, options)
	if err == nil {
		c.write(image)
	}
	return image, err
}

// builtinMissing is NVRTC_ERROR_BUILTIN_OPERATION_FAILURE.
const builtinMissing = 7

// compile makes machine code; the second result is what the compiler says of it.
func compile(source string, options []string) ([]byte, string, error) {
	text, name := C.CString(source), C.CString("kernels.cu")
	defer C.free(unsafe.Pointer(text))
	defer C.free(unsafe.Pointer(name))
	list := (*[16]*C.char)(C.calloc(16, C.size_t(unsafe.Sizeof(uintptr(0)))))
	defer C.free(unsafe.Pointer(list))
	for i, o := range options {
		list[i] = C.CString(o)
		defer C.free(unsafe.Pointer(list[i]))
	}
	var image, log *C.char
	var size C.size_t
	err := check(C.compile(text, name, &list[0], C.int(len(options)), &image, &size, &log))
	defer C.free(unsafe.Pointer(image))
	defer C.free(unsafe.Pointer(log))
	var e *Error
	switch {
	case errors.As(err, &e) && e.Code == builtinMissing:
		return nil, "", fmt.Errorf("cuda: compile the kernels: %w: libnvrtc-builtins, which belongs to NVRTC, is not beside it or has another version; reinstall both or name their folder in %s", err, LibraryDir)
	case err != nil:
		return nil, "", fmt.Errorf("cuda: compile the kernels with %s: %w\n%s", strings.Join(options, " "), err, C.GoString(log))
	}
	said := ""
	if log != nil {
		said = C.GoString(log)
	}
	return C.GoBytes(unsafe.Pointer(image), C.int(size)), said, nil
}
