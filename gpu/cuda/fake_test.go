//go:build linux && cgo

package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fpmrun/fpmrun/gpu"
)

// inFake is set in a copy of the test program whose CUDA libraries are the fake ones.
const inFake = "FPM_TEST_FAKE_CUDA"

// fakeLibraries builds the fake libraries once and returns their folder.
var fakeLibraries = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "fake-cuda-")
	if err != nil {
		return "", err
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "gcc"
	}
	library := filepath.Join(dir, "libcuda.so.1")
	if text, err := exec.Command(compiler, "-shared", "-fPIC", "-O1", "-o", library, "testdata/fake.c").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	for _, name := range []string{"libcublasLt.so.13", "libnvrtc.so.13"} {
		if err := os.Symlink("libcuda.so.1", filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	if os.Getenv(inFake) != "" {
		if err := fakeRun(); err != nil {
			fmt.Println("error:", err)
		}
		os.Exit(0)
	}
	status := m.Run()
	if dir, err := fakeLibraries(); err == nil {
		_ = os.RemoveAll(dir) // of the temporary folder
	}
	os.Exit(status)
}

// fakeRun runs two steps on the fake GPU, each call on a thread of its own, and prints the first step's commands.
func fakeRun() error {
	g := geometry(failing{}, "qwen2.5-7b", `{`+small+`"num_attention_heads":4,"num_key_value_heads":2,"head_dim":32}`)
	var e *Engine
	var out gpu.Output
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if os.Getenv("FAKE_FAIL") == "publish" {
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
			e, err = New(configuration(g), l, 0)
			return err
		},
		func() error { return e.Enqueue(step) },
		func() error { return e.Await(ctx, &out) },
		func() error { return e.Enqueue(next) },
		func() error { return e.Await(ctx, &out) },
		func() error {
			fmt.Print(e.programs[[2]int{41, 2}])
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
	dir, err := fakeLibraries()
	if err != nil {
		t.Skip("no fake CUDA libraries: ", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), inFake+"=1", "LD_LIBRARY_PATH="+dir, "XDG_CACHE_HOME="+t.TempDir())
	cmd.Env = append(cmd.Env, environ...)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("the process ended with %v: %s", err, text)
	}
	return string(text)
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
		{"a launch fails", "FAKE_FAIL=cuLaunchKernel", []string{"command", "ids to the host (publish)", "cuLaunchKernel", "(719)"}},
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
