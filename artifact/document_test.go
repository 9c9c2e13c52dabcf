package artifact

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Hostile JSON is refused with its place in the file.
func TestHostileJSONHasPosition(t *testing.T) {
	const head = `{"artifact_type": "rank", "a": `
	for _, c := range []struct {
		name, value string
		at          int // in the value
		want        string
	}{
		{"not a number", `NaN`, 0, "want a value, got 'N'"},
		{"a key twice", `{"b":1,"b":2}`, 12, `key "b" comes twice`},
		{"depth", strings.Repeat("[", 2000) + strings.Repeat("]", 2000), 1001, "nested deeper than 1000"},
		{"not UTF-8", "\"\xff\"", 3, "a string is not UTF-8"},
	} {
		text := append(make([]byte, 0, 8192), head+c.value+"}"...) // as a reader's buffer, longer than the text
		_, err := ParseDocument("hostile.json", slices.Clip(text))
		for _, err := range []error{err, second(ParseDocument("hostile.json", text))} {
			if want := fmt.Sprintf(`"hostile.json": byte %d, in a: `, len(head)+c.at); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s and %s", c.name, err, want, c.want)
			}
		}
	}
}

func second(_ *Document, err error) error { return err }
