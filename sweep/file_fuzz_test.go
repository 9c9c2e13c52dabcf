package sweep

import "testing"

// Of any text a sweep is read or refused; what is read has a limit that can be told.
func FuzzParse(f *testing.F) {
	f.Add([]byte("output: out\nfpmbench: {model: tiny}\nmatrix:\n  np: [1, 2]\n  mode: [prefill, decode]\nexclude: [{np: 2}]\nrepeats: 2\nbudget: 90s\n"))
	f.Add([]byte("output: out\nmatrix: &a {np: [*a]}\n"))
	f.Add([]byte("output: out\nbudget: -1\nlater: 1\n"))
	f.Add([]byte("a: &a [b]\nc: [*a, *a, *a]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse(text)
		if err != nil {
			return
		}
		if limit, err := file.Limit(); err != nil || limit < 0 {
			t.Fatalf("%q: budget %v (%v)", text, limit, err)
		}
	})
}
