// Package schema keeps the JSON Schemas of the documents, which are made from the Go types that the documents are written from.
package schema

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/fpmrun/fpmrun/artifact"
)

var update = flag.Bool("update", false, "write the schemas")

// record is an FPM under a name of its own: records hold records, which the generator follows only through a reference.
type record artifact.FPM

// merged are the members that a merged document has instead of, or beside, those of a rank's.
type merged struct {
	DP struct {
		Ranks       []int `json:"ranks"`
		SourceRanks []int `json:"source_ranks"`
		ManagedSize int   `json:"managed_size"`
		GlobalSize  int   `json:"global_size"`
	} `json:"dp"`
	RankFiles  []string `json:"rank_files"`
	OutputPath string   `json:"merged_output_path"`
	ProbePath  string   `json:"worker_probe_path,omitempty"`
	Timing     struct {
		artifact.RunTiming
		Seconds map[string]artifact.Float `json:"rank_benchmark_elapsed_seconds"`
	} `json:"timing"`
	Ledgers map[string]artifact.Ledger  `json:"rank_warmup_evidence"`
	FPMRun  map[string]artifact.History `json:"fpmrun,omitempty"`
}

// of is the schema of a Go type. References stand for what documents hold many times.
func of(t *testing.T, goType reflect.Type) *jsonschema.Schema {
	t.Helper()
	anything := &jsonschema.Schema{}
	s, err := jsonschema.ForType(goType, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): anything,
		reflect.TypeFor[artifact.FPM]():    {Ref: "#/$defs/fpm"},
		reflect.TypeFor[artifact.Group]():  {Ref: "#/$defs/group"},
		reflect.TypeFor[artifact.Result](): {Ref: "#/$defs/result"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rules are what a member's name says beyond its Go type, wherever it stands.
var rules = map[string]func(*jsonschema.Schema){
	"point_type":         oneOf(artifact.Prefill, artifact.Decode),
	"basis":              oneOf(artifact.ScheduleToOutput, artifact.InterOutput),
	"method":             oneOf(artifact.SingleStep, artifact.LastStep, artifact.UpperMedian),
	"kind":               oneOf(artifact.WarmupGlobal, artifact.WarmupEagerShape, artifact.WarmupRealPrefix, artifact.WarmupRealShape),
	"content_identity":   oneOf("coordinate_rank_slot_v1"),
	"results":            list,
	"iteration_groups":   list,
	"rank_results":       list,
	"fpms":               list,
	"raw_fpms":           list,
	"raw_sample_indices": list,
	"sample_reasons":     list,
	"skipped_points":     list,
	"missing_phases":     list,
	"rank_files":         list,
	"launches":           list,
	"wall_times":         list,
	"checkpoint_config":  orNull,
	"run_id":             func(s *jsonschema.Schema) { s.MinLength = jsonschema.Ptr(1) },
	"point_key":          digest,
	"sha256":             digest,
	"batch_size":         atLeast(1),
	"benchmark_id":       atLeast(1),
	"dp_rank":            atLeast(0),
	"forward_index":      atLeast(0),
}

func oneOf(values ...any) func(*jsonschema.Schema) {
	return func(s *jsonschema.Schema) {
		if s.Type == "string" {
			s.Enum = values
		}
	}
}

// list says that a list is never null.
func list(s *jsonschema.Schema) {
	if slices.Contains(s.Types, "array") {
		s.Type, s.Types = "array", nil
	}
}

// orNull says that a map may be.
func orNull(s *jsonschema.Schema) { s.Type, s.Types = "", []string{"null", s.Type} }

func digest(s *jsonschema.Schema) { s.Pattern = "^[0-9a-f]{64}$" }

func atLeast(n float64) func(*jsonschema.Schema) {
	return func(s *jsonschema.Schema) { s.Minimum = &n }
}

// finish applies the rules and lets objects have members of later versions, which readers pass over.
func finish(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.Properties != nil {
		s.AdditionalProperties = nil
	}
	for name, member := range s.Properties {
		if rule := rules[name]; rule != nil && member.Ref == "" {
			rule(member)
		}
		finish(member)
	}
	finish(s.Items)
	finish(s.AdditionalProperties)
}

// constant makes a member have one value.
func constant(s *jsonschema.Schema, name string, value any) {
	s.Properties[name].Const = &value
}

// document gives a schema its name and the definitions that it refers to.
func document(t *testing.T, s *jsonschema.Schema, name, title string) *jsonschema.Schema {
	t.Helper()
	s.Schema, s.ID = "https://json-schema.org/draft/2020-12/schema", name
	s.Title = title
	if name != "sidecar.schema.json" && name != "repeat.schema.json" {
		s.Defs = map[string]*jsonschema.Schema{"fpm": of(t, reflect.TypeFor[record]()), "group": of(t, reflect.TypeFor[group]()), "result": of(t, reflect.TypeFor[result]())}
	}
	finish(s)
	for _, d := range s.Defs {
		finish(d)
	}
	return s
}

// Groups and rows are given by reference too.
type (
	group  artifact.Group
	result artifact.Result
)

// schemas are those of all kinds of documents, by file.
func schemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	rank := of(t, reflect.TypeFor[artifact.Rank]())
	rank.Properties["fpmrun"] = of(t, reflect.TypeFor[artifact.History]())
	rank.Properties["status"].Enum = []any{"complete", "partial", "failed"}
	constant(rank, "schema_version", artifact.SchemaVersion)
	whole := of(t, reflect.TypeFor[artifact.Rank]())
	own := of(t, reflect.TypeFor[merged]())
	for name, member := range own.Properties {
		whole.Properties[name] = member
	}
	delete(whole.Properties, "warmup_evidence")
	whole.Required = slices.DeleteFunc(append(whole.Required, own.Required...), func(name string) bool { return name == "warmup_evidence" || name == "fpmrun" })
	slices.Sort(whole.Required)
	whole.Required = slices.Compact(whole.Required)
	whole.PropertyOrder = append(slices.DeleteFunc(whole.PropertyOrder, func(name string) bool { return name == "warmup_evidence" || own.Properties[name] != nil }), own.PropertyOrder...)
	constant(whole, "schema_version", artifact.SchemaVersion)
	constant(whole, "artifact_type", "merged")
	whole.Properties["status"].Enum = []any{"complete", "partial"}
	constant(rank, "artifact_type", "rank")
	sidecar := of(t, reflect.TypeFor[artifact.Sidecar]())
	constant(sidecar, "schema", artifact.SidecarSchema)
	constant(sidecar, "schema_version", 1)
	repeat := of(t, reflect.TypeFor[artifact.Repeat]())
	constant(repeat, "schema", artifact.RepeatSchema)
	constant(repeat, "schema_version", 1)
	repeat.Properties["order"].Enum = []any{"abba", "same"}
	process := of(t, reflect.TypeFor[artifact.JournalProcess]())
	constant(process, "format", artifact.JournalFormat)
	journal := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"process": process, "point": of(t, reflect.TypeFor[artifact.JournalPoint]())},
		PropertyOrder: []string{"process", "point"}, MinProperties: jsonschema.Ptr(1), MaxProperties: jsonschema.Ptr(1)}
	return map[string]*jsonschema.Schema{
		"rank.schema.json":           document(t, rank, "rank.schema.json", "A rank's document"),
		"merged.schema.json":         document(t, whole, "merged.schema.json", "A merged document"),
		"sidecar.schema.json":        document(t, sidecar, "sidecar.schema.json", "The worker-probe sidecar"),
		"repeat.schema.json":         document(t, repeat, "repeat.schema.json", "A repeat.json"),
		"journal-record.schema.json": document(t, journal, "journal-record.schema.json", "One record of a journal, decompressed"),
	}
}

// The committed schemas are those of the types; `make schema` writes them.
func TestSchemasAreThoseOfTheTypes(t *testing.T) {
	for file, s := range schemas(t) {
		text, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, '\n')
		if *update {
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		committed, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(committed, text) {
			t.Errorf("%s is not what the types say (%v): run make schema and look at the difference", file, err)
		}
	}
}
