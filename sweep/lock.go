package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lockName is the file of a sweep's folder that is locked by whoever works there.
const lockName = "sweep.lock"

// leftoverTime is how long the ranks of a killed sweep may take to be gone.
const leftoverTime = 30 * time.Second

// lockFolder takes the folder. It is refused while another sweep lives that has it; the processes of one that was killed are waited for.
func lockFolder(ctx context.Context, dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		text, _ := os.ReadFile(path)
		if owner, bad := strconv.Atoi(strings.TrimSpace(string(text))); bad == nil && owner > 0 && syscall.Kill(owner, 0) == nil {
			return nil, errors.Join(fmt.Errorf("%s: fpmrun sweep (pid %d) works there", dir, owner), f.Close())
		}
		err = waitForLock(ctx, f, dir)
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// waitForLock waits until the ranks of a killed sweep are gone. A wait that is given up leaves a goroutine behind, which ends with the last of them.
func waitForLock(ctx context.Context, f *os.File, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, leftoverTime)
	defer cancel()
	taken := make(chan error, 1)
	go func() { taken <- unix.Flock(int(f.Fd()), unix.LOCK_EX) }()
	select {
	case err := <-taken:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s: processes of a sweep that was killed still live there after %v; end those that have %s open", dir, leftoverTime, lockName)
	}
}
