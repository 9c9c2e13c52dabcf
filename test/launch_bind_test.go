package test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/launcher/machine"
)

// What --report-bindings says is what the kernel does, inside what was already allowed, on whatever machine this is.
func TestLaunchCase38Binding(t *testing.T) {
	if _, err := exec.LookPath("taskset"); err != nil {
		t.Skip("taskset is not installed")
	}
	allowed, err := machine.Affinity()
	if err != nil {
		t.Fatal(err)
	}
	one := allowed[len(allowed)-1]
	for _, c := range []struct {
		name    string
		command []string
		within  machine.CPUs
	}{
		{"cores", []string{"--bind-to", "core"}, allowed},
		{"NUMA nodes", []string{"--bind-to", "numa"}, allowed},
		{"one CPU allowed", []string{"--bind-to", "numa"}, machine.CPUs{one}},
	} {
		args := append([]string{"-c", c.within.String(), bin + "/fpmrun", "-np", "4", "--report-bindings", "--tag-output"}, c.command...)
		args = append(args, "sh", "-c", `echo "$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status) $OMP_NUM_THREADS"`)
		var stdout, stderr strings.Builder
		cmd := exec.Command("taskset", args...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s", c.name, err, stderr.String())
		}
		sharers := map[string]int{}
		for rank := range 4 {
			sharers[boundTo(t, stderr.String(), rank)]++
		}
		for rank := range 4 {
			said := boundTo(t, stderr.String(), rank)
			cpus, err := machine.ParseCPUs(said)
			if err != nil || len(cpus) == 0 || len(cpus.And(c.within)) != len(cpus) {
				t.Errorf("%s: rank %d is bound to %q (%v), want some of %v", c.name, rank, said, err, c.within)
			}
			if want := fmt.Sprintf("[%d]: %s %d\n", rank, said, max(1, len(cpus)/sharers[said])); !strings.Contains(stdout.String(), want) {
				t.Errorf("%s: rank %d: reported %s, want %q in\n%s", c.name, rank, said, want, stdout.String())
			}
		}
	}
}

// boundTo is what the report says of a rank.
func boundTo(t *testing.T, report string, rank int) string {
	t.Helper()
	_, rest, ok := strings.Cut(report, fmt.Sprintf("rank %d: CPUs ", rank))
	cpus, _, ok2 := strings.Cut(rest, " of NUMA node")
	if !ok || !ok2 {
		t.Fatalf("no binding of rank %d in\n%s", rank, report)
	}
	return cpus
}
