package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/klauspost/compress/zstd"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/collective"
)

// Published names the files of a run.
type Published struct {
	Rank    string   // this rank's document
	Merged  string   // on rank 0; empty when nothing could be merged
	Sidecar string   // on rank 0; empty when it was not written
	Metrics *Metrics // on rank 0: the documents in memory
}

// Publication is where and how a run is published.
type Publication struct {
	World     *collective.Comm
	Leaders   *collective.Comm
	Base      string // rank 0's path
	ProbePath string // of the sidecar; "" is beside the merged document
	OwnProbe  string // name of the handler that a rank registered in place of ProbeHandler: nobody is asked; "" is none
	Diagnosis bool   // the run is diagnostic: there is nothing to merge, and nobody is asked anything
	Logger    *slog.Logger
}

// WriteRank writes this rank's document.
func WriteRank(doc *artifact.Rank) (string, error) {
	return doc.Config.OutputPath, artifact.WriteFile(doc.Config.OutputPath, doc)
}

// Publish gathers the documents of all DP ranks on rank 0, which merges them, probes every worker of the world and
// writes the merged document and the sidecar. The documents travel over the collective layer, so the ranks need no
// common file system. All leaders call it. A sidecar that cannot be made is a warning. From then on rank 0 answers MetricsMethod.
func Publish(ctx context.Context, doc *artifact.Rank, p Publication) (Published, error) {
	out := Published{Rank: doc.Config.OutputPath}
	if p.Diagnosis {
		return out, nil
	}
	texts, err := gather(ctx, doc, p.Leaders)
	if err != nil || p.Leaders.Rank() != 0 {
		return out, err
	}
	docs := make([]*artifact.Document, len(texts))
	for rank, text := range texts {
		path := artifact.RankPath(p.Base, rank)
		if rank == 0 {
			docs[rank], err = artifact.ParseDocument(path, text)
		} else {
			docs[rank], _, err = docs[0].Sibling(path, text)
		}
		if err != nil {
			return out, err
		}
	}
	path := artifact.MergedPath(p.Base)
	merged, err := artifact.Merge(docs, path)
	if err != nil {
		return out, err
	}
	for _, warning := range merged.Warnings {
		p.Logger.Warn("merge", "warning", warning)
	}
	if err := artifact.WriteFile(path, merged); err != nil {
		return out, err
	}
	out.Merged = path
	served := merged
	sidecar, err := p.sidecar(ctx, merged)
	if err == nil && sidecar != nil {
		if served, err = merged.WithProbe(sidecar.Merged); err != nil {
			served = merged
		} else {
			out.Sidecar = sidecarPath(path, p.ProbePath)
			err = artifact.WriteFile(out.Sidecar, sidecar)
		}
	}
	if err != nil {
		out.Sidecar = ""
		p.Logger.Warn("no worker-probe sidecar", "error", err)
	}
	if out.Metrics, err = newMetrics(served, texts); err != nil {
		return out, err
	}
	return out, p.World.Handle(MetricsMethod, out.Metrics.handle)
}

// gather brings the text of every rank's document to rank 0; elsewhere the result is nil.
func gather(ctx context.Context, doc *artifact.Rank, leaders *collective.Comm) ([][]byte, error) {
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("bench: encode the rank document: %w", err)
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		return nil, err
	}
	parts, err := collective.GatherBytes(ctx, leaders, 0, encoder.EncodeAll(text, nil))
	if err != nil {
		return nil, fmt.Errorf("bench: gather the rank documents: %w", err)
	}
	if leaders.Rank() != 0 {
		return nil, nil
	}
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	texts := make([][]byte, len(parts))
	for rank, part := range parts {
		if texts[rank], err = decoder.DecodeAll(part, nil); err != nil {
			return nil, fmt.Errorf("bench: document of rank %d: %w", rank, err)
		}
	}
	return texts, nil
}

// sidecar probes the world and makes the probe's document; nil for a merged document without an engine block.
func (p *Publication) sidecar(ctx context.Context, merged *artifact.Merged) (*artifact.Sidecar, error) {
	if !merged.HasEngine() {
		return nil, nil
	}
	if p.OwnProbe != "" {
		return artifact.NewSidecar(merged, nil, "probe_skipped: worker extension not installed ("+p.OwnProbe+")")
	}
	return artifact.NewSidecar(merged, probe(ctx, p.World), "")
}
