package launcher

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/fpmrun/fpmrun/launcher/keeper"
	"github.com/fpmrun/fpmrun/rank/env"
)

// job is a plan that runs.
type job struct {
	plan    *Plan
	folder  *folder
	ports   []*reservation
	keeper  *exec.Cmd
	conn    *net.UnixConn // to the keeper
	told    *told         // what the keeper says
	stdout  *sink
	stderr  *sink
	room    *spill     // for what they do not take
	streams []*stream  // output and error of each rank, in this order
	stdin   []*os.File // write ends of the ranks' standard inputs that are fed from here
	sent    []*os.File // read ends of those that go to other nodes
}

// start makes everything a job needs and starts its ranks. Nothing is left when it fails. The keeper starts first and then
// gets one rank after the other, so that it starts one while the next is prepared here.
func start(p *Plan, s Streams) (j *job, err error) {
	j = &job{plan: p, room: &spill{dir: tempDir(p.options.Environ), limit: p.options.OutputSpill}}
	j.stdout, j.stderr = newSinks(s.Out, s.Err, p.options.Timestamp)
	defer func() {
		if err != nil {
			err = errors.Join(err, j.cleanUp())
			if j.keeper != nil {
				_ = j.keeper.Wait() // it kills what it started and exits once its socket is closed
			}
		}
	}()
	if j.keeper, j.conn, err = startKeeper(p.options.Siblings, p.options.Environ); err != nil {
		return j, err
	}
	j.told = listen(j.conn)
	if j.folder, err = newFolder(p.options.Environ, p.part.layout, p.local(), p.part.token); err != nil {
		return j, err
	}
	if j.ports = p.part.ports; p.part.Nodes == 1 {
		if j.ports, err = reserve(loopback()); err != nil {
			return j, err
		}
		p.part.meet(j.ports)
	}
	if dir := p.options.outputDir(); dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return j, fmt.Errorf("--output-dir: %w", err)
		}
	}
	host, port, err := net.SplitHostPort(p.part.Master)
	if err != nil {
		return j, err
	}
	shared := keeper.Merge(p.environ, []string{
		env.KeyRendezvous + "=" + p.part.Rendezvous,
		env.KeyTokenFile + "=" + j.folder.token(),
		env.KeyJobFile + "=" + j.folder.jobPage(),
		env.KeyStateFile + "=" + j.folder.pages(),
		env.TorchMasterAddr + "=" + host,
		env.TorchMasterPort + "=" + port,
	})
	if err := order(j.conn, keeper.Order{Folder: j.folder.path, Env: shared}); err != nil {
		return j, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return j, err
	}
	defer null.Close()
	for _, r := range p.Ranks {
		begin := j.startRank
		if r.Node != p.part.Node {
			begin = j.attach
		}
		if err := begin(r, s, null); err != nil {
			return j, err
		}
	}
	return j, nil
}

// startRank makes a rank's standard streams and hands it to the keeper.
func (j *job) startRank(r Rank, s Streams, null *os.File) error {
	in, mine, err := j.openInput(r.Rank, s.In, null)
	if err != nil {
		return err
	}
	fds := []int{int(in.Fd())}
	defer func() {
		if mine {
			in.Close()
		}
		for _, fd := range fds[1:] {
			_ = unix.Close(fd)
		}
	}()
	for k := range 2 {
		open := outputPipe
		if k == 0 && j.plan.options.PTY {
			open = outputTerminal
		}
		read, write, err := open()
		if err != nil {
			return fmt.Errorf("launcher: output of rank %d: %w", r.Rank, err)
		}
		fds = append(fds, write)
		if err := j.addStream(r.Rank, k, read); err != nil {
			return err
		}
	}
	return order(j.conn, keeper.Order{Rank: &keeper.Rank{Rank: r.Rank, Path: r.Path, Args: r.Args, Env: r.Env, Dir: r.Dir, CPUs: r.CPUs}}, fds...)
}

// addStream takes an output of a rank over, 0 for stdout and 1 for stderr.
func (j *job) addStream(rank, output int, read *os.File) error {
	o := &j.plan.options
	st := &stream{rank: rank, pipe: read}
	j.streams = append(j.streams, st)
	if o.shows(rank, output) {
		st.out = [2]*sink{j.stdout, j.stderr}[output]
	}
	if o.Tag {
		st.tag = fmt.Sprintf("[%*d]: ", len(strconv.Itoa(len(j.plan.Ranks)-1)), rank)
	}
	if o.writes(rank, output) {
		if err := st.createFile(o.outputDir(), [2]string{"out", "err"}[output]); err != nil {
			return fmt.Errorf("--output-dir: %w", err)
		}
	}
	return nil
}

// outputPipe makes a pipe whose read end is read here without blocking a thread, and whose write end is for a rank only.
func outputPipe() (read *os.File, write int, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, 0, err
	}
	if err := unix.SetNonblock(ends[0], true); err != nil {
		return nil, 0, errors.Join(err, unix.Close(ends[0]), unix.Close(ends[1]))
	}
	return os.NewFile(uintptr(ends[0]), "output of a rank"), ends[1], nil
}

// cleanUp releases what start made.
func (j *job) cleanUp() error {
	for _, p := range j.ports {
		p.close()
	}
	var err error
	if j.conn != nil {
		err = j.conn.Close()
	}
	for _, s := range j.streams {
		s.pipe.Close()
	}
	for _, in := range j.sent {
		in.Close()
	}
	if j.folder != nil {
		err = errors.Join(err, j.folder.remove())
	}
	return err
}
