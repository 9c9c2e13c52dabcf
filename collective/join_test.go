package collective

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// While ranks are missing rank 0 says which, at growing distances: pods may wait long for a node.
func TestJoinProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		_, err := Join(t.Context(), Config{Size: 4, Rendezvous: "host0:1", Token: Secret("0123456789abcdef"), JoinTimeout: 30 * time.Second,
			Network: NewMemory(0, 0).Host("host0"), Logger: slog.New(slog.NewTextHandler(&said, nil))})
		if err == nil {
			t.Fatal("joined alone")
		}
		for _, after := range []string{"5s", "10s", "20s"} {
			if want := `msg="waiting for ranks to join" arrived=1 of=4 missing=1-3 for=` + after + "\n"; strings.Count(said.String(), want) != 1 {
				t.Errorf("does not say %q once:\n%s", want, &said)
			}
		}
		if n := strings.Count(said.String(), "waiting"); n != 3 {
			t.Errorf("said %d times, want 3", n)
		}
	})
}
