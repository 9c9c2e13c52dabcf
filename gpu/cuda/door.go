//go:build linux && cgo

package cuda

// #cgo CFLAGS: -O2
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "program.h"
import "C"

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"
	"unsafe"
)

// Names in the environment.
const (
	LibraryDir  = "FPM_CUDA_LIBDIR" // folder of the CUDA libraries where the loader does not find them
	Synchronous = "FPM_CUDA_SYNC"   // 1: wait after each command, to find the one that fails
)

// Libraries is what was opened.
type Libraries struct {
	Driver    int    // CUDA version that the driver offers: 1000 major + 10 minor
	CublasLt  int    // version of cuBLASLt as it counts: 10000 major + 100 minor + patch
	NVRTC     string // version of the run-time compiler, such as "13.0"
	BlasPath  string // where cuBLASLt was found
	NVRTCPath string // where NVRTC was found

	Took time.Duration // to open them

	Synchronous bool // each command is waited for
}

var opened struct {
	sync.Once
	libraries *Libraries
	err       error
}

// Open opens the CUDA libraries, once in a process, as the environment says. The error names the library or the function that is missing and what to do
// about it.
func Open(getenv func(string) string) (*Libraries, error) {
	opened.Do(func() {
		begin := time.Now()
		if opened.libraries, opened.err = open(getenv); opened.err == nil {
			opened.libraries.Took = time.Since(begin)
		}
	})
	return opened.libraries, opened.err
}

func open(getenv func(string) string) (*Libraries, error) {
	l := &Libraries{Synchronous: getenv(Synchronous) == "1"}
	name := C.CString("libcuda.so.1")
	defer C.free(unsafe.Pointer(name))
	if err := check(C.open_driver(name)); err != nil {
		return nil, fmt.Errorf("cuda: no NVIDIA driver that can be used: %w; install one for CUDA 12.0 or later", err)
	}
	var version C.int
	if C.driver_version(&version) == 0 {
		l.Driver = int(version)
	}
	var err error
	l.BlasPath, err = openFirst("cuBLASLt", getenv, []string{"libcublasLt.so.13", "libcublasLt.so.12"}, func(file, where *C.char) C.failure { return C.open_blas(file, where, pathSize) })
	if err != nil {
		return nil, err
	}
	l.CublasLt = int(C.blas_version())
	l.NVRTCPath, err = openFirst("NVRTC", getenv, []string{"libnvrtc.so.13", "libnvrtc.so.12"}, func(file, where *C.char) C.failure { return C.open_nvrtc(file, where, pathSize) })
	if err != nil {
		return nil, err
	}
	var major, minor C.int
	if C.nvrtc_version(&major, &minor) == 0 {
		l.NVRTC = fmt.Sprintf("%d.%d", major, minor)
	}
	return l, nil
}

const pathSize = 1024

// openFirst opens the first of several names that can be opened: in the folder that the environment names, by the loader, in the places of CUDA's
// own installer and of Python packages.
func openFirst(what string, getenv func(string) string, names []string, open func(file, where *C.char) C.failure) (string, error) {
	where := (*C.char)(C.malloc(pathSize))
	defer C.free(unsafe.Pointer(where))
	var tried []error
	for _, path := range candidates(getenv, names) {
		file := C.CString(path)
		err := check(open(file, where))
		C.free(unsafe.Pointer(file))
		if err == nil {
			return C.GoString(where), nil
		}
		tried = append(tried, err)
	}
	return "", fmt.Errorf("cuda: %s cannot be opened; install CUDA's libraries or name their folder in %s: %w", what, LibraryDir, errors.Join(tried...))
}

// candidates are the paths and names under which a library is looked for, in order.
func candidates(getenv func(string) string, names []string) []string {
	var list []string
	if dir := getenv(LibraryDir); dir != "" {
		for _, name := range names {
			list = append(list, filepath.Join(dir, name))
		}
	}
	list = append(list, names...)
	patterns := []string{"/usr/local/cuda*/lib64"}
	if env := getenv("VIRTUAL_ENV"); env != "" {
		patterns = append(patterns, filepath.Join(env, "lib/python3*/site-packages/nvidia/*/lib"))
	}
	for _, pattern := range patterns {
		for _, name := range names {
			found, err := filepath.Glob(filepath.Join(pattern, name))
			if err == nil { // the patterns are well formed
				list = append(list, found...)
			}
		}
	}
	return list
}

// Error is a failed call of a CUDA library.
type Error struct {
	Call string // function, or the library that could not be opened
	Code int
	Text string // what the library says of it
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%d)", e.Call, e.Text, e.Code) }

// check turns what C returned into an error.
func check(f C.failure) error {
	if f.call == nil {
		return nil
	}
	return &Error{Call: C.GoString(f.call), Code: int(f.code), Text: C.GoString(&f.text[0])}
}
