package artifact

import (
	"errors"
	"fmt"
	"strings"
)

// Manifest is an explicit points file: the coordinates of both phases in the operator's order.
type Manifest struct {
	Prefill, Decode []Point
}

// ParseManifest reads a points file strictly: no coercion, no unknown key, every rule of the format checked. The error
// lists every item that breaks one.
func ParseManifest(text []byte) (*Manifest, error) {
	tree, err := decodeTree(text)
	if err != nil {
		return nil, err
	}
	var found violations
	doc := root(tree, &found)
	m := &Manifest{}
	if doc.object("schema_version", "prefill", "decode") {
		version := doc.get("schema_version").atLeast(1)
		if version > 3 {
			doc.get("schema_version").fail("want 1, 2 or 3, got %d", version)
		}
		for _, item := range doc.get("prefill").list() {
			m.Prefill = append(m.Prefill, prefillItem(item, version))
		}
		for _, item := range doc.get("decode").list() {
			m.Decode = append(m.Decode, decodeItem(item))
		}
	}
	if len(found) > 0 {
		errs := make([]error, len(found))
		for i, v := range found {
			errs[i] = errors.New(strings.TrimPrefix(v.Path, "$.") + ": " + v.Message)
		}
		return nil, errors.Join(errs...)
	}
	return m, nil
}

func prefillItem(n node, version int) Point {
	p := Point{PointType: Prefill, SampleReasons: []string{ReasonExplicit}}
	if !n.object("batch_size", "total_prefill_tokens", "total_kv_read_tokens", "partition", "rows") {
		return p
	}
	p.BatchSize = n.get("batch_size").atLeast(1)
	p.TotalPrefillTokens = n.get("total_prefill_tokens").atLeast(1)
	p.TotalKVReadTokens = n.get("total_kv_read_tokens").atLeast(0)
	if p.TotalPrefillTokens < p.BatchSize {
		n.fail("total_prefill_tokens %d must be at least batch_size %d", p.TotalPrefillTokens, p.BatchSize)
	}
	if p.TotalKVReadTokens > 0 && p.TotalKVReadTokens < p.BatchSize {
		n.fail("total_kv_read_tokens %d must be zero or at least batch_size %d", p.TotalKVReadTokens, p.BatchSize)
	}
	rows, partition := n.optional("rows"), n.optional("partition")
	if !rows.isNull() && !partition.isNull() {
		n.fail("rows and partition are mutually exclusive")
	}
	if !rows.isNull() {
		if version < 3 {
			rows.fail("rows need schema_version 3 or later, the file has %d", version)
		}
		p.Rows = rowsOf(rows, &p)
	}
	if !partition.isNull() {
		if version < 2 {
			partition.fail("partition needs schema_version 2 or later, the file has %d", version)
		}
		p.Partition = partitionOf(partition, &p)
	}
	return p
}

func rowsOf(n node, p *Point) [][2]int {
	var rows [][2]int
	items := n.list()
	if len(items) != p.BatchSize {
		n.fail("%d rows, but batch_size is %d", len(items), p.BatchSize)
	}
	fresh, kv := 0, 0
	for _, item := range items {
		pair := item.list()
		if len(pair) != 2 {
			item.fail("a row is [new tokens, KV tokens], got %d entries", len(pair))
			continue
		}
		row := [2]int{pair[0].atLeast(1), pair[1].atLeast(0)}
		rows = append(rows, row)
		fresh, kv = fresh+row[0], kv+row[1]
	}
	if len(rows) == len(items) && fresh != p.TotalPrefillTokens {
		n.fail("the rows' new tokens add up to %d, but total_prefill_tokens is %d", fresh, p.TotalPrefillTokens)
	}
	if len(rows) == len(items) && kv != p.TotalKVReadTokens {
		n.fail("the rows' KV tokens add up to %d, but total_kv_read_tokens is %d", kv, p.TotalKVReadTokens)
	}
	return rows
}

func partitionOf(n node, p *Point) *Partition {
	if !n.object("axis", "high_count", "fraction") {
		return nil
	}
	q := &Partition{Axis: n.get("axis").oneOf("new", "kv", "both"), HighCount: n.get("high_count").atLeast(1)}
	fraction, _ := n.get("fraction").float()
	q.Fraction = Float(fraction)
	if n.optional("fraction").ok && !(fraction > 0 && fraction < 1) {
		n.get("fraction").fail("want a number between 0 and 1, both excluded, got %s", describe(q.Fraction))
	}
	if p.BatchSize < 2 {
		n.fail("a partition needs batch_size 2 or more, got %d", p.BatchSize)
	}
	if q.HighCount >= p.BatchSize {
		n.fail("high_count %d must be below batch_size %d", q.HighCount, p.BatchSize)
	}
	if q.Axis != "new" && p.TotalKVReadTokens == 0 {
		n.fail("axis %q needs total_kv_read_tokens above 0", q.Axis)
	}
	return q
}

func decodeItem(n node) Point {
	p := Point{PointType: Decode, SampleReasons: []string{ReasonExplicit}}
	if !n.object("batch_size", "total_kv_read_tokens") {
		return p
	}
	p.BatchSize = n.get("batch_size").atLeast(1)
	p.TotalKVReadTokens = n.get("total_kv_read_tokens").atLeast(1)
	if p.TotalKVReadTokens < p.BatchSize {
		n.fail("total_kv_read_tokens %d must be at least batch_size %d", p.TotalKVReadTokens, p.BatchSize)
	}
	return p
}

// Repeats lists the items that measure a coordinate an earlier item measures already, one message per
// coordinate; known consumers refuse such a set. Decode items are compared by the coordinate that their steady
// step reads.
func (m *Manifest) Repeats() ([]string, error) {
	var messages []string
	for _, phase := range []struct {
		name   string
		points []Point
	}{{Prefill, m.Prefill}, {Decode, m.Decode}} {
		first, repeats := map[string]int{}, map[int][]string{}
		var order []int
		for i, p := range phase.points {
			if p.PointType == Decode {
				p.TotalKVReadTokens = SteadyKV(p.TotalKVReadTokens, p.BatchSize)
			}
			key, err := p.Key()
			if err != nil {
				return nil, err
			}
			j, seen := first[key]
			if !seen {
				first[key] = i
				continue
			}
			if repeats[j] == nil {
				order = append(order, j)
			}
			repeats[j] = append(repeats[j], fmt.Sprintf("%s[%d]", phase.name, i))
		}
		for _, j := range order {
			messages = append(messages, fmt.Sprintf("%s measure the same coordinate as %s[%d]; known consumers refuse duplicate coordinates",
				strings.Join(repeats[j], ", "), phase.name, j))
		}
	}
	return messages, nil
}
