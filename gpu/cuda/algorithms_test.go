//go:build linux && cgo

package cuda

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"testing"
)

// A choice is made once for all that share the cache, also when they ask at the same time, and another driver has choices of its own.
func TestAlgorithmsAreChosenOnce(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	device, libraries := Device{Name: "GPU"}, &Libraries{Driver: 13000, CublasLt: 130000}
	choice := func(v byte) []byte { return bytes.Repeat([]byte{v}, 64) }
	var mu sync.Mutex
	var all sync.WaitGroup
	picks, got := 0, make([][]byte, 8)
	for i := range got {
		all.Go(func() {
			c, err := newAlgorithms(device, libraries).choose("a", func() ([]byte, error) {
				mu.Lock()
				defer mu.Unlock()
				picks++
				return choice(byte(i + 1)), nil
			})
			if err != nil {
				t.Error(err)
			}
			got[i] = c
		})
	}
	all.Wait()
	for i := range got {
		if !bytes.Equal(got[i], got[0]) || picks != 1 {
			t.Errorf("%d choices; process %d has %x, the first %x", picks, i, got[i], got[0])
		}
	}
	broken := errors.New("broken")
	if _, err := newAlgorithms(device, &Libraries{Driver: 12080, CublasLt: 130000}).choose("a", func() ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("another driver: %v", err)
	}
	a := newAlgorithms(device, libraries)
	if err := os.WriteFile(a.cache.path, []byte(`{"a":"AAAA"`), 0o644); err != nil {
		t.Fatal(err)
	}
	if c, err := a.choose("a", func() ([]byte, error) { return choice(9), nil }); err != nil || !bytes.Equal(c, choice(9)) {
		t.Errorf("after a torn file: %x, %v", c, err)
	}
	if c, err := newAlgorithms(device, libraries).choose("a", func() ([]byte, error) { return nil, broken }); err != nil || !bytes.Equal(c, choice(9)) {
		t.Errorf("the file was not made anew: %x, %v", c, err)
	}
}
