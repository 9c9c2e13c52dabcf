package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"syscall"

	"github.com/klauspost/compress/zstd"
)

// Document is a rank or merged document as it was read: the long lists stay in their original text, element by
// element, so that numbers keep every digit and memory stays near the size of the file.
type Document struct {
	Path    string
	members map[string]json.RawMessage
	head    map[string]any // every member but results, iteration_groups and fpmrun, decoded
	results []json.RawMessage
	groups  []json.RawMessage

	groupTexts func() ([]groupText, error) // groups taken apart, once
}

// ErrNotReady marks a file that is missing, empty or not whole yet.
var ErrNotReady = errors.New("artifact: not there yet")

// unread says why a file cannot be read: ErrNotReady unless waiting for it changes nothing.
func unread(err error) error {
	for _, final := range []error{syscall.EISDIR, fs.ErrPermission, zstd.ErrMagicMismatch, zstd.ErrCRCMismatch} {
		if errors.Is(err, final) {
			return fmt.Errorf("artifact: %w", err)
		}
	}
	return fmt.Errorf("%w: %w", ErrNotReady, err)
}

// ReadDocument reads a rank or merged document. The error is ErrNotReady when the file is missing, empty or cut short.
func ReadDocument(path string) (*Document, error) {
	text, err := ReadFile(path)
	if err != nil {
		return nil, unread(err)
	}
	return ParseDocument(path, text)
}

// ParseDocument is ReadDocument for text that is in memory; path only names it.
func ParseDocument(path string, text []byte) (*Document, error) {
	d := &Document{Path: path, head: map[string]any{}}
	if len(strings.TrimSpace(string(text[:min(len(text), 64)]))) == 0 {
		return nil, fmt.Errorf("%w: %q is empty", ErrNotReady, path)
	}
	in := scanner{text: text}
	d.members = map[string]json.RawMessage{}
	err := in.object(func(key string, value json.RawMessage) error {
		d.members[key] = value
		return nil
	})
	if err == nil && in.next() != 0 {
		err = errors.New("more data after the document")
	}
	switch {
	case errors.Is(err, errCut):
		return nil, fmt.Errorf("%w: %q ends at byte %d inside the document", ErrNotReady, path, len(text))
	case err != nil:
		return nil, fmt.Errorf("artifact: %q is no document, at byte %d: %w", path, in.pos, err)
	}
	for key, raw := range d.members {
		if key == "results" || key == "iteration_groups" || key == "fpmrun" {
			continue
		}
		in := newTreeDecoder()
		tree, err := in.decode(raw)
		if err != nil {
			at := cap(text) - cap(raw) + in.pos // a member's text is a part of the document's
			return nil, fmt.Errorf("artifact: %q: byte %d, in %s: %w", path, at, key, err)
		}
		d.head[key] = tree
	}
	if d.results, err = listElements(d.members["results"]); err != nil {
		return nil, fmt.Errorf("artifact: %q: results: %w", path, err)
	}
	if d.groups, err = listElements(d.members["iteration_groups"]); err != nil {
		return nil, fmt.Errorf("artifact: %q: iteration_groups: %w", path, err)
	}
	d.groupTexts = sync.OnceValues(d.takeGroups)
	return d, nil
}

// member is a decoded member of the document, the long lists excluded.
func (d *Document) member(found *violations) node { return root(d.head, found) }

// Type is the artifact_type, or the schema of a sidecar, or "".
func (d *Document) Type() string {
	for _, key := range []string{"artifact_type", "schema"} {
		if s, ok := d.head[key].(string); ok {
			return s
		}
	}
	return ""
}

// group reads iteration group i.
func (d *Document) group(i int) (*Group, error) {
	g := new(Group)
	if err := json.Unmarshal(d.groups[i], g); err != nil {
		return nil, fmt.Errorf("artifact: %q: iteration_groups[%d]: %w", d.Path, i, err)
	}
	return g, nil
}
