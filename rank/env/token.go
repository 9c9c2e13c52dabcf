package env

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// ReadToken reads a file with a job's secret, which must belong to this user and be readable for nobody else. The error does not
// name what named the file.
func ReadToken(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %04o; others can read it, want 0600", path, info.Mode().Perm())
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s belongs to user %d, want %d", path, stat.Uid, os.Geteuid())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return []byte(strings.TrimSpace(string(text))), nil
}
