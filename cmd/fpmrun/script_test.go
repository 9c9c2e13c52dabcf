package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fpmrun/fpmrun/launcher/keeper"
)

func TestMain(m *testing.M) {
	if keeper.IsKeeper(os.Args) {
		os.Exit(keeper.Main(os.Args))
	}
	testscript.Main(m, map[string]func(){
		"fpmrun": func() { os.Exit(run(context.Background(), os.Args, os.Environ(), os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// Sessions as a user types them. Every script has a marker in its environment; when it is over, no process may carry it.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Deadline:            time.Now().Add(2 * time.Minute),
		Setup: func(e *testscript.Env) error {
			marker := "FPM_TEST_MARKER=" + filepath.Base(e.WorkDir) + strconv.Itoa(os.Getpid())
			e.Vars = append(e.Vars, marker, "TMPDIR="+e.Getenv("WORK"))
			e.Defer(func() {
				for deadline := time.Now().Add(5 * time.Second); ; {
					left := marked(marker)
					if len(left) == 0 {
						return
					}
					if time.Now().After(deadline) {
						t.Errorf("%s: left behind: %v", filepath.Base(e.WorkDir), left)
						return
					}
				}
			})
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			// waitfor FILE waits until a file exists: a rank says so that it has come so far.
			"waitfor": func(ts *testscript.TestScript, _ bool, args []string) {
				for deadline := time.Now().Add(20 * time.Second); ; {
					if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
						return
					}
					if time.Now().After(deadline) {
						ts.Fatalf("%s does not appear", args[0])
					}
				}
			},
			// nofolder fails when a job folder is left.
			"nofolder": func(ts *testscript.TestScript, _ bool, _ []string) {
				left, err := filepath.Glob(filepath.Join(ts.Getenv("WORK"), "fpmrun-*"))
				if err != nil || len(left) > 0 {
					ts.Fatalf("job folders left: %v (%v)", left, err)
				}
			},
			// dialogue FILE WANT compares events with expected ones, without what differs from run to run.
			"dialogue": func(ts *testscript.TestScript, _ bool, args []string) {
				got := ts.ReadFile(args[0])
				for _, r := range []struct{ field, sign string }{{"time", "T"}, {"run_id", "R"}, {"host", "H"}, {"pid", "P"}, {"seconds", "S"}} {
					got = regexp.MustCompile(`"`+r.field+`":("[^"]*"|[0-9.e+-]+)`).ReplaceAllString(got, `"`+r.field+`":`+r.sign)
				}
				got = regexp.MustCompile(`(?m)("event":"state".*"text":)"(\\"|[^"])*"`).ReplaceAllString(got, "${1}X")
				if diff := cmp.Diff(strings.Split(ts.ReadFile(args[1]), "\n"), strings.Split(got, "\n")); diff != "" {
					ts.Fatalf("%s differs from %s (-want +got)\n%s", args[0], args[1], diff)
				}
			},
			// secret FILE makes a file with a secret.
			"secret": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte("a secret of these tests, in "+args[0]), 0o600))
			},
			// port NAME sets a variable to a port that is free.
			"port": func(ts *testscript.TestScript, _ bool, args []string) {
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				ts.Check(err)
				_, port, err := net.SplitHostPort(ln.Addr().String())
				ts.Check(errors.Join(err, ln.Close()))
				ts.Setenv(args[0], port)
			},
			// listening PORT waits until somebody listens there.
			"listening": func(ts *testscript.TestScript, _ bool, args []string) {
				for deadline := time.Now().Add(20 * time.Second); ; {
					conn, err := net.Dial("tcp", "127.0.0.1:"+args[0])
					if err == nil {
						ts.Check(conn.Close())
						return
					}
					if time.Now().After(deadline) {
						ts.Fatalf("nobody listens at port %s", args[0])
					}
				}
			},
			// lines FILE N checks a number of lines.
			"lines": func(ts *testscript.TestScript, _ bool, args []string) {
				if got := strings.Count(ts.ReadFile(args[0]), "\n"); fmt.Sprint(got) != args[1] {
					ts.Fatalf("%s has %d lines, want %s", args[0], got, args[1])
				}
			},
		},
	})
}

// marked lists the living processes that carry a marker in their environment.
func marked(marker string) []string {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []string
	for _, e := range entries {
		environ, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err != nil || !bytes.Contains(environ, []byte(marker+"\x00")) {
			continue
		}
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		if !bytes.Contains(stat, []byte(") Z ")) {
			cmdline, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
			found = append(found, e.Name()+": "+string(bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '})))
		}
	}
	return found
}
