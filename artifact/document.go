package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"

	"github.com/klauspost/compress/zstd"
)

// Document is a rank or merged document as it was read: the long lists stay in their original text, element by
// element, so that numbers keep every digit and memory stays near the size of the file.
type Document struct {
	Path    string
	text    []byte
	members map[string]json.RawMessage
	head    map[string]any // every member but results, iteration_groups and fpmrun, decoded
	results []json.RawMessage
	groups  []json.RawMessage

	groupTexts func() ([]groupText, error) // groups taken apart, once

	twin *Document // whose groups these are, when they have the same text
	left gap       // what the file has there and text has not
}

// gap is a place where bytes are left out.
type gap struct{ at, bytes int }

// ErrNotReady marks a file that is missing, empty or not whole yet.
var ErrNotReady = errors.New("artifact: not there yet")

// unread says why a file cannot be read: ErrNotReady unless waiting for it changes nothing.
func unread(err error) error {
	for _, final := range []error{syscall.EISDIR, fs.ErrPermission, zstd.ErrMagicMismatch, zstd.ErrCRCMismatch, errForeign} {
		if errors.Is(err, final) {
			return fmt.Errorf("artifact: %w", err)
		}
	}
	return fmt.Errorf("%w: %w", ErrNotReady, err)
}

// ReadDocument reads a rank or merged document. The error is ErrNotReady when the file is missing, empty or cut short, and a JSONError when its text is not
// JSON of the kind that the format takes.
func ReadDocument(path string) (*Document, error) {
	text, err := ReadFile(path)
	if err != nil {
		return nil, unread(err)
	}
	return ParseDocument(path, text)
}

// ParseDocument is ReadDocument for text that is in memory; path only names it.
func ParseDocument(path string, text []byte) (*Document, error) {
	begin := scanner{text: text}
	if begin.space(); begin.pos == len(text) {
		return nil, fmt.Errorf("%w: %q is empty", ErrNotReady, path)
	}
	if err := verify(text); err != nil {
		return nil, inFile(err, path)
	}
	d := &Document{Path: path, text: text, head: map[string]any{}}
	return d, d.takeApart()
}

// inFile names the file in an error about its text. A text that ends too early is not ready.
func inFile(err *JSONError, path string) error {
	if errors.Is(err.Err, errCut) {
		return fmt.Errorf("%w: %q ends at byte %d inside %s", ErrNotReady, path, err.Offset, err.Path)
	}
	err.File = path
	return err
}

// takeApart finds the members and the elements of the long lists in the verified text.
func (d *Document) takeApart() error {
	var err error
	if d.members, err = objectMembers(d.text); err != nil {
		return d.broken(d.text, "$", err)
	}
	for key, raw := range d.members {
		if key == "results" || key == "iteration_groups" || key == "fpmrun" {
			continue
		}
		if d.head[key], err = decodeTree(raw); err != nil {
			return d.broken(raw, "$"+memberPath(key), err)
		}
	}
	for key, list := range map[string]*[]json.RawMessage{"results": &d.results, "iteration_groups": &d.groups} {
		if *list, err = listElements(d.members[key]); err != nil {
			return d.broken(d.members[key], "$."+key, err)
		}
	}
	d.groupTexts = sync.OnceValues(d.takeGroups)
	return nil
}

// broken is the error of a part of the document's text that is not what it has to be.
func (d *Document) broken(part json.RawMessage, path string, err error) error {
	return &JSONError{File: d.Path, Path: path, Offset: d.offset(part), Err: err}
}

// offset is where a part of the document's text begins in the file.
func (d *Document) offset(part json.RawMessage) int64 {
	at := within(d.text, part)
	if at > d.left.at {
		at += d.left.bytes
	}
	return int64(at)
}

// within is where a part of a text begins in it.
func within(text, part []byte) int { return cap(text) - cap(part) }

// member is a decoded member of the document, the long lists excluded.
func (d *Document) member(found *violations) node { return root(d.head, found) }

// Type is the artifact_type, or the schema of a sidecar, or "".
func (d *Document) Type() string { return documentType(d.head) }

func documentType(head map[string]any) string {
	for _, key := range []string{"artifact_type", "schema"} {
		if s, ok := head[key].(string); ok {
			return s
		}
	}
	return ""
}

// group reads iteration group i.
func (d *Document) group(i int) (*Group, error) {
	if d.twin != nil {
		return d.twin.group(i)
	}
	g := new(Group)
	if err := d.decode(d.groups[i], fmt.Sprintf("$.iteration_groups[%d]", i), g); err != nil {
		return nil, err
	}
	return g, nil
}

// decode reads a part of the document's text into what v points to.
func (d *Document) decode(part json.RawMessage, path string, v any) error {
	if err := decodeTyped(part, v); err != nil {
		return d.inPart(part, path, err)
	}
	return nil
}

// inPart places an error within a part of the text in the file.
func (d *Document) inPart(part json.RawMessage, path string, err *JSONError) error {
	return &JSONError{File: d.Path, Path: path + err.Path, Offset: d.offset(part) + err.Offset, Err: err.Err}
}
