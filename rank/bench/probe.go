package bench

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/gpu"
)

// ProbeMethod is the RPC that tells what a worker really runs.
const ProbeMethod = "fpm_engine_probe"

// probeTimeout bounds the probe of all workers together.
const probeTimeout = 30 * time.Second

// ProbeHandler answers the probe for one worker. The answer is JSON text, so that it is recorded as it was given.
func ProbeHandler(info gpu.Info, graph gpu.GraphConfig, dpRank, workerRank int, sizes artifact.Sizes) collective.Handler {
	return func(context.Context, *collective.Request) (any, error) {
		tp, pcp, pp := sizes.Place(workerRank)
		mode := graph.Mode
		return json.Marshal(artifact.ProbeReply{
			DPRank: dpRank, WorkerRank: workerRank, TPRank: tp, PCPRank: pcp, PPRank: pp,
			AttentionBackends: maps.Clone(info.LayerBackends), CudagraphMode: &mode,
			CudagraphCaptureSize: append([]int{}, graph.Sizes...), CaptureErrors: map[string]string{},
		})
	}
}

// probe asks every rank of the world and records every answer, also the lack of one.
func probe(ctx context.Context, world *collective.Comm) []artifact.ProbeAnswer {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	replies := world.CallAll(ctx, ProbeMethod, nil)
	var answers []artifact.ProbeAnswer
	for i := range replies {
		for range 1 + replies[i].Duplicates { // a rank that answers again is recorded again
			answers = append(answers, answerOf(&replies[i]))
		}
	}
	return answers
}

func answerOf(r *collective.Reply) artifact.ProbeAnswer {
	var text []byte
	err := r.Err
	if err == nil {
		err = r.Decode(&text)
	}
	switch {
	case err == nil && json.Valid(text):
		return artifact.ProbeAnswer{JSON: text}
	case err == nil:
		return artifact.ProbeAnswer{Type: "bytes", Repr: string(text)}
	case errors.Is(err, collective.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return artifact.ProbeAnswer{Type: "TimeoutError", Repr: err.Error()}
	}
	return artifact.ProbeAnswer{Type: "RemoteError", Repr: err.Error()}
}
