package artifact

import (
	"encoding/json"
	"strings"
	"testing"
)

// What is verified is JSON; JSON that is refused has a key twice, is too deep or too large, or is no UTF-8. What is cut short would be JSON with more text.
func FuzzVerify(f *testing.F) {
	for _, c := range hostile {
		f.Add([]byte(c.value))
	}
	f.Add([]byte(`{"a": [1, -2.5e+3, "x\u00e9\\", true, null], "b": {"c": 10}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		err := verify(text)
		switch valid := json.Valid(text); {
		case err == nil && !valid:
			t.Fatalf("%q is no JSON", text)
		case err == nil:
			if _, err := decodeTree(text); err != nil {
				t.Fatalf("%q: verified, but: %v", text, err)
			}
			return
		case valid:
			known := false
			for _, reason := range []string{"comes twice", "nested deeper", "not UTF-8", "beyond the range"} {
				known = known || strings.Contains(err.Err.Error(), reason)
			}
			if !known {
				t.Fatalf("%q: %v", text, err)
			}
		}
		if err.Offset < 0 || err.Offset > int64(len(text)) || !strings.HasPrefix(err.Path, "$") {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
