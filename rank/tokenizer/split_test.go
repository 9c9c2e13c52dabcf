package tokenizer

import (
	"slices"
	"strings"
	"testing"

	"github.com/dlclark/regexp2"

	"github.com/fpmrun/fpmrun/rank/tokenizer/tokenizertest"
)

func split(text string, digits int) []string {
	var list []string
	words(text, digits, func(word string) { list = append(list, word) })
	return list
}

func TestWords(t *testing.T) {
	for _, c := range []struct {
		text   string
		digits int
		want   []string
	}{
		{"Hello world", 3, []string{"Hello", " world"}},
		{"we'll SAY'LL it'ſ 'quoted", 3, []string{"we", "'ll", " SAY", "'LL", " it", "'ſ", " '", "quoted"}},
		{"12345 6", 3, []string{"123", "45", " ", "6"}},
		{"12345 6", 1, []string{"1", "2", "3", "4", "5", " ", "6"}},
		{"a  b", 3, []string{"a", " ", " b"}},
		{"a \t\n\n  b", 3, []string{"a", " \t\n\n", " ", " b"}},
		{"x !!\r\n\ny", 3, []string{"x", " !!\r\n\n", "y"}},
		{"end   ", 3, []string{"end", "   "}},
		{"\u00a0a\u2003\u2003b", 3, []string{"\u00a0a", "\u2003", "\u2003b"}},
		{"", 3, nil},
	} {
		if got := split(c.text, c.digits); !slices.Equal(got, c.want) {
			t.Errorf("%q by %d digits: %q, want %q", c.text, c.digits, got, c.want)
		}
	}
}

// The hand-written splitter finds what a regular-expression engine with look-ahead finds, on text that is hard to split. The long s is
// left out: this engine does not fold it to s, as Unicode's case folding and the libraries behind tokenizers do.
func TestWordsAreThoseOfThePattern(t *testing.T) {
	for pattern, digits := range digitsOf {
		re := regexp2.MustCompile(pattern, regexp2.None)
		for _, text := range tokenizertest.Strings(20000, 1) {
			text = strings.ReplaceAll(text, "ſ", "s")
			var want []string
			m, err := re.FindStringMatch(text)
			for ; m != nil && err == nil; m, err = re.FindNextMatch(m) {
				want = append(want, m.String())
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := split(text, digits); !slices.Equal(got, want) {
				t.Fatalf("%q by %d digits: %q, want %q", text, digits, got, want)
			}
		}
	}
}
