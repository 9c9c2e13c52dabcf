package artifact

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

// JournalWriter appends records to a journal. A record that Append returned for survives the death of this and of any other process; what survives
// that of the machine is what was appended before the last Sync.
type JournalWriter struct {
	file    *os.File
	encoder *zstd.Encoder
	size    int64 // of the whole records
	buffer  []byte
}

// CreateJournal starts a journal with its first process. A file that exists is an error.
func CreateJournal(path string, process JournalProcess) (*JournalWriter, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("artifact: create journal: %w", err)
	}
	return startJournal(f, []byte(journalMagic), 0, process)
}

// ExtendJournal goes on with a journal that was read: its torn tail is cut off and process appended. A journal without a process is started anew.
func ExtendJournal(j *Journal, process JournalProcess) (*JournalWriter, error) {
	f, err := os.OpenFile(j.Path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("artifact: go on with journal: %w", err)
	}
	begin, size := []byte(nil), j.Size
	if len(j.Processes) == 0 {
		begin, size = []byte(journalMagic), 0
	}
	return startJournal(f, begin, size, process)
}

// startJournal writes begin and the process behind the first size bytes of f.
func startJournal(f *os.File, begin []byte, size int64, process JournalProcess) (_ *JournalWriter, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("artifact: journal %q: %w", f.Name(), err), f.Close())
		}
	}()
	if err := f.Truncate(size); err != nil {
		return nil, err
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	w := &JournalWriter{file: f, encoder: encoder, size: size, buffer: begin}
	if err := w.write(journalRecord{Process: &process}); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	return w, syncFolder(filepath.Dir(f.Name()))
}

// Append writes a finished point. After an error the journal ends with the record before.
func (w *JournalWriter) Append(point JournalPoint) error {
	if err := w.write(journalRecord{Point: &point}); err != nil {
		return fmt.Errorf("artifact: journal %q: %w", w.file.Name(), err)
	}
	return nil
}

// write appends what the buffer holds and a record, in one write.
func (w *JournalWriter) write(record journalRecord) error {
	text, err := encode(record)
	if err != nil {
		return err
	}
	if w.buffer, err = appendFrame(w.buffer, w.encoder, text); err != nil {
		return err
	}
	n, err := w.file.WriteAt(w.buffer, w.size)
	if err == nil && n < len(w.buffer) {
		err = io.ErrShortWrite
	}
	w.buffer = w.buffer[:0]
	if err != nil {
		return errors.Join(err, w.file.Truncate(w.size))
	}
	w.size += int64(n)
	return nil
}

// Sync makes what was appended survive the machine.
func (w *JournalWriter) Sync() error {
	if err := w.file.Sync(); err != nil {
		return fmt.Errorf("artifact: journal %q: %w", w.file.Name(), err)
	}
	return nil
}

// Close syncs and closes the file.
func (w *JournalWriter) Close() error {
	return errors.Join(w.Sync(), w.encoder.Close(), w.file.Close())
}
