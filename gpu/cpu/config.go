package cpu

import (
	"errors"
	"fmt"

	"github.com/fpmrun/fpmrun/gpu"
)

// validate reports everything in a configuration that this engine cannot run.
func validate(cfg *gpu.Config) error {
	if cfg.Geometry == nil || cfg.Weights == nil {
		return errors.New("cpu: a geometry and a source of weights are needed")
	}
	var errs []error
	if g := cfg.Geometry; g.MLA != nil || g.Experts != nil {
		errs = append(errs, fmt.Errorf("%w: model %s: model_type %q", ErrUnsupported, g.Name, g.ModelType))
	}
	for _, n := range []struct {
		what        string
		value, from int
	}{
		{"KV blocks (--kv-blocks)", cfg.Blocks, 2},
		{"tokens per block (--block-size)", cfg.BlockSize, 1},
		{"batched tokens (--max-num-batched-tokens)", cfg.MaxBatchedTokens, 1},
		{"sequences (--max-num-seqs)", cfg.MaxSeqs, 1},
		{"tokens per sequence (--max-model-len)", cfg.MaxModelLen, 1},
		{"threads", cfg.Threads, 0},
	} {
		if n.value < n.from {
			errs = append(errs, fmt.Errorf("cpu: %d %s: want %d or more", n.value, n.what, n.from))
		}
	}
	if err := cfg.Graph.Validate(); err != nil {
		errs = append(errs, err)
	} else if cfg.Graph.PrefillMode() != gpu.GraphNone || cfg.Graph.DecodeMode() != gpu.GraphNone {
		errs = append(errs, fmt.Errorf("%w: cudagraph mode %s (--cudagraph-mode): the CPU engine has no graphs, only NONE", ErrUnsupported, cfg.Graph.Mode))
	}
	return errors.Join(errs...)
}

// check refuses a step that does not fit the engine.
func (e *Engine) check(step *gpu.Step) error {
	cfg := &e.cfg
	if len(step.Rows) == 0 || len(step.Rows) > cfg.MaxSeqs {
		return fmt.Errorf("cpu: a step of %d rows: want 1 to %d (--max-num-seqs)", len(step.Rows), cfg.MaxSeqs)
	}
	if n := step.Tokens(); n > cfg.MaxBatchedTokens {
		return fmt.Errorf("cpu: a step of %d tokens: at most %d fit (--max-num-batched-tokens)", n, cfg.MaxBatchedTokens)
	}
	for i := range step.Rows {
		if err := e.checkRow(&step.Rows[i]); err != nil {
			return fmt.Errorf("cpu: row %d: %w", i, err)
		}
	}
	return nil
}

func (e *Engine) checkRow(r *gpu.Row) error {
	cfg := &e.cfg
	if r.Slot < 0 || r.Slot >= cfg.MaxSeqs {
		return fmt.Errorf("slot %d is outside 0 to %d (--max-num-seqs)", r.Slot, cfg.MaxSeqs-1)
	}
	if r.Tokens == nil && !e.sampledSlot[r.Slot] {
		return fmt.Errorf("slot %d has no id sampled before, and the row brings none", r.Slot)
	}
	if r.New() == 0 {
		return errors.New("no tokens to compute")
	}
	for _, t := range r.Tokens {
		if int64(t) >= int64(cfg.Geometry.Vocab) {
			return fmt.Errorf("token id %d is outside the vocabulary of %d", t, cfg.Geometry.Vocab)
		}
	}
	end := r.Computed + r.New()
	if r.Computed < 0 || end > cfg.MaxModelLen {
		return fmt.Errorf("%d tokens on top of %d: at most %d fit in a sequence (--max-model-len)", r.New(), r.Computed, cfg.MaxModelLen)
	}
	need := (end + cfg.BlockSize - 1) / cfg.BlockSize
	if len(r.Blocks) < need {
		return fmt.Errorf("%d blocks of %d tokens do not cover %d tokens", len(r.Blocks), cfg.BlockSize, end)
	}
	for _, b := range r.Blocks[:need] {
		if b < 1 || int(b) >= cfg.Blocks {
			return fmt.Errorf("block %d is outside 1 to %d", b, cfg.Blocks-1)
		}
	}
	return nil
}
