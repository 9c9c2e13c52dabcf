package artifact

import (
	"bytes"
	"errors"
	"fmt"
)

// errForeign is that a file is of a kind that is not read as a document. Waiting for it changes nothing.
var errForeign = errors.New("want JSON")

// foreignKinds are what users give for documents now and then, by the bytes that it begins with; %w is what is wanted.
var foreignKinds = []struct{ begin, what string }{
	{journalMagic, "a journal, which show and check read; %w"},
	{"\x1f\x8b", "compressed by gzip; %w, plain or compressed by zstd under a name that ends in .zst"},
	{"\x28\xb5\x2f\xfd", "compressed by zstd; %w, or a name that ends in .zst"},
	{"PAR1", "a Parquet table; %w"},
	{"\xef\xbb\xbf", "text that begins with a byte order mark; %w without one"},
}

// foreign says what a file is that begins with these bytes and is no JSON text; nil of one that may be.
func foreign(path string, begin []byte) error {
	for _, kind := range foreignKinds {
		if bytes.HasPrefix(begin, []byte(kind.begin)) {
			return fmt.Errorf("%q is "+kind.what, path, errForeign)
		}
	}
	return nil
}
