package launcher

import (
	"os"
	"path/filepath"
	"testing"
)

// A job folder has what its ranks need, state pages for those of this node only; one that cannot be made leaves nothing.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	environ := []string{"TMPDIR=" + dir}
	f, err := newFolder(environ, layout{Nodes: 2, Node: 1, First: 2, World: 4}, 2, "token")
	if err != nil {
		t.Fatal(err)
	}
	for rank := range 5 {
		if _, err := f.state(rank); (err == nil) != (rank == 2 || rank == 3) {
			t.Errorf("state of rank %d: %v", rank, err)
		}
	}
	if text, err := os.ReadFile(f.token()); err != nil || string(text) != "token" {
		t.Errorf("token %q (%v)", text, err)
	}
	if err := f.remove(); err != nil {
		t.Error(err)
	}
	if f, err := newFolder(environ, alone(-1), 1, ""); err == nil {
		t.Errorf("a folder for -1 ranks was made: %v", f.path)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 || err != nil {
		t.Errorf("left: %v (%v)", left, err)
	}
	head, err := newFolder(environ, layout{Nodes: 2, Node: -1, World: 4}, 0, "")
	if err != nil {
		t.Fatalf("a head without ranks: %v", err)
	}
	if err := head.remove(); err != nil {
		t.Error(err)
	}
}
