// Package tokenizer turns text into token ids as the Hugging Face tokenizers library does without special tokens of its own
// (add_special_tokens false), for the tokenizers whose ids the benchmark feeds to models: byte-level byte-pair encoding with the split
// patterns of Llama 3 and of Qwen 2 and 3.
//
//	t, err := tokenizer.Load("Llama-3.1-8B/tokenizer.json")
//	ids := t.Encode("one text")
//
// A tokenizer.json is honoured whole or refused: every member that would change the ids and is not supported is an error that
// names it. Post-processors are left out, since all they do is to add special tokens around a text.
//
// # The steps of Encode
//
//	text -> added tokens cut out -> normalised (NFC) -> words by the split pattern -> bytes as characters -> merges -> ids
//
// It is not a tokenizer for serving: there is no decoding, no truncation and no padding.
package tokenizer
