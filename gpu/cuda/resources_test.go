//go:build linux && cgo

package cuda

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/gpu/kernels"
)

// No kernel of any head size spills registers or takes more of a multiprocessor than it should.
func TestKernelLimits(t *testing.T) {
	l := needGPU(t)
	limits, err := kernels.ReadLimits()
	if err != nil {
		t.Fatal(err)
	}
	for _, head := range []int{32, 64, 80, 96, 128, 256} {
		t.Run(fmt.Sprintf("head %d", head), func(t *testing.T) {
			s := newStand(t, l, head)
			var table strings.Builder
			for _, name := range slices.Sorted(maps.Keys(s.functions)) {
				r, err := s.m.resources(s.functions, name)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&table, "\n%3d %-16s %3d registers %6d bytes shared %4d bytes local", head, name, r.Registers, r.Shared, r.Local)
				if r.Registers == 0 {
					t.Errorf("kernel %s has no registers", name)
				}
				if err := limits.Check(head, name, r); err != nil {
					t.Error(err)
				}
			}
			t.Log(table.String())
		})
	}
}

// The compiler lets the products of warp groups overlap with what comes between: where it cannot, each waits for the one before, and its log says that they are serialized.
func TestKernelPipelines(t *testing.T) {
	needGPU(t)
	devices, err := Devices()
	if err != nil {
		t.Fatal(err)
	}
	for _, head := range []int{64, 128} {
		_, log, err := compile(kernels.Source(), append(compileOptions(devices[0], head), "--ptxas-options=-v"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(log) {
			if strings.Contains(line, "serialized") {
				t.Errorf("head %d: %s", head, line)
			}
		}
	}
}

// The test reads every kernel; with a compiler that spills it fails. The figures are the fake driver's.
func TestEmulatedLimits(t *testing.T) {
	const test = "^TestKernelLimits$/^head_128$"
	got := inFakeProcess(t, 128, []string{"-test.v", "-test.run", test}, "FPM_REQUIRE_GPU=1")
	for _, name := range kernels.NamesFor(128, true) {
		if !strings.Contains(got, "128 "+name+" ") {
			t.Errorf("kernel %s is not in the table: %s", name, got)
		}
	}
	got, err := fakeProcess(t, 128, []string{"-test.run", test}, "FPM_REQUIRE_GPU=1", "FAKE_SPILLS=keys")
	if want := "kernel keys of head size 128 has 8 bytes of local memory, at most 0 are allowed"; err == nil || strings.Count(got, "bytes of local memory") != 1 || !strings.Contains(got, want) {
		t.Errorf("got %v, %s\nwant %q alone", err, got, want)
	}
}
