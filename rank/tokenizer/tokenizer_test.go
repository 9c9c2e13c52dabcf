package tokenizer

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/rank/tokenizer/tokenizertest"
)

func parse(t testing.TB, pattern string, change func(map[string]any)) *Tokenizer {
	t.Helper()
	tok, err := Parse(tokenizertest.JSON(pattern, change))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// tokens are the vocabulary's names of ids.
func tokens(tok *Tokenizer, ids []uint32) []string {
	names := map[uint32]string{}
	for name, id := range tok.vocab {
		names[id] = name
	}
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = names[id]
	}
	return list
}

func TestEncode(t *testing.T) {
	plain := func(m map[string]any) {}
	whole := func(m map[string]any) {
		m["model"].(map[string]any)["ignore_merges"] = true
		m["model"].(map[string]any)["vocab"].(map[string]int)["Ġsand"] = 900
	}
	composed := func(m map[string]any) { m["normalizer"] = map[string]any{"type": "NFC"} }
	for _, c := range []struct {
		name, text string
		change     func(map[string]any)
		want       []string
	}{
		{"merges in the order they were learnt", "the then", plain, []string{"the", "Ġthe", "n"}},
		// "er" was learnt before "re", so it wins where both fit.
		{"earlier merge wins", "here", plain, []string{"he", "re"}},
		{"leftmost of equal merges", "ininin", plain, []string{"in", "in", "in"}},
		{"digits", "1234", plain, []string{"123", "4"}},
		{"bytes of a character", "é", plain, []string{"Ã©"}},
		{"two characters for one stay apart", "e\u0301", plain, []string{"e", "Ì", "ģ"}},
		{"and are one in normal form C", "e\u0301", composed, []string{"Ã©"}},
		{"a word that is a token", " sand", whole, []string{"Ġsand"}},
		{"without ignore_merges it is merged", " sand", plain, []string{"Ġs", "and"}},
	} {
		tok := parse(t, tokenizertest.Llama, c.change)
		for range 2 { // the second time from the words that are kept
			if got := tokens(tok, tok.Encode(c.text)); !slices.Equal(got, c.want) {
				t.Errorf("%s: %q is %q, want %q", c.name, c.text, got, c.want)
			}
		}
	}
	qwen := parse(t, tokenizertest.Qwen, nil)
	if got := tokens(qwen, qwen.Encode("123")); !slices.Equal(got, []string{"1", "2", "3"}) {
		t.Errorf("123 with single digits is %q", got)
	}
}

// Added tokens are found in the text, the longest of those that begin at a place, and words end at them.
func TestAddedTokens(t *testing.T) {
	tok := parse(t, tokenizertest.Llama, nil)
	end := tok.Largest() - 1
	if got := tok.Encode("a<|end|><|end|>!b<|end|"); !slices.Equal(got[:3], []uint32{tok.vocab["a"], end, end + 1}) || got[3] != tok.vocab["b"] || len(got) != 4+len("<|end|") {
		t.Errorf("ids %v, want a, %d, %d, b and six bytes", got, end, end+1)
	}
}

// Whatever the order in which pairs are merged, the ids spell the text.
func TestIDsSpellTheText(t *testing.T) {
	for _, pattern := range []string{tokenizertest.Llama, tokenizertest.Qwen} {
		tok := parse(t, pattern, func(m map[string]any) { m["added_tokens"] = []any{} })
		texts := append(tokenizertest.Strings(2000, 3), strings.Repeat("in the", 3000))
		for _, text := range texts {
			if got := strings.Join(tokens(tok, tok.Encode(text)), ""); got != asRunes(text) {
				t.Fatalf("%q is spelt %q", text, got)
			}
		}
	}
}

// The queue finds what trying every pair after each merge finds.
func TestMergesAreThoseOfTheDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	for range 300 {
		rules := map[pair]merged{}
		for rank := range 12 {
			rules[pair{random.Uint32N(6), random.Uint32N(6)}] = merged{rank, random.Uint32N(6) + 6*random.Uint32N(2)}
		}
		ids := make([]uint32, 1+random.IntN(20))
		for i := range ids {
			ids[i] = random.Uint32N(6)
		}
		want := slices.Clone(ids)
		for {
			best, at := -1, -1
			for i := range len(want) - 1 {
				if m, ok := rules[pair{want[i], want[i+1]}]; ok && (at < 0 || m.rank < best) {
					best, at = m.rank, i
				}
			}
			if at < 0 {
				break
			}
			want[at] = rules[pair{want[at], want[at+1]}].id
			want = slices.Delete(want, at+1, at+2)
		}
		if got := mergeAll(slices.Clone(ids), rules); !slices.Equal(got, want) {
			t.Fatalf("%v becomes %v, want %v, by %v", ids, got, want, rules)
		}
	}
}

