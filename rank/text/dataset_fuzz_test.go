package text

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
)

// Whatever is read as a data set, its digest is that of all of the file, and every conversation is one that may be taken.
func FuzzDataset(f *testing.F) {
	f.Add(`[{"conversations": [{"from": "human", "value": "` + strings.Repeat("a question ", 9) + `"}, {"value": "é"}]}] and more`)
	f.Add(`[{"conversations": [{"value": "` + strings.Repeat("b", 64) + `"}]}, {"conversations": null}, {}]`)
	f.Add(`[{"conversations": [{"value": 1}]}`)
	f.Add(`{"conversations": []}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parse(strings.NewReader(text))
		if err != nil {
			return
		}
		if sum := sha256.Sum256([]byte(text)); d.Source.SHA256 != hex.EncodeToString(sum[:]) || d.Source.Conversations != len(d.texts) {
			t.Fatalf("%+v of %q", d.Source, text)
		}
		for _, text := range d.texts {
			if !taken(text) {
				t.Fatalf("%q is taken", text)
			}
		}
	})
}
