package launcher

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fpmrun/fpmrun/launcher/keeper"
)

// startKeeper starts a job's keeper with an environment: the program [keeper.Name] in a folder, or else a copy of this program, which has more to load. It
// returns the process, and the connection for orders and notices.
func startKeeper(folder string, environ []string) (*exec.Cmd, *net.UnixConn, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("launcher: socket pair: %w", err)
	}
	theirs, ours := os.NewFile(uintptr(pair[1]), "front"), os.NewFile(uintptr(pair[0]), "keeper")
	defer theirs.Close()
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, fmt.Errorf("launcher: socket to the keeper: %w", err)
	}
	path := filepath.Join(folder, keeper.Name)
	if folder == "" || unix.Access(path, unix.X_OK) != nil {
		if path, err = os.Executable(); err != nil {
			return nil, nil, fmt.Errorf("launcher: own executable: %w", err)
		}
	}
	cmd := &exec.Cmd{Path: path, Args: []string{keeper.Name, strconv.Itoa(keeper.Version)}, Env: environ, Stderr: os.Stderr,
		ExtraFiles: []*os.File{theirs}, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	if err := cmd.Start(); err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("launcher: start the keeper: %w", err)
	}
	return cmd, conn.(*net.UnixConn), nil
}

// order sends the keeper an order, and hands it the descriptors of a rank.
func order(conn *net.UnixConn, o keeper.Order, fds ...int) error {
	text := o.Bytes()
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	n, _, err := conn.WriteMsgUnix(text, rights, nil)
	for err == nil && n < len(text) {
		var more int
		more, err = conn.Write(text[n:])
		n += more
	}
	if err != nil {
		return fmt.Errorf("launcher: send to the keeper: %w", err)
	}
	return nil
}
