package env

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if _, err := ReadToken(path); err == nil {
		t.Error("a file that is not there was read")
	}
	if err := os.WriteFile(path, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadToken(path); err != nil || string(got) != "secret" {
		t.Errorf("%q (%v)", got, err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadToken(path); err == nil || !strings.Contains(err.Error(), "has mode 0640; others can read it, want 0600") {
		t.Errorf("mode 0640: %v", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to give a file away")
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadToken(path); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Errorf("another user's: %v", err)
	}
}
