package rank

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/fpmrun/fpmrun/rank/env"
)

// Kinds of secret that a world is joined with.
const (
	AuthFile   = "file"   // a file that only this user can read
	AuthEnv    = "env"    // a variable, readable by this user's processes
	AuthPMI    = "pmi"    // a fresh one, by the process manager to those it started
	AuthMunge  = "munge"  // a fresh one, by MUNGE to processes of this user
	AuthPublic = "public" // derived from the launch's public name: keeps jobs apart, not users
)

// secret is the world's token and what kind it is.
func secret(id Identity, getenv func(string) string) (token []byte, auth string, err error) {
	switch {
	case id.TokenFile != "":
		token, err := readToken(id.TokenFile)
		return token, AuthFile, err
	case getenv(env.KeyToken) != "":
		return []byte(getenv(env.KeyToken)), AuthEnv, nil
	}
	sum := sha256.Sum256([]byte("fpm public token " + id.RunID))
	return []byte(hex.EncodeToString(sum[:])), AuthPublic, nil
}

// readToken reads a token file that belongs to this user and that nobody else can read.
func readToken(path string) ([]byte, error) {
	token, err := env.ReadToken(path)
	if err != nil {
		return nil, fmt.Errorf("rank: %s=%s: %w", env.KeyTokenFile, path, err)
	}
	return token, nil
}
