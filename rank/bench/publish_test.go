package bench

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/gpu"
)

// publishAll publishes the documents of a run of as many ranks as there are comms, into a folder, and returns what rank 0 got.
func publishAll(t *testing.T, comms []*collective.Comm, docs []*artifact.Rank, dir string, ownProbe string) Published {
	t.Helper()
	published := make([]Published, len(comms))
	var wg sync.WaitGroup
	for rank, comm := range comms {
		wg.Go(func() {
			leaders, err := comm.Dup(t.Context())
			if err != nil {
				t.Errorf("rank %d: %v", rank, err)
				return
			}
			published[rank], err = Publish(t.Context(), docs[rank], Publication{World: comm, Leaders: leaders, Base: filepath.Join(dir, "benchmark.json"),
				OwnProbe: ownProbe, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	wg.Wait()
	return published[0]
}

func docsOf(t *testing.T, n int) []*artifact.Rank {
	t.Helper()
	outcomes, _ := runAll(t, n, func(_ int, c *Config, _ *fake) { c.Mode = artifact.Decode })
	docs := make([]*artifact.Rank, n)
	for rank, o := range outcomes {
		if o.err != nil {
			t.Fatal(o.err)
		}
		docs[rank] = o.doc
	}
	return docs
}

func sidecarOf(t *testing.T, p Published) artifact.Sidecar {
	t.Helper()
	text, err := os.ReadFile(p.Sidecar)
	if err != nil {
		t.Fatal(err)
	}
	var s artifact.Sidecar
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	for _, r := range artifact.CheckFiles([]string{p.Sidecar, p.Merged}) {
		if !r.Good() {
			t.Errorf("%s: %v", r.Path, r.Violations)
		}
	}
	return s
}

// Whatever one rank's probe handler does, the run is published within the probe's bound and the sidecar tells what came of it. Time is virtual.
func TestProbeHandlersThatFail(t *testing.T) {
	sizes := artifact.Sizes{TP: 1, PCP: 1, PP: 1}
	good := func(rank int) collective.Handler {
		return ProbeHandler(gpu.Info{LayerBackends: map[string]string{"layers.0": "fake"}}, gpu.GraphConfig{Mode: "NONE"}, rank, 0, sizes)
	}
	docs := docsOf(t, 2)
	for _, c := range []struct {
		name       string
		handler    collective.Handler // of rank 1; nil registers none
		resolution string
		issue      string // of an answer of rank 1
		answers    int
		within     time.Duration
	}{
		{"hangs", func(ctx context.Context, _ *collective.Request) (any, error) { <-ctx.Done(); return nil, ctx.Err() }, "worker_probe_partial", "non-JSON response: TimeoutError", 2, probeTimeout + time.Second},
		{"panics", func(context.Context, *collective.Request) (any, error) { panic("no") }, "worker_probe_partial", "non-JSON response: RemoteError", 2, time.Second},
		{"ends its goroutine", func(context.Context, *collective.Request) (any, error) { runtime.Goexit(); return nil, nil }, "worker_probe_partial", "non-JSON response: ", 2, probeTimeout + time.Second},
		{"is not there", nil, "worker_probe_partial", "non-JSON response: RemoteError", 2, time.Second},
		{"returns bytes that are no JSON", func(context.Context, *collective.Request) (any, error) { return []byte("\x00{"), nil }, "worker_probe_partial", "non-JSON response: bytes", 2, time.Second},
		{"returns another type", func(context.Context, *collective.Request) (any, error) { return []int{7}, nil }, "worker_probe_partial", "non-JSON response: ", 2, time.Second},
		{"returns a number", func(context.Context, *collective.Request) (any, error) { return []byte("7"), nil }, "worker_probe_partial", "response is not an object", 2, time.Second},
		{"returns twice", func(ctx context.Context, req *collective.Request) (any, error) {
			v, err := good(1)(ctx, req)
			if err != nil {
				return nil, err
			}
			raw, err := msgpack.Marshal(v)
			req.Respond(raw)
			req.Respond(raw)
			return nil, err
		}, "worker_probe_partial", "duplicate (dp_rank, worker_rank)", 3, time.Second},
		{"is fine", good(1), "worker_probe", "", 2, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				comms := worldOn(t, collective.NewMemory(time.Millisecond, 0), 2)
				// Rank 0 answers last, so that all answers of rank 1 come while the call is going on.
				last := func(ctx context.Context, req *collective.Request) (any, error) {
					time.Sleep(100 * time.Millisecond)
					return good(0)(ctx, req)
				}
				if err := comms[0].Handle(ProbeMethod, last); err != nil {
					t.Fatal(err)
				}
				if c.handler != nil {
					if err := comms[1].Handle(ProbeMethod, c.handler); err != nil {
						t.Fatal(err)
					}
				}
				begin := time.Now()
				published := publishAll(t, comms, docs, t.TempDir(), "")
				if took := time.Since(begin); took > c.within {
					t.Errorf("published after %v, want within %v", took, c.within)
				}
				s := sidecarOf(t, published)
				responses := s.Merged.WorkerProbe.Responses
				if s.Merged.Resolution != c.resolution || len(responses) != c.answers {
					t.Fatalf("resolution %s, %d answers, want %s, %d", s.Merged.Resolution, len(responses), c.resolution, c.answers)
				}
				for _, r := range responses[1:] {
					if issues := strings.Join(r.Issues, "; "); !strings.HasPrefix(issues, c.issue) || c.issue == "" && issues != "" {
						t.Errorf("issues %q, want %q", issues, c.issue)
					}
				}
				if len(responses[0].Issues) > 0 || s.Ranks["0"].Resolution != "worker_probe" && c.issue == "" {
					t.Errorf("rank 0: %v, view %s", responses[0].Issues, s.Ranks["0"].Resolution)
				}
				want := []int{1}
				if c.issue == "" {
					want = []int{}
				}
				if got := s.Merged.WorkerProbe.Coverage.MissingDPRanks; !slices.Equal(got, want) {
					t.Errorf("missing DP ranks %v, want %v", got, want)
				}
			})
		})
	}
}

// With a handler of the user's own in place of ours nobody is asked, and the sidecar says whose it is.
func TestOwnProbeIsSkipped(t *testing.T) {
	comms := world(t, 2)
	for _, comm := range comms {
		if err := comm.Handle(ProbeMethod, func(context.Context, *collective.Request) (any, error) {
			t.Error("the handler was called")
			return nil, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	s := sidecarOf(t, publishAll(t, comms, docsOf(t, 2), t.TempDir(), "example.Worker"))
	want := "probe_skipped: worker extension not installed (example.Worker)"
	if s.Merged.Resolution != want || s.Ranks["1"].Resolution != want || *s.Merged.WorkerProbe.Error != want || len(s.Merged.WorkerProbe.Responses) != 0 {
		t.Errorf("merged view %+v", s.Merged)
	}
}

// The merged document in memory has what the probe resolved, over HTTP and as an RPC of every rank; the files do not.
func TestMetricsAreServed(t *testing.T) {
	comms := world(t, 2)
	for rank, comm := range comms {
		handler := ProbeHandler(gpu.Info{LayerBackends: map[string]string{"layers.0": "fake"}}, gpu.GraphConfig{Mode: "NONE"}, rank, 0, artifact.Sizes{TP: 1, PCP: 1, PP: 1})
		if err := comm.Handle(ProbeMethod, handler); err != nil {
			t.Fatal(err)
		}
	}
	server := NewMetricsServer()
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w
	}
	if w := get("/get_perf_metrics"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("before the end of the run: %d", w.Code)
	}
	docs := docsOf(t, 2)
	published := publishAll(t, comms, docs, t.TempDir(), "")
	server.Show(published.Metrics)

	type document struct {
		ArtifactType string `json:"artifact_type"`
		Engine       struct {
			Resolution    string         `json:"resolution"`
			ResolvedScope string         `json:"resolved_scope"`
			Resolved      map[string]any `json:"resolved"`
			WorkerProbe   map[string]any `json:"worker_probe"`
			Attention     struct {
				BackendResolved *string `json:"backend_resolved"`
				Resolution      string  `json:"resolution"`
			} `json:"attention"`
			Model any `json:"model"`
		} `json:"engine"`
		Results []any `json:"results"`
		DP      struct {
			Rank int `json:"rank"`
		} `json:"dp"`
	}
	parse := func(text []byte) (d document) {
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	served := parse(get("/get_perf_metrics").Body.Bytes())
	if e := served.Engine; served.ArtifactType != "merged" || e.Resolution != "worker_probe" || e.ResolvedScope != "representative_worker" || e.Resolved["dp_rank"] != 0.0 ||
		e.WorkerProbe == nil || e.Attention.BackendResolved == nil || *e.Attention.BackendResolved != "fake" || e.Attention.Resolution != "worker_probe" || e.Model == nil {
		t.Errorf("served engine %+v", e)
	}
	file, err := os.ReadFile(published.Merged)
	if err != nil {
		t.Fatal(err)
	}
	if e := parse(file).Engine; e.Resolution != artifact.PendingProbe || e.Resolved != nil || e.WorkerProbe != nil || e.Attention.BackendResolved != nil || len(served.Results) != len(parse(file).Results) {
		t.Errorf("the file's engine %+v", e)
	}
	var text []byte
	if err := comms[1].Call(t.Context(), 0, MetricsMethod, nil, &text); err != nil || parse(text).Engine.Resolution != "worker_probe" {
		t.Errorf("over the collective layer: %v", err)
	}
	for path, want := range map[string]int{"/ranks/1": http.StatusOK, "/ranks/2": http.StatusNotFound, "/ranks/x": http.StatusNotFound, "/other": http.StatusNotFound} {
		w := get(path)
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
		if d := (document{}); want == http.StatusOK {
			if d = parse(w.Body.Bytes()); d.ArtifactType != "rank" || d.DP.Rank != 1 {
				t.Errorf("%s is the %s document of rank %d", path, d.ArtifactType, d.DP.Rank)
			}
		}
	}
}
