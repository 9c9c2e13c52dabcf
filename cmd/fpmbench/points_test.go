package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/cmd/internal/exit"
)

// Whatever is wrong with a points file is said with the flag, the quoted path and the item; repeated coordinates are announced.
func TestPointsFile(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "points file.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name, text string
		args       []string
		want       string
		code       int
	}{
		{"no JSON", `{`, nil, "--points-file ", exit.Usage},
		{"float", `{"schema_version":1,"prefill":[],"decode":[{"batch_size":4.0,"total_kv_read_tokens":8}]}`, nil, "decode[0].batch_size: want an integer, got 4.0", exit.Usage},
		{"does not fit", `{"schema_version":1,"prefill":[],"decode":[{"batch_size":1,"total_kv_read_tokens":64},{"batch_size":1,"total_kv_read_tokens":600}]}`, nil, "decode[1] (batch_size 1, total_prefill_tokens 0, total_kv_read_tokens 600): ", exit.Usage},
		{"KV without prefix caching", `{"schema_version":1,"prefill":[{"batch_size":1,"total_prefill_tokens":8,"total_kv_read_tokens":16}],"decode":[]}`, []string{"--no-enable-prefix-caching"}, "prefill[0] (batch_size 1, total_prefill_tokens 8, total_kv_read_tokens 16): 16 KV tokens cannot be read with prefix caching off", exit.Usage},
		{"repeated", `{"schema_version":1,"prefill":[{"batch_size":1,"total_prefill_tokens":64,"total_kv_read_tokens":0},{"batch_size":1,"total_prefill_tokens":64,"total_kv_read_tokens":0},{"batch_size":1,"total_prefill_tokens":64,"total_kv_read_tokens":0}],"decode":[]}`,
			nil, "prefill[1], prefill[2] measure the same coordinate as prefill[0]; known consumers refuse duplicate coordinates", 0},
	} {
		path := write(c.text)
		code, _, stderr := dry(t, nil, append(c.args, "--points-file", path)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, want %d and %q\n%s", c.name, code, c.code, c.want, stderr)
		}
		if c.name == "no JSON" && !strings.Contains(stderr, strconv.Quote(path)) {
			t.Errorf("%s: the path is not quoted: %s", c.name, stderr)
		}
	}
	if code, _, stderr := dry(t, nil, "--points-file", "/none/points.json"); code != exit.Usage || !strings.Contains(stderr, `--points-file "/none/points.json"`) {
		t.Errorf("absent: status %d: %s", code, stderr)
	}
}
