package state

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestJobExitsAndPauses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "job")
	w, err := CreateJob(path, 5)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r, err := OpenJob(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Size() != 5 {
		t.Errorf("size %d, want 5", r.Size())
	}
	before := r.Generation()
	w.SetExit(1, Exit{})
	w.SetExit(1, Exit{Status: 7}) // the first stands
	w.SetExit(4, Exit{Status: 9, Signalled: true})
	w.SetExit(5, Exit{})
	w.SetExit(-1, Exit{})
	if r.Generation() == before {
		t.Error("generation did not change")
	}
	for rank, want := range []string{"", "exited with status 0", "", "", "was killed by signal 9 (killed)"} {
		e, ok := r.Exit(rank)
		if ok != (want != "") || ok && e.String() != want {
			t.Errorf("rank %d: %v %v, want %q", rank, e, ok, want)
		}
	}
	if _, ok := r.Exit(5); ok {
		t.Error("a rank outside the world has an exit")
	}
	w.Pause()
	w.Pause()
	if now, _ := r.Paused(); !now {
		t.Error("not paused after Pause")
	}
	w.Resume()
	w.Resume()
	if now, total := r.Paused(); now || total <= 0 {
		t.Errorf("after Resume: paused %v, total %v", now, total)
	}
}

func TestOpenJobRefuses(t *testing.T) {
	dir := t.TempDir()
	good := make([]byte, jobHeader+16)
	copy(good, jobMagic)
	good[8], good[12] = 1, 2
	change := func(off int, v byte) []byte {
		b := append([]byte(nil), good...)
		b[off] = v
		return b
	}
	for _, c := range []struct {
		name, want string
		data       []byte
	}{
		{"magic", "magic", change(0, 'x')},
		{"version", "version 3", change(8, 3)},
		{"size", "do not fit world size 3", change(12, 3)},
		{"empty", "no page at offset 0", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(dir, c.name)
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := OpenJob(path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("OpenJob: %v, want %q in it", err, c.want)
			}
		})
	}
	if _, err := CreateJob(filepath.Join(dir, "none"), 0); err == nil {
		t.Error("a job page for an empty world was made")
	}
}
