package main

import (
	"log/slog"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
)

// prepared takes what the engine's preparation took into the evidence, and on rank 0 says it in one line.
func (p *program) prepared(o *own, stages []gpu.Stage) {
	o.Preparation = map[string]artifact.Float{}
	total := time.Duration(0)
	var line []any
	for _, s := range stages {
		o.Preparation[s.Name] = artifact.Float(s.Took.Seconds())
		total += s.Took
		line = append(line, slog.Duration(s.Name, s.Took.Round(time.Millisecond)))
	}
	if o.Launch.Rank == 0 {
		p.log.Info("engine prepared", append([]any{slog.Duration("total", total.Round(time.Millisecond))}, line...)...)
	}
}
