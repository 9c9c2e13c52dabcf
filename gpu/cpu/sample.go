package cpu

import (
	"math"

	"github.com/fpmrun/fpmrun/gpu"
)

// sampler keeps the greedy choices of a step.
type sampler struct {
	best    []float32 // (R, 2): largest logit of this worker's vocabulary and its id; ids below 2^24 are exact
	gather  []float32 // (group, R, 2)
	sampled []uint32  // (R)
	arrival int64     // when sampled was complete
}

func newSampler(rows, group int) sampler {
	return sampler{best: make([]float32, 2*rows), gather: make([]float32, 2*rows*group), sampled: make([]uint32, rows)}
}

// sample chooses the id of the largest logit of each row, the lowest id among equals. Over a group the
// workers exchange pairs of value and id instead of logits.
func (e *Engine) sample(step *gpu.Step) error {
	s, rows := &e.sampler, len(step.Rows)
	e.threads.run(rows, e.tasks.argmax)
	pairs := s.best[:2*rows]
	if e.shard.size > 1 && rows > 0 {
		pairs = s.gather[:2*rows*e.shard.size]
		if err := e.cfg.TP.AllGather(pairs, s.best[:2*rows]); err != nil {
			return err
		}
	}
	for r := range rows {
		value, id := pairs[2*r], pairs[2*r+1]
		for at := r + rows; at < len(pairs)/2; at += rows {
			if pairs[2*at] > value {
				value, id = pairs[2*at], pairs[2*at+1]
			}
		}
		s.sampled[r] = uint32(id)
		slot := step.Rows[r].Slot
		e.lastID[slot], e.sampledSlot[slot] = uint32(id), true
	}
	s.arrival = gpu.Monotonic()
	return nil
}

// argmaxRow finds the largest logit of one row among this worker's ids.
func (e *Engine) argmaxRow(_, r int) {
	logits := e.buf.logits[r*e.shard.vocab : (r+1)*e.shard.vocab]
	best := processor.argmax(logits)
	e.sampler.best[2*r], e.sampler.best[2*r+1] = logits[best], float32(e.shard.firstToken+best)
}

// allFinite reports whether no value is infinite or not a number.
func allFinite(v []float32) bool {
	for _, x := range v {
		if math.Float32bits(x)&0x7F800000 == 0x7F800000 {
			return false
		}
	}
	return true
}
