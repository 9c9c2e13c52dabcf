package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/cmd/internal/flagvalue"
	"github.com/fpmrun/fpmrun/stream"
)

// gauges are what a watch shows to Prometheus. The nil gauges show nothing.
type gauges struct {
	registry *prometheus.Registry
	// by address
	up                                  *prometheus.GaugeVec
	heartbeats, lost, skipped, restarts *prometheus.CounterVec
	// by address and DP rank
	records, seconds *prometheus.CounterVec
	last             []lastValue
	rank             map[string]string // of each address: a publisher has one
}

// lastValue is a member of the last record that was no heartbeat.
type lastValue struct {
	gauge *prometheus.GaugeVec
	of    func(r *artifact.FPM) float64
}

func newGauges() *gauges {
	g := &gauges{registry: prometheus.NewRegistry(), rank: map[string]string{}}
	publisher, rank := []string{"address"}, []string{"address", "dp_rank"}
	counter := func(name, help string, labels []string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		g.registry.MustRegister(v)
		return v
	}
	gauge := func(name, help string, labels []string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
		g.registry.MustRegister(v)
		return v
	}
	g.up = gauge("fpm_stream_up", "1 while the publisher is subscribed to, else 0.", publisher)
	g.heartbeats = counter("fpm_stream_heartbeats_total", "Records that say only that the publisher is alive.", publisher)
	g.lost = counter("fpm_stream_lost_total", "Messages that did not come, by the gaps in the sequence.", publisher)
	g.skipped = counter("fpm_stream_skipped_total", "Messages that were no records of version 1.", publisher)
	g.restarts = counter("fpm_stream_restarts_total", "How often the sequence began anew.", publisher)
	g.records = counter("fpm_records_total", "Records of forward passes.", rank)
	g.seconds = counter("fpm_wall_time_seconds_total", "Sum of the records' times.", rank)
	value := func(name, help string, of func(r *artifact.FPM) float64) {
		g.last = append(g.last, lastValue{gauge(name, help+" of the last record.", rank), of})
	}
	value("fpm_last_wall_time_seconds", "Time", func(r *artifact.FPM) float64 { return float64(r.WallTime) })
	value("fpm_last_scheduled_prefill_requests", "Prefill requests", func(r *artifact.FPM) float64 { return float64(r.Scheduled.NumPrefillRequests) })
	value("fpm_last_scheduled_prefill_tokens", "Prefill tokens computed", func(r *artifact.FPM) float64 { return float64(r.Scheduled.SumPrefillTokens) })
	value("fpm_last_scheduled_prefill_kv_tokens", "Cached tokens read by prefill", func(r *artifact.FPM) float64 { return float64(r.Scheduled.SumPrefillKVTokens) })
	value("fpm_last_scheduled_decode_requests", "Decode requests", func(r *artifact.FPM) float64 { return float64(r.Scheduled.NumDecodeRequests) })
	value("fpm_last_scheduled_decode_kv_tokens", "Cached tokens read by decode", func(r *artifact.FPM) float64 { return float64(r.Scheduled.SumDecodeKVTokens) })
	value("fpm_last_queued_prefill_requests", "Prefill requests that waited", func(r *artifact.FPM) float64 { return float64(r.Queued.NumPrefillRequests) })
	value("fpm_last_queued_prefill_tokens", "Tokens of prefill requests that waited", func(r *artifact.FPM) float64 { return float64(r.Queued.SumPrefillTokens) })
	value("fpm_last_queued_decode_requests", "Decode requests that waited", func(r *artifact.FPM) float64 { return float64(r.Queued.NumDecodeRequests) })
	value("fpm_last_queued_decode_kv_tokens", "Cached tokens of decode requests that waited", func(r *artifact.FPM) float64 { return float64(r.Queued.SumDecodeKVTokens) })
	return g
}

// event takes in what a reader tells.
func (g *gauges) event(e stream.Event) {
	if g == nil {
		return
	}
	up := g.up.WithLabelValues(e.Address)
	g.lost.WithLabelValues(e.Address).Add(float64(e.Lost))
	if e.Restarted {
		g.restarts.WithLabelValues(e.Address).Inc()
	}
	switch e.Kind {
	case stream.Subscribed:
		up.Set(1)
	case stream.Absent:
		up.Set(0)
	case stream.Skipped:
		g.skipped.WithLabelValues(e.Address).Inc()
	case stream.Received:
		g.record(e)
	}
}

func (g *gauges) record(e stream.Event) {
	if stream.Heartbeat(e.Record) {
		g.heartbeats.WithLabelValues(e.Address).Inc()
		return
	}
	rank := strconv.Itoa(e.Record.DPRank)
	if old, ok := g.rank[e.Address]; ok && old != rank {
		g.forget(e.Address)
	}
	g.rank[e.Address] = rank
	labels := []string{e.Address, rank}
	g.records.WithLabelValues(labels...).Inc()
	g.seconds.WithLabelValues(labels...).Add(max(0, float64(e.Record.WallTime)))
	for _, v := range g.last {
		v.gauge.WithLabelValues(labels...).Set(v.of(&e.Record))
	}
}

// forget drops what was shown of a publisher that says that it is of another rank now, so that what is kept does not grow with what a publisher says.
func (g *gauges) forget(address string) {
	of := prometheus.Labels{"address": address}
	g.records.DeletePartialMatch(of)
	g.seconds.DeletePartialMatch(of)
	for _, v := range g.last {
		v.gauge.DeletePartialMatch(of)
	}
}

// serve answers scrapes at an address from now on; the server's Addr says at which.
func (g *gauges) serve(ctx context.Context, given string) (*http.Server, error) {
	address, err := flagvalue.ListenAddress(given)
	if err != nil {
		return nil, usage("watch: --prometheus %s: %w", given, err)
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("watch: --prometheus %s: %w", given, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(g.registry, promhttp.HandlerOpts{}))
	server := &http.Server{Addr: l.Addr().String(), Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }() // until it is closed
	return server, nil
}
