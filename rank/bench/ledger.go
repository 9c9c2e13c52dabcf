package bench

import (
	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
)

// entry is one preparation under way.
type entry struct {
	ledger *artifact.Ledger
	at     int
	f      *forward
}

// begin opens a ledger record. It stays "running" until completed or failed is called.
func (s *Session) begin(kind string, shape any) entry {
	start := s.forward.count
	record := artifact.LedgerRecord{Kind: kind, RequestedShape: shape, Status: "running", ForwardIndexStart: &start,
		CompletedPointsBefore: len(s.doc.Results), Validation: artifact.LedgerValidation{Status: "not_performed"}}
	if kind == artifact.WarmupEagerShape {
		record.Validation.Scope = "attention_dp_group"
	}
	s.doc.Ledger.Records = append(s.doc.Ledger.Records, record)
	return entry{ledger: &s.doc.Ledger, at: len(s.doc.Ledger.Records) - 1, f: &s.forward}
}

func (e entry) record() *artifact.LedgerRecord { return &e.ledger.Records[e.at] }

// observed notes what the first and last forward of the preparation scheduled, also in the record of the replica that it belongs to.
func (e entry) observed(steps []gpu.Step, decode bool) {
	if len(steps) == 0 {
		return
	}
	first, last := scheduled(&steps[0], decode), scheduled(&steps[len(steps)-1], decode)
	for i := range e.ledger.Records {
		r := &e.ledger.Records[i]
		if r.Status != "running" {
			continue
		}
		if r.FirstScheduled == nil {
			r.FirstScheduled = &first
		}
		r.LastScheduled = &last
	}
}

func (e entry) end(status string) {
	end := e.f.count
	r := e.record()
	r.Status, r.ForwardIndexEnd, r.ObservedForwardCount = status, &end, end-*r.ForwardIndexStart
}

func (e entry) completed() { e.end("completed") }

// failed keeps a failed attempt; reason is empty for one that no validation rejected.
func (e entry) failed() { e.end("failed") }

// validated closes a replica's record with the group's verdict; reason is empty when it passed.
func (e entry) validated(reason string, rank int) {
	v := &e.record().Validation
	if reason == "" {
		v.Status = "passed"
		e.completed()
		return
	}
	v.Status, v.Reason = "failed", &reason
	if rank >= 0 {
		v.FailedDPRank = &rank
	}
	e.failed()
}
