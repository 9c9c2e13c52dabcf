package artifact

import (
	"path/filepath"
	"strconv"
	"strings"
)

// checkName checks that readers, who tell files by their names before they read them, take the file for what it is.
func (r *Report) checkName() {
	if r.doc == nil {
		return
	}
	name := strings.TrimSuffix(filepath.Base(r.Path), ".zst")
	stem := strings.TrimSuffix(name, filepath.Ext(name))
	fail := func(format string, args ...any) {
		found := violations(r.Violations)
		found.add("$", format, args...)
		r.Violations = found
	}
	switch probe := strings.HasSuffix(stem, "_worker_probe"); {
	case probe && r.Kind != "sidecar":
		fail("readers take %q for a worker-probe document by its name; rename it", name)
	case !probe && r.Kind == "sidecar" && strings.HasPrefix(name, "benchmark"):
		fail("readers take %q for a rank's document by its name; want one that ends in _worker_probe.json, or does not begin with benchmark", name)
	case r.Kind == "rank" && strings.HasSuffix(stem, "_merged"):
		fail("readers pass over %q, for a merged document, by its name; rename it", name)
	}
	if i := strings.LastIndex(stem, "_dp"); r.Kind == "rank" && i >= 0 {
		if rank, err := strconv.Atoi(stem[i+len("_dp"):]); err == nil && rank != r.doc.rank() {
			fail("rank %d in a file of rank %d by its name, %q; readers look for each rank under its own name", r.doc.rank(), rank, name)
		}
	}
}
