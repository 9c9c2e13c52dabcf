package artifact

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestScanner(t *testing.T) {
	text := ` {"a": [1, {"b": "x\"]}"}, [], "é\\"], "c": null , "d":-1.5e3, "e": {} } `
	members, err := objectMembers([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"a": `[1, {"b": "x\"]}"}, [], "é\\"]`, "c": "null", "d": "-1.5e3", "e": "{}"} {
		if got := string(members[key]); got != want {
			t.Errorf("%s: got %s, want %s", key, got, want)
		}
	}
	list, err := listElements(members["a"])
	if err != nil || len(list) != 4 || string(list[3]) != `"é\\"` {
		t.Errorf("elements %q (%v)", list, err)
	}
	for i := range strings.TrimSpace(text) {
		if i == 0 {
			continue
		}
		if _, err := objectMembers([]byte(strings.TrimSpace(text)[:i])); !errors.Is(err, errCut) {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
	for _, wrong := range []string{`[]`, `{"a" 1}`, `{"a":1 "b":2}`, `{a:1}`, `{"a":}`, `{"a":1,}`, `{"a":1,"a":2}`, `{,}`} {
		if _, err := objectMembers([]byte(wrong)); err == nil || errors.Is(err, errCut) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// On every text that is JSON the scanner finds what the decoder finds.
func FuzzScanner(f *testing.F) {
	f.Add([]byte(`{"a":[1,2,{"b":"]"}],"c":"\\"}`))
	f.Add([]byte(`{"a":1,}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var want map[string]json.RawMessage
		got, err := objectMembers(text)
		if json.Unmarshal(text, &want) != nil || want == nil {
			return
		}
		if err != nil {
			if strings.Contains(err.Error(), "comes twice") {
				return
			}
			t.Fatalf("%s: %v", text, err)
		}
		for key, value := range want {
			if string(got[key]) != string(value) {
				t.Fatalf("%s: %q is %s, want %s", text, key, got[key], value)
			}
		}
	})
}
