package artifact

import (
	"encoding/json"
	"slices"
	"testing"
)

// Prompts of a batch of 1024 requests with one token each: the seeding of 1024 generators.
func BenchmarkPrompts1024(b *testing.B) {
	c := Content{Seed: "0", Vocab: 151936}
	lengths := make([]int, 1024)
	for i := range lengths {
		lengths[i] = 1
	}
	for b.Loop() {
		shape, err := Shape(Decode, lengths, lengths)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.Prompts(PurposeDecode, shape, lengths); err != nil {
			b.Fatal(err)
		}
	}
}

// Merging eight ranks' documents that are in memory, with the evidence of every step.
func BenchmarkMerge(b *testing.B) {
	docs := make([]*Document, 8)
	for rank, d := range run(b, 8) {
		text, err := json.Marshal(d)
		if err != nil {
			b.Fatal(err)
		}
		if docs[rank], err = ParseDocument(d.Config.OutputPath, text); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := Merge(docs, "benchmark_merged.json"); err != nil {
			b.Fatal(err)
		}
	}
}

// Reading a rank's document of 648 points with eight ranks' records.
func BenchmarkParseDocument(b *testing.B) {
	d := run(b, 8)[0]
	for range 3 {
		d.Groups, d.Results = slices.Concat(d.Groups, d.Groups, d.Groups, d.Groups, d.Groups, d.Groups), slices.Concat(d.Results, d.Results, d.Results, d.Results, d.Results, d.Results)
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := ParseDocument("benchmark.json", text); err != nil {
			b.Fatal(err)
		}
	}
}
