package state

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func newPage(t *testing.T) (string, *Page) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rank-0")
	if err := Create(path, 1); err != nil {
		t.Fatal(err)
	}
	p, err := Open(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return path, p
}

func TestCreateIsPrivateAndExclusive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page")
	if err := Create(path, 1); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 || info.Size() != PageSize {
		t.Errorf("mode %v size %d, want 0600 and %d", info.Mode(), info.Size(), PageSize)
	}
	if err := Create(path, 1); err == nil {
		t.Error("second Create of one path succeeded")
	}
	s, err := Read(path, 0)
	if err != nil || s.PID != 0 || s.Blamed != -1 {
		t.Errorf("untouched page: pid %d blamed %d err %v, want 0, -1, nil", s.PID, s.Blamed, err)
	}
}

func TestPagesOfOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pages")
	if err := Create(path, 3); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		p, err := Open(path, i)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		p.Start(10+i, 20, "run")
	}
	for i := range 3 {
		if s, err := Read(path, i); err != nil || s.Rank != 10+i {
			t.Errorf("page %d: rank %d, %v", i, s.Rank, err)
		}
	}
	for _, i := range []int{-1, 3} {
		if _, err := Open(path, i); err == nil {
			t.Errorf("page %d of 3 was opened", i)
		}
		if _, err := Read(path, i); err == nil {
			t.Errorf("page %d of 3 was read", i)
		}
	}
}

