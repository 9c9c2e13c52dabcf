package artifact

import (
	"encoding/json"
	"path/filepath"
	"strings"
)

// A journal is the file in which a DP rank keeps what it measured, point by point, while the run goes on: after the loss of any process the
// run continues from the journals of its ranks. It is a magic text of 8 bytes and frames, each of
//
//	length    uint32, little endian   bytes of the body, at least 1
//	checksum  uint32, little endian   CRC-32C over the length's four bytes and the body
//	body      one zstd frame          a JSON object with one member, which names the kind of the record
//
// The first record is a process, and so is the first that each later process appends; points follow it. Frames are only ever appended, each by one
// write. Whoever reads a journal takes the frames up to the first that is cut short or whose checksum is wrong; what follows is a torn tail, which
// the next process cuts off before it appends.

// journalMagic opens every journal.
const journalMagic = "FPMJRNL\x01"

// JournalFormat is the version of the records.
const JournalFormat = 1

// JournalPath is the journal of a DP rank, beside the rank's document. No reader that looks for documents takes it for one.
func JournalPath(base string, rank int) string {
	path := RankPath(base, rank)
	if ext := filepath.Ext(path); ext != "" && ext != ".journal" && filepath.Base(path) != ext {
		path = strings.TrimSuffix(path, ext)
	}
	return path + ".journal"
}

// JournalProcess opens the part of a journal that one process wrote, and says everything that a process that goes on must have in common with it.
type JournalProcess struct {
	Format  int `json:"format"`  // JournalFormat
	Process int `json:"process"` // 1 for the first of the run, and one more for each launch that went on
	Keep    int `json:"keep"`    // points of the processes before it that count: those that every rank has

	Launch    Launch `json:"launch"`
	StartedAt string `json:"started_at"` // RFC 3339, UTC
	Output    string `json:"output"`     // name of rank 0's document

	Rank        int             `json:"dp_rank"`
	Size        int             `json:"dp_size"`
	Mode        string          `json:"mode"`
	Reverse     bool            `json:"reverse"` // order of the points in each phase
	GridDigest  string          `json:"grid_digest"`
	Expected    int             `json:"expected_points"`
	ContentSeed string          `json:"content_seed"`
	Protocol    json.RawMessage `json:"measurement_protocol"`
	Text        json.RawMessage `json:"text"`   // which text prompts are made of; null for random ids
	Engine      json.RawMessage `json:"engine"` // the identity: nothing that differs between the ranks or launches of one build
}

// Launch names one launch of a run and the process that was a DP rank in it.
type Launch struct {
	RunID   string `json:"run_id"`
	Version string `json:"version"` // of the program
	Host    string `json:"host"`
	PID     int    `json:"pid"`
}

// JournalPoint is one finished point.
type JournalPoint struct {
	Group        Group          `json:"group"`
	KVSeedRegime string         `json:"kv_seed_regime"`
	Stages       []KVStage      `json:"stages,omitempty"`      // chains of text that were made or could not be, since the point before
	Ledger       []LedgerRecord `json:"ledger"`                // preparations since the point before
	Forwards     int            `json:"forwards"`              // the next forward_index
	Elapsed      Float          `json:"elapsed"`               // seconds that the run took so far, earlier processes included
	Preparation  *LedgerRecord  `json:"preparation,omitempty"` // the global warm-up of a process that went on; with its first point
	Evidence     *PointEvidence `json:"evidence,omitempty"`
}

// journalRecord is the body of a frame: one member is set.
type journalRecord struct {
	Process *JournalProcess `json:"process,omitempty"`
	Point   *JournalPoint   `json:"point,omitempty"`
}
