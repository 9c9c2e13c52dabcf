package artifact

import (
	"os"
	"strings"
	"testing"
)

func TestManifestRules(t *testing.T) {
	prefill := func(item string) string { return `{"schema_version":3,"prefill":[` + item + `],"decode":[]}` }
	decode := func(item string) string { return `{"schema_version":1,"prefill":[],"decode":[` + item + `]}` }
	for _, c := range []struct{ name, text, want string }{
		{"fewer tokens than requests", prefill(`{"batch_size":3,"total_prefill_tokens":2,"total_kv_read_tokens":0}`), "must be at least batch_size 3"},
		{"fewer KV tokens than requests", prefill(`{"batch_size":3,"total_prefill_tokens":3,"total_kv_read_tokens":2}`), "must be zero or at least batch_size 3"},
		{"decode KV below the batch", decode(`{"batch_size":3,"total_kv_read_tokens":2}`), "must be at least batch_size 3"},
		{"rows and partition", prefill(`{"batch_size":2,"total_prefill_tokens":3,"total_kv_read_tokens":0,"rows":[[1,0],[2,0]],"partition":{"axis":"new","high_count":1,"fraction":0.5}}`), "mutually exclusive"},
		{"row of three", prefill(`{"batch_size":1,"total_prefill_tokens":3,"total_kv_read_tokens":0,"rows":[[3,0,0]]}`), "prefill[0].rows[0]: a row is [new tokens, KV tokens]"},
		{"rows do not match the batch", prefill(`{"batch_size":2,"total_prefill_tokens":3,"total_kv_read_tokens":0,"rows":[[3,0]]}`), "1 rows, but batch_size is 2"},
		{"row without a token", prefill(`{"batch_size":2,"total_prefill_tokens":3,"total_kv_read_tokens":0,"rows":[[3,0],[0,0]]}`), "rows[1][0]: want an integer of at least 1"},
		{"row with negative KV", prefill(`{"batch_size":1,"total_prefill_tokens":3,"total_kv_read_tokens":0,"rows":[[3,-1]]}`), "rows[0][1]: want an integer of at least 0"},
		{"rows' tokens do not add up", prefill(`{"batch_size":1,"total_prefill_tokens":3,"total_kv_read_tokens":0,"rows":[[4,0]]}`), "add up to 4, but total_prefill_tokens is 3"},
		{"rows' KV does not add up", prefill(`{"batch_size":1,"total_prefill_tokens":3,"total_kv_read_tokens":16,"rows":[[3,32]]}`), "add up to 32, but total_kv_read_tokens is 16"},
		{"partition of one request", prefill(`{"batch_size":1,"total_prefill_tokens":3,"total_kv_read_tokens":0,"partition":{"axis":"new","high_count":1,"fraction":0.5}}`), "needs batch_size 2"},
		{"all requests high", prefill(`{"batch_size":2,"total_prefill_tokens":3,"total_kv_read_tokens":0,"partition":{"axis":"new","high_count":2,"fraction":0.5}}`), "high_count 2 must be below batch_size 2"},
		{"KV partition without KV", prefill(`{"batch_size":2,"total_prefill_tokens":3,"total_kv_read_tokens":0,"partition":{"axis":"kv","high_count":1,"fraction":0.5}}`), `axis "kv" needs total_kv_read_tokens above 0`},
		{"partition in version 1", `{"schema_version":1,"prefill":[{"batch_size":2,"total_prefill_tokens":3,"total_kv_read_tokens":0,"partition":{"axis":"new","high_count":1,"fraction":0.5}}],"decode":[]}`, "needs schema_version 2"},
		{"rows in version 2", `{"schema_version":2,"prefill":[{"batch_size":1,"total_prefill_tokens":3,"total_kv_read_tokens":0,"rows":[[3,0]]}],"decode":[]}`, "need schema_version 3"},
		{"fraction of one", prefill(`{"batch_size":2,"total_prefill_tokens":3,"total_kv_read_tokens":0,"partition":{"axis":"new","high_count":1,"fraction":1}}`), "between 0 and 1"},
		{"unknown axis", prefill(`{"batch_size":2,"total_prefill_tokens":3,"total_kv_read_tokens":0,"partition":{"axis":"old","high_count":1,"fraction":0.5}}`), "one of new, kv, both"},
		{"float for an integer", prefill(`{"batch_size":4.0,"total_prefill_tokens":4,"total_kv_read_tokens":0}`), "prefill[0].batch_size: want an integer, got 4.0"},
		{"bool for an integer", decode(`{"batch_size":true,"total_kv_read_tokens":2}`), "decode[0].batch_size: want an integer, got true"},
		{"string for an integer", decode(`{"batch_size":"2","total_kv_read_tokens":2}`), `want an integer, got "2"`},
		{"unknown key", decode(`{"batch_size":2,"total_kv_read_tokens":2,"kv":1}`), "decode[0].kv: unknown key"},
		{"missing key", decode(`{"batch_size":2}`), "decode[0].total_kv_read_tokens: missing"},
		{"unknown top-level key", `{"schema_version":1,"prefill":[],"decode":[],"x":1}`, "x: unknown key"},
		{"version 4", `{"schema_version":4,"prefill":[],"decode":[]}`, "want 1, 2 or 3, got 4"},
		{"no decode list", `{"schema_version":1,"prefill":[]}`, "decode: missing"},
		{"not JSON", `{"schema_version":1,`, "not JSON at byte"},
		{"two documents", `{"schema_version":1,"prefill":[],"decode":[]} {}`, "more data"},
	} {
		if _, err := ParseManifest([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func TestManifestAccepted(t *testing.T) {
	text, err := os.ReadFile("testdata/points-mixed.json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseManifest(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Prefill) != 7 || len(m.Decode) != 4 {
		t.Fatalf("%d prefill and %d decode points, want 7 and 4", len(m.Prefill), len(m.Decode))
	}
	imbalanced := ""
	for _, p := range m.Prefill {
		imbalanced += map[bool]string{true: "x", false: "."}[p.Imbalanced()]
	}
	if imbalanced != ".....xx" { // equal rows stay, unequal rows and the partition do not
		t.Errorf("imbalanced points: %s", imbalanced)
	}
	example := `{"schema_version":1,"prefill":[{"total_prefill_tokens":8,"total_kv_read_tokens":0,"batch_size":1}],"decode":[{"total_kv_read_tokens":64,"batch_size":2}]}`
	if _, err := ParseManifest([]byte(example)); err != nil {
		t.Errorf("the format's example: %v", err)
	}
	if _, err := ParseManifest([]byte(`{"schema_version":3,"prefill":[{"batch_size":1,"total_prefill_tokens":1,"total_kv_read_tokens":0,"rows":null,"partition":null}],"decode":[]}`)); err != nil {
		t.Errorf("null optional keys: %v", err)
	}
}

// Four decode totals over four requests: the first three all read 8 in their steady step.
func TestManifestRepeats(t *testing.T) {
	m, err := ParseManifest([]byte(`{"schema_version":1,"prefill":[
		{"batch_size":1,"total_prefill_tokens":64,"total_kv_read_tokens":0},
		{"batch_size":1,"total_prefill_tokens":64,"total_kv_read_tokens":0},
		{"batch_size":1,"total_prefill_tokens":64,"total_kv_read_tokens":0}],
	"decode":[{"batch_size":4,"total_kv_read_tokens":4},{"batch_size":4,"total_kv_read_tokens":5},{"batch_size":4,"total_kv_read_tokens":8},{"batch_size":4,"total_kv_read_tokens":9}]}`))
	if err != nil {
		t.Fatal(err)
	}
	repeats, err := m.Repeats()
	want := []string{"prefill[1], prefill[2] measure the same coordinate as prefill[0]", "decode[1], decode[2] measure the same coordinate as decode[0]"}
	if err != nil || len(repeats) != 2 || !strings.HasPrefix(repeats[0], want[0]) || !strings.HasPrefix(repeats[1], want[1]) {
		t.Errorf("got %q (%v), want %q", repeats, err, want)
	}
}

func FuzzManifest(f *testing.F) {
	text, err := os.ReadFile("testdata/points-mixed.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"schema_version":1,"prefill":[],"decode":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ParseManifest(text)
		if err != nil {
			return
		}
		for _, p := range append(m.Prefill, m.Decode...) {
			if p.BatchSize > 1<<16 {
				continue // a split of that many requests is memory, not logic
			}
			fresh, kv, err := p.Lengths(16)
			if err != nil {
				continue
			}
			totalFresh, totalKV := 0, 0
			for i := range fresh {
				totalFresh, totalKV = totalFresh+fresh[i], totalKV+kv[i]
			}
			if totalFresh != p.TotalPrefillTokens || totalKV != p.TotalKVReadTokens {
				t.Fatalf("%+v splits into %d new and %d KV tokens", p, totalFresh, totalKV)
			}
		}
	})
}
