package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// EngineIdentity is the text of an engine block without what differs between ranks or launches of one build.
func EngineIdentity(e *Engine) (json.RawMessage, error) {
	text, err := encode(e)
	if err != nil {
		return nil, err
	}
	tree, err := decodeTree(text)
	if err != nil {
		return nil, err
	}
	block, ok := tree.(map[string]any)
	if !ok {
		return text, nil
	}
	return encode(identity(block))
}

// Compare reports why a process may not go on with what p has begun: every setting that must be the same and is not, with the value in the journal
// and its own.
func (p *JournalProcess) Compare(own *JournalProcess) error {
	var errs []error
	differ := func(name string, then, now any) {
		if then != now {
			errs = append(errs, fmt.Errorf("%s is %v in the journal and %v now", name, then, now))
		}
	}
	differ("DP rank", p.Rank, own.Rank)
	differ("DP size", p.Size, own.Size)
	differ("content seed", fmt.Sprintf("%q", p.ContentSeed), fmt.Sprintf("%q", own.ContentSeed))
	differ("mode", p.Mode, own.Mode)
	differ("reverse order", p.Reverse, own.Reverse)
	differ("number of points", p.Expected, own.Expected)
	differ("grid digest", p.GridDigest, own.GridDigest)
	for _, part := range []struct {
		name      string
		then, now json.RawMessage
	}{{"measurement_protocol", p.Protocol, own.Protocol}, {"text", p.Text, own.Text}, {"engine", p.Engine, own.Engine}} {
		then, err := decodeTree(part.then)
		if err != nil {
			return err
		}
		now, err := decodeTree(part.now)
		if err != nil {
			return err
		}
		for _, d := range treeDifferences(part.name, then, now) {
			if d.name != "measurement_protocol.content_seed" { // told above
				differ(d.name, d.then, d.now)
			}
		}
	}
	return errors.Join(errs...)
}

// treeDifference is a place in which two documents differ, with both values in short.
type treeDifference struct{ name, then, now string }

// treeDifferences walks two decoded documents and lists the innermost members that differ.
func treeDifferences(name string, then, now any) []treeDifference {
	a, okA := then.(map[string]any)
	b, okB := now.(map[string]any)
	if !okA || !okB {
		if equalTree(then, now) {
			return nil
		}
		return []treeDifference{{name, describe(then), describe(now)}}
	}
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	var found []treeDifference
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		x, okA := a[key]
		y, okB := b[key]
		switch {
		case okA && okB:
			found = append(found, treeDifferences(name+"."+key, x, y)...)
		case okA:
			found = append(found, treeDifference{name + "." + key, describe(x), "absent"})
		default:
			found = append(found, treeDifference{name + "." + key, "absent", describe(y)})
		}
	}
	return found
}
