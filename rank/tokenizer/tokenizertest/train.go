// Package tokenizertest makes small tokenizers and texts for tests: nothing is downloaded.
package tokenizertest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// The split patterns as they stand in the published tokenizers of Llama 3 and Qwen.
const (
	Llama = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	Qwen  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// JSON is a tokenizer.json with the 256 bytes, the merges of English that it names, and two added tokens. change may alter the
// document before it is written; nil leaves it.
func JSON(pattern string, change func(doc map[string]any)) []byte {
	vocab := map[string]int{}
	add := func(token string) {
		if _, ok := vocab[token]; !ok {
			vocab[token] = len(vocab)
		}
	}
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae) {
			r, next = next, next+1
		}
		add(string(r))
	}
	pairs := [][2]string{{"h", "e"}, {"t", "he"}, {"Ġ", "the"}, {"i", "n"}, {"Ġ", "t"}, {"e", "r"}, {"a", "n"}, {"o", "n"}, {"Ġ", "a"}, {"r", "e"},
		{"Ġ", "s"}, {"an", "d"}, {"Ġa", "nd"}, {"in", "g"}, {"o", "u"}, {"Ġ", "w"}, {"1", "2"}, {"12", "3"}, {"Ã", "©"}, {"Ċ", "Ċ"}, {"Ġ", "Ġ"}, {"'", "s"}}
	var merges []string
	for _, p := range pairs {
		add(p[0])
		add(p[1])
		add(p[0] + p[1])
		merges = append(merges, p[0]+" "+p[1])
	}
	doc := map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "normalizer": nil, "post_processor": nil, "decoder": nil,
		"added_tokens": []any{added(len(vocab), "<|end|>", false), added(len(vocab)+1, "<|end|>!", false)},
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{"type": "Split", "pattern": map[string]any{"Regex": pattern}, "behavior": "Isolated", "invert": false},
			map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
		}},
		"model": map[string]any{"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
			"fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": vocab, "merges": merges},
	}
	if change != nil {
		change(doc)
	}
	text, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return text
}

func added(id int, content string, normalized bool) map[string]any {
	return map[string]any{"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": normalized, "special": true}
}

// Conversations is a data set of n conversations in the form of ShareGPT, made of words; the same for the same seed.
func Conversations(n int, seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 1))
	words := strings.Fields("the there then and an and-so sing singing ringing stone one on none over under water winter 123 12 7 it's she's wasn't café naïve (so) ... \u4f60\u597d")
	var list []any
	for i := range n {
		var turns []any
		for turn := range 2 + random.IntN(3) {
			picked := make([]string, 12+random.IntN(30))
			for k := range picked {
				picked[k] = words[random.IntN(len(words))]
			}
			turns = append(turns, map[string]any{"from": []string{"human", "gpt"}[turn%2], "value": strings.Join(picked, " ")})
		}
		list = append(list, map[string]any{"id": fmt.Sprintf("c%d", i), "conversations": turns})
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return text
}

// Strings are n texts of up to 40 characters that are hard to split: quotes, letters and digits of several scripts, spaces of all
// kinds, and newlines.
func Strings(n int, seed uint64) []string {
	random := rand.New(rand.NewPCG(seed, 2))
	alphabet := []rune("aabsStTdDmMrRevVlL'''''ſ’ \u00a0\u2003\u0085  \t\n\n\r019٣½Ⅷ二çé日本אش🙂!?.,-_/\\(){}<|>$\u0301\u200d\u00ad")
	texts := make([]string, n)
	for i := range texts {
		runes := make([]rune, random.IntN(41))
		for k := range runes {
			runes[k] = alphabet[random.IntN(len(alphabet))]
		}
		texts[i] = string(runes)
	}
	return slices.Clip(texts)
}
