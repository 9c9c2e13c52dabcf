//go:build !linux || !cgo

package cuda

import (
	"errors"

	"github.com/fpmrun/fpmrun/gpu"
)

var errBuild = errors.New("cuda: this program was built without cgo; build it on Linux with CGO_ENABLED=1 and a C compiler")

// Libraries is what was opened.
type Libraries struct{}

// Device is what the driver says of a GPU.
type Device struct {
	Name            string
	UUID            string
	Multiprocessors int
	Memory          int64 // bytes
}

// Open says that there is no CUDA in this build.
func Open(func(string) string) (*Libraries, error) { return nil, errBuild }

// Devices says that there is no CUDA in this build.
func Devices() ([]Device, error) { return nil, errBuild }

// Free says that there is no CUDA in this build.
func Free(int) (int64, error) { return 0, errBuild }

// New says that there is no CUDA in this build.
func New(gpu.Config, *Libraries, int) (gpu.Engine, error) { return nil, errBuild }
