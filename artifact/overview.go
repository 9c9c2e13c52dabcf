package artifact

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Overview is what a document tells of a run in short: its points, and what stands out in the evidence around them.
type Overview struct {
	Title  string    // the run in one line
	Points []Summary // in the order of the groups
	Causes []string  // a line each
}

// ReadOverview reads a rank or merged document element by element: it needs memory for the overview and for the largest element, however large the
// document is. The error is ErrNotReady when the file is missing, empty or cut short, and a JSONError when its text is not what it should be.
func ReadOverview(path string) (*Overview, error) {
	in, err := openText(path)
	if err != nil {
		return nil, unread(err)
	}
	defer in.close()
	return newWalker(in, path).overview()
}

// overview walks through a whole document.
func (w walker) overview() (*Overview, error) {
	o := overviewReader{walker: w, head: map[string]any{}, evidence: map[string][]PointEvidence{}, names: map[string]string{}}
	if _, err := o.next(); err == nil && o.pos == len(o.buf) {
		return nil, fmt.Errorf("%w: %q is empty", ErrNotReady, w.file)
	}
	if err := o.object(o.member); err != nil {
		return nil, err
	}
	if err := o.over(); err != nil {
		return nil, err
	}
	if kind := documentType(o.head); kind != "rank" && kind != "merged" {
		return nil, fmt.Errorf("artifact: %q is no rank or merged document (%s)", w.file, kind)
	}
	return &Overview{Title: title(o.head), Points: o.points, Causes: o.causes()}, nil
}

// overviewReader walks through a document.
type overviewReader struct {
	walker
	head     map[string]any // the members that a title is made of
	points   []Summary
	evidence map[string][]PointEvidence // by rank; of a rank's own document by ""
	names    map[string]string          // what repeats, stored once
}

// member reads or passes over a member of the document.
func (o *overviewReader) member(key string) error {
	switch key {
	case "artifact_type", "schema", "engine", "config", "dp", "status", "run_id":
		raw, _, err := o.value()
		if err == nil {
			o.head[key], err = decodeTree(raw)
		}
		return err
	case "iteration_groups":
		return o.list(o.group)
	case "fpmrun":
		return o.own("")
	case "results":
		return o.skip(1) // rows, which are in the groups too
	}
	return o.skip(3)
}

func (o *overviewReader) group() error {
	var g Group
	if err := o.decode(&g); err != nil {
		return err
	}
	o.points = append(o.points, g.summary())
	return nil
}

// own reads the project's own evidence: a rank's, or a merged document's by rank.
func (o *overviewReader) own(rank string) error {
	return o.object(func(key string) error {
		if key == "points" {
			return o.list(func() error {
				var p PointEvidence
				if err := o.decode(&p); err != nil {
					return err
				}
				o.share(&p)
				o.evidence[rank] = append(o.evidence[rank], p)
				return nil
			})
		}
		if _, err := strconv.Atoi(key); err == nil && rank == "" {
			return o.own(key)
		}
		return o.skip(2)
	})
}

// share stores once what is the same around all points.
func (o *overviewReader) share(p *PointEvidence) {
	once := func(s *string) {
		if kept, ok := o.names[*s]; ok {
			*s = kept
		} else {
			o.names[*s] = *s
		}
	}
	for _, r := range []*HostReading{&p.Before, &p.After} {
		once(&r.CPUs)
		once(&r.Governor)
		once(&r.GPUError)
		for i := range r.GPUs {
			once(&r.GPUs[i].UUID)
			for j := range r.GPUs[i].Throttle {
				once(&r.GPUs[i].Throttle[j])
			}
		}
	}
}

// causes lists what stands out, by rank.
func (o *overviewReader) causes() []string {
	var lines []string
	for _, rank := range slices.SortedFunc(maps.Keys(o.evidence), func(a, b string) int { return cmp.Or(len(a)-len(b), cmp.Compare(a, b)) }) {
		prefix := ""
		if rank != "" {
			prefix = "rank " + rank + ", "
		}
		lines = append(lines, causeLines(prefix, o.evidence[rank])...)
	}
	return lines
}