func TestRefusals(t *testing.T) {
	model := func(key string, value any) func(map[string]any) {
		return func(m map[string]any) { m["model"].(map[string]any)[key] = value }
	}
	step := func(i int, key string, value any) func(map[string]any) {
		return func(m map[string]any) {
			m["pre_tokenizer"].(map[string]any)["pretokenizers"].([]any)[i].(map[string]any)[key] = value
		}
	}
	flag := func(key string) func(map[string]any) {
		return func(m map[string]any) { m["added_tokens"].([]any)[0].(map[string]any)[key] = true }
	}
	for _, c := range []struct {
		name   string
		change func(map[string]any)
		want   string
	}{
		{"other model", model("type", "Unigram"), `model.type "Unigram"`},
		{"dropout", model("dropout", 0.1), "model.dropout 0.1"},
		{"prefix", model("continuing_subword_prefix", "##"), `continuing_subword_prefix "##"`},
		{"byte fallback", model("byte_fallback", true), "model.byte_fallback true"},
		{"no vocabulary", model("vocab", map[string]int{}), "model.vocab is empty"},
		{"a byte without token", func(m map[string]any) { delete(m["model"].(map[string]any)["vocab"].(map[string]int), "a") }, `lacks "a", the token of byte 0x61`},
		{"merge of unknown tokens", model("merges", []any{"q q"}), `model.merges[0] "q" "q"`},
		{"merge of one token", model("merges", []any{"q"}), `merge "q"`},
		{"merge of three tokens", model("merges", []any{[]any{"a", "b", "c"}}), "a merge of 3 tokens"},
		{"other pattern", step(0, "pattern", map[string]any{"Regex": `\w+`}), `split pattern "\\w+"`},
		{"string pattern", step(0, "pattern", map[string]any{"String": " "}), "without pattern.Regex"},
		{"other behaviour", step(0, "behavior", "Removed"), `behavior "Removed"`},
		{"prefix space", step(1, "add_prefix_space", true), "add_prefix_space true"},
		{"second regex", step(1, "use_regex", nil), "use_regex true"},
		{"other steps", step(1, "type", "Digits"), `"Split" and "Digits"`},
		{"no sequence", func(m map[string]any) { m["pre_tokenizer"] = map[string]any{"type": "Whitespace"} }, `pre_tokenizer: type "Whitespace"`},
		{"other normalizer", func(m map[string]any) { m["normalizer"] = map[string]any{"type": "Lowercase"} }, `normalizer: type "Lowercase"`},
		{"single word", flag("single_word"), "single_word true"},
		{"strip", flag("rstrip"), "rstrip true"},
		{"empty added token", func(m map[string]any) { m["added_tokens"].([]any)[0].(map[string]any)["content"] = "" }, "has no content"},
	} {
		if _, err := Parse(tokenizertest.JSON(tokenizertest.Llama, c.change)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.want)
		}
	}
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("absent file: %v", err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("cut file: %v", err)
	}
}

// Merges may be written as lists, as newer files have them.
func TestMergesAsLists(t *testing.T) {
	asLists := func(m map[string]any) {
		model := m["model"].(map[string]any)
		var lists []any
		for _, line := range model["merges"].([]string) {
			lists = append(lists, strings.Split(line, " "))
		}
		model["merges"] = lists
	}
	lines, lists := parse(t, tokenizertest.Llama, nil), parse(t, tokenizertest.Llama, asLists)
	for _, text := range tokenizertest.Strings(200, 4) {
		if a, b := lines.Encode(text), lists.Encode(text); !slices.Equal(a, b) {
			t.Fatalf("%q: %v and %v", text, a, b)
		}
	}
	if lines.Digest() == lists.Digest() || len(lines.Digest()) != 64 {
		t.Errorf("digests %q and %q of two files", lines.Digest(), lists.Digest())
	}
}

func FuzzParse(f *testing.F) {
	f.Add(tokenizertest.JSON(tokenizertest.Llama, nil), "it's 12345\n\n")
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0}}}`), "a")
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		tok, err := Parse(file)
		if err != nil {
			return
		}
		for _, id := range tok.Encode(text) {
			if id > tok.Largest() {
				t.Fatalf("id %d above the largest %d", id, tok.Largest())
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	tok := parse(b, tokenizertest.Llama, nil)
	text := string(tokenizertest.Conversations(200, 1))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		tok.Encode(text)
	}
}
