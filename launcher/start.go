package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fpmrun/fpmrun/rank/env"
)

// job is a plan that runs.
type job struct {
	plan    *Plan
	folder  *folder
	ports   []*reservation
	keeper  *exec.Cmd
	conn    net.Conn // to the keeper
	out     *json.Encoder
	console *console
	stderr  *sink
	streams []*stream  // output and error of each rank, in this order
	stdin   []*os.File // write ends of the ranks' standard inputs that are fed from here
}

// start makes everything a job needs and starts its keeper. Nothing is left when it fails.
func start(p *Plan, s Streams) (j *job, err error) {
	j = &job{plan: p, console: newConsole(p.options.Timestamp), stderr: &sink{w: s.Err}}
	keep := &inherited{}
	defer func() {
		keep.close()
		if err != nil {
			err = errors.Join(err, j.cleanUp())
		}
	}()
	if j.folder, err = newFolder(p.options.Environ, len(p.Ranks)); err != nil {
		return j, err
	}
	for range 2 { // the rendezvous and torch's store
		port, err := reserve()
		if err != nil {
			return j, err
		}
		j.ports = append(j.ports, port)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return j, fmt.Errorf("launcher: socket pair: %w", err)
	}
	ours := os.NewFile(uintptr(pair[0]), "keeper")
	keep.own(os.NewFile(uintptr(pair[1]), "front"))
	j.conn, err = net.FileConn(ours)
	ours.Close()
	if err != nil {
		return j, fmt.Errorf("launcher: socket to the keeper: %w", err)
	}
	if err := j.openStreams(s, keep); err != nil {
		return j, err
	}
	self, err := os.Executable()
	if err != nil {
		return j, fmt.Errorf("launcher: own executable: %w", err)
	}
	j.keeper = &exec.Cmd{Path: self, Args: []string{keeperName}, Env: p.options.Environ, Stderr: os.Stderr, ExtraFiles: keep.files, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	if err := j.keeper.Start(); err != nil {
		j.keeper = nil
		return j, fmt.Errorf("launcher: start the keeper: %w", err)
	}
	j.out = json.NewEncoder(j.conn)
	if err := j.out.Encode(spec{Ranks: j.ranks(), Folder: j.folder.path}); err != nil {
		return j, fmt.Errorf("launcher: send the plan to the keeper: %w", err)
	}
	return j, nil
}

// ranks are the plan's ranks with the job's own files and ports in their environments.
func (j *job) ranks() []Rank {
	host, port, _ := net.SplitHostPort(j.ports[1].address)
	ranks := make([]Rank, len(j.plan.Ranks))
	for i, r := range j.plan.Ranks {
		r.Env = merge(r.Env, []string{
			env.KeyRendezvous + "=" + j.ports[0].address,
			env.KeyTokenFile + "=" + j.folder.token(),
			env.KeyStateFile + "=" + j.folder.page(r.Rank),
			env.KeyJobFile + "=" + j.folder.jobPage(),
			env.TorchMasterAddr + "=" + host,
			env.TorchMasterPort + "=" + port,
		})
		ranks[i] = r
	}
	return ranks
}

// inherited are descriptors for the keeper, in their order there.
type inherited struct {
	files []*os.File
	owned []*os.File // closed here once the keeper has them
}

// pass adds a descriptor that stays open here.
func (i *inherited) pass(f *os.File) { i.files = append(i.files, f) }

// own adds a descriptor that is closed here.
func (i *inherited) own(f *os.File) {
	i.files, i.owned = append(i.files, f), append(i.owned, f)
}

func (i *inherited) close() {
	for _, f := range i.owned {
		f.Close()
	}
}

// openStreams makes the ranks' standard streams: input, output and error of each rank.
func (j *job) openStreams(s Streams, keep *inherited) error {
	o := &j.plan.options
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	keep.owned = append(keep.owned, null)
	if o.OutputDir != "" {
		if err := os.MkdirAll(o.OutputDir, 0o755); err != nil {
			return fmt.Errorf("--output-dir: %w", err)
		}
	}
	width := len(strconv.Itoa(len(j.plan.Ranks) - 1))
	outs := [2]*sink{{w: s.Out}, j.stderr}
	for _, r := range j.plan.Ranks {
		if err := j.openInput(r.Rank, s.In, null, keep); err != nil {
			return err
		}
		for k, suffix := range []string{"out", "err"} {
			read, write, err := os.Pipe()
			if err != nil {
				return fmt.Errorf("launcher: pipe for rank %d: %w", r.Rank, err)
			}
			keep.own(write)
			st := &stream{rank: r.Rank, pipe: read}
			j.streams = append(j.streams, st)
			if o.shows(r.Rank) {
				st.out = outs[k]
			}
			if o.Tag {
				st.tag = fmt.Sprintf("[%*d]", width, r.Rank)
			}
			if o.OutputDir != "" {
				if err := st.createFile(o.OutputDir, suffix); err != nil {
					return fmt.Errorf("--output-dir: %w", err)
				}
			}
		}
	}
	return nil
}

// shows reports whether a rank's output reaches the console.
func (o *Options) shows(rank int) bool {
	if o.OutputDir != "" && !o.Tee {
		return false
	}
	if o.Show == nil {
		return true
	}
	for _, r := range o.Show {
		if r == rank {
			return true
		}
	}
	return false
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
	if j.folder != nil {
		err = errors.Join(err, j.folder.remove())
	}
	return err
}
