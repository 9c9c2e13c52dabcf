package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/gpu"
)

// The workers of one DP engine execute what their leader schedules. Every message is one broadcast: a kind byte and, for a
// step, its rows in unsigned varints.
const (
	stepMessage   = 's'
	finiteMessage = 'f'
	closeMessage  = 'c'
)

// Lead wraps the leader's engine so that every step also runs on the other workers of the group, whose rank 0 the
// leader is. For a group of one the engine itself is returned.
func Lead(engine gpu.Engine, workers *collective.Comm) gpu.Engine {
	if workers.Size() == 1 {
		return engine
	}
	return &leading{Engine: engine, workers: workers}
}

type leading struct {
	gpu.Engine
	workers *collective.Comm
	message []byte // reused
}

// Enqueue sends the step to the workers and launches it here. See gpu.Engine.
func (l *leading) Enqueue(step *gpu.Step) error {
	l.message = appendStep(append(l.message[:0], stepMessage), step)
	if err := l.send(); err != nil {
		return err
	}
	return l.Engine.Enqueue(step)
}

// Finite asks every worker about its share of the logits. See gpu.Engine.
func (l *leading) Finite() (bool, error) {
	l.message = append(l.message[:0], finiteMessage)
	if err := l.send(); err != nil {
		return false, err
	}
	return allFinite(context.Background(), l.Engine, l.workers)
}

// Close ends the workers' loops and closes the leader's engine. See gpu.Engine.
func (l *leading) Close() error {
	l.message = append(l.message[:0], closeMessage)
	return errors.Join(l.send(), l.Engine.Close())
}

func (l *leading) send() error {
	if _, err := collective.BroadcastBytes(context.Background(), l.workers, 0, l.message); err != nil {
		return fmt.Errorf("bench: send to the workers: %w", err)
	}
	return nil
}

// Follow executes what the leader sends until the leader closes its engine.
func Follow(ctx context.Context, engine gpu.Engine, workers *collective.Comm) error {
	var out gpu.Output
	for {
		message, err := collective.BroadcastBytes(ctx, workers, 0, nil)
		if err != nil {
			return fmt.Errorf("bench: wait for the leader: %w", err)
		}
		if len(message) == 0 {
			return errors.New("bench: empty message from the leader")
		}
		switch message[0] {
		case stepMessage:
			step, err := readStep(message[1:])
			if err != nil {
				return err
			}
			if err := errors.Join(engine.Enqueue(step), engine.Await(ctx, &out)); err != nil {
				return err
			}
		case finiteMessage:
			if _, err := allFinite(ctx, engine, workers); err != nil {
				return err
			}
		case closeMessage:
			return engine.Close()
		default:
			return fmt.Errorf("bench: message of unknown kind %q from the leader", message[0])
		}
	}
}

// allFinite combines the workers' answers.
func allFinite(ctx context.Context, engine gpu.Engine, workers *collective.Comm) (bool, error) {
	finite, err := engine.Finite()
	if err != nil {
		return false, err
	}
	vote := []int32{0}
	if finite {
		vote[0] = 1
	}
	all, err := collective.AllReduce(ctx, workers, vote, collective.Min)
	if err != nil {
		return false, fmt.Errorf("bench: compare logits: %w", err)
	}
	return all[0] == 1, nil
}

func appendStep(b []byte, step *gpu.Step) []byte {
	b = binary.AppendUvarint(b, uint64(len(step.Rows)))
	for i := range step.Rows {
		row := &step.Rows[i]
		b = binary.AppendUvarint(b, uint64(row.Slot))
		b = binary.AppendUvarint(b, uint64(row.Computed))
		b = binary.AppendUvarint(b, uint64(len(row.Tokens)))
		for _, id := range row.Tokens {
			b = binary.AppendUvarint(b, uint64(id))
		}
		b = binary.AppendUvarint(b, uint64(len(row.Blocks)))
		for _, block := range row.Blocks {
			b = binary.AppendUvarint(b, uint64(block))
		}
	}
	return b
}

// readStep decodes a step. No row has zero tokens, so that length stands for "what was sampled before".
func readStep(b []byte) (*gpu.Step, error) {
	broken := false
	next := func() int {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > 1<<40 {
			broken = true
			return 0
		}
		b = b[n:]
		return int(v)
	}
	// count is the length of a list whose elements take at least one byte each.
	count := func() int {
		n := next()
		if n > len(b) {
			broken = true
			return 0
		}
		return n
	}
	step := &gpu.Step{Rows: make([]gpu.Row, count())}
	for i := range step.Rows {
		row := &step.Rows[i]
		row.Slot, row.Computed = next(), next()
		if n := count(); n > 0 {
			row.Tokens = make([]uint32, n)
		}
		for k := range row.Tokens {
			row.Tokens[k] = uint32(next())
		}
		row.Blocks = make([]int32, count())
		for k := range row.Blocks {
			row.Blocks[k] = int32(next())
		}
	}
	if broken || len(b) > 0 {
		return nil, errors.New("bench: malformed step from the leader")
	}
	return step, nil
}
