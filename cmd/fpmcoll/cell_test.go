package main

import (
	"strings"
	"testing"
)

func TestParseCell(t *testing.T) {
	for _, c := range []struct {
		text string
		want cell
		err  string
	}{
		{"broadcast:64", cell{"broadcast", 64}, ""},
		{"step:64", cell{"step", 64}, ""},
		{"step:128", cell{}, "want step:64"},
		{"steps:64", cell{}, "allgather, allreduce or step"},
		{"barrier:-1", cell{}, "want OPERATION:BYTES"},
		{"gather", cell{}, "want OPERATION:BYTES"},
		{"gather:x", cell{}, "want OPERATION:BYTES"},
		{"", cell{}, "want OPERATION:BYTES"},
	} {
		got, err := parseCell(c.text)
		if c.err == "" && (err != nil || got != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: got %v, %v, want %v and an error with %q", c.text, got, err, c.want, c.err)
		}
	}
}
