package stream

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/fpmrun/fpmrun/artifact"
)

func example() artifact.FPM {
	return artifact.FPM{
		Version: 1, WorkerID: "worker-ü", DPRank: 3, CounterID: 1 << 40, WallTime: 0.25,
		Scheduled: artifact.Scheduled{NumPrefillRequests: 1, SumPrefillTokens: 200, VarPrefillLength: 2.5, SumPrefillKVTokens: 70_000, NumDecodeRequests: 5, SumDecodeKVTokens: 1 << 33, VarDecodeKVTokens: 1e-9},
		Queued:    artifact.Queued{NumPrefillRequests: 7, SumPrefillTokens: 8, VarPrefillLength: 9, NumDecodeRequests: 10, SumDecodeKVTokens: 11, VarDecodeKVTokens: 12},
	}
}

// A record's bytes: maps in the order of the format, integers as short as they go, floats of 8 bytes. What artifacts add is left out.
func TestEncode(t *testing.T) {
	r := artifact.FPM{Version: 1, WorkerID: "w", DPRank: 2, CounterID: 300, WallTime: 0.5, Scheduled: artifact.Scheduled{NumDecodeRequests: 4, SumDecodeKVTokens: 70000},
		Measurement: &artifact.Evidence{SchemaVersion: 1}, Sample: &artifact.Sample{}}
	key := func(name string) string {
		if len(name) < 32 {
			return hex.EncodeToString([]byte{0xa0 | byte(len(name))}) + hex.EncodeToString([]byte(name))
		}
		return hex.EncodeToString([]byte{0xd9, byte(len(name))}) + hex.EncodeToString([]byte(name))
	}
	const zero = "cb0000000000000000"
	want := "87" + key("version") + "01" + key("worker_id") + "a177" + key("dp_rank") + "02" + key("counter_id") + "cd012c" + key("wall_time") + "cb3fe0000000000000" +
		key("scheduled_requests") + "87" + key("num_prefill_requests") + "00" + key("sum_prefill_tokens") + "00" + key("var_prefill_length") + zero +
		key("sum_prefill_kv_tokens") + "00" + key("num_decode_requests") + "04" + key("sum_decode_kv_tokens") + "ce00011170" + key("var_decode_kv_tokens") + zero +
		key("queued_requests") + "86" + key("num_prefill_requests") + "00" + key("sum_prefill_tokens") + "00" + key("var_prefill_length") + zero +
		key("num_decode_requests") + "00" + key("sum_decode_kv_tokens") + "00" + key("var_decode_kv_tokens") + zero
	got, err := Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, hex.EncodeToString(got)); diff != "" {
		t.Error(diff)
	}
}

// The members are those of the artifact's record, so that one that is added there is not forgotten here.
func TestMembersAreThoseOfTheArtifact(t *testing.T) {
	r := example()
	payload, err := Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	var onWire, inArtifact any
	if err := msgpack.Unmarshal(payload, &onWire); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &inArtifact); err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(onWire); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &onWire); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(inArtifact, onWire); diff != "" {
		t.Error(diff)
	}
	back, err := Decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, back); diff != "" {
		t.Error(diff)
	}
}

