package bench

// tell hands the raw records of the last point to the live stream: between two points, when all ranks have exchanged their results and the journal
// has them.
func (s *Session) tell() {
	if s.cfg.Live != nil {
		s.cfg.Live(s.doc.Results[len(s.doc.Results)-1].FPMs[0].Measurement.Raw)
	}
}
