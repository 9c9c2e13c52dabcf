package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// The split patterns that are known, as they stand in a tokenizer.json. They differ in how many digits make a word.
const (
	llamaPattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwenPattern  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// digitsOf is the number of digits that make one word in each pattern.
var digitsOf = map[string]int{llamaPattern: 3, qwenPattern: 1}

// kind is what the patterns tell characters apart by.
type kind uint8

const (
	other   kind = iota
	letter       // \p{L}
	number       // \p{N}
	newline      // \r or \n, which are spaces too
	space        // \s but no newline
)

func kindOf(r rune) kind {
	switch {
	case r == '\r' || r == '\n':
		return newline
	case r < utf8.RuneSelf:
		switch {
		case 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z':
			return letter
		case '0' <= r && r <= '9':
			return number
		case r == ' ' || '\t' <= r && r <= '\r':
			return space
		}
		return other
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return other
}

// words calls emit for each word of a text, in order; together they are the text. Go's regular expressions have no look-ahead, so
// the alternatives of the patterns are tried by hand, in their order.
func words(text string, digits int, emit func(word string)) {
	for len(text) > 0 {
		n := wordLength(text, digits)
		emit(text[:n])
		text = text[n:]
	}
}

// wordLength is the length in bytes of the first word of a text that is not empty.
func wordLength(text string, digits int) int {
	if n := contraction(text); n > 0 {
		return n
	}
	first, size := utf8.DecodeRuneInString(text)
	k := kindOf(first)
	// [^\r\n\p{L}\p{N}]?\p{L}+
	switch k {
	case letter:
		return run(text, 0, letter)
	case other, space:
		if n := run(text, size, letter); n > size {
			return n
		}
	}
	// \p{N}{1,3}
	if k == number {
		n := size
		for count := 1; count < digits && n < len(text); count++ {
			r, size := utf8.DecodeRuneInString(text[n:])
			if kindOf(r) != number {
				break
			}
			n += size
		}
		return n
	}
	//  ?[^\s\p{L}\p{N}]+[\r\n]*
	from := 0
	if first == ' ' {
		from = 1
	}
	if n := run(text, from, other); n > from {
		return run(text, n, newline)
	}
	return blank(text)
}

// blank is the length of a word of white space that a text begins with: up to its last newline if it has one; else, in front of a
// character, without its last space, which goes with that character's word.
func blank(text string) int {
	end, lastNewline, last := 0, 0, 0
	for end < len(text) {
		r, size := utf8.DecodeRuneInString(text[end:])
		k := kindOf(r)
		if k != space && k != newline {
			break
		}
		last = size
		end += size
		if k == newline {
			lastNewline = end
		}
	}
	switch {
	case lastNewline > 0:
		return lastNewline
	case end < len(text) && end > last:
		return end - last
	}
	return end
}

// run is the end of the characters of one kind that begin at from.
func run(text string, from int, of kind) int {
	for from < len(text) {
		r, size := utf8.DecodeRuneInString(text[from:])
		if kindOf(r) != of {
			break
		}
		from += size
	}
	return from
}

// contraction is the length of an English contraction that a text begins with, or 0. Upper case counts as lower case, and so does
// the long s.
func contraction(text string) int {
	if len(text) < 2 || text[0] != '\'' {
		return 0
	}
	lower := func(i int) byte {
		if i >= len(text) {
			return 0
		}
		return text[i] | 0x20
	}
	switch a, b := lower(1), lower(2); {
	case a == 's', a == 't', a == 'm', a == 'd':
		return 2
	case a == 'r' && b == 'e', a == 'v' && b == 'e', a == 'l' && b == 'l':
		return 3
	}
	if len(text) >= 3 && text[1:3] == "ſ" {
		return 3
	}
	return 0
}
