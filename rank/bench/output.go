package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/fpmrun/fpmrun/artifact"
)

// Output is a DP rank's claim to its documents, until it is closed.
type Output struct {
	claim *os.File // the file that the document is renamed from, locked
}

// PrepareOutput makes sure, before any work, that a DP rank can write its documents: the folder exists and is writable,
// nothing is in the way, and no other run that is still going writes the same files. With overwrite, files of an earlier run
// under the same names are deleted; without, they are refused. base is rank 0's path; rank 0 also answers for the
// merged document and the sidecar.
func PrepareOutput(base, probePath string, rank int, overwrite bool) (*Output, error) {
	files := append(finalFiles(base, probePath, rank), artifact.JournalPath(base, rank))
	for _, path := range files {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return nil, fmt.Errorf("bench: output file %q is a folder; want the name of a file, such as %q", path, filepath.Join(path, "benchmark.json"))
		}
	}
	output, err := claimFolder(base, probePath, rank)
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		if err := makeWay(path, overwrite); err != nil {
			return nil, errors.Join(err, output.Close())
		}
	}
	return output, nil
}

// ResumeOutput is PrepareOutput for a run that goes on: what is there stays until this run's own documents replace it. A rank that has no journal has no
// run to go on with, so nothing may be in its way.
func ResumeOutput(base, probePath string, rank int) (*Output, error) {
	journal := artifact.JournalPath(base, rank)
	if _, err := os.Lstat(journal); errors.Is(err, fs.ErrNotExist) {
		for _, path := range finalFiles(base, probePath, rank) {
			if _, err := os.Lstat(path); err == nil {
				return nil, fmt.Errorf("bench: there is no journal %q to go on with, and %q of an earlier run is there; put the journal back, or start anew with --overwrite", journal, path)
			}
		}
		return PrepareOutput(base, probePath, rank, false)
	}
	return claimFolder(base, probePath, rank)
}

// claimFolder makes the folders of a rank's documents and claims the documents.
func claimFolder(base, probePath string, rank int) (*Output, error) {
	files := finalFiles(base, probePath, rank)
	for _, path := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, fmt.Errorf("bench: output folder of %q, for user %d: %w", path, os.Getuid(), err)
		}
	}
	return claim(files[0])
}

// finalFiles are the files that a DP rank writes at the end, its own document first.
func finalFiles(base, probePath string, rank int) []string {
	files := []string{artifact.RankPath(base, rank)}
	if rank == 0 {
		merged := artifact.MergedPath(base)
		files = append(files, merged, sidecarPath(merged, probePath))
	}
	return files
}

// makeWay makes sure that nothing is in a document's way.
func makeWay(path string, overwrite bool) error {
	_, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("bench: output file: %w", err)
	case !overwrite:
		return fmt.Errorf("bench: refusing to overwrite %q; go on with that run (--resume %s), choose another --output-path or pass --overwrite", path, filepath.Dir(path))
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("bench: remove the earlier run's file: %w", err)
	}
	return nil
}

// claim opens and locks the file that a document will be renamed from. The lock ends with the process.
func claim(path string) (*Output, error) {
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("bench: output folder %q cannot be written by user %d: %w", filepath.Dir(path), os.Getuid(), err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("bench: another run is writing %q; choose another --output-path, or wait for it: %w", path, err)
	}
	return &Output{claim: f}, nil
}

// Close gives the claim up. What was not renamed by then is removed.
func (o *Output) Close() error {
	err := os.Remove(o.claim.Name())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, o.claim.Close())
}

// sidecarPath is where the probe's document goes: beside the merged one unless a path was given.
func sidecarPath(merged, probePath string) string {
	if probePath != "" {
		return probePath
	}
	return artifact.SidecarPath(merged)
}
