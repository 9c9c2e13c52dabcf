//go:build linux && cgo

package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fpmrun/fpmrun/gpu"
)

// inFake is set in a copy of the test program whose CUDA libraries are the fake ones.
const inFake = "FPM_TEST_FAKE_CUDA"

// inClusters is set to the number of tokens from which on clusters compute products.
const inClusters = "FPM_TEST_CLUSTERS"

// building is held by the test that builds libraries.
var building sync.Mutex

// fakeLibraries builds the fake libraries for kernels of a head size, once, and returns their folder. All kernels are in it, compiled for the CPU.
func fakeLibraries(t *testing.T, headSize int) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	compiler := os.Getenv("CXX")
	if compiler == "" {
		compiler = "g++"
	}
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skip("no C++ compiler for the fake CUDA libraries: ", err)
	}
	dir := filepath.Join(fakes, fmt.Sprint(headSize))
	if err := os.Mkdir(dir, 0o700); errors.Is(err, os.ErrExist) {
		return dir
	} else if err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(dir, "libcuda.so.1")
	build := exec.Command(compiler, "-shared", "-fPIC", "-O2", "-w", fmt.Sprintf("-DHEAD_SIZE=%d", headSize), "-o", library, "testdata/fake.cc")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, name := range []string{"libcublasLt.so.13", "libnvrtc.so.13"} {
		if err := os.Symlink("libcuda.so.1", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// fakes holds the libraries that were built, in a folder per head size.
var fakes string

func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv(inClusters)); err == nil {
		clusterFrom = n
	}
	if os.Getenv(inFake) != "" {
		if err := fakeRun(); err != nil {
			fmt.Println("error:", err)
		}
		os.Exit(0)
	}
	var err error
	if fakes, err = os.MkdirTemp("", "fake-cuda-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	_ = os.RemoveAll(fakes) // in the temporary folder
	os.Exit(status)
}

// fakeRun runs two steps on the fake GPU, each call on a thread of its own, and prints the commands of both.
func fakeRun() error {
	g := geometry(failing{}, "qwen2.5-7b", `{`+small+`"num_attention_heads":4,"num_key_value_heads":2,"head_dim":32}`)
	var e *Engine
	var out gpu.Output
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if os.Getenv("FAKE_FAIL") == "publish" && os.Getenv("FAKE_LEAST") == "" {
		cancel()
	}
	step := &gpu.Step{Rows: []gpu.Row{{Slot: 3, Tokens: ids(g, 1, 40), Blocks: []int32{1, 2, 3}}, {Slot: 5, Tokens: ids(g, 2, 1), Blocks: []int32{4}}}}
	next := &gpu.Step{Rows: []gpu.Row{{Slot: 3, Computed: 40, Blocks: []int32{1, 2, 3}}}}
	for _, call := range []func() error{
		func() error {
			l, err := Open(os.Getenv)
			if err != nil {
				return err
			}
			cfg := configuration(g)
			cfg.Progress = os.Getenv("FAKE_PROGRESS") != ""
			if e, err = New(cfg, l, 0); err == nil && os.Getenv("FAKE_LEAST") != "" {
				e.watchdog.least = time.Millisecond
			}
			return err
		},
		func() error { return e.Enqueue(step) },
		func() error { return e.Await(ctx, &out) },
		func() error { return e.Enqueue(next) },
		func() error { return e.Await(ctx, &out) },
		func() error {
			fmt.Print(e.programs[shape{gpu.GraphNone, 41, 2}].String() + e.programs[shape{gpu.GraphNone, 1, 1}].String())
			return e.Close()
		},
	} {
		done := make(chan error)
		go func() { done <- call() }()
		if err := <-done; err != nil {
			if e != nil {
				err = errors.Join(err, e.Close())
			}
			return err
		}
	}
	return nil
}

// failing is a test that ends the process.
type failing struct{ testing.TB }

func (failing) Helper()           {}
func (failing) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// fake runs fakeRun in a process of its own.
func fake(t *testing.T, environ ...string) string {
	t.Helper()
	return inFakeProcess(t, 32, nil, append([]string{inFake + "=1"}, environ...)...)
}

// inFakeProcess runs this test program once more, with the fake libraries.
func inFakeProcess(t *testing.T, headSize int, args []string, environ ...string) string {
	t.Helper()
	text, err := fakeProcess(t, headSize, args, environ...)
	if err != nil {
		t.Errorf("the process ended with %v: %s", err, text)
	}
	return text
}

// fakeProcess is inFakeProcess where the process may fail.
func fakeProcess(t *testing.T, headSize int, args []string, environ ...string) (string, error) {
	t.Helper()
	dir := fakeLibraries(t, headSize)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "XDG_CACHE_HOME="+t.TempDir(), inClusters+"=17")
	cmd.Env = append(cmd.Env, environ...)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// The engine runs its commands in the documented order; every call works on any thread and nothing is left allocated.
func TestProgram(t *testing.T) {
	got := fake(t)
	path := filepath.Join("testdata", "program.golden")
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The kernels, compiled for the CPU and run by fibers, give the CPU engine's logits, in each head size that they treat differently. That threads of a block
// wait in different places ends the process.
func TestEmulatedKernels(t *testing.T) {
	t.Parallel() // with the graphs: each takes minutes
	for head, models := range map[int]string{32: "llama|mistral|qwen", 64: "head_64|group_1$", 80: "head_80,", 128: "head_128,", 256: "head_256,"} {
		t.Run(fmt.Sprintf("head size %d", head), func(t *testing.T) {
			got := inFakeProcess(t, head, []string{"-test.v", "-test.short", "-test.run", "^(TestLogits|TestRandomBits)$/(" + models + ")"}, "FPM_REQUIRE_GPU=1")
			if !strings.Contains(got, "worst row") {
				t.Errorf("no model was run: %s", got)
			}
		})
	}
}

// Graphs and steps in flight, on the fake GPU with emulated kernels.
func TestEmulatedGraphs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	got := inFakeProcess(t, 32, []string{"-test.v", "-test.short", "-test.run", "^(TestGraphs|TestReplay|TestCase2.*|TestDispatch.*|TestTwoInFlight|TestRepeats|TestOracleFolders|TestCeilings.*|TestTensorMap|TestTiming|TestProgress|TestStages)$"},
		"FPM_REQUIRE_GPU=1", "FPM_ORACLE_DIR="+dir)
	if !strings.Contains(got, "worst row") {
		t.Errorf("nothing was run: %s", got)
	}
	if folders, err := filepath.Glob(filepath.Join(dir, "*/oracle.json")); err != nil || len(folders) != 1 {
		t.Errorf("the oracle got %d folders (%v): %s", len(folders), err, got)
	}
}

// Whatever is missing or fails is named, with what to do about it.
func TestFailuresAreNamed(t *testing.T) {
	for _, c := range []struct {
		name, environ string
		want          []string
	}{
		{"no driver", "LD_LIBRARY_PATH=/nonexistent", []string{"NVIDIA driver", "libcuda.so.1", "install one"}},
		{"old driver", "FAKE_WITHOUT=cuMemcpyHtoDAsync", []string{"cuMemcpyHtoDAsync", "newer driver"}},
		{"no memory", "FAKE_LIMIT=36000000", []string{"GiB for", "CUDA_ERROR_OUT_OF_MEMORY", "are free", "--max-num-batched-tokens"}},
		{"kernels do not compile", "FAKE_FAIL=source", []string{"compile the kernels", "sm_90a", "line 1: made up"}},
		{"compiler without its other half", "FAKE_FAIL=builtins", []string{"libnvrtc-builtins", LibraryDir}},
		{"a launch fails", "FAKE_FAIL=cuLaunchKernelEx", []string{"command", "ids to the host (publish)", "cuLaunchKernelEx", "(719)"}},
		{"the caller gives up", "FAKE_FAIL=publish", []string{"awaiting a step", "context canceled"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := fake(t, c.environ)
			for _, part := range c.want {
				if !strings.Contains(got, part) {
					t.Errorf("got %s\nwant %q in it", got, part)
				}
			}
		})
	}
}

// A folder of libraries that does not have them is named with all that was tried.
func TestCandidates(t *testing.T) {
	got := candidates(func(name string) string { return map[string]string{LibraryDir: "/opt/cuda"}[name] }, []string{"libx.so.13", "libx.so.12"})
	if want := "[/opt/cuda/libx.so.13 /opt/cuda/libx.so.12 libx.so.13 libx.so.12]"; fmt.Sprint(got[:4]) != want {
		t.Errorf("got %v, want %s first", got, want)
	}
}
