package main

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/artifact"
)

func exportCommand() *cli.Command {
	return &cli.Command{
		Name:      "export",
		Usage:     "write every raw sample as a row of a CSV or Parquet table",
		ArgsUsage: "RUN...",
		Description: "RUN is a rank or merged document, the folder of a run, or a repeat.json document, which stands for all of its launches. One document\n" +
			"is in memory at a time. The columns are described in docs/fpmstat.md; what is not recorded is empty in CSV and null in Parquet.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Usage: "`FORMAT` csv or parquet", DefaultText: "by the name of --output, else csv"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE`, which appears when it is whole", DefaultText: "standard output"},
		},
		Action: export,
	}
}

// table takes rows one after the other.
type table interface {
	row(*artifact.RawSample) error
	close() error
}

func export(c *cli.Context) error {
	if c.NArg() == 0 {
		return usage("export: no run given")
	}
	format, output := c.String("format"), c.String("output")
	if format == "" {
		format = "csv"
		if strings.EqualFold(filepath.Ext(output), ".parquet") {
			format = "parquet"
		}
	}
	if format != "csv" && format != "parquet" {
		return usage("export: --format %q: want csv or parquet", format)
	}
	var paths []string
	for _, run := range c.Args().Slice() {
		more, err := artifact.LaunchPaths(run)
		if err != nil {
			return err
		}
		paths = append(paths, more...)
	}
	if output != "" {
		var err error
		if output, err = target("export", output, c.Args().Slice()); err != nil {
			return err
		}
	}
	return writeWhole(output, c.App.Writer, func(w io.Writer) error {
		t, err := newTable(format, w)
		if err != nil {
			return err
		}
		for _, path := range paths {
			d, err := artifact.ReadDocument(path)
			if err != nil {
				return err
			}
			if err := d.RawSamples(t.row); err != nil {
				return err
			}
		}
		return t.close()
	})
}

func newTable(format string, w io.Writer) (table, error) {
	if format == "parquet" {
		return &parquetTable{parquet.NewGenericWriter[artifact.RawSample](w, parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(1<<16))}, nil
	}
	t := &csvTable{csv.NewWriter(w)}
	return t, t.w.Write(columnNames())
}

// columnNames are the columns of a raw sample.
func columnNames() []string {
	var names []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[artifact.RawSample]()) {
		name, _, _ := strings.Cut(field.Tag.Get("parquet"), ",")
		names = append(names, name)
	}
	return names
}

type parquetTable struct {
	w *parquet.GenericWriter[artifact.RawSample]
}

func (t *parquetTable) row(s *artifact.RawSample) error {
	_, err := t.w.Write([]artifact.RawSample{*s})
	return err
}

func (t *parquetTable) close() error { return t.w.Close() }

type csvTable struct{ w *csv.Writer }

func (t *csvTable) row(s *artifact.RawSample) error {
	v := reflect.ValueOf(s).Elem()
	cells := make([]string, v.NumField())
	for i := range cells {
		field := v.Field(i)
		if field.Kind() == reflect.Pointer {
			if field.IsNil() {
				continue
			}
			field = field.Elem()
		}
		if field.Kind() == reflect.Float64 {
			cells[i] = strconv.FormatFloat(field.Float(), 'g', -1, 64)
		} else {
			cells[i] = fmt.Sprint(field)
		}
	}
	return t.w.Write(cells)
}

func (t *csvTable) close() error {
	t.w.Flush()
	return t.w.Error()
}

// writeWhole writes to a file that appears under its name whole or not at all, or to standard output without a name.
func writeWhole(path string, stdout io.Writer, write func(io.Writer) error) (err error) {
	if path == "" {
		return write(stdout)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	defer leaveNothing(f.Name())()
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %q: %w", path, err), os.Remove(f.Name()))
		}
	}()
	buffered := bufio.NewWriterSize(f, 1<<20)
	err = write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
