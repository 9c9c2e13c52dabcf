package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
)

// full is a device without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// Whatever is printed and lost is an error, also where nobody looks at it.
func TestOutputIsLost(t *testing.T) {
	for _, args := range [][]string{{"check", "none.json"}, {"--help"}, {"show", "--help"}, {"--version"}} {
		var stderr bytes.Buffer
		if status := run(t.Context(), append([]string{"fpmstat"}, args...), full{}, &stderr); status != 1 || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%q: status %d, %q", args, status, stderr.String())
		}
	}
}

func TestOutputDescriptor(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, c := range []struct {
		name string
		out  output
		want uintptr
	}{{"file", output{Writer: f}, f.Fd()}, {"buffer", output{Writer: &bytes.Buffer{}}, ^uintptr(0)}} {
		if got := c.out.Fd(); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}
