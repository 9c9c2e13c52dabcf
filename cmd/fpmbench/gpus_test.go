package main

import (
	"slices"
	"testing"

	"github.com/fpmrun/fpmrun/gpu"
)

func TestOwnGPUs(t *testing.T) {
	for _, c := range []struct {
		index, visible string
		want           []string
	}{
		{"0", "GPU-a,GPU-b", []string{"GPU-a"}}, {"1", "GPU-a, GPU-b", []string{"GPU-b"}}, {"0", "MIG-x", []string{"MIG-x"}},
		{"", "GPU-a", nil}, {"2", "GPU-a,GPU-b", nil}, {"-1", "GPU-a", nil}, {"0", "", nil}, {"0", "3,4", nil},
	} {
		got := ownGPUs(gpu.Info{}, func(name string) string {
			return map[string]string{"FPM_LOCAL_GPU": c.index, "CUDA_VISIBLE_DEVICES": c.visible}[name]
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("index %q of %q: got %v, want %v", c.index, c.visible, got, c.want)
		}
	}
	if got := ownGPUs(gpu.Info{Host: map[string]string{"gpu_uuid": "GPU-own"}}, func(string) string { return "0" }); !slices.Equal(got, []string{"GPU-own"}) {
		t.Errorf("the engine's own: %v", got)
	}
}
