package artifact

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// run is a well-formed run of some DP ranks with a prefill point and two decode points, made the way a benchmark
// makes it.
func run(t testing.TB, ranks int) []*Rank {
	t.Helper()
	points := []Point{
		{PointType: Prefill, BenchmarkID: 1, TotalPrefillTokens: 5, BatchSize: 2},
		{PointType: Decode, BenchmarkID: 2, TotalKVReadTokens: 64, BatchSize: 2},
		{PointType: Decode, BenchmarkID: 3, TotalKVReadTokens: 128, BatchSize: 2},
	}
	for i := range points {
		points[i].ExpectedCudagraphMode, points[i].SampleReasons = "NONE", []string{ReasonCudagraphDisabled}
	}
	grid, err := GridDigest(points)
	if err != nil {
		t.Fatal(err)
	}
	started, completed := "2026-10-10T00:00:00Z", "2026-10-10T00:00:05Z"
	docs := make([]*Rank, ranks)
	for rank := range docs {
		start, end, count := 0, 5, 5
		docs[rank] = &Rank{
			RunID: strings.Repeat("3f", 16), GridDigest: &grid, Timing: RunTiming{StartedAt: &started, CompletedAt: &completed, Elapsed: 5},
			DP: DP{Rank: rank, Size: ranks}, Config: Config{Mode: "agg", OutputPath: RankPath("benchmark.json", rank)},
			RecurrentState: RecurrentState{Initialization: "unchanged"},
			Protocol:       NewProtocol(&Content{Seed: "0", Vocab: 100}, ProtocolPreparation{WarmupIterations: 5}),
			Engine: &Engine{Attention: &EngineAttention{}, Scheduler: &EngineScheduler{}, Versions: &EngineVersions{FPMRun: "1", Engine: "cpu"},
				Parallel: &EngineParallel{DataParallelRank: &rank, DataParallelSize: ranks, TensorParallelSize: 1, PipelineParallelSize: 1, PrefillContextParallelSize: 1}},
			Ledger: Ledger{Status: "recorded", Records: []LedgerRecord{{Kind: WarmupGlobal, RequestedShape: ShapeRequest{[]int{256}}, Status: "completed",
				ForwardIndexStart: &start, ForwardIndexEnd: &end, ObservedForwardCount: count, Validation: LedgerValidation{Status: "not_performed"}}}},
			Skipped: []Skipped{}, MissingPhases: []string{},
		}
	}
	for i, p := range points {
		group := Group{BenchmarkID: p.BenchmarkID, Point: p, Complete: true}
		for rank := range docs {
			f := measured(t, p, rank, i, grid)
			group.ExpectedDPRanks = append(group.ExpectedDPRanks, rank)
			group.RankResults = append(group.RankResults, RankResult{DPRank: rank, FPMs: []FPM{f}})
			group.WallTime = max(group.WallTime, f.WallTime)
		}
		for rank, d := range docs {
			d.Groups = append(d.Groups, group)
			regime := RegimeNotApplicable
			if p.PointType == Decode {
				regime = RegimeLegacy
			}
			d.Results = append(d.Results, Result{Point: p, KVSeedRegime: regime, FPMs: group.RankResults[rank].FPMs})
		}
	}
	for _, d := range docs {
		d.Finish(len(points), false, nil)
	}
	return docs
}

// measured is one rank's retained record of a point: one step for prefill, two for decode.
func measured(t testing.TB, p Point, rank, position int, grid string) FPM {
	t.Helper()
	key, err := p.Key()
	if err != nil {
		t.Fatal(err)
	}
	prompts, err := RecordPrompts([][]uint32{{1, 2, uint32(rank + 3)}, {4, uint32(position + 1)}})
	if err != nil {
		t.Fatal(err)
	}
	steps, regime := 1, RegimeNotApplicable
	if p.PointType == Decode {
		steps, regime = 2, RegimeLegacy
	}
	raw := make([]FPM, steps)
	clock := Float(10*position + 9)
	for k := range raw {
		start, end := clock, clock+Float(10*(rank+1))/1000
		clock = end
		raw[k] = FPM{Version: 1, DPRank: rank, CounterID: p.BenchmarkID, WallTime: end - start,
			Sample: &Sample{SampleIndex: k, ForwardIndex: 5 + 3*position + k, Timing: Timing{Basis: ScheduleToOutput, Start: &start, End: end}, Cudagraph: ObservedGraph("NONE", 2, 2)}}
		s := &raw[k].Scheduled
		if p.PointType == Decode {
			s.NumDecodeRequests, s.SumDecodeKVTokens = p.BatchSize, p.TotalKVReadTokens
		} else {
			s.NumPrefillRequests, s.SumPrefillTokens = p.BatchSize, p.TotalPrefillTokens
		}
	}
	before := 1
	retained, estimate := Reduce(raw, steps)
	retained.Measurement = &Evidence{SchemaVersion: 1, PointKey: key, DPRank: rank, Prompts: prompts, ExpectedSamples: steps, Raw: raw, Estimate: estimate,
		Preparation: Preparation{GridDigest: grid, CompletedPointsBefore: position, KVSeedRegime: regime, WarmupRecordsBefore: &before}}
	return retained
}

// written writes documents into a folder and returns their paths.
func written(t *testing.T, docs []*Rank) []string {
	t.Helper()
	dir := t.TempDir()
	paths := make([]string, len(docs))
	for i, d := range docs {
		paths[i] = filepath.Join(dir, d.Config.OutputPath)
		if err := WriteFile(paths[i], d); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// edit changes a written document as a tree.
func edit(t *testing.T, path string, change func(doc map[string]any)) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := decodeTree(text)
	if err != nil {
		t.Fatal(err)
	}
	change(tree.(map[string]any))
	if err := WriteFile(path, tree); err != nil {
		t.Fatal(err)
	}
}

// at walks into a tree: strings are keys, ints are indices.
func at(tree any, path ...any) map[string]any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			tree = tree.(map[string]any)[step]
		case int:
			tree = tree.([]any)[step]
		}
	}
	return tree.(map[string]any)
}

// mergeFiles merges what is in the files.
func mergeFiles(t *testing.T, paths []string) (*Merged, error) {
	t.Helper()
	docs := make([]*Document, len(paths))
	for i, path := range paths {
		d, err := ReadDocument(path)
		if err != nil {
			return nil, err
		}
		docs[i] = d
	}
	return Merge(docs, filepath.Join(filepath.Dir(paths[0]), "benchmark_merged.json"))
}

func asTree(t *testing.T, v any) map[string]any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := decodeTree(text)
	if err != nil {
		t.Fatal(err)
	}
	return tree.(map[string]any)
}

func sprint(v ...any) string { return strings.TrimSpace(fmt.Sprintln(v...)) }
