package evidence

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
)

// mostMissed is how many answers in a row may be late before the process is given up: a driver that hangs does not come back.
const mostMissed = 3

// GPUs reads GPUs through one fpmgpu process. Methods may be called from several goroutines; requests follow one another.
type GPUs struct {
	process *exec.Cmd
	stdin   io.WriteCloser
	stderr  *tail
	answers chan answer // closed when the process has ended

	turn   chan struct{} // holds a token while a request is under way; it guards what follows
	last   int           // id of the last request
	missed int           // in a row
	broken error
}

// answer is what fpmgpu said to a request.
type answer struct {
	id   string
	gpus []artifact.GPUReading
	err  string
}

// StartGPUs starts the program, by its path.
func StartGPUs(program string) (*GPUs, error) {
	g := &GPUs{process: exec.Command(program, "sample", "--on-request"), stderr: &tail{}, answers: make(chan answer, mostMissed+1), turn: make(chan struct{}, 1)}
	g.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's signals are for the run; this process ends with its input
	g.process.Stderr, g.process.WaitDelay = g.stderr, closeLimit
	stdout, err := g.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if g.stdin, err = g.process.StdinPipe(); err != nil {
		return nil, err
	}
	if err := g.process.Start(); err != nil {
		return nil, fmt.Errorf("evidence: start %s: %w", program, err)
	}
	go g.listen(stdout)
	return g, nil
}

// listen collects the lines of answers until the process ends.
func (g *GPUs) listen(stdout io.Reader) {
	defer close(g.answers)
	defer func() { _ = g.process.Wait() }() // how it ended does not matter, what it said by then does
	var a answer
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		var line struct {
			Kind  string `json:"kind"`
			ID    string `json:"id"`
			Error string `json:"error"`
			artifact.GPUReading
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue // a line of the driver's own
		}
		switch line.Kind {
		case "sample":
			a.gpus = append(a.gpus, line.GPUReading)
		case "answer":
			a.id, a.err = line.ID, line.Error
			g.answers <- a
			a = answer{}
		}
	}
}

// Read is how GPUs run now. It lasts until ctx ends at most; an answer that comes later is thrown away.
func (g *GPUs) Read(ctx context.Context, uuids []string) ([]artifact.GPUReading, error) {
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("evidence: fpmgpu is busy: %w", ctx.Err())
	}
	if g.broken != nil {
		return nil, g.broken
	}
	g.last++
	id := strconv.Itoa(g.last)
	// A process that cannot be written to has ended or is about to; what it said of that comes with its end.
	_, _ = io.WriteString(g.stdin, id+" "+strings.Join(uuids, " ")+"\n")
	for {
		select {
		case a, ok := <-g.answers:
			switch {
			case !ok:
				g.broken = fmt.Errorf("evidence: fpmgpu has ended%s", g.stderr)
				return nil, g.broken
			case a.id != id:
				continue
			case a.err != "":
				return nil, errors.New("evidence: fpmgpu: " + a.err)
			}
			g.missed = 0
			return a.gpus, nil
		case <-ctx.Done():
			err := fmt.Errorf("evidence: fpmgpu has not answered in time: %w", ctx.Err())
			if g.missed++; g.missed == mostMissed {
				g.broken = fmt.Errorf("%w; it was given up", err)
				_ = g.process.Process.Kill() // it may be gone
			}
			return nil, err
		}
	}
}

// closeLimit is how long the process may take to see the end of its input, and then to die.
const closeLimit = time.Second

// Close ends the process.
func (g *GPUs) Close() error {
	g.turn <- struct{}{}
	defer func() { <-g.turn }()
	if g.broken == nil {
		g.broken = errors.New("evidence: the GPU readings are closed")
	}
	_ = g.stdin.Close() // a broken pipe is as good as a closed one
	kill := time.AfterFunc(closeLimit, func() { _ = g.process.Process.Kill() })
	defer kill.Stop()
	late := time.NewTimer(2 * closeLimit)
	defer late.Stop()
	for {
		select {
		case _, ok := <-g.answers:
			if ok {
				continue
			}
			return nil
		case <-late.C:
			return errors.New("evidence: fpmgpu cannot be ended: the driver does not let it go")
		}
	}
}

// tail keeps the end of what a process says on stderr.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const most = 400
	t.text = append(t.text, p...)
	if n := len(t.text) - most; n > 0 {
		t.text = t.text[n:]
	}
	return len(p), nil
}

// String is the last line, behind a colon, or nothing.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := bytes.TrimSpace(t.text)
	if len(text) == 0 {
		return ""
	}
	return ": " + string(text[bytes.LastIndexByte(text, '\n')+1:])
}
