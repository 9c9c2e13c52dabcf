package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fpmrun/fpmrun/artifact"
)

// Status is what has become of a run.
type Status string

// Statuses of a run.
const (
	Waiting  Status = "waiting"  // not begun
	Running  Status = "running"  // begun, and neither of the others has been written down
	Finished Status = "finished" // exit status 0, and its documents are without fault
	Failed   Status = "failed"   // its last launch failed, and no retry was left
	Stopped  Status = "stopped"  // by a signal to the sweep
)

// Entry is what is kept of a run.
type Entry struct {
	Digest   string            `json:"digest"` // Cell.Digest
	Status   Status            `json:"status"`
	Launches int               `json:"launches"`          // begun, over all starts of the sweep
	Exit     int               `json:"exit"`              // status of the last that ended
	Why      string            `json:"why,omitempty"`     // what that one said last, when it failed
	Seconds  float64           `json:"seconds,omitempty"` // of all launches that ended
	Points   int               `json:"points,omitempty"`  // to measure
	RunID    string            `json:"run_id,omitempty"`  // of the last launch
	Files    map[string]string `json:"files,omitempty"`   // documents of a finished run: SHA-256 in hex by their name
}

// state is the content of sweep.json.
type state struct {
	Version int               `json:"version"`
	Runs    map[string]*Entry `json:"runs"` // by the cell's name
}

const stateVersion = 1

// stateName is the file of a sweep's folder that says what has become of its runs.
const stateName = "sweep.json"

// loadState reads the state of a folder; one without state is new.
func loadState(dir string) (*state, error) {
	path := filepath.Join(dir, stateName)
	s := &state{Version: stateVersion, Runs: map[string]*Entry{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s: %w; put it back, or choose another output folder", path, err)
	}
	if s.Version != stateVersion || s.Runs == nil {
		return nil, fmt.Errorf("%s: version %d, want %d", path, s.Version, stateVersion)
	}
	return s, nil
}

// save writes the state: the file is the old or the new one whatever happens meanwhile.
func (s *state) save(dir string) error { return artifact.WriteFile(filepath.Join(dir, stateName), s) }

// documents are the names and digests of the documents in a run's folder.
func documents(dir string) (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "benchmark*.json"))
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, path := range paths {
		if files[filepath.Base(path)], err = digest(path); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// digest is the SHA-256 of a file in hex.
func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// whole reports whether the documents of a finished run are still those that were checked.
func (e *Entry) whole(dir string) bool {
	for name, want := range e.Files {
		if got, err := digest(filepath.Join(dir, name)); err != nil || got != want {
			return false
		}
	}
	return len(e.Files) > 0
}
