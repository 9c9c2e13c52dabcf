package artifact

import (
	"path/filepath"
	"strconv"
	"strings"
)

// RankPath is the file of a DP rank: the configured path for rank 0, with "_dp<rank>" before the extension for
// the others.
func RankPath(base string, rank int) string {
	if rank == 0 {
		return base
	}
	return withSuffix(base, "_dp"+strconv.Itoa(rank))
}

// MergedPath is the file of the merged document.
func MergedPath(base string) string { return withSuffix(base, "_merged") }

// SidecarPath is the worker-probe sidecar that belongs to a merged document.
func SidecarPath(merged string) string { return withSuffix(merged, "_worker_probe") }

// withSuffix inserts text between stem and extension. As in Python's pathlib, a leading dot starts no
// extension and a trailing one ends none.
func withSuffix(path, suffix string) string {
	dir, name := filepath.Split(path)
	stem, ext := name, ""
	if i := strings.LastIndexByte(name, '.'); i > 0 && i < len(name)-1 {
		stem, ext = name[:i], name[i:]
	}
	return dir + stem + suffix + ext
}
