package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
)

func TestFilter(t *testing.T) {
	rows := []artifact.Summary{
		{BenchmarkID: 1, PointType: artifact.Prefill, BatchSize: 1, KVTokens: 4096, TokensPerSec: 9000},
		{BenchmarkID: 2, PointType: artifact.Decode, BatchSize: 1, KVTokens: 4096, TokensPerSec: 100},
		{BenchmarkID: 3, PointType: artifact.Decode, BatchSize: 8, KVTokens: 8 * 4090, TokensPerSec: 700},
		{BenchmarkID: 4, PointType: artifact.Decode, BatchSize: 16, KVTokens: 16 * 4096, TokensPerSec: 650},
		{BenchmarkID: 5, PointType: artifact.Decode, BatchSize: 16, KVTokens: 16 * 64, TokensPerSec: 2000},
	}
	for _, c := range []struct {
		name string
		f    filter
		want string // ids
		talk string
	}{
		{"everything", filter{}, "1 2 3 4 5", ""},
		{"the best batch at 4k", filter{artifact.Decode, 4096, 1}, "3", ""},
		{"all of decode at 4k", filter{artifact.Decode, 4096, 0}, "2 3 4", ""},
		{"more than there are", filter{artifact.Decode, 0, 9}, "5 3 4 2", ""},
		{"a length that was not measured", filter{artifact.Decode, 100, 1}, "5", "nearest measured length is 64"},
		{"both types", filter{"", 4096, 2}, "1 3", ""},
	} {
		var talk strings.Builder
		kept, err := c.f.apply(rows, "r.json", &talk)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var ids []string
		for _, r := range kept {
			ids = append(ids, fmt.Sprint(r.BenchmarkID))
		}
		if got := strings.Join(ids, " "); got != c.want || !strings.Contains(talk.String(), c.talk) || (c.talk == "") != (talk.String() == "") {
			t.Errorf("%s: points %s, want %s; said %q, want %q", c.name, got, c.want, talk.String(), c.talk)
		}
	}
	if _, err := (filter{pointType: artifact.Prefill, context: 5}).apply(rows[4:], "r.json", nil); err == nil || !strings.Contains(err.Error(), `"r.json": none of its 1 points`) {
		t.Errorf("nothing left: %v", err)
	}
}
