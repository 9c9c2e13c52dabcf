package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
)

// readSidecar reads the worker-probe document of a run.
func readSidecar(t *testing.T, path string) artifact.Sidecar {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var sidecar artifact.Sidecar
	if err := json.Unmarshal(text, &sidecar); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return sidecar
}

// checkProbe fails the test unless every worker answered the probe, in the merged view and in every rank's.
func checkProbe(t *testing.T, path string, dp, workers int) {
	t.Helper()
	sidecar := readSidecar(t, path)
	if len(sidecar.Ranks) != dp {
		t.Errorf("%d rank views, want %d", len(sidecar.Ranks), dp)
	}
	views := map[string]artifact.View{"merged": sidecar.Merged}
	for rank, view := range sidecar.Ranks {
		views["rank "+rank] = view.View
	}
	for name, v := range views {
		expected := workers
		if name == "merged" {
			expected = dp * workers
		}
		coverage := v.WorkerProbe.Coverage
		if v.Resolution != "worker_probe" || !coverage.Complete || len(coverage.ObservedWorkers) != expected || len(v.WorkerProbe.Responses) != dp*workers {
			t.Errorf("%s view: %s, complete %v, %d of %d workers observed, %d of %d replies", name, v.Resolution, coverage.Complete,
				len(coverage.ObservedWorkers), expected, len(v.WorkerProbe.Responses), dp*workers)
		}
		for _, r := range v.WorkerProbe.Responses {
			if len(r.Issues) > 0 {
				t.Errorf("%s view: reply %d has issues %v", name, r.RPCIndex, r.Issues)
			}
		}
	}
}

// Eight ranks as engines of four and of two workers: one document for each DP rank, and no other.
func TestDataAndTensorParallel(t *testing.T) {
	for _, c := range []struct{ dp, tp int }{{2, 4}, {4, 2}} {
		t.Run("dp"+strconv.Itoa(c.dp)+"tp"+strconv.Itoa(c.tp), func(t *testing.T) {
			dir := t.TempDir()
			succeed(t, dir, "fpmrun", "-np", "8", "fpmbench", "--dp", strconv.Itoa(c.dp), "--tp", strconv.Itoa(c.tp), "--points-file", points(t), "--output-path", "benchmark.json")
			files, all := rankFiles(dir, c.dp)
			check(t, all...)
			if written, err := filepath.Glob(filepath.Join(dir, "*.json")); err != nil || len(written) != len(all) {
				t.Errorf("files %v (%v), want %v", written, err, all)
			}
			for rank, path := range files {
				doc := read(t, path)
				p := doc.Engine.Parallel
				if doc.DP.Rank != rank || doc.DP.Size != c.dp || !doc.Valid || len(doc.Groups) != 9 ||
					p.TensorParallelSize != c.tp || p.DataParallelSize != c.dp || *p.DataParallelRank != rank {
					t.Errorf("rank %d: %+v, valid %v, %d groups, parallel %+v", rank, doc.DP, doc.Valid, len(doc.Groups), p)
				}
			}
			checkProbe(t, all[len(all)-1], c.dp, c.tp)
		})
	}
}
