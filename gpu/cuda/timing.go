//go:build linux && cgo

package cuda

// #include "timing.h"
import "C"

import (
	"errors"
	"unsafe"
)

// timing is the events around the steps in flight, begin and end by turns of the serial number. A nil timing does nothing: there is one in diagnostic runs only.
type timing struct {
	m      *machine
	events [depth][2]unsafe.Pointer
}

func newTiming(m *machine) (*timing, error) {
	t := &timing{m: m}
	for i := range t.events {
		for k := range t.events[i] {
			if err := check(C.make_event(m.c, &t.events[i][k])); err != nil {
				return nil, errors.Join(err, t.close())
			}
		}
	}
	return t, nil
}

// begin and end stand before and after a step's commands.
const (
	begin = iota
	end
)

// record puts the begin or the end of a step on the stream.
func (t *timing) record(serial uint32, which int) error {
	if t == nil {
		return nil
	}
	return check(C.record_event(t.m.c, t.events[serial%depth][which]))
}

// of is the device's time of a step in nanoseconds, which it waits for; 0 without events.
func (t *timing) of(serial uint32) (int64, error) {
	if t == nil {
		return 0, nil
	}
	pair := &t.events[serial%depth]
	var ns C.int64_t
	err := check(C.between_events(t.m.c, pair[begin], pair[end], &ns))
	return int64(ns), err
}

func (t *timing) close() error {
	if t == nil {
		return nil
	}
	var errs []error
	for i := range t.events {
		for k, event := range t.events[i] {
			if event != nil {
				errs = append(errs, check(C.free_event(t.m.c, event)))
				t.events[i][k] = nil
			}
		}
	}
	return errors.Join(errs...)
}
