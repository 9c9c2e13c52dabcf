package kv

import (
	"crypto/sha256"
	"encoding/binary"
)

// Hash identifies the content of a full block together with everything before it.
type Hash [sha256.Size]byte

// hasher computes chained block hashes without allocating.
type hasher struct {
	buf []byte // (32 + 4*BlockSize): parent hash, token ids little-endian
}

func newHasher(blockSize int) hasher {
	return hasher{buf: make([]byte, sha256.Size+4*blockSize)}
}

// root is the parent of a sequence's first block: it carries the salt.
func (h *hasher) root(salt string) Hash { return sha256.Sum256([]byte(salt)) }

// next is the hash of a block of BlockSize tokens that follows parent.
func (h *hasher) next(parent Hash, tokens []uint32) Hash {
	buf := append(h.buf[:0], parent[:]...)
	for _, t := range tokens {
		buf = binary.LittleEndian.AppendUint32(buf, t)
	}
	return sha256.Sum256(buf)
}
