package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile writes a document as JSON with two spaces of indentation. The file appears under its name whole or not
// at all: it is written and synced beside it as "<path>.tmp" and renamed. After an error the old file, if there was
// one, is untouched.
func WriteFile(path string, document any) (err error) {
	var text pieces
	if long, ok := document.(interface{ pieces() pieces }); ok {
		text = long.pieces()
	} else {
		whole, err := encode(document)
		if err != nil {
			return fmt.Errorf("artifact: write %q: %w", path, err)
		}
		text = pieces{whole}
	}
	temp := path + ".tmp"
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("artifact: write %q: %w", path, err), ignoreMissing(os.Remove(temp)))
		}
	}()
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if err = writeIndented(f, text); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(temp, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes a rename durable.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
