package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// file is a tokenizer.json, as far as it decides ids.
type file struct {
	AddedTokens  []addedToken    `json:"added_tokens"`
	Normalizer   json.RawMessage `json:"normalizer"`
	PreTokenizer json.RawMessage `json:"pre_tokenizer"`
	Model        modelFile       `json:"model"`
}

type modelFile struct {
	Type         string            `json:"type"`
	Dropout      *float64          `json:"dropout"`
	UnknownToken *string           `json:"unk_token"`
	Prefix       string            `json:"continuing_subword_prefix"`
	Suffix       string            `json:"end_of_word_suffix"`
	ByteFallback bool              `json:"byte_fallback"`
	IgnoreMerges bool              `json:"ignore_merges"`
	Vocab        map[string]uint32 `json:"vocab"`
	Merges       []mergeRule       `json:"merges"`
}

// mergeRule is a pair of tokens, written as "left right" or as ["left", "right"].
type mergeRule [2]string

// UnmarshalJSON implements json.Unmarshaler.
func (r *mergeRule) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		var list []string
		if err := json.Unmarshal(text, &list); err != nil {
			return err
		}
		if len(list) != 2 {
			return fmt.Errorf("a merge of %d tokens: want 2", len(list))
		}
		*r = mergeRule(list)
		return nil
	}
	var line string
	if err := json.Unmarshal(text, &line); err != nil {
		return err
	}
	left, right, ok := strings.Cut(line, " ")
	if !ok || strings.Contains(right, " ") {
		return fmt.Errorf("merge %q: want two tokens with one space between", line)
	}
	*r = mergeRule{left, right}
	return nil
}

// preTokenizer is a step of the pre-tokenizer.
type preTokenizer struct {
	Type    string `json:"type"`
	Pattern struct {
		Regex *string `json:"Regex"`
	} `json:"pattern"`
	Behavior       string            `json:"behavior"`
	Invert         bool              `json:"invert"`
	AddPrefixSpace bool              `json:"add_prefix_space"`
	UseRegex       *bool             `json:"use_regex"` // null is true
	Steps          []json.RawMessage `json:"pretokenizers"`
}

// digits reads a pre-tokenizer: it must split by one of the known patterns and then write bytes as characters.
func digits(raw json.RawMessage) (int, error) {
	var p preTokenizer
	if err := json.Unmarshal(raw, &p); err != nil {
		return 0, err
	}
	var steps [2]preTokenizer
	if p.Type != "Sequence" || len(p.Steps) != len(steps) {
		return 0, fmt.Errorf("type %q with %d steps: want a Sequence of Split and ByteLevel", p.Type, len(p.Steps))
	}
	for i := range steps {
		if err := json.Unmarshal(p.Steps[i], &steps[i]); err != nil {
			return 0, err
		}
	}
	split, level := steps[0], steps[1]
	switch {
	case split.Type != "Split" || level.Type != "ByteLevel":
		return 0, fmt.Errorf("steps %q and %q: want Split and ByteLevel", split.Type, level.Type)
	case split.Behavior != "Isolated" || split.Invert:
		return 0, fmt.Errorf("type Split with behavior %q and invert %v: want Isolated and false", split.Behavior, split.Invert)
	case split.Pattern.Regex == nil:
		return 0, errors.New("type Split without pattern.Regex: want the pattern of Llama 3 or of Qwen")
	case level.AddPrefixSpace:
		return 0, errors.New("type ByteLevel with add_prefix_space true: want false")
	case level.UseRegex == nil || *level.UseRegex:
		return 0, errors.New("type ByteLevel with use_regex true: want false after a Split")
	}
	n, ok := digitsOf[*split.Pattern.Regex]
	if !ok {
		return 0, fmt.Errorf("split pattern %q: want that of Llama 3 or of Qwen", *split.Pattern.Regex)
	}
	return n, nil
}

// composes reads a normalizer: it reports whether text is brought into normal form C.
func composes(raw json.RawMessage) (bool, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return false, nil
	}
	var n struct {
		Type  string            `json:"type"`
		Steps []json.RawMessage `json:"normalizers"`
	}
	if err := json.Unmarshal(raw, &n); err != nil {
		return false, err
	}
	switch {
	case n.Type == "NFC":
		return true, nil
	case n.Type == "Sequence" && len(n.Steps) == 0:
		return false, nil
	}
	return false, fmt.Errorf("type %q: want NFC or none", n.Type)
}

// supported refuses what the model does that is not done here.
func (m *modelFile) supported() error {
	switch {
	case m.Type != "BPE":
		return fmt.Errorf("model.type %q: want BPE", m.Type)
	case m.Dropout != nil && *m.Dropout != 0:
		return fmt.Errorf("model.dropout %v: want none, since ids must be reproducible", *m.Dropout)
	case m.Prefix != "" || m.Suffix != "":
		return fmt.Errorf("model.continuing_subword_prefix %q, end_of_word_suffix %q: want none", m.Prefix, m.Suffix)
	case m.ByteFallback:
		return errors.New("model.byte_fallback true: want false, as in a byte-level encoding")
	case len(m.Vocab) == 0:
		return errors.New("model.vocab is empty")
	}
	return nil
}

// check refuses added tokens whose flags change where they are found.
func (t *addedToken) check() error {
	switch {
	case t.Content == "":
		return fmt.Errorf("added token %d has no content", t.ID)
	case t.SingleWord || t.LStrip || t.RStrip:
		return fmt.Errorf("added token %d %q with single_word %v, lstrip %v, rstrip %v: want all false", t.ID, t.Content, t.SingleWord, t.LStrip, t.RStrip)
	}
	return nil
}
