package artifact

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// column is one column of the table; columns with a higher drop go first when the terminal is too narrow.
type column struct {
	title string
	drop  int
	cell  func(*Summary) string
}

var columns = []column{
	{"id", 0, func(s *Summary) string { return strconv.Itoa(s.BenchmarkID) }},
	{"type", 0, func(s *Summary) string { return s.PointType }},
	{"batch", 0, func(s *Summary) string { return strconv.Itoa(s.BatchSize) }},
	{"new", 0, func(s *Summary) string { return strconv.Itoa(s.NewTokens) }},
	{"kv", 0, func(s *Summary) string { return strconv.Itoa(s.KVTokens) }},
	{"wall ms", 0, func(s *Summary) string { return fmt.Sprintf("%.3f", 1e3*float64(s.WallTime)) }},
	{"ranks ±%", 3, func(s *Summary) string { return fmt.Sprintf("%.1f", rankSpread(s)) }},
	{"tokens/s", 1, func(s *Summary) string { return fmt.Sprintf("%.0f", float64(s.TokensPerSec)) }},
	{"mode", 2, func(s *Summary) string { return s.Mode }},
	{"n", 4, func(s *Summary) string { return strconv.Itoa(s.Samples) }},
	{"method", 5, func(s *Summary) string { return s.Method }},
	{"reasons", 6, func(s *Summary) string { return strings.Join(s.Reasons, ",") }},
}

// rankSpread is how much faster the fastest rank was than the slowest, in percent.
func rankSpread(s *Summary) float64 {
	if s.WallTime == 0 {
		return 0
	}
	return 100 * float64(s.WallTime-s.Fastest) / float64(s.WallTime)
}

// WriteTable prints the points as a table. On a terminal, columns that do not fit are left out, the least important
// first.
func WriteTable(w io.Writer, rows []Summary) error {
	width := 0
	if f, ok := w.(interface{ Fd() uintptr }); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
			width = columns
		}
	}
	return writeTable(w, rows, width)
}

// writeTable is WriteTable for a width in columns; 0 is no limit.
func writeTable(w io.Writer, rows []Summary, width int) error {
	shown := columns
	for drop := 6; drop > 0 && width > 0 && tableWidth(shown, rows) > width; drop-- {
		var kept []column
		for _, c := range shown {
			if c.drop < drop {
				kept = append(kept, c)
			}
		}
		shown = kept
	}
	var b strings.Builder
	widths := cellWidths(shown, rows)
	line := func(cell func(column) string) {
		var text strings.Builder
		for i, c := range shown {
			if c.title == "type" || c.drop >= 5 || c.title == "mode" {
				fmt.Fprintf(&text, "%-*s  ", widths[i], cell(c))
			} else {
				fmt.Fprintf(&text, "%*s  ", widths[i], cell(c))
			}
		}
		b.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
	line(func(c column) string { return c.title })
	for i := range rows {
		line(func(c column) string { return c.cell(&rows[i]) })
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func cellWidths(shown []column, rows []Summary) []int {
	widths := make([]int, len(shown))
	for i, c := range shown {
		widths[i] = len([]rune(c.title))
		for r := range rows {
			widths[i] = max(widths[i], len([]rune(c.cell(&rows[r]))))
		}
	}
	return widths
}

func tableWidth(shown []column, rows []Summary) int {
	total := -2
	for _, n := range cellWidths(shown, rows) {
		total += n + 2
	}
	return total
}
