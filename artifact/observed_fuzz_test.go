package artifact

import (
	"encoding/json"
	"strings"
	"testing"
)

// Whatever a document holds, its short form, its raw samples and its causes are given or refused; each observation is of a rank that is counted.
func FuzzObserve(f *testing.F) {
	docs := run(f, 2)
	docs[1].FPMRun = hostEvidence(docs[1])
	text, err := json.Marshal(docs[1])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(overviewText(f))
	f.Add([]byte(`{"artifact_type":"rank","dp":{"rank":0},"fpmrun":{"points":[{"before":{"gpus":[{"uuid":"a","sm_mhz":1}]}}]},"iteration_groups":[{"rank_results":[{"fpms":[{}]}]}]}`))
	f.Add([]byte(`{"artifact_type":"merged","fpmrun":{"-1":{}},"iteration_groups":[{"point":{"rows":[[1,2]]},"rank_results":[{"dp_rank":-1,"fpms":[{"benchmark_measurement":{"raw_fpms":[{}],"estimate":{"raw_sample_indices":[-1,9]}}}]}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := ParseDocument("fuzz.json", text)
		if err != nil {
			return
		}
		if o, err := pieceByPiece(text, walkPiece); err == nil {
			for _, line := range o.Causes {
				if !strings.Contains(line, "point ") {
					t.Fatalf("%q", line)
				}
			}
		}
		samples := 0
		sampled := d.RawSamples(func(*RawSample) error { samples++; return nil })
		o, err := d.Observe()
		if err != nil {
			return
		}
		if sampled != nil || samples < len(o.Points) {
			t.Fatalf("%d observations, %d raw samples: %v", len(o.Points), samples, sampled)
		}
		for i := range o.Points {
			if p := &o.Points[i]; p.Rank >= o.Ranks || len(p.Samples) == 0 || p.Key == "" {
				t.Fatalf("%d ranks, %+v", o.Ranks, p)
			}
		}
	})
}
