package artifact

// History is which process measured which points, for the member "fpmrun" of a rank's document: a run that was interrupted goes on in another process,
// whose clock and caches are its own.
type History struct {
	Processes []ProcessHistory `json:"processes"`
	Points    []PointEvidence  `json:"points,omitempty"` // of host and process; in the order of measurement
}

// ProcessHistory is one process's part of a run.
type ProcessHistory struct {
	Process int `json:"process"` // 1 for the first
	Launch
	StartedAt   string        `json:"started_at"`            // RFC 3339, UTC
	Points      [][2]int      `json:"points"`                // ranges of benchmark_id, both ends included, in the order in which they were measured
	Dropped     int           `json:"dropped_points"`        // of the processes before it, which a rank had lost; measured again
	Preparation *LedgerRecord `json:"preparation,omitempty"` // the global warm-up of a process that went on; the ledger has room for one before the first point only
}

// Add notes that the last process measured a point. seen is the evidence of host and process, or nil.
func (h *History) Add(id int, seen *PointEvidence) {
	if seen != nil {
		h.Points = append(h.Points, *seen)
	}
	p := &h.Processes[len(h.Processes)-1]
	if n := len(p.Points); n > 0 && p.Points[n-1][1] == id-1 {
		p.Points[n-1][1] = id
		return
	}
	p.Points = append(p.Points, [2]int{id, id})
}

// NewHistory is what a journal tells of the processes before.
func NewHistory(j *Journal) History {
	h := History{Processes: []ProcessHistory{}}
	point := 0
	for i, p := range j.Processes {
		h.Begin(p, j.Dropped[i])
		for ; point < len(j.Points) && j.By[point] == i; point++ {
			h.Add(j.Points[point].Group.BenchmarkID, j.Points[point].Evidence)
			if record := j.Points[point].Preparation; record != nil {
				h.Processes[i].Preparation = record
			}
		}
	}
	return h
}

// Begin notes a process that goes on, with the number of points before it that do not count.
func (h *History) Begin(p JournalProcess, dropped int) {
	h.Processes = append(h.Processes, ProcessHistory{Process: p.Process, Launch: p.Launch, StartedAt: p.StartedAt, Points: [][2]int{}, Dropped: dropped})
}
