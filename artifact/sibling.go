package artifact

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// ReadDocuments reads the documents of one run's ranks. What they have in common, the iteration groups, is kept in memory once.
func ReadDocuments(paths []string) ([]*Document, error) {
	docs := make([]*Document, len(paths))
	var spare []byte // memory to read into
	for i, path := range paths {
		text, err := readFile(path, spare)
		if err != nil {
			return nil, unread(err)
		}
		spare = nil
		if i == 0 {
			docs[i], err = ParseDocument(path, text)
		} else {
			var own bool
			if docs[i], own, err = docs[0].Sibling(path, text); own {
				spare = text[:0]
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return docs, nil
}

// Sibling is ParseDocument for another rank's document of d's run. With own, the document shares d's groups and has copied the
// rest: the text may be used for something else.
func (d *Document) Sibling(path string, text []byte) (s *Document, own bool, err error) {
	shared := d.members[groupsKey]
	at := groupsAt(text, shared)
	if at < 0 {
		s, err = ParseDocument(path, text)
		return s, false, err
	}
	const nothing = "[]"
	short := make([]byte, 0, len(text)-len(shared)+len(nothing))
	short = append(append(append(short, text[:at]...), nothing...), text[at+len(shared):]...)
	s, err = ParseDocument(path, short)
	if err == nil {
		if found := s.members[groupsKey]; found != nil && &found[0] == &short[at] {
			s.members[groupsKey], s.groups, s.groupTexts = shared, d.groups, d.groupTexts
			s.twin, s.left = d, gap{at: at, bytes: len(shared) - len(nothing)}
			return s, true, nil
		}
	}
	s, err = ParseDocument(path, text) // the text stood somewhere else, or something is wrong, whose place is to be that in the file
	return s, false, err
}

const groupsKey = "iteration_groups"

// groupsAt is where a document's groups begin when their text is the given one; else -1.
func groupsAt(text []byte, groups json.RawMessage) int {
	const key = `"` + groupsKey + `":`
	i := bytes.Index(text, []byte(key))
	if i < 0 || len(groups) == 0 {
		return -1
	}
	rest := bytes.TrimLeft(text[i+len(key):], " \t\r\n")
	if !bytes.HasPrefix(rest, groups) {
		return -1
	}
	return len(text) - len(rest)
}

// ReadFile reads a file, plain or zstd-compressed (".zst"), as it is.
func ReadFile(path string) ([]byte, error) { return readFile(path, nil) }

// readFile is ReadFile into memory that is there already, when it is large enough.
func readFile(path string, spare []byte) ([]byte, error) {
	in, err := openText(path)
	if err != nil {
		return nil, err
	}
	defer in.close()
	if need := int(min(in.size, 1<<40)) + bytes.MinRead; cap(spare) < need {
		spare = make([]byte, 0, need)
	}
	text := bytes.NewBuffer(spare)
	_, err = text.ReadFrom(in)
	return text.Bytes(), err
}

// textFile reads the text of a file, plain or zstd-compressed (".zst").
type textFile struct {
	io.Reader
	name   string
	size   int64 // of the file
	file   *os.File
	packed *zstd.Decoder // nil when it is plain
}

func openText(path string) (*textFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	whole := bufio.NewReader(f)
	in := &textFile{Reader: whole, name: path, size: info.Size(), file: f}
	if strings.HasSuffix(path, ".zst") {
		if in.packed, err = zstd.NewReader(whole); err != nil {
			return nil, errors.Join(fmt.Errorf("artifact: read %q: %w", path, err), f.Close())
		}
		in.Reader = in.packed
		return in, nil
	}
	if begin, err := whole.Peek(len(journalMagic)); err == nil { // what is shorter is no file of any kind
		if err := foreign(path, begin); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return in, nil
}

// Read implements io.Reader.
func (f *textFile) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%q ends at byte %d inside its compressed data", f.name, f.size)
	}
	return n, err
}

func (f *textFile) close() {
	if f.packed != nil {
		f.packed.Close()
	}
	f.file.Close()
}
