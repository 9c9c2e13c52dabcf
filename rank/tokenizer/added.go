package tokenizer

import (
	"cmp"
	"slices"
	"strings"
)

// addedToken is a token that is found in the text itself, before it is split into words.
type addedToken struct {
	ID         uint32 `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
}

// finder finds added tokens: the leftmost, and of those that begin at one place the longest.
type finder struct {
	byFirst map[byte][]addedToken // longest first
}

func newFinder(tokens []addedToken) *finder {
	f := &finder{byFirst: map[byte][]addedToken{}}
	for _, t := range tokens {
		f.byFirst[t.Content[0]] = append(f.byFirst[t.Content[0]], t)
	}
	for _, list := range f.byFirst {
		slices.SortStableFunc(list, func(a, b addedToken) int { return cmp.Compare(len(b.Content), len(a.Content)) })
	}
	return f
}

// cut calls plain for each piece of text between added tokens and token for each of these, in order.
func (f *finder) cut(text string, plain func(piece string), token func(id uint32)) {
	from := 0
	for at := 0; len(f.byFirst) > 0 && at < len(text); {
		found := slices.IndexFunc(f.byFirst[text[at]], func(t addedToken) bool { return strings.HasPrefix(text[at:], t.Content) })
		if found < 0 {
			at++
			continue
		}
		t := f.byFirst[text[at]][found]
		if at > from {
			plain(text[from:at])
		}
		token(t.ID)
		at += len(t.Content)
		from = at
	}
	if from < len(text) {
		plain(text[from:])
	}
}
