package artifact

// Finish derives the verdicts of a rank document from its results: status, validity and the sums. expected is the
// number of real points; stopped says that the run ended at a limit or a signal; failure is the error that ended it, or nil.
func (r *Rank) Finish(expected int, stopped bool, failure error) {
	r.SchemaVersion, r.ArtifactType = SchemaVersion, "rank"
	r.Coverage = Coverage{Expected: expected, Completed: len(r.Results), Skipped: len(r.Skipped)}
	complete := len(r.Results) == expected
	whole := len(r.Groups) == len(r.Results)
	sum := 0.0
	for _, g := range r.Groups {
		whole = whole && g.Complete
		sum += float64(g.WallTime)
	}
	r.Timing.Measured = Float(sum)
	r.TimingValid = r.Timing.StartedAt != nil && r.Timing.CompletedAt != nil && sum <= float64(r.Timing.Elapsed)+1e-12
	clean := failure == nil && whole && len(r.Skipped) == 0 && len(r.MissingPhases) == 0 && r.TimingValid
	r.Valid = clean && complete
	r.Usable = clean && len(r.Results) > 0
	switch {
	case failure != nil:
		r.Status = "failed"
		text := failure.Error()
		r.Error = &text
	case stopped && !complete:
		r.Status = "partial"
		reason := "timeout"
		r.StopReason = &reason
	default:
		r.Status = "complete"
	}
}
