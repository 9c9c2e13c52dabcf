package artifact

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// ReadRepeat reads a document about several launches. The error is ErrNotReady when the text ends too early, and a JSONError when it is no such document.
func ReadRepeat(path string) (*Repeat, error) {
	text, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	return ParseRepeat(path, text)
}

// ParseRepeat is ReadRepeat for text that is in memory; path only names it.
func ParseRepeat(path string, text []byte) (*Repeat, error) {
	var r Repeat
	bad := verify(text)
	if bad == nil {
		if bad = decodeTyped(text, &r); bad != nil {
			bad.Path = "$" + bad.Path
		}
	}
	if bad != nil {
		return nil, inFile(bad, path)
	}
	if r.Schema != RepeatSchema || r.SchemaVersion != 1 {
		return nil, fmt.Errorf("artifact: %q: schema %q version %d, want %s version 1", path, r.Schema, r.SchemaVersion, RepeatSchema)
	}
	return &r, nil
}

// Title describes the launches in one line.
func (r *Repeat) Title() string {
	text := fmt.Sprintf("%d of %d launches, order %s, %d points", len(r.Launches), r.Asked, r.Order, len(r.Points))
	if r.StopReason != nil {
		text += ", " + *r.StopReason
	}
	return text
}

// WriteTable prints how much each coordinate differs between launches.
func (r *Repeat) WriteTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "type\tbatch\tnew\tkv\tlaunches\tmean ms\tCV %\tfastest\tslowest\t")
	ms := func(t *Float) string {
		if t == nil {
			return "-"
		}
		return fmt.Sprintf("%.3f", 1e3*float64(*t))
	}
	for i := range r.Points {
		p := &r.Points[i]
		n, fastest, slowest := 0, (*Float)(nil), (*Float)(nil)
		for _, t := range p.WallTimes {
			if t == nil {
				continue
			}
			n++
			if fastest == nil || *t < *fastest {
				fastest = t
			}
			if slowest == nil || *t > *slowest {
				slowest = t
			}
		}
		cv := "-"
		if p.CV != nil {
			cv = fmt.Sprintf("%.1f", 100*float64(*p.CV))
		}
		fresh := p.NewTokens
		if p.PointType == Decode {
			fresh = p.BatchSize
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t\n", p.PointType, p.BatchSize, fresh, p.KVTokens, n, ms(p.Mean), cv, ms(fastest), ms(slowest))
	}
	return w.Flush()
}

// checkRepeat applies the rules of a document about several launches.
func (d *Document) checkRepeat() []Violation {
	var found violations
	doc := d.member(&found)
	doc.get("schema_version").is(1)
	doc.get("asked_launches").atLeast(1)
	doc.get("order").oneOf("abba", "same")
	launches := doc.get("launches").list()
	for _, l := range launches {
		for _, key := range []string{"run_id", "path"} {
			if l.get(key).text() == "" {
				l.get(key).fail("want a non-empty string")
			}
		}
		l.get("order").oneOf("a", "b")
		l.get("status").oneOf("complete", "partial")
		l.get("completed_points").atLeast(1)
	}
	for _, p := range doc.get("points").list() {
		times := p.get("wall_times").list()
		if len(times) != len(launches) {
			p.get("wall_times").fail("want one for each of %d launches, got %d", len(launches), len(times))
			continue
		}
		var walls []*Float
		for _, t := range times {
			if t.value == nil {
				continue
			}
			wall, _ := t.float()
			walls = append(walls, (*Float)(&wall))
		}
		mean, cv := spread(walls)
		sameFloat(p.get("mean"), mean)
		sameFloat(p.get("cv"), cv)
	}
	return found
}

// sameFloat compares a number, or null, with what it was recomputed to.
func sameFloat(n node, want *Float) {
	switch {
	case want == nil && n.isNull():
	case want == nil:
		n.fail("want null, got %s", describe(n.value))
	default:
		if got, ok := n.float(); ok && !closeTo(got, float64(*want), 1e-9, 1e-12) {
			n.fail("the wall times give %v, got %v", *want, got)
		}
	}
}
