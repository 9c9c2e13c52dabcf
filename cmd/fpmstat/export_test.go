package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/fpmrun/fpmrun/artifact"
)

// Both formats have the same columns, which the manual describes in this order; what was written reads back, nulls included.
func TestExportColumns(t *testing.T) {
	manual, err := os.ReadFile("../../docs/fpmstat.md")
	if err != nil {
		t.Fatal(err)
	}
	var described []string
	_, text, _ := strings.Cut(string(manual), "| column |")
	for line := range strings.SplitSeq(text, "\n") {
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		if strings.HasPrefix(cell, "`") {
			for name := range strings.SplitSeq(cell, ", ") {
				described = append(described, strings.Trim(name, "`"))
			}
		}
	}
	if got := columnNames(); !slices.Equal(got, described) {
		t.Errorf("columns are\n%q, the manual has\n%q", got, described)
	}
	index, mode := int64(4), "FULL"
	in := []artifact.RawSample{{RunID: "a", WallTime: 0.25, SampleIndex: &index, RuntimeMode: &mode, Used: true}, {RunID: "b"}}
	var file bytes.Buffer
	out, err := newTable("parquet", &file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range in {
		if err := out.row(&in[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.close(); err != nil {
		t.Fatal(err)
	}
	rows, err := parquet.Read[artifact.RawSample](bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil || len(rows) != 2 || rows[0].WallTime != 0.25 || *rows[0].SampleIndex != 4 || *rows[0].RuntimeMode != "FULL" || !rows[0].Used || rows[1].SampleIndex != nil || rows[1].RunID != "b" {
		t.Errorf("%v: %+v", err, rows)
	}
}

// Integers beyond the precision of a float keep their digits in both formats.
func TestExportKeepsDigits(t *testing.T) {
	const large = 9007199254740993
	for _, format := range []string{"csv", "parquet"} {
		var file bytes.Buffer
		out, err := newTable(format, &file)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(out.row(&artifact.RawSample{KVTokens: large}), out.close()); err != nil {
			t.Fatal(err)
		}
		kept := strings.Contains(file.String(), ",9007199254740993,")
		if format == "parquet" {
			rows, err := parquet.Read[artifact.RawSample](bytes.NewReader(file.Bytes()), int64(file.Len()))
			kept = err == nil && len(rows) == 1 && rows[0].KVTokens == large
		}
		if !kept {
			t.Errorf("%s lost digits", format)
		}
	}
}

// A file that could not be written wholly is not there, and neither is a part of it.
func TestWriteWhole(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/x.csv"
	if err := writeWhole(path, nil, func(w io.Writer) error {
		if _, err := w.Write([]byte("half")); err != nil {
			return err
		}
		return os.ErrInvalid
	}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v: left %v", err, left)
	}
}
