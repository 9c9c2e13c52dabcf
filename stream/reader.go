package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fpmrun/fpmrun/stream/zmtp"
)

// Kind is what an Event tells.
type Kind int

// Kinds of events.
const (
	Subscribed Kind = iota // from now on all that the publisher sends is for this reader
	Received               // a record
	Skipped                // a message that is no record of Version; Err says why
	Absent                 // there is no publisher, or no longer; Err says why. The reader tries on
)

// Event is one thing that a Reader tells.
type Event struct {
	Kind      Kind
	Address   string // as in the Reader
	Message          // with Received; with Skipped the sequence number alone, where there is one
	Lost      uint64 // messages that did not come before this one
	Restarted bool   // the numbers began anew: the publisher is another one, and what was lost is not known
	Err       error
}

// Bounds of what a reader takes from a publisher. A record has some 500 bytes.
const (
	recordFrame = 64 << 10
	firstRetry  = 50 * time.Millisecond
	lastRetry   = 200 * time.Millisecond
)

// Reader reads the stream of one publisher, which may start later, end, and start again.
type Reader struct {
	Address string // HOST:PORT
}

// Read subscribes and calls take with each event, one at a time, until take returns an error or ctx ends; it returns that error or the context's cause. A peer that
// is no ZeroMQ publisher is an error (zmtp.ErrProtocol); one that cannot be reached is tried again, five times a second or more.
func (r *Reader) Read(ctx context.Context, take func(Event) error) error {
	var sequence Sequence
	wait, absent := firstRetry, false
	for {
		err := r.connection(ctx, &sequence, func(e Event) error {
			wait, absent = firstRetry, false
			return take(e)
		})
		var stop stopped
		switch {
		case errors.As(err, &stop):
			return stop.error
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, zmtp.ErrProtocol):
			return fmt.Errorf("tcp://%s: %w", r.Address, err)
		}
		if !absent {
			absent = true
			if err := take(Event{Kind: Absent, Address: r.Address, Err: err}); err != nil {
				return err
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		wait = min(2*wait, lastRetry)
	}
}

// stopped wraps an error of the reader's caller.
type stopped struct{ error }

// connection reads from one connection until it ends.
func (r *Reader) connection(ctx context.Context, sequence *Sequence, take func(Event) error) error {
	sub, err := zmtp.Dial(ctx, r.Address, zmtp.SubConfig{Frame: recordFrame})
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }()
	if err := sub.Confirm(ctx); err != nil {
		return err
	}
	if err := take(Event{Kind: Subscribed, Address: r.Address}); err != nil {
		return stopped{err}
	}
	for {
		frames, err := sub.Next(ctx)
		if err != nil {
			return err
		}
		if err := take(event(r.Address, frames, sequence)); err != nil {
			return stopped{err}
		}
	}
}

// event is what a message means behind those that came before.
func event(address string, frames [][]byte, sequence *Sequence) Event {
	e := Event{Kind: Received, Address: address}
	if e.Message, e.Err = ParseMessage(frames); e.Err != nil {
		e.Kind = Skipped
		var version *VersionError
		if !errors.As(e.Err, &version) && !errors.Is(e.Err, ErrRecord) {
			return e // nor a number
		}
	}
	e.Lost, e.Restarted = sequence.Add(e.Sequence)
	return e
}
