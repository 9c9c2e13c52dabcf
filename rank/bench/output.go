package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fpmrun/fpmrun/artifact"
)

// PrepareOutput makes sure, before any work, that a DP rank can write its documents: the folder exists and is writable, and
// nothing is in the way. With overwrite, files of an earlier run under the same names are deleted; without, they are
// refused. base is rank 0's path; rank 0 also answers for the merged document and the sidecar.
func PrepareOutput(base, probePath string, rank int, overwrite bool) error {
	files := []string{artifact.RankPath(base, rank)}
	if rank == 0 {
		merged := artifact.MergedPath(base)
		files = append(files, merged, sidecarPath(merged, probePath))
	}
	for _, path := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("bench: output folder of %q: %w", path, err)
		}
		_, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("bench: output file: %w", err)
		case !overwrite:
			return fmt.Errorf("bench: refusing to overwrite %q; remove it, choose another --output-path or pass --overwrite", path)
		default:
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("bench: remove the earlier run's file: %w", err)
			}
		}
	}
	return writable(files[0])
}

// writable tries the folder by creating the file that the document will be renamed from.
func writable(path string) error {
	temp := path + ".tmp"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("bench: output folder %q cannot be written: %w", filepath.Dir(path), err)
	}
	return errors.Join(f.Close(), os.Remove(temp))
}

// sidecarPath is where the probe's document goes: beside the merged one unless a path was given.
func sidecarPath(merged, probePath string) string {
	if probePath != "" {
		return probePath
	}
	return artifact.SidecarPath(merged)
}
