package bench

import (
	"encoding/binary"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/gpu"
)

// pass takes a step through a frame.
func pass(t testing.TB, w *frameWriter, r *frameReader, step *gpu.Step) *gpu.Step {
	t.Helper()
	if err := w.step(step); err != nil {
		t.Fatal(err)
	}
	n, err := r.body(w.frame[:])
	if err != nil || n != len(w.long) {
		t.Fatalf("a body of %d bytes announces %d (%v)", len(w.long), n, err)
	}
	got, err := r.step(w.frame[:], w.long)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func table(first int32, n int) []int32 {
	blocks := make([]int32, n)
	for i := range blocks {
		blocks[i] = first + int32(i)
	}
	return blocks
}

// Every kind of step reads back as it was sent, and stays whole while later ones are read.
func TestStepFrame(t *testing.T) {
	const depth = 2
	steps := []*gpu.Step{
		{Rows: []gpu.Row{{Slot: 2, Tokens: []uint32{7, 1<<32 - 1}, Blocks: []int32{1}}}}, // fits the frame
		{Rows: []gpu.Row{{Slot: 2, Computed: 2, Blocks: []int32{1}}}},                    // goes on after two tokens
		{Rows: []gpu.Row{{Slot: 2, Computed: 3, Blocks: []int32{1}}}},                    // goes on after a sampled one
		{}, // no rows
		{Rows: []gpu.Row{{Slot: 0, Tokens: []uint32{5}, Computed: 70000, Blocks: table(9, 4400)}, {Slot: 1, Tokens: slices.Repeat([]uint32{3}, 300), Blocks: table(1, 20)}}},
		{Rows: []gpu.Row{{Slot: 0, Computed: 70001, Blocks: table(9, 4400)}, {Slot: 1, Computed: 300, Blocks: table(1, 20)}}},
		{Rows: []gpu.Row{{Slot: 0, Computed: 70002, Blocks: table(9, 4400)}, {Slot: 1, Computed: 301, Blocks: table(1, 20)}}},
		{Rows: []gpu.Row{{Slot: 0, Computed: 70003, Blocks: table(9, 4401)}, {Slot: 1, Computed: 302, Blocks: table(1, 20)}}}, // one block more
		{Rows: []gpu.Row{{Slot: 1, Computed: 303, Blocks: table(1, 20)}}},                                                     // a row less
		{Rows: []gpu.Row{{Slot: 1, Computed: 303, Blocks: table(1, 20)}}},                                                     // the same place again
		{Rows: []gpu.Row{{Slot: 1, Computed: 304, Blocks: table(2, 20)}}},                                                     // other blocks
		{Rows: []gpu.Row{{Slot: 3, Computed: 305, Blocks: table(2, 20)}}},                                                     // another slot
		{Rows: []gpu.Row{{Slot: 3, Computed: 306, Tokens: []uint32{1}, Blocks: table(2, 20)}}},                                // a token that was not sampled
	}
	short := []bool{true, true, true, true, false, true, true, false, false, false, false, false, false}
	var w frameWriter
	r := newFrameReader(depth)
	var flight []*gpu.Step
	for i, step := range steps {
		got := pass(t, &w, &r, step)
		if (len(w.long) == 0) != short[i] {
			t.Errorf("step %d: a body of %d bytes beside the frame", i, len(w.long))
		}
		flight = append(flight, got)
		for back := range min(depth, i+1) {
			if got, want := clone(flight[i-back]), clone(steps[i-back]); len(got.Rows)+len(want.Rows) > 0 && !reflect.DeepEqual(got, want) {
				t.Errorf("step %d, after step %d: got %+v, want %+v", i-back, i, got, want)
			}
		}
	}
}

func TestStepFrameRefusals(t *testing.T) {
	for name, row := range map[string]gpu.Row{
		"slot": {Slot: -1, Tokens: []uint32{1}}, "computed": {Computed: 1 << 31, Tokens: []uint32{1}}, "no token": {Tokens: []uint32{}},
	} {
		var w frameWriter
		if err := w.step(&gpu.Step{Rows: []gpu.Row{row}}); err == nil || !strings.Contains(err.Error(), "row 0") {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := &gpu.Step{Rows: []gpu.Row{{Tokens: []uint32{1}, Blocks: []int32{1}}}}
	for _, c := range []struct {
		name   string
		change func(frame []byte)
		want   string
	}{
		{"a step twice", func(b []byte) { binary.LittleEndian.PutUint32(b[12:], 1) }, "step 1 from the leader after step 1"},
		{"too many rows", func(b []byte) { binary.LittleEndian.PutUint32(b[4:], 4) }, "4 rows in 24 bytes"},
		{"a row less", func(b []byte) { binary.LittleEndian.PutUint32(b[4:], 0) }, "0 rows in 24 bytes"},
		{"more tokens than bytes", func(b []byte) { binary.LittleEndian.PutUint32(b[frameHead+8:], 1<<32-1) }, "1 rows in 24 bytes"},
		{"going on with rows", func(b []byte) { b[0] = frameNext }, "goes on with 1 rows"},
	} {
		var w frameWriter
		r := newFrameReader(1)
		pass(t, &w, &r, good)
		if err := w.step(&gpu.Step{Rows: []gpu.Row{{Slot: 1, Tokens: []uint32{1}, Blocks: []int32{1}}}}); err != nil {
			t.Fatal(err)
		}
		c.change(w.frame[:])
		if _, err := r.step(w.frame[:], nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	var frame [frameSize]byte
	binary.LittleEndian.PutUint32(frame[8:], mostBody+1)
	r := newFrameReader(1)
	if n, err := r.body(frame[:]); err == nil {
		t.Errorf("a body of %d bytes is received", n)
	}
	frame = [frameSize]byte{frameNext}
	frame[12] = 1
	if _, err := r.step(frame[:], nil); err == nil {
		t.Error("a first step that goes on is accepted")
	}
}

func FuzzStepFrame(f *testing.F) {
	var w frameWriter
	for _, step := range []*gpu.Step{{Rows: []gpu.Row{{Slot: 3, Computed: 70000, Blocks: []int32{1, 300}}}}, {}, {Rows: []gpu.Row{{Tokens: []uint32{1, 2}, Blocks: table(1, 30)}}}} {
		if err := w.step(step); err != nil {
			f.Fatal(err)
		}
		f.Add(slices.Clone(w.frame[:]), slices.Clone(w.long))
		w = frameWriter{}
	}
	f.Fuzz(func(t *testing.T, head, long []byte) {
		frame := make([]byte, frameSize)
		copy(frame, head)
		r := newFrameReader(1)
		if n, err := r.body(frame); err != nil || n > 0 && n != len(long) {
			return
		}
		step, err := r.step(frame, long)
		if err != nil {
			return
		}
		want := clone(step)
		for i := range want.Rows { // numbers of more than 31 bits are the engine's to refuse
			want.Rows[i].Slot &= 1<<31 - 1
			want.Rows[i].Computed &= 1<<31 - 1
		}
		var again frameWriter
		back := newFrameReader(1)
		if got := clone(pass(t, &again, &back, &want)); len(got.Rows)+len(want.Rows) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

// BenchmarkStepFrame makes and reads the frames of a batch of 256 requests of 4,096 tokens: a step with all rows, and one that goes on.
func BenchmarkStepFrame(b *testing.B) {
	step := gpu.Step{Rows: make([]gpu.Row, 256)}
	for i := range step.Rows {
		step.Rows[i] = gpu.Row{Slot: i, Tokens: []uint32{1}, Computed: 4095, Blocks: table(int32(1+256*i), 257)}
	}
	next := clone(&step)
	for i := range next.Rows {
		next.Rows[i].Tokens, next.Rows[i].Computed = nil, 4096
	}
	for _, c := range []struct {
		name  string
		steps []*gpu.Step
	}{{"admission", []*gpu.Step{&step}}, {"admission and steady", []*gpu.Step{&step, &next}}} {
		b.Run(c.name, func(b *testing.B) {
			var w frameWriter
			r := newFrameReader(1)
			b.ReportAllocs()
			for b.Loop() {
				for _, s := range c.steps {
					pass(b, &w, &r, s)
				}
			}
		})
	}
}
