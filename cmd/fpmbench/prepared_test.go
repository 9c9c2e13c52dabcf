package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fpmrun/fpmrun/gpu"
)

// Every rank keeps what its preparation took; rank 0 says it in one line, in the order of the stages.
func TestPrepared(t *testing.T) {
	for rank := range 2 {
		var out bytes.Buffer
		p := &program{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: withoutTime}))}
		o := &own{Launch: ownLaunch{Rank: rank}}
		p.prepared(o, []gpu.Stage{{Name: "weights", Took: 1500 * time.Millisecond}, {Name: "capture", Took: 250 * time.Millisecond}})
		want := ""
		if rank == 0 {
			want = "level=INFO msg=\"engine prepared\" total=1.75s weights=1.5s capture=250ms\n"
		}
		if out.String() != want {
			t.Errorf("rank %d says %q, want %q", rank, out.String(), want)
		}
		text, err := json.Marshal(o)
		if err != nil || !strings.Contains(string(text), `"engine_preparation_seconds":{"capture":0.25,"weights":1.5}`) {
			t.Errorf("rank %d keeps %s, %v", rank, text, err)
		}
	}
}
