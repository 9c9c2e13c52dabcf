package launcher

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
)

// next takes and gives back what a console takes at once; nil at the end.
func next(q *backlog) []byte {
	pieces := q.take()
	text := bytes.Join(pieces, nil)
	if pieces != nil {
		q.give(pieces)
		return text
	}
	return nil
}

// drain takes everything that is in a finished backlog.
func drain(q *backlog) []byte {
	var all []byte
	for text := next(q); text != nil; text = next(q) {
		all = append(all, text...)
	}
	return all
}

// numbered is at least n bytes of numbered lines.
func numbered(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.Bytes()
}

// What does not fit the memory comes back from the disk, in order, and the disk's room comes back too.
func TestBacklogSpills(t *testing.T) {
	room := &spill{dir: t.TempDir(), limit: 64 << 20}
	q := newBacklog(room, false, nil)
	defer q.file.close()
	want := numbered(20 << 20)
	for part := range bytes.SplitSeq(want, []byte("99\n")) {
		q.add(part)
		q.add([]byte("99\n"))
	}
	want = append(want, "99\n"...)
	if used := room.used.Load(); used < 19<<20 || q.size > backlogMemory {
		t.Errorf("%d bytes on disk and %d in memory", used, q.size)
	}
	if names, err := os.ReadDir(room.dir); err != nil || len(names) > 0 {
		t.Errorf("the spilled output has a name: %v (%v)", names, err)
	}
	var got []byte
	for len(got) < len(want)/2 {
		got = append(got, next(q)...)
	}
	if used := room.used.Load(); used > 12<<20 {
		t.Errorf("%d bytes in use after half was read", used)
	}
	q.finish()
	if got = append(got, drain(q)...); !bytes.Equal(got, want) {
		t.Errorf("%d bytes came back of %d, or other ones", len(got), len(want))
	}
	if used := room.used.Load(); used != 0 {
		t.Errorf("%d bytes in use at the end", used)
	}
}

// What comes back from the disk ends with whole lines as long as there are any.
func TestBacklogTakesLines(t *testing.T) {
	q := newBacklog(&spill{dir: t.TempDir(), limit: 1 << 30}, false, nil)
	defer q.file.close()
	q.add(numbered(backlogMemory + 10*lineMax))
	q.add([]byte("the rest"))
	q.finish()
	for piece := next(q); piece != nil; piece = next(q) {
		if whole := piece[len(piece)-1] == '\n'; !whole && q.file.head > 0 && string(piece) != "the rest" {
			t.Errorf("a piece from the disk ends with %q", piece[len(piece)-20:])
		}
	}
}

// Without room, whoever adds waits until something is taken.
func TestBacklogBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newBacklog(&spill{}, false, nil)
		want := numbered(3 * backlogMemory)
		added := false
		go func() {
			q.add(want)
			added = true
			q.finish()
		}()
		synctest.Wait()
		if added || q.size != backlogMemory {
			t.Errorf("added: %v, %d bytes in memory, want %d and to wait", added, q.size, backlogMemory)
		}
		if got := drain(q); !bytes.Equal(got, want) {
			t.Errorf("%d bytes came back of %d, or other ones", len(got), len(want))
		}
	})
}

// With the other policy one line stands for what was dropped, at the gap or at the end.
func TestBacklogDrops(t *testing.T) {
	var told []int64
	q := newBacklog(&spill{}, true, func(n int64) { told = append(told, n) })
	first := bytes.Repeat([]byte("x"), backlogMemory-1)
	q.add(first)
	q.add([]byte("y and 12,345 lost bytes" + strings.Repeat("z", 12345-23+1)))
	q.add([]byte("lost too\n"))
	if len(told) > 0 {
		t.Errorf("told %v while the gap goes on", told)
	}
	var got []byte
	for range backlogMemory / lineMax / takeMax {
		got = append(got, next(q)...)
	}
	if !bytes.Equal(got, append(first, 'y')) {
		t.Errorf("got %d bytes, want the %d that fitted", len(got), backlogMemory)
	}
	q.add([]byte("after\n"))
	if got, want := string(next(q)), "\n(12,354 bytes dropped)\nafter\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	q.add(append(first, 'y'))
	q.add([]byte("the end"))
	q.finish()
	if got, want := string(drain(q)[backlogMemory:]), "\n(7 bytes dropped)\n"; got != want {
		t.Errorf("at the end: got %q, want %q", got, want)
	}
	if fmt.Sprint(told) != "[12354 7]" {
		t.Errorf("told %v, want [12354 7]", told)
	}
}

// A disk without room is as if nothing could be spilled; the reason is kept.
func TestSpillFails(t *testing.T) {
	room := &spill{dir: t.TempDir() + "/none", limit: 1 << 30}
	f := spillFile{room: room}
	if f.write([]byte("x")) {
		t.Error("written to a folder that there is not")
	}
	if err := room.err.Load(); err == nil || !errors.Is(*err, syscall.ENOENT) || room.used.Load() != 0 {
		t.Errorf("reason %v, %d bytes in use", err, room.used.Load())
	}
	full := spillFile{room: &spill{dir: t.TempDir(), limit: 3}}
	defer full.close()
	if !full.write([]byte("abc")) || full.write([]byte("d")) {
		t.Error("want room for 3 bytes and not for a fourth")
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 12345: "12,345", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