func TestPageRoundTrip(t *testing.T) {
	path, p := newPage(t)
	p.Start(3, 8, "run-1")
	p.SetPhase(Joined)
	a := p.Begin("barrier", 0, 17)
	b := p.Begin("gather", 42, 5)
	p.Arrived(b, 3)
	p.Arrived(b, 7)
	p.Arrived(b, 7)
	p.Arrived(b, 5000)
	p.Waiting(b, 6)
	p.End(a, KindNone, 0)
	p.Fail(KindPeerLost, 6, "rank 6 lost")
	s, err := Read(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if s.PID != os.Getpid() || s.Rank != 3 || s.Size != 8 || s.Phase != Joined || s.RunID != "run-1" || s.Torn {
		t.Errorf("header: %+v", s)
	}
	if s.ErrKind != KindPeerLost || s.Blamed != 6 || s.ErrText != "rank 6 lost" {
		t.Errorf("last error: %v %d %q", s.ErrKind, s.Blamed, s.ErrText)
	}
	if len(s.Current) != 1 {
		t.Fatalf("current operations: %+v, want one", s.Current)
	}
	c := s.Current[0]
	if c.Op != "gather" || c.Group != 42 || c.Seq != 5 || c.Waiting != 6 || c.Count != 3 || fmt.Sprint(c.Arrived) != "[3 7]" {
		t.Errorf("current: %+v", c)
	}
	if len(s.Recent) != 1 || s.Recent[0].Op != "barrier" || s.Recent[0].Seq != 17 {
		t.Errorf("recent: %+v", s.Recent)
	}
}

func TestRecorderKeepsTheLast(t *testing.T) {
	_, p := newPage(t)
	for i := range 300 {
		p.End(p.Begin("barrier", 1, uint64(i)), KindNone, int64(i))
	}
	s := p.Snapshot()
	if len(s.Recent) != RecorderSize || s.Recent[0].Seq != 44 || s.Recent[255].Bytes != 299 {
		t.Errorf("%d records, first #%d, last %d bytes; want 256, 44, 299", len(s.Recent), s.Recent[0].Seq, s.Recent[255].Bytes)
	}
}

func TestSlotsRunOut(t *testing.T) {
	_, p := newPage(t)
	var slots []Slot
	for i := range Slots + 2 {
		slots = append(slots, p.Begin("call:x", 0, uint64(i)))
	}
	if s := p.Snapshot(); len(s.Current) != Slots || s.Overflow != 2 {
		t.Errorf("%d current, overflow %d; want %d, 2", len(s.Current), s.Overflow, Slots)
	}
	for _, s := range slots {
		p.Waiting(s, 1)
		p.End(s, KindTimeout, 0)
	}
	if s := p.Snapshot(); len(s.Current) != 0 || s.Finished != Slots+2 {
		t.Errorf("%d current, %d finished; want 0, %d", len(s.Current), s.Finished, Slots+2)
	}
}

func TestSecondOwnerStartsClean(t *testing.T) {
	path, p := newPage(t)
	p.Start(1, 2, "first")
	p.Begin("barrier", 0, 1)
	p.Fail(KindTimeout, 0, "late")
	q, err := Open(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if s := q.Snapshot(); s.Phase != Idle || len(s.Current) != 0 || s.ErrKind != KindNone || s.RunID != "" {
		t.Errorf("second owner sees %+v", s)
	}
}

func TestTornWriteIsReported(t *testing.T) {
	path, p := newPage(t)
	p.Start(0, 1, "r")
	*p.lock()++ // as a process that dies inside a write leaves it
	s, err := Read(path, 0)
	if err != nil || !s.Torn || s.RunID != "r" {
		t.Errorf("torn %v run %q err %v, want true, r, nil", s.Torn, s.RunID, err)
	}
	p.SetPhase(Joined)
	if s, err = Read(path, 0); err != nil || s.Torn || s.Phase != Joined {
		t.Errorf("after the next write: %+v, %v", s, err)
	}
}

func TestReadWhileWriting(t *testing.T) {
	path, p := newPage(t)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := uint64(1); ; i++ {
			select {
			case <-stop:
				return
			default:
				p.Fail(Kind(i), int(i), fmt.Sprint(i))
			}
		}
	}()
	for range 200 {
		s, err := Read(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !s.Torn && s.ErrKind != 0 && (int(s.ErrKind) != s.Blamed || fmt.Sprint(s.Blamed) != s.ErrText) {
			t.Fatalf("fields of different writes: %d %d %q", s.ErrKind, s.Blamed, s.ErrText)
		}
	}
	close(stop)
	<-done
}

func TestFailCutsAtARune(t *testing.T) {
	_, p := newPage(t)
	p.Fail(KindOther, -1, strings.Repeat("é", 400))
	if s := p.Snapshot(); len(s.ErrText) > maxErrText || strings.ContainsRune(s.ErrText, '?') || len(s.ErrText) < maxErrText-4 {
		t.Errorf("text of %d bytes: %q", len(s.ErrText), s.ErrText)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	header := func(magic string, version byte) []byte {
		b := make([]byte, PageSize)
		copy(b, magic)
		b[8] = version
		return b
	}
	for _, c := range []struct {
		name, want string
		data       []byte
	}{
		{"empty", "no page at offset 0", nil},
		{"short", "no page at offset 0", header(magic, 1)[:1000]},
		{"magic", "magic", header("something", 1)},
		{"version", "version 9", header(magic, 9)},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(dir, c.name)
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(path, 0); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Open: %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestPrivatePageAndClose(t *testing.T) {
	p := NewPrivate()
	s := p.Begin("barrier", 0, 1)
	if got := p.Snapshot(); len(got.Current) != 1 || time.Since(got.Opened) < 0 {
		t.Errorf("private page: %+v", got)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p.End(s, KindNone, 0) // must not touch unmapped memory
}

func TestWritesDoNotAllocate(t *testing.T) {
	_, p := newPage(t)
	if n := testing.AllocsPerRun(100, func() {
		s := p.Begin("barrier", 0, 1)
		p.Arrived(s, 1)
		p.Waiting(s, 1)
		p.End(s, KindNone, 0)
	}); n != 0 {
		t.Errorf("%v allocations per operation, want 0", n)
	}
}

func FuzzDecode(f *testing.F) {
	p := NewPrivate()
	p.Start(1, 2, "run")
	p.Arrived(p.Begin("barrier", 0, 1), 1)
	f.Add(append([]byte(nil), p.mem...))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Decode(data)
		if err == nil && len(s.Recent) > RecorderSize {
			t.Errorf("%d records", len(s.Recent))
		}
	})
}
