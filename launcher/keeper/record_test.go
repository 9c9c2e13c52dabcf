package keeper

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Orders and notices are read as they were written, and one that is cut short anywhere, or has bytes too many, is an error.
func TestRecords(t *testing.T) {
	orders := []Order{
		{}, {Finish: true}, {Signal: syscall.SIGTERM}, {Folder: "/tmp/fpm", Env: []string{"A=1", "EMPTY=", ""}},
		{Rank: &Rank{Rank: 70_000, Path: "/bin/x", Args: []string{"x", ""}, Env: []string{"B=\xff\n"}, Dir: "/", CPUs: []int{0, 127}}},
	}
	for _, want := range orders {
		checkRecord(t, want, (*Order).pass)
	}
	for _, want := range []Notice{{}, {Rank: -1, PID: 1 << 22}, {Failed: syscall.ENOEXEC}, {Unbound: syscall.EINVAL, Stopped: true}, {Exited: true, Status: 0x0b, Why: "out of memory"}} {
		checkRecord(t, want, (*Notice).pass)
	}
}

func checkRecord[T any](t *testing.T, want T, pass func(*T, *record)) {
	t.Helper()
	var got T
	text, read := framed(func(r *record) { pass(&want, r) }), func(r *record) { got = *new(T); pass(&got, r) }
	in := bufio.NewReader(bytes.NewReader(text))
	if err := readRecord(in, read); err != nil || !cmp.Equal(got, want, cmpopts.EquateEmpty()) {
		t.Errorf("%+v was read as %+v, %v", want, got, err)
	}
	if err := readRecord(in, read); err != io.EOF {
		t.Errorf("after the last record: %v, want %v", err, io.EOF)
	}
	for n := 1; n < len(text); n++ {
		if err := readRecord(bufio.NewReader(bytes.NewReader(text[:n])), read); err == nil {
			t.Errorf("%d of %d bytes of %+v are read without an error", n, len(text), want)
		}
		if n < 4 {
			continue
		}
		short := bytes.Clone(text[:n]) // whole by its length, its fields cut short
		binary.LittleEndian.PutUint32(short, uint32(n-4))
		if err := readRecord(bufio.NewReader(bytes.NewReader(short)), read); !errors.Is(err, errRecord) {
			t.Errorf("%d bytes of fields of %+v: %v, want %v", n-4, want, err, errRecord)
		}
	}
	long := append(bytes.Clone(text), 0)
	binary.LittleEndian.PutUint32(long, uint32(len(long)-4))
	if err := readRecord(bufio.NewReader(bytes.NewReader(long)), read); err == nil {
		t.Errorf("a byte too many behind %+v is no error", want)
	}
}
