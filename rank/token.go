package rank

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/fpmrun/fpmrun/rank/env"
)

// Kinds of secret that a world is joined with.
const (
	AuthFile   = "file"   // a file that only this user can read
	AuthEnv    = "env"    // a variable, readable by this user's processes
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
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("rank: %s: %w", env.KeyTokenFile, err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("rank: %s=%s has mode %04o; others can read it, want 0600", env.KeyTokenFile, path, info.Mode().Perm())
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("rank: %s=%s belongs to user %d, want %d", env.KeyTokenFile, path, stat.Uid, os.Geteuid())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("rank: %s: %w", env.KeyTokenFile, err)
	}
	return []byte(strings.TrimSpace(string(text))), nil
}
