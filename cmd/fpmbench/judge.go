package main

import (
	"fmt"

	"github.com/fpmrun/fpmrun/artifact"
)

// mostNamed is how many coordinates an error names.
const mostNamed = 10

// judge takes in a launch on rank 0 and decides what follows. What is there is kept in any case.
func (r *repetition) judge(l launch, all []outcome) verdict {
	failed := failure(all)
	if failed < 0 {
		doc, err := artifact.ReadDocument(artifact.MergedPath(l.Output))
		if err == nil {
			err = r.record.Add(doc, l.Order)
		}
		if err != nil {
			return r.end(verdict{Code: 1, Text: fmt.Sprintf("launch %d: %v", l.Number, err)})
		}
	}
	stopped := ""
	for _, o := range all {
		if o.Stopped != "" {
			stopped = o.Stopped
		}
	}
	switch {
	case stopped != "" && len(r.record.Launches) > 0:
		return r.end(verdict{Code: exitPartial, Text: fmt.Sprintf("stopped by signal: %s, in launch %d of %d; what was measured is valid", stopped, l.Number, r.o.repeat.Value)})
	case failed >= 0:
		o := all[failed]
		text := fmt.Sprintf("launch %d: rank %d ended with status %d", l.Number, failed, o.Status)
		if o.Failed != "" {
			text = fmt.Sprintf("launch %d: rank %d: %s", l.Number, failed, o.Failed)
		}
		return r.end(verdict{Code: o.Status, Text: text})
	}
	if text := r.tooWide(l.Number); text != "" {
		return r.end(verdict{Code: exitPartial, Text: text})
	}
	if l.Number < r.o.repeat.Value {
		if err := artifact.WriteFile(r.path(), r.record); err != nil {
			return r.end(verdict{Code: 1, Text: err.Error()})
		}
		return verdict{More: true}
	}
	for _, launch := range r.record.Launches {
		if launch.Status != "complete" {
			return r.end(verdict{Code: exitPartial, Text: fmt.Sprintf("not every launch is complete; see %s", r.path())})
		}
	}
	return r.end(verdict{})
}

// tooWide says so when too many coordinates differ too much between the launches, and names them on stderr.
func (r *repetition) tooWide(number int) string {
	if r.record.StopCV == nil {
		return ""
	}
	cv, share := *r.record.StopCV, *r.record.StopShare
	over, of := r.record.Over(cv)
	if of == 0 || float64(len(over)) <= float64(share)*float64(of) {
		return ""
	}
	for i := range over {
		if i == mostNamed {
			fmt.Fprintf(r.p.stderr, "fpmbench: and %d more; see %s\n", len(over)-i, r.path())
			break
		}
		fmt.Fprintf(r.p.stderr, "fpmbench: %s: CV %.1f %% over %d launches\n", &over[i], 100*float64(*over[i].CV), number)
	}
	return fmt.Sprintf("stopped after launch %d of %d: %d of %d points (%.1f %%) vary by more than %.4g %% between launches, and %.4g %% may",
		number, r.o.repeat.Value, len(over), of, 100*float64(len(over))/float64(of), 100*float64(cv), 100*float64(share))
}

// end writes what there is, prints it and returns the verdict.
func (r *repetition) end(v verdict) verdict {
	if v.Text != "" {
		r.record.StopReason = &v.Text
	}
	err := artifact.WriteFile(r.path(), r.record)
	if err == nil && len(r.record.Launches) > 0 {
		if err = r.record.WriteTable(r.p.stdout); err == nil {
			_, err = fmt.Fprintln(r.p.stdout, r.path())
		}
	}
	if err != nil && v.Code == 0 {
		return verdict{Code: 1, Text: err.Error()}
	}
	return v
}
