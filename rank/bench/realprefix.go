package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/fpmrun/fpmrun/artifact"
)

// prepareRealPrefix makes a prefill point's prefixes by computing them, in three shots: staging prefills the chains that
// are not deep enough yet, a warm shot runs the point's shape with throw-away tails, and the measured shot, which
// is only prepared here, has fresh tails. A prefix that is no longer cached is staged once more.
func (s *Session) prepareRealPrefix(ctx context.Context, point artifact.Point, shape string, fresh, kv []int) (*prepared, string, error) {
	p := &prepared{point: point, regime: artifact.RegimeRealPrefix, expect: 1}
	tail := artifact.PurposeTail
	if point.Replica() {
		tail = artifact.PurposeEager
	} else {
		p.point.Stamp(artifact.ReasonRealSeed)
	}
	chain := "bp" + strconv.Itoa(point.BatchSize)
	prefixes, err := s.content.Prompts(artifact.PurposeChain, chain, kv)
	if err != nil {
		return p, "", err
	}
	warm, err := s.content.Prompts(artifact.PurposeWarmTail, shape, fresh)
	if err != nil {
		return p, "", err
	}
	measured, err := s.content.Prompts(tail, shape, fresh)
	if err != nil {
		return p, "", err
	}
	// A slot without a prefix gets a namespace of its own for every request, so that it cannot hit what an earlier
	// point left; the others share their chain's.
	salts := func() []string {
		names := make([]string, len(kv))
		for i := range names {
			if names[i] = chain + "-slot" + strconv.Itoa(i); kv[i] == 0 {
				names[i] = s.freshSalt()
			}
		}
		return names
	}
	for attempt := range 2 {
		reason, err := s.stage(ctx, prefixes, salts())
		if err != nil || reason != "" {
			return p, reason, err
		}
		reason, err = s.shoot(ctx, join(prefixes, warm), salts(), kv)
		if err != nil {
			return p, "", err
		}
		if reason == "" {
			_, reason, err = s.inject(p, join(prefixes, measured), salts(), kv, "real_seed_injection_failed", realSeedMissed)
		}
		if reason != realSeedMissed || attempt == 1 {
			return p, reason, err
		}
		p.release()
		p.batch = nil
		for i := range kv {
			delete(s.chains, chain+"-slot"+strconv.Itoa(i))
		}
	}
	return p, realSeedMissed, nil
}

const realSeedMissed = "real_seed_cache_validation_failed"

// stage prefills the prefixes whose chains are shallower than needed.
func (s *Session) stage(ctx context.Context, prefixes [][]uint32, salts []string) (string, error) {
	var shallow [][]uint32
	var names []string
	var lengths []int
	for i, prefix := range prefixes {
		if len(prefix) > s.chains[salts[i]] {
			shallow, names, lengths = append(shallow, prefix), append(names, salts[i]), append(lengths, len(prefix))
		}
	}
	if len(shallow) == 0 {
		return "", nil
	}
	record := s.begin(artifact.WarmupRealPrefix, artifact.ShapeRequest{PromptLengths: lengths})
	b, err := open(s.cache, shallow, names, 0)
	if err != nil {
		record.failed()
		return "real_seed_injection_failed", nil
	}
	defer b.release()
	steps := s.chunks(b)
	if err := s.lockstep.work(ctx, steps); err != nil {
		record.failed()
		return "", fmt.Errorf("bench: stage prefixes: %w", err)
	}
	record.observed(steps, false)
	record.completed()
	b.commit()
	for i, name := range names {
		s.chains[name] = lengths[i]
	}
	return "", nil
}

// shoot runs the point's shape once without measuring it.
func (s *Session) shoot(ctx context.Context, prompts [][]uint32, salts []string, kv []int) (string, error) {
	lengths := make([]int, len(prompts))
	for i := range prompts {
		lengths[i] = len(prompts[i])
	}
	record := s.begin(artifact.WarmupRealShape, artifact.ShapeRequest{PromptLengths: lengths})
	b, err := open(s.cache, prompts, salts, 0)
	if err != nil {
		record.failed()
		return "real_seed_warm_injection_failed", nil
	}
	defer b.release()
	for i, sequence := range b.sequences {
		if sequence.Cached() != kv[i] {
			record.failed()
			return realSeedMissed, nil
		}
	}
	b.prefill()
	if err := s.lockstep.work(ctx, b.steps); err != nil {
		record.failed()
		return "", fmt.Errorf("bench: warm shot: %w", err)
	}
	record.observed(b.steps, false)
	record.completed()
	return "", nil
}

// join puts a tail behind each prefix.
func join(prefixes, tails [][]uint32) [][]uint32 {
	prompts := make([][]uint32, len(prefixes))
	for i := range prompts {
		prompts[i] = slices.Concat(prefixes[i], tails[i])
	}
	return prompts
}
