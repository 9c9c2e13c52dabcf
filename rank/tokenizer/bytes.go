package tokenizer

// byteRunes is the character that stands for each byte in the vocabulary of a byte-level encoding: printable characters of Latin-1
// for themselves, and the others, in order, from U+0100 on (Radford et al. 2019, the encoder of GPT-2).
var byteRunes = func() (runes [256]rune) {
	next := rune(256)
	for b := range runes {
		switch {
		case b >= '!' && b <= '~', b >= 0xa1 && b <= 0xac, b >= 0xae:
			runes[b] = rune(b)
		default:
			runes[b] = next
			next++
		}
	}
	return runes
}()

// asRunes writes a word as the vocabulary does: one character per byte.
func asRunes(word string) string {
	out := make([]rune, len(word))
	for i := range len(word) {
		out[i] = byteRunes[word[i]]
	}
	return string(out)
}
