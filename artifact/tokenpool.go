package artifact

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// TokenPoolSchema names a token pool file.
const TokenPoolSchema = "fpmrun.token_pool"

// TokenPool is real text whose token ids were computed before, so that a run needs neither the data set nor the tokenizer. It is a
// Text. In a file it is
//
//	8 bytes                the length of the header, little-endian
//	header                 a TokenPoolHeader in JSON
//	4 bytes each           the ids of each conversation: how many, little-endian
//	4 bytes each           the ids of all conversations one after the other, little-endian
type TokenPool struct {
	Header TokenPoolHeader
	ends   []int  // of each conversation, in ids
	ids    []byte // of all conversations, as in the file: a large pool is in memory once
}

// TokenPoolHeader says what the ids are of. Digests are in lower-case hexadecimal digits.
type TokenPoolHeader struct {
	Schema          string     `json:"schema"`
	SchemaVersion   int        `json:"schema_version"` // 1
	Source          TextSource `json:"source"`
	TokenizerSHA256 string     `json:"tokenizer_sha256"`
	Tokens          int        `json:"tokens"`      // ids in all
	VocabSize       int        `json:"vocab_size"`  // above the largest id
	BodySHA256      string     `json:"body_sha256"` // of everything behind the header
}

// mostHeader is the longest header of a token pool, in bytes.
const mostHeader = 1 << 20

// Conversations implements Text.
func (p *TokenPool) Conversations() int { return len(p.ends) }

// IDs implements Text.
func (p *TokenPool) IDs(i int) []uint32 {
	from := p.begin(i)
	ids := make([]uint32, p.ends[i]-from)
	for k := range ids {
		ids[k] = binary.LittleEndian.Uint32(p.ids[4*(from+k):])
	}
	return ids
}

// begin is where a conversation begins, in ids.
func (p *TokenPool) begin(i int) int {
	if i == 0 {
		return 0
	}
	return p.ends[i-1]
}

// NewTokenPool takes a text into a pool: whole, or with most above 0 the first conversations that have as many ids together.
func NewTokenPool(text Text, source TextSource, tokenizerSHA256 string, most int) *TokenPool {
	p := &TokenPool{Header: TokenPoolHeader{Schema: TokenPoolSchema, SchemaVersion: 1, Source: source, TokenizerSHA256: tokenizerSHA256}}
	for i := range text.Conversations() {
		if most > 0 && len(p.ids) >= 4*most {
			break
		}
		for _, id := range text.IDs(i) {
			p.ids = binary.LittleEndian.AppendUint32(p.ids, id)
			p.Header.VocabSize = max(p.Header.VocabSize, int(id)+1)
		}
		p.ends = append(p.ends, len(p.ids)/4)
	}
	p.Header.Tokens, p.Header.Source.Conversations = len(p.ids)/4, len(p.ends)
	return p
}

// Encode is the pool as it stands in a file.
func (p *TokenPool) Encode() ([]byte, error) {
	body := make([]byte, 0, 4*len(p.ends)+len(p.ids))
	for i, end := range p.ends {
		body = binary.LittleEndian.AppendUint32(body, uint32(end-p.begin(i)))
	}
	body = append(body, p.ids...)
	header := p.Header
	header.BodySHA256 = hexSum(body)
	text, err := json.Marshal(header)
	if err != nil {
		return nil, fmt.Errorf("artifact: token pool: %w", err)
	}
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), body...), nil
}

// ReadTokenPool reads a token pool file. A file that is cut or whose ids are not those that were written is an error.
func ReadTokenPool(path string) (*TokenPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("artifact: token pool: %w", err)
	}
	p, err := ParseTokenPool(text)
	if err != nil {
		return nil, fmt.Errorf("artifact: token pool %q: %w", path, err)
	}
	return p, nil
}

// ParseTokenPool reads what Encode wrote.
func ParseTokenPool(text []byte) (*TokenPool, error) {
	if len(text) < 8 {
		return nil, fmt.Errorf("%d bytes are no token pool: want 8 bytes of header length first", len(text))
	}
	size, rest := binary.LittleEndian.Uint64(text), text[8:]
	if size > mostHeader || size > uint64(len(rest)) {
		return nil, fmt.Errorf("a header of %d bytes in a file of %d: want at most %d, and a whole file", size, len(text), mostHeader)
	}
	p := &TokenPool{}
	h := &p.Header
	if err := json.Unmarshal(rest[:size], h); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	body := rest[size:]
	if h.Schema != TokenPoolSchema || h.SchemaVersion != 1 {
		return nil, fmt.Errorf("header: schema %q version %d: want %q version 1", h.Schema, h.SchemaVersion, TokenPoolSchema)
	}
	n := h.Source.Conversations
	if n < 0 || h.Tokens < 0 || n > len(body)/4 || h.Tokens != len(body)/4-n || len(body)%4 != 0 {
		return nil, fmt.Errorf("%d bytes behind the header, want 4 for each of %d conversations and %d ids", len(body), n, h.Tokens)
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != h.BodySHA256 {
		return nil, fmt.Errorf("the ids hash to %x, but body_sha256 is %s: the file was changed or damaged", sum, h.BodySHA256)
	}
	if len(h.Source.SHA256) != 64 {
		return nil, fmt.Errorf("header: source.sha256 %q: want the 64 digits of the data set's digest", h.Source.SHA256)
	}
	return p, p.body(body)
}

// body reads the lengths and the ids.
func (p *TokenPool) body(body []byte) error {
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(body[4*i:]) }
	n, end := p.Header.Source.Conversations, 0
	p.ends, p.ids = make([]int, n), body[4*n:]
	for i := range p.ends {
		if end += int(word(i)); end > p.Header.Tokens {
			return fmt.Errorf("conversations 0 to %d have %d ids, more than the %d in all", i, end, p.Header.Tokens)
		}
		p.ends[i] = end
	}
	if end != p.Header.Tokens {
		return fmt.Errorf("the conversations have %d ids, the header says %d", end, p.Header.Tokens)
	}
	for i := range p.Header.Tokens {
		if id := word(n + i); int(id) >= p.Header.VocabSize {
			return fmt.Errorf("id %d at position %d: vocab_size is %d", id, i, p.Header.VocabSize)
		}
	}
	if n == 0 {
		return errors.New("no conversations")
	}
	return nil
}
