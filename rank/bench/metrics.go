package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/collective"
)

// MetricsMethod is the RPC with which rank 0 gives the merged document away, as JSON text.
const MetricsMethod = "get_perf_metrics"

// Metrics are the documents of a run in memory: the merged one with what the worker probe resolved, and each rank's as it was gathered.
// The files stay as they were written.
type Metrics struct {
	merged json.RawMessage
	ranks  [][]byte
}

func newMetrics(merged *artifact.Merged, ranks [][]byte) (*Metrics, error) {
	text, err := json.Marshal(merged)
	if err != nil {
		return nil, fmt.Errorf("bench: encode the merged document: %w", err)
	}
	return &Metrics{merged: text, ranks: ranks}, nil
}

// Merged is the text of the merged document.
func (m *Metrics) Merged() []byte { return m.merged }

func (m *Metrics) handle(context.Context, *collective.Request) (any, error) {
	return []byte(m.merged), nil
}

// MetricsServer answers HTTP requests for the documents of a run: GET /get_perf_metrics for the merged one, GET /ranks/<n> for that of
// DP rank n. Until the run is over the answer is 503.
type MetricsServer struct {
	http    http.ServeMux
	metrics atomic.Pointer[Metrics]
}

// NewMetricsServer makes a server that has nothing to show yet.
func NewMetricsServer() *MetricsServer {
	s := &MetricsServer{}
	s.http.HandleFunc("GET /"+MetricsMethod, s.whenThere(func(w http.ResponseWriter, _ *http.Request, m *Metrics) { reply(w, m.merged) }))
	s.http.HandleFunc("GET /ranks/{rank}", s.whenThere(func(w http.ResponseWriter, r *http.Request, m *Metrics) {
		rank, err := strconv.Atoi(r.PathValue("rank"))
		if err != nil || rank < 0 || rank >= len(m.ranks) {
			http.Error(w, fmt.Sprintf("rank %q: want 0 to %d", r.PathValue("rank"), len(m.ranks)-1), http.StatusNotFound)
			return
		}
		reply(w, m.ranks[rank])
	}))
	return s
}

// Show makes the documents of the run available.
func (s *MetricsServer) Show(m *Metrics) { s.metrics.Store(m) }

// ServeHTTP implements http.Handler.
func (s *MetricsServer) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.http.ServeHTTP(w, r) }

func (s *MetricsServer) whenThere(show func(w http.ResponseWriter, r *http.Request, m *Metrics)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m := s.metrics.Load()
		if m == nil {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "the run is not over", http.StatusServiceUnavailable)
			return
		}
		show(w, r, m)
	}
}

func reply(w http.ResponseWriter, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the client may be gone
}
