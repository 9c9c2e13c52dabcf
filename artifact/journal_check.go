package artifact

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// IsJournal reports whether a file begins as a journal does. A pipe is none: it is not opened, as what is read of it is gone for who reads the document.
func IsJournal(path string) bool {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	begin := make([]byte, len(journalMagic))
	_, err = io.ReadFull(f, begin)
	return err == nil && bytes.Equal(begin, []byte(journalMagic))
}

// Title describes a journal's run in one line.
func (j *Journal) Title() string {
	if len(j.Processes) == 0 {
		return "journal without a whole record"
	}
	last := j.Processes[len(j.Processes)-1]
	return fmt.Sprintf("journal, DP rank %d of %d, mode %s, %d of %d points by %d processes, run %s", last.Rank, last.Size, last.Mode, len(j.Points), last.Expected,
		len(j.Processes), last.Launch.RunID)
}

// Summary is the short form of the points that count.
func (j *Journal) Summary() []Summary {
	groups := make([]Group, len(j.Points))
	for i := range j.Points {
		groups[i] = j.Points[i].Group
	}
	return Summarize(groups)
}

// checkJournal reads and checks a journal.
func checkJournal(path string) Report {
	j, err := ReadJournal(path)
	if err != nil {
		return Report{Path: path, Kind: "journal", Violations: []Violation{{Path: "$", Message: err.Error()}}}
	}
	return j.check()
}

// check applies to a journal's points the rules of a rank document that they would make.
func (j *Journal) check() Report {
	r := Report{Path: j.Path, Kind: "journal"}
	if r.Note = j.Title(); j.Torn > 0 {
		r.Note += fmt.Sprintf(", and %d bytes of a torn record, which do not count", j.Torn)
	}
	if len(j.Processes) == 0 {
		r.NotReady, r.Violations = true, []Violation{{Path: "$", Message: r.Note}}
		return r
	}
	doc, err := j.document()
	if err != nil {
		r.Violations = []Violation{{Path: "$", Message: err.Error()}}
		return r
	}
	r.Violations = doc.checkPoints()
	return r
}

// document is what the journal's points are in a rank document.
func (j *Journal) document() (*Document, error) {
	process := j.Processes[len(j.Processes)-1]
	ledger := Ledger{Status: "recorded", Records: []LedgerRecord{}}
	results, groups := []Result{}, []Group{}
	for i := range j.Points {
		p := &j.Points[i]
		ledger.Records = append(ledger.Records, p.Ledger...)
		groups = append(groups, p.Group)
		results = append(results, Result{Point: p.Group.Point, KVSeedRegime: p.KVSeedRegime, FPMs: p.Group.RankResults[process.Rank].FPMs})
	}
	text, err := encode(map[string]any{
		"dp": DP{Rank: process.Rank, Size: process.Size}, "config": map[string]any{"mode": process.Mode}, "grid_digest": process.GridDigest,
		"measurement_protocol": process.Protocol, "warmup_evidence": ledger, "results": results, "iteration_groups": groups,
	})
	if err != nil {
		return nil, err
	}
	return ParseDocument(j.Path, text)
}

// checkPoints applies the rules of points, groups and the ledger.
func (d *Document) checkPoints() violations {
	var found violations
	rules := newGroupRules(d, true, &found)
	rules.size = d.member(&found).get("dp").get("size").ranks()
	rules.loadLedger(d.rank(), d.member(&found).optional("warmup_evidence"))
	rules.order = d.resultOrder(&found)
	rules.groups(d, &found)
	d.localResults(&found)
	return found
}
