package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/text/unicode/norm"
)

// Tokenizer encodes text. It is not for concurrent use, since it keeps the words it met.
type Tokenizer struct {
	digits     int  // that make one word
	composed   bool // text is brought into normal form C
	whole      bool // a word that is a token is not merged (ignore_merges)
	vocab      map[string]uint32
	bytes      [256]uint32 // the token of each byte
	merges     map[pair]merged
	raw, after *finder // added tokens found before and after normalisation
	words      map[string][]uint32
	largest    uint32
	digest     string
}

// mostWords bounds the words that are kept, as many as a long text has different ones.
const mostWords = 1 << 16

// Load reads a tokenizer.json. What it cannot honour is an error that names the member.
func Load(path string) (*Tokenizer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %q: %w", path, err)
	}
	return t, nil
}

// Parse reads the text of a tokenizer.json.
func Parse(text []byte) (*Tokenizer, error) {
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, err
	}
	if err := f.Model.supported(); err != nil {
		return nil, err
	}
	t := &Tokenizer{whole: f.Model.IgnoreMerges, vocab: f.Model.Vocab, merges: make(map[pair]merged, len(f.Model.Merges)), words: map[string][]uint32{}}
	var err error
	if t.digits, err = digits(f.PreTokenizer); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	if t.composed, err = composes(f.Normalizer); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	for _, id := range t.vocab {
		t.largest = max(t.largest, id)
	}
	for b, r := range byteRunes {
		id, ok := t.vocab[string(r)]
		if !ok {
			return nil, fmt.Errorf("model.vocab lacks %q, the token of byte %#02x", string(r), b)
		}
		t.bytes[b] = id
	}
	for rank, m := range f.Model.Merges {
		left, ok1 := t.vocab[m[0]]
		right, ok2 := t.vocab[m[1]]
		id, ok3 := t.vocab[m[0]+m[1]]
		if !ok1 || !ok2 || !ok3 {
			return nil, fmt.Errorf("model.merges[%d] %q %q: the vocabulary lacks one of the two or what they become", rank, m[0], m[1])
		}
		t.merges[pair{left, right}] = merged{rank, id}
	}
	return t, t.add(f.AddedTokens, hex.EncodeToString(sum(text)))
}

// add takes in the added tokens and the digest of the file.
func (t *Tokenizer) add(tokens []addedToken, digest string) error {
	var raw, after []addedToken
	for i := range tokens {
		a := tokens[i]
		if err := a.check(); err != nil {
			return err
		}
		t.largest = max(t.largest, a.ID)
		if a.Normalized {
			a.Content = t.normal(a.Content)
			after = append(after, a)
		} else {
			raw = append(raw, a)
		}
	}
	t.raw, t.after, t.digest = newFinder(raw), newFinder(after), digest
	return nil
}

func sum(b []byte) []byte {
	s := sha256.Sum256(b)
	return s[:]
}

// Digest is the SHA-256 of the tokenizer.json, in lower-case hexadecimal digits.
func (t *Tokenizer) Digest() string { return t.digest }

// Largest is the largest id that a text can have.
func (t *Tokenizer) Largest() uint32 { return t.largest }

// Encode returns the ids of a text, without any that are not in the text. Its bytes must be UTF-8.
func (t *Tokenizer) Encode(text string) []uint32 {
	var ids []uint32
	token := func(id uint32) { ids = append(ids, id) }
	plain := func(piece string) {
		words(piece, t.digits, func(word string) { ids = append(ids, t.word(word)...) })
	}
	t.raw.cut(text, func(piece string) { t.after.cut(t.normal(piece), plain, token) }, token)
	return ids
}

func (t *Tokenizer) normal(text string) string {
	if !t.composed {
		return text
	}
	return norm.NFC.String(text)
}

// word encodes one word.
func (t *Tokenizer) word(word string) []uint32 {
	if ids, ok := t.words[word]; ok {
		return ids
	}
	var ids []uint32
	if id, ok := t.vocab[asRunes(word)]; ok && t.whole {
		ids = []uint32{id}
	} else {
		ids = make([]uint32, len(word))
		for i := range len(word) {
			ids[i] = t.bytes[word[i]]
		}
		ids = mergeAll(ids, t.merges)
	}
	if len(t.words) < mostWords {
		t.words[word] = ids
	}
	return ids
}
