package kernels

import (
	"strings"
	"testing"
)

// Every kernel has limits for every head size, and not a line more is there.
func TestLimitsCoverAllKernels(t *testing.T) {
	limits, err := ReadLimits()
	if err != nil {
		t.Fatal(err)
	}
	used := map[limitKey]bool{}
	for _, head := range []int{32, 64, 80, 96, 128, 256} {
		for _, name := range NamesFor(head, true) {
			if err := limits.Check(head, name, Resources{}); err != nil {
				t.Error(err)
			}
			used[limitKey{head, name}], used[limitKey{kernel: name}] = true, true
		}
	}
	for k := range limits {
		if !used[k] {
			t.Errorf("there is no kernel %q of head size %d", k.kernel, k.head)
		}
	}
}

// What is beyond a limit is named with both numbers; a head size's own line goes first.
func TestLimitsCheck(t *testing.T) {
	limits, err := parseLimits("# most\n* a 64 128\n\n80 a 32 0 # narrow\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		head   int
		kernel string
		got    Resources
		want   []string // nothing: it is within its limits
	}{
		{64, "a", Resources{64, 0, 128}, nil},
		{64, "a", Resources{65, 0, 0}, []string{"kernel a of head size 64 has 65 registers", "at most 64"}},
		{64, "a", Resources{1, 8, 129}, []string{"has 8 bytes of local memory, at most 0", "has 129 bytes of shared memory, at most 128"}},
		{80, "a", Resources{33, 0, 0}, []string{"33 registers, at most 32"}},
		{80, "b", Resources{}, []string{"no line for kernel b of head size 80"}},
	} {
		err := limits.Check(c.head, c.kernel, c.got)
		if (err == nil) != (c.want == nil) {
			t.Errorf("%+v: got %v", c, err)
		}
		for _, part := range c.want {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("got %v, want %q in it", err, part)
			}
		}
	}
}

func TestLimitsMalformed(t *testing.T) {
	for text, want := range map[string]string{
		"* a 64":             "line 1: 3 words",
		"\n* a 64 -1":        `line 2: "-1"`,
		"x a 64 0":           `"x"`,
		"* a 1 0\n* a 2 0":   "line 2: a second line",
		"* a many 0 # words": `"many"`,
	} {
		if _, err := parseLimits(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
