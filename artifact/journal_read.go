package artifact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Journal is what a journal holds.
type Journal struct {
	Path      string
	Processes []JournalProcess
	Points    []JournalPoint // those that count, in the order in which they were measured
	By        []int          // for each point the index of its process in Processes
	Dropped   []int          // for each process how many points before it do not count, since a rank had lost them
	Size      int64          // bytes up to the end of the last whole frame
	Torn      int64          // bytes after it
}

// ReadJournal reads a journal. A file that is missing, empty or torn within its first record is a journal without a process. A file of another
// kind, and a whole frame that holds no record, are errors.
func ReadJournal(path string) (*Journal, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("artifact: journal: %w", err)
	}
	j, err := ParseJournal(text)
	if err != nil {
		return nil, fmt.Errorf("artifact: journal %q: %w", path, err)
	}
	j.Path = path
	return j, nil
}

// ParseJournal is ReadJournal for text that is in memory.
func ParseJournal(text []byte) (*Journal, error) {
	j := &Journal{}
	rest, ok := bytes.CutPrefix(text, []byte(journalMagic))
	if !ok {
		if !strings.HasPrefix(journalMagic, string(text)) {
			return nil, fmt.Errorf("begins with %q, which is no journal's begin", text[:min(len(text), len(journalMagic))])
		}
		j.Torn = int64(len(text))
		return j, nil
	}
	decoder, err := newJournalDecoder()
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	for len(rest) > 0 {
		at := len(text) - len(rest)
		body, more, err := nextFrame(rest, decoder)
		if errors.Is(err, errTorn) {
			break
		}
		if err == nil {
			err = j.add(body)
		}
		if err != nil {
			return nil, fmt.Errorf("record at byte %d: %w", at, err)
		}
		rest = more
	}
	j.Torn = int64(len(rest))
	j.Size = int64(len(text) - len(rest))
	return j, nil
}

// add takes in the text of one record.
func (j *Journal) add(text []byte) error {
	var kind struct {
		Process *JournalProcess `json:"process"`
		Point   *struct {
			JournalPoint
			Ledger      []ledgerText `json:"ledger"`
			Preparation *ledgerText  `json:"preparation"`
		} `json:"point"`
	}
	bad := verify(text)
	if bad == nil {
		bad = decodeTyped(text, &kind)
	}
	if bad != nil {
		return fmt.Errorf("%s: byte %d of its text: %w", "$"+strings.TrimPrefix(bad.Path, "$"), bad.Offset, bad.Err)
	}
	switch process, point := kind.Process, kind.Point; {
	case process != nil && point == nil:
		return j.addProcess(*process)
	case point != nil && process == nil:
		if len(j.Processes) == 0 {
			return errors.New("a point before the first process")
		}
		p := point.JournalPoint
		for i := range point.Ledger {
			p.Ledger = append(p.Ledger, point.Ledger[i].record())
		}
		if point.Preparation != nil {
			r := point.Preparation.record()
			p.Preparation = &r
		}
		rank := j.Processes[len(j.Processes)-1].Rank
		if rank < 0 || rank >= len(p.Group.RankResults) {
			return fmt.Errorf("a point without a result of rank %d", rank)
		}
		j.Points, j.By = append(j.Points, p), append(j.By, len(j.Processes)-1)
		return nil
	}
	return errors.New("want either a process or a point")
}

func (j *Journal) addProcess(p JournalProcess) error {
	switch {
	case p.Format != JournalFormat:
		return fmt.Errorf("format %d; this program reads %d", p.Format, JournalFormat)
	case len(j.Processes) > 0 && p.Rank != j.Processes[0].Rank:
		return fmt.Errorf("process %d is of DP rank %d, the first one of %d", p.Process, p.Rank, j.Processes[0].Rank)
	case p.Keep < 0 || p.Keep > len(j.Points):
		return fmt.Errorf("process %d keeps %d points of %d", p.Process, p.Keep, len(j.Points))
	}
	j.Dropped = append(j.Dropped, len(j.Points)-p.Keep)
	j.Points, j.By = j.Points[:p.Keep], j.By[:p.Keep]
	j.Processes = append(j.Processes, p)
	return nil
}

// ledgerText is a ledger record whose shape stays in its text, so that it is written as it was.
type ledgerText struct {
	LedgerRecord
	RequestedShape json.RawMessage `json:"requested_shape"`
}

func (t *ledgerText) record() LedgerRecord {
	r := t.LedgerRecord
	r.RequestedShape = t.RequestedShape
	return r
}
