package text

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/fpmrun/fpmrun/artifact"
)

// shortest is the number of characters below which a conversation is left out.
const shortest = 64

// Dataset is the conversations of a data set that are taken: those of at least 64 characters whose text has a SHA-256 with an even
// first byte.
type Dataset struct {
	Source artifact.TextSource
	texts  []string
}

// ErrEmpty is a data set of which no conversation is taken.
var ErrEmpty = errors.New("text: no conversation of the data set is taken")

// ReadDataset reads a JSON list of objects with "conversations", lists of objects with "value". want is the SHA-256 that the file must
// have, "" for any.
func ReadDataset(path, want string) (*Dataset, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("text: data set: %w", err)
	}
	defer f.Close()
	d, err := parse(f)
	if err != nil {
		return nil, fmt.Errorf("text: data set %q: %w", path, err)
	}
	if want != "" && !strings.EqualFold(want, d.Source.SHA256) {
		return nil, fmt.Errorf("text: data set %q has the SHA-256 %s, want %s", path, d.Source.SHA256, want)
	}
	d.Source.Path = path
	if len(d.texts) == 0 {
		return nil, fmt.Errorf("%w: %q has none of at least %d characters whose SHA-256 begins with an even byte", ErrEmpty, path, shortest)
	}
	return d, nil
}

// parse reads a data set item by item, since it may be larger than memory allows twice.
func parse(r io.Reader) (*Dataset, error) {
	sum := sha256.New()
	buffered := bufio.NewReaderSize(io.TeeReader(r, sum), 1<<20)
	dec := json.NewDecoder(buffered)
	if open, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("want a list of conversations: %w", err)
	} else if open != json.Delim('[') {
		return nil, fmt.Errorf("want a list of conversations, got %v", open)
	}
	d := &Dataset{Source: artifact.TextSource{CollectionPool: artifact.EvenConversations}}
	for i := 0; dec.More(); i++ {
		var item struct {
			Conversations []struct {
				Value string `json:"value"`
			} `json:"conversations"`
		}
		if err := dec.Decode(&item); err != nil {
			return nil, fmt.Errorf("item %d, at byte %d: %w", i, dec.InputOffset(), err)
		}
		turns := make([]string, len(item.Conversations))
		for k, c := range item.Conversations {
			turns[k] = c.Value
		}
		if text := strings.Join(turns, "\n"); taken(text) {
			d.texts = append(d.texts, text)
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("the list does not end: %w", err)
	}
	if _, err := io.Copy(io.Discard, buffered); err != nil { // what follows is part of the digest
		return nil, err
	}
	d.Source.SHA256, d.Source.Conversations = hex.EncodeToString(sum.Sum(nil)), len(d.texts)
	return d, nil
}

func taken(text string) bool {
	return utf8.RuneCountInString(text) >= shortest && sha256.Sum256([]byte(text))[0]%2 == 0
}

// Encoder turns text into ids.
type Encoder interface{ Encode(text string) []uint32 }

// Encoded is a data set whose conversations are encoded when they are asked for. It implements artifact.Text and is not for
// concurrent use.
type Encoded struct {
	dataset *Dataset
	encoder Encoder
}

// Encode joins a data set and an encoder.
func (d *Dataset) Encode(encoder Encoder) *Encoded { return &Encoded{d, encoder} }

// Conversations implements artifact.Text.
func (e *Encoded) Conversations() int { return len(e.dataset.texts) }

// IDs implements artifact.Text.
func (e *Encoded) IDs(i int) []uint32 { return e.encoder.Encode(e.dataset.texts[i]) }
