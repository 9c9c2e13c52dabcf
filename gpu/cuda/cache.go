//go:build linux && cgo

package cuda

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// cache is a file in the user's cache folder with what takes long to find out and is the same for all processes. A cache that cannot be read or written costs time only.
type cache struct {
	path string // "" without a folder that can be written
}

// newCache is the file of a kind, such as "kernels", under a name that stands for all that its content depends on.
func newCache(kind, ending string, key ...string) cache {
	dir, err := os.UserCacheDir()
	if err == nil {
		dir = filepath.Join(dir, "fpmrun", kind)
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return cache{}
	}
	digest := sha256.Sum256([]byte(strings.Join(key, "\x00")))
	return cache{filepath.Join(dir, fmt.Sprintf("%x%s", digest[:16], ending))}
}

// lock keeps other processes out until the function that it returns is called, and returns what the file holds; ok says that there is one to read. Of several processes that need a content one makes it
// while the others wait. A file that cannot be locked is not written either.
func (c *cache) lock() (content []byte, ok bool, unlock func()) {
	unlock = func() {}
	if c.path == "" {
		return nil, false, unlock
	}
	file, err := os.OpenFile(c.path+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err == nil {
		unlock = func() { _ = file.Close() } // which gives the lock back
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		c.path = ""
		return nil, false, unlock
	}
	content, err = os.ReadFile(c.path)
	return content, err == nil, unlock
}

// write puts a content in place of the file's.
func (c *cache) write(content []byte) {
	if c.path == "" {
		return
	}
	if err := os.WriteFile(c.path+".tmp", content, 0o644); err == nil {
		_ = os.Rename(c.path+".tmp", c.path)
	}
}
