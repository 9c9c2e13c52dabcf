package bench

import (
	"context"
	"fmt"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
)

// warmupPrompt is the length of the global warm-up's prompt where the model holds it.
const warmupPrompt = 256

// warmupLength is the length of the prompt of a warm-up of n tokens: warmupPrompt, or what fits.
func warmupLength(l *artifact.Limits, n int) (int, error) {
	length := min(warmupPrompt, l.MaxModelLen-n, l.Blocks*l.BlockSize-(n-1))
	if length < 1 {
		return 0, fmt.Errorf("bench: a warm-up of %d tokens leaves no prompt within max_model_len %d and %d KV blocks; lower --warmup-iterations", n, l.MaxModelLen, l.Blocks)
	}
	return length, nil
}

// warmup runs one request of WarmupIterations tokens: its prompt, in chunks where a step is smaller, and then one
// decode step per further token. Nothing of it is measured.
func (s *Session) warmup(ctx context.Context) error {
	n := s.cfg.WarmupIterations
	if n == 0 {
		return nil
	}
	length, err := warmupLength(&s.limits, n)
	if err != nil {
		return err
	}
	shape, err := s.shape(artifact.PurposeWarmup, []int{length}, []int{0})
	if err != nil {
		return err
	}
	prompts, err := s.content.Prompts(artifact.PurposeWarmup, shape, []int{length})
	if err != nil {
		return fmt.Errorf("bench: global warm-up: %w", err)
	}
	record := s.begin(artifact.WarmupGlobal, artifact.ShapeRequest{PromptLengths: []int{length}})
	b, err := open(s.cache, prompts, []string{s.freshSalt()}, n-1)
	if err != nil {
		record.failed()
		return fmt.Errorf("bench: global warm-up: %w", err)
	}
	defer b.release()
	steps := s.chunks(b)
	if err := s.lockstep.work(ctx, steps); err != nil {
		record.failed()
		return err
	}
	record.observed(steps, false)
	if n > 1 {
		b.continued(length, n-1)
		if err := s.lockstep.work(ctx, b.steps); err != nil {
			record.failed()
			return err
		}
		record.observed(b.steps, true)
	}
	record.completed()
	return nil
}

// chunks splits the prefill of a batch into steps of at most max_num_batched_tokens tokens, requests one after the
// other.
func (s *Session) chunks(b *batch) []gpu.Step {
	var steps []gpu.Step
	for i, prompt := range b.prompts {
		for done := b.sequences[i].Cached(); done < len(prompt); {
			n := min(len(prompt)-done, s.limits.MaxTokens)
			steps = append(steps, gpu.Step{Rows: []gpu.Row{{Slot: i, Tokens: prompt[done : done+n], Computed: done, Blocks: b.sequences[i].Blocks()}}})
			done += n
		}
	}
	return steps
}
