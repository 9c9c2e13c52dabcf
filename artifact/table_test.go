package artifact

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	rows := Summarize(run(t, 2)[0].Groups)
	var wide strings.Builder
	if err := WriteTable(&wide, rows); err != nil {
		t.Fatal(err)
	}
	want := `id  type     batch  new   kv  wall ms  ranks ±%  tokens/s  mode  n  method       reasons
 1  prefill      2    5    0   20.000      50.0       500  NONE  1  single_step  cudagraph_disabled
 2  decode       2    2   64   20.000      50.0       200  NONE  2  last_step    cudagraph_disabled
 3  decode       2    2  128   20.000      50.0       200  NONE  2  last_step    cudagraph_disabled
`
	if wide.String() != want {
		t.Errorf("got\n%s\nwant\n%s", wide.String(), want)
	}
	for width := 20; width < 100; width++ {
		var b strings.Builder
		if err := writeTable(&b, rows, width); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > max(width, 37) {
				t.Errorf("width %d: a line of %d columns: %q", width, n, line)
			}
		}
		if !strings.Contains(b.String(), "wall ms") {
			t.Errorf("width %d: the measured time is gone", width)
		}
	}
}
