package gpu

import (
	"errors"
	"fmt"
)

// ErrConfig marks a model or a setting that an engine cannot run. It is found before any weight is made and
// is the caller's to change: a command exits with the status of wrong usage.
var ErrConfig = errors.New("gpu: cannot run")

// Validate reports, all at once, what no engine can run.
func (c *Config) Validate() error {
	if c.Geometry == nil || c.Weights == nil {
		return fmt.Errorf("%w without a geometry and a source of weights", ErrConfig)
	}
	var errs []error
	for _, n := range []struct {
		what        string
		value, from int
	}{
		{"KV blocks (--kv-blocks)", c.Blocks, 2},
		{"tokens per block (--block-size)", c.BlockSize, 1},
		{"batched tokens (--max-num-batched-tokens)", c.MaxBatchedTokens, 1},
		{"sequences (--max-num-seqs)", c.MaxSeqs, 1},
		{"tokens per sequence (--max-model-len)", c.MaxModelLen, 1},
		{"threads", c.Threads, 0},
	} {
		if n.value < n.from {
			errs = append(errs, fmt.Errorf("%w with %d %s: want %d or more", ErrConfig, n.value, n.what, n.from))
		}
	}
	if c.TP != nil && (c.TP.Size() < 1 || c.TP.Rank() < 0 || c.TP.Rank() >= c.TP.Size()) {
		errs = append(errs, fmt.Errorf("%w as tensor-parallel rank %d of %d", ErrConfig, c.TP.Rank(), c.TP.Size()))
	}
	if c.EP != nil {
		switch size := c.EP.Size(); {
		case size < 1 || c.EP.Rank() < 0 || c.EP.Rank() >= size:
			errs = append(errs, fmt.Errorf("%w as expert-parallel rank %d of %d", ErrConfig, c.EP.Rank(), size))
		case c.Geometry.Experts == nil:
			errs = append(errs, fmt.Errorf("%w model %s expert-parallel (--expert-parallel): model_type %q has no experts", ErrConfig, c.Geometry.Name, c.Geometry.ModelType))
		}
	}
	if err := c.Graph.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("%w: %w", ErrConfig, err))
	}
	return errors.Join(errs...)
}

// Check refuses a step that does not fit a configuration. An engine checks besides that a row without tokens
// has an id that was sampled before.
func (c *Config) Check(step *Step) error {
	least := 1
	if c.EP != nil {
		least = 0
	}
	if len(step.Rows) < least || len(step.Rows) > c.MaxSeqs {
		return fmt.Errorf("gpu: a step of %d rows: want %d to %d (--max-num-seqs)", len(step.Rows), least, c.MaxSeqs)
	}
	if n := step.Tokens(); n > c.MaxBatchedTokens {
		return fmt.Errorf("gpu: a step of %d tokens: at most %d fit (--max-num-batched-tokens)", n, c.MaxBatchedTokens)
	}
	for i := range step.Rows {
		if err := c.checkRow(&step.Rows[i]); err != nil {
			return fmt.Errorf("gpu: row %d: %w", i, err)
		}
	}
	return nil
}

func (c *Config) checkRow(r *Row) error {
	if r.Slot < 0 || r.Slot >= c.MaxSeqs {
		return fmt.Errorf("slot %d is outside 0 to %d (--max-num-seqs)", r.Slot, c.MaxSeqs-1)
	}
	if r.New() == 0 {
		return errors.New("no tokens to compute")
	}
	for _, t := range r.Tokens {
		if int64(t) >= int64(c.Geometry.Vocab) {
			return fmt.Errorf("token id %d is outside the vocabulary of %d", t, c.Geometry.Vocab)
		}
	}
	if r.Computed < 0 || r.Computed > c.MaxModelLen-r.New() {
		return fmt.Errorf("%d tokens on top of %d: at most %d fit in a sequence (--max-model-len)", r.New(), r.Computed, c.MaxModelLen)
	}
	end := r.Computed + r.New()
	need := (end + c.BlockSize - 1) / c.BlockSize
	if len(r.Blocks) < need {
		return fmt.Errorf("%d blocks of %d tokens do not cover %d tokens", len(r.Blocks), c.BlockSize, end)
	}
	for _, b := range r.Blocks[:need] {
		if b < 1 || int(b) >= c.Blocks {
			return fmt.Errorf("block %d is outside 1 to %d", b, c.Blocks-1)
		}
	}
	return nil
}
