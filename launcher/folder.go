package launcher

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fpmrun/fpmrun/collective/state"
)

// folder is the job's private folder: the token, the job page, and the state pages of the ranks.
type folder struct {
	path  string
	job   *state.Job
	first int // world rank whose state page is the first: pages are numbered by local rank
}

// newFolder makes the folder below XDG_RUNTIME_DIR or the temporary folder, readable by this user only. The token is a fresh one
// where none is given.
func newFolder(environ []string, l layout, local int, token string) (_ *folder, err error) {
	base := lookup(environ, "XDG_RUNTIME_DIR")
	if info, err := os.Stat(base); base == "" || err != nil || !info.IsDir() {
		base = tempDir(environ)
	}
	path, err := os.MkdirTemp(base, "fpmrun-")
	if err != nil {
		return nil, fmt.Errorf("launcher: job folder: %w", err)
	}
	made := &folder{path: path, first: l.First}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("launcher: job folder %q: %w", path, err), made.remove())
		}
	}()
	if token == "" {
		token = newToken()
	}
	if err := os.WriteFile(made.token(), []byte(token), 0o600); err != nil {
		return nil, err
	}
	if local > 0 { // else the ranks are on other nodes
		if err := state.Create(made.pages(), local); err != nil {
			return nil, err
		}
	}
	if made.job, err = state.CreateJob(made.jobPage(), l.World); err != nil {
		return nil, err
	}
	return made, nil
}

// newToken is a fresh secret of a job.
func newToken() string {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(secret)
}

// tempDir is the folder for temporary files.
func tempDir(environ []string) string {
	if dir := lookup(environ, "TMPDIR"); dir != "" {
		return dir
	}
	return "/tmp"
}

func (f *folder) token() string   { return filepath.Join(f.path, "token") }
func (f *folder) jobPage() string { return filepath.Join(f.path, "job") }
func (f *folder) pages() string   { return filepath.Join(f.path, "ranks") }

// state is what the state page of a rank of this node says.
func (f *folder) state(rank int) (state.Snapshot, error) { return state.Read(f.pages(), rank-f.first) }

// remove deletes the folder.
func (f *folder) remove() error {
	var err error
	if f.job != nil {
		err = f.job.Close()
	}
	return errors.Join(err, os.RemoveAll(f.path))
}
