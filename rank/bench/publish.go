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
	Rank    string // this rank's document
	Merged  string // on rank 0; empty when nothing could be merged
	Sidecar string // on rank 0; empty when it was not written
}

// WriteRank writes this rank's document.
func WriteRank(doc *artifact.Rank) (string, error) {
	return doc.Config.OutputPath, artifact.WriteFile(doc.Config.OutputPath, doc)
}

// Publish gathers the documents of all DP ranks on rank 0, which merges them, probes every worker of the world and
// writes the merged document and the sidecar. The documents travel over the collective layer, so the ranks need no
// common file system. All leaders call it; base is rank 0's path. A sidecar that cannot be made is a warning.
func Publish(ctx context.Context, world, leaders *collective.Comm, doc *artifact.Rank, base, probePath string, log *slog.Logger) (Published, error) {
	out := Published{Rank: doc.Config.OutputPath}
	text, err := json.Marshal(doc)
	if err != nil {
		return out, fmt.Errorf("bench: encode the rank document: %w", err)
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		return out, err
	}
	parts, err := collective.GatherBytes(ctx, leaders, 0, encoder.EncodeAll(text, nil))
	if err != nil {
		return out, fmt.Errorf("bench: gather the rank documents: %w", err)
	}
	if leaders.Rank() != 0 {
		return out, nil
	}
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		return out, err
	}
	defer decoder.Close()
	docs := make([]*artifact.Document, len(parts))
	for rank, part := range parts {
		text, err := decoder.DecodeAll(part, nil)
		if err != nil {
			return out, fmt.Errorf("bench: document of rank %d: %w", rank, err)
		}
		if docs[rank], err = artifact.ParseDocument(artifact.RankPath(base, rank), text); err != nil {
			return out, err
		}
	}
	path := artifact.MergedPath(base)
	merged, err := artifact.Merge(docs, path)
	if err != nil {
		return out, err
	}
	for _, warning := range merged.Warnings {
		log.Warn("merge", "warning", warning)
	}
	if err := artifact.WriteFile(path, merged); err != nil {
		return out, err
	}
	out.Merged = path
	sidecar, err := artifact.NewSidecar(merged, probe(ctx, world), "")
	if err == nil && sidecar != nil {
		out.Sidecar = sidecarPath(path, probePath)
		err = artifact.WriteFile(out.Sidecar, sidecar)
	}
	if err != nil {
		out.Sidecar = ""
		log.Warn("no worker-probe sidecar", "error", err)
	}
	return out, nil
}
