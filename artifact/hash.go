package artifact

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// digest is the lower-case hexadecimal SHA-256 of the canonical JSON of v.
func digest(v any) (string, error) {
	text, err := Canonical(v)
	if err != nil {
		return "", err
	}
	return hexSum(text), nil
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// PromptHash is one request's entry in the prompt evidence.
type PromptHash struct {
	Slot      int    `json:"slot"`
	NumTokens int    `json:"num_tokens"`
	SHA256    string `json:"sha256"`
}

// HashPrompt hashes token ids as unsigned 32-bit little-endian words.
func HashPrompt(slot int, ids []uint32) PromptHash {
	h := sha256.New()
	var buf [4096]byte
	for rest := ids; len(rest) > 0; {
		n := min(len(rest), len(buf)/4)
		for i, id := range rest[:n] {
			binary.LittleEndian.PutUint32(buf[4*i:], id)
		}
		h.Write(buf[:4*n])
		rest = rest[n:]
	}
	return PromptHash{Slot: slot, NumTokens: len(ids), SHA256: hex.EncodeToString(h.Sum(nil))}
}

// HashPrompts is the aggregate over a batch's entries in slot order.
func HashPrompts(entries []PromptHash) (string, error) { return digest(entries) }