func pack(t *testing.T, v any) []byte {
	t.Helper()
	b, err := msgpack.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Other producers may leave members out, add some, and write a whole float as an integer.
func TestDecodeAccepts(t *testing.T) {
	for _, c := range []struct {
		name string
		v    any
		want artifact.FPM
	}{
		{"nothing", map[string]any{}, artifact.FPM{Version: 1}},
		{"an unknown member", map[string]any{"dp_rank": 2, "later": []any{1, map[string]any{"x": nil}}}, artifact.FPM{Version: 1, DPRank: 2}},
		{"an integer for a float", map[string]any{"wall_time": 2}, artifact.FPM{Version: 1, WallTime: 2}},
		{"a short float", map[string]any{"wall_time": float32(0.5)}, artifact.FPM{Version: 1, WallTime: 0.5}},
		{"the largest integer", map[string]any{"counter_id": uint64(math.MaxInt64)}, artifact.FPM{Version: 1, CounterID: math.MaxInt64}},
		{"part of what is scheduled", map[string]any{"scheduled_requests": map[string]any{"sum_prefill_tokens": 9}}, artifact.FPM{Version: 1, Scheduled: artifact.Scheduled{SumPrefillTokens: 9}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Decode(pack(t, c.v))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	whole := pack(t, map[string]any{"dp_rank": 1})
	for _, c := range []struct {
		name    string
		payload []byte
		want    string
	}{
		{"nothing", nil, "cut short"},
		{"an array", pack(t, []any{1}), "the record is an array, want a map"},
		{"text", []byte("{}"), "the record is an integer, want a map"},
		{"half a map", whole[:len(whole)-1], "cut short"},
		{"more behind it", append(whole[:len(whole):len(whole)], 0xc0, 0xc0), "2 bytes stand behind it"},
		{"a map of many", []byte{0xdf, 0xff, 0xff, 0xff, 0xff}, "cut short"},
		{"a string of many", []byte{0x81, 0xdb, 0xff, 0xff, 0xff, 0xff, 'x'}, "cut short"},
		{"a key that is none", []byte{0x81, 0x01, 0x01}, "a key of the record is an integer, want a string"},
		{"a float for an integer", pack(t, map[string]any{"dp_rank": 1.0}), "dp_rank is a float, want an integer"},
		{"a boolean for an integer", pack(t, map[string]any{"dp_rank": true}), "dp_rank is a boolean"},
		{"nil for an integer", pack(t, map[string]any{"dp_rank": nil}), "dp_rank is nil"},
		{"an integer that is too large", pack(t, map[string]any{"counter_id": uint64(math.MaxUint64)}), "counter_id is 18446744073709551615, want at most 9223372036854775807"},
		{"no number", pack(t, map[string]any{"wall_time": math.NaN()}), "wall_time is NaN, want a finite number"},
		{"endless", pack(t, map[string]any{"wall_time": math.Inf(-1)}), "wall_time is -Inf"},
		{"text for a number", pack(t, map[string]any{"wall_time": "1"}), "wall_time is a string, want a number"},
		{"an integer for text", pack(t, map[string]any{"worker_id": 1}), "worker_id is an integer, want a string"},
		{"bytes for text", pack(t, map[string]any{"worker_id": []byte("w")}), "worker_id is bytes"},
		{"no UTF-8", pack(t, map[string]any{"worker_id": "\xff"}), `worker_id is "\xff", want UTF-8`},
		{"an array for a map", pack(t, map[string]any{"queued_requests": []any{}}), "queued_requests is an array, want a map"},
		{"wrong inside", pack(t, map[string]any{"queued_requests": map[string]any{"num_decode_requests": "1"}}), "queued_requests.num_decode_requests is a string"},
		{"a version that is none", pack(t, map[string]any{"version": "1"}), "version is a string"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Decode(c.payload)
			if !errors.Is(err, ErrRecord) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %v, want ErrRecord with %q", got, err, c.want)
			}
		})
	}
}

// A record of a later version is told from a wrong one even where its members have other types.
func TestOtherVersions(t *testing.T) {
	for _, payload := range [][]byte{pack(t, map[string]any{"version": 2}), pack(t, map[string]any{"dp_rank": "x", "version": 2}), pack(t, map[string]any{"version": 2, "wall_time": nil})} {
		_, err := Decode(payload)
		var version *VersionError
		if !errors.As(err, &version) || version.Version != 2 {
			t.Errorf("%q: %v, want a VersionError of 2", payload, err)
		}
	}
}

// What is decoded from any bytes is encoded and decoded to the same record.
func FuzzRecord(f *testing.F) {
	payload, err := Encode(example())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload)
	f.Add([]byte{0x80})
	f.Add([]byte{0x81, 0xa7, 'v', 'e', 'r', 's', 'i', 'o', 'n', 0x02})
	f.Add([]byte{0xdf, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte(strings.Repeat("\x91", 1000)))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Decode(data)
		if err != nil {
			return
		}
		again, err := Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, back); diff != "" {
			t.Fatal(diff)
		}
	})
}
