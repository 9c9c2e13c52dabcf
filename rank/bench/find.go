package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fpmrun/fpmrun/artifact"
)

// ErrNoRun says that there is no run to go on with.
var ErrNoRun = errors.New("no journal of DP rank 0 is there; want the folder of a run, such as fpm-results/<run id>")

// FindRun is rank 0's output path of an earlier run: of a folder that holds one run, or of rank 0's journal itself. The error is ErrNoRun where there is
// none.
func FindRun(path string) (string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: %w", ErrNoRun, err)
	}
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return outputOf(path)
	}
	files, err := filepath.Glob(filepath.Join(escape(path), "*.journal"))
	if err != nil {
		return "", err
	}
	var bases []string
	for _, file := range files {
		base, err := outputOf(file)
		switch {
		case errors.Is(err, errNotRank0):
		case err != nil:
			return "", err
		default:
			bases = append(bases, base)
		}
	}
	switch len(bases) {
	case 0:
		return "", ErrNoRun
	case 1:
		return bases[0], nil
	}
	return "", fmt.Errorf("%d runs in this folder (%s); want the journal of one of them", len(bases), strings.Join(bases, ", "))
}

// errNotRank0 is a journal of another rank.
var errNotRank0 = errors.New("the journal is not that of DP rank 0")

// outputOf is the output path of the run whose rank 0 left a journal. A journal that was torn in its first record is named by its file.
func outputOf(file string) (string, error) {
	j, err := artifact.ReadJournal(file)
	if err != nil {
		return "", err
	}
	if len(j.Processes) == 0 {
		base := strings.TrimSuffix(file, ".journal") + ".json"
		if i := strings.LastIndex(base, "_dp"); i >= 0 && strings.Trim(base[i+3:], "0123456789") == ".json" {
			return "", errNotRank0
		}
		return base, nil
	}
	if j.Processes[0].Rank != 0 {
		return "", errNotRank0
	}
	return filepath.Join(filepath.Dir(file), filepath.Base(j.Processes[0].Output)), nil
}

// escape makes a path literal in a pattern.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// RemoveMerged deletes the merged document and the sidecar that an earlier process of a run has left, so that they never stand beside documents that they
// were not made of.
func RemoveMerged(base, probePath string) error {
	var errs []error
	for _, path := range finalFiles(base, probePath, 0)[1:] {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("bench: remove the earlier process's file: %w", err))
		}
	}
	return errors.Join(errs...)
}
