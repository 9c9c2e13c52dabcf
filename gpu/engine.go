package gpu

import (
	"context"

	"github.com/fpmrun/fpmrun/gpu/model"
)

// Engine runs forward passes for one worker (one tensor-parallel rank). Methods are called from one
// goroutine at a time.
type Engine interface {
	// Info says what the engine is and what it resolved; it does not change after the constructor returned.
	Info() Info

	// Prepare makes ready what the engine runs a step with, such as a captured graph, so that the first step of its kind does not
	// wait for it: new tokens, rows, and whether all rows are decode rows. What was not prepared is made by the first such step.
	Prepare(tokens, rows int, decode bool) error

	// Enqueue launches one step and returns without waiting for its output. The step and everything it
	// points to belong to the engine until the matching Await returned. At most Info().Depth steps may be
	// in flight. An error means that nothing was launched.
	Enqueue(step *Step) error

	// Await blocks until the output of the oldest step in flight is in host memory and fills out, whose
	// slices are reused. It returns ctx's error when ctx ends first; the engine is then only good for Close.
	Await(ctx context.Context, out *Output) error

	// Finite reports whether the logits of the last awaited step were all finite numbers. It may be slow and
	// is called outside the timed region.
	Finite() (bool, error)

	// Close frees everything the engine holds. Steps in flight are abandoned.
	Close() error
}

// Config is what every engine is built from. The zero value of an optional field is its documented default.
type Config struct {
	Geometry *model.Geometry // shape and arithmetic of the model, unsharded
	Weights  model.Source    // where tensors come from, by unsharded Hugging Face name

	Blocks           int // KV blocks in the pool, block 0 included; block 0 is never used
	BlockSize        int // tokens per KV block
	MaxBatchedTokens int // most new tokens in one step, over all rows
	MaxSeqs          int // most rows in one step
	MaxModelLen      int // most tokens in one sequence

	Graph GraphConfig // capture sizes and mode; engines without graphs accept only GraphNone

	TP      Group    // tensor-parallel group; nil means a group of one
	EP      Exchange // expert-parallel group; nil means that the tensor-parallel group splits every expert
	Threads int      // CPU threads for host arithmetic; 0 means runtime.GOMAXPROCS(0)

	Timing   bool // for diagnosis: have the device time each step; without it there is not a single event
	Progress bool // for diagnosis: have the device tell after each command that it ended, so that an error can name where it is stuck
	Ceilings bool // a Gauge will be used as such: what it takes counts in what the engine needs
}

// Group is the tensor-parallel communicator an engine uses inside a step. All members call the same
// operations in the same order.
type Group interface {
	Rank() int
	Size() int
	// AllReduce adds data over all members, in place, in an order that is the same on every member.
	AllReduce(data []float32) error
	// AllGather fills dst, which holds Size() parts of len(src), with every member's src in rank order.
	AllGather(dst, src []float32) error
}

// Exchange is the expert-parallel communicator an engine uses inside a step. It spans the tensor-parallel groups of
// several engines, ranked engine by engine; member r of n holds the experts from Experts*r/n to Experts*(r+1)/n-1,
// whole. All members call the same operations in the same order, so every engine of the group must be given a step
// whenever one is; for an idle one that is a step without rows.
type Exchange interface {
	Rank() int
	Size() int
	// AllToAll sends send to the members and fills recv with what they sent here, both cut in rank order into parts
	// of sendSizes[i] and recvSizes[i] values. The sizes agree on both sides of each pair; they may be 0, and the
	// member's own part is copied. The slices do not overlap.
	AllToAll(recv []float32, recvSizes []int, send []float32, sendSizes []int) error
}

// Step is one forward pass over a batch. Without rows it computes no tokens, but lets the other members of an
// expert-parallel group use this worker's experts; an engine outside such a group refuses it.
type Step struct {
	Rows []Row
}

// Row is one sequence's share of a step: it computes len(Tokens) new tokens on top of Computed tokens whose
// keys and values are in the cache already.
type Row struct {
	// Slot names the sequence to the engine, 0 <= Slot < MaxSeqs; the engine keeps the id it sampled last for
	// each slot.
	Slot int
	// Tokens are the ids to compute. Nil means one token: the id that the engine sampled for this slot in the
	// step before.
	Tokens []uint32
	// Computed is the number of leading tokens of the sequence already in the KV cache.
	Computed int
	// Blocks is the block table; it covers Computed + new tokens.
	Blocks []int32
}

// New is the number of tokens the row computes.
func (r *Row) New() int {
	if r.Tokens == nil {
		return 1
	}
	return len(r.Tokens)
}

// Tokens is the number of new tokens of the whole step.
func (s *Step) Tokens() int {
	n := 0
	for i := range s.Rows {
		n += s.Rows[i].New()
	}
	return n
}

// Decode reports whether all rows are decode rows: each computes one token on top of others.
func (s *Step) Decode() bool {
	for i := range s.Rows {
		if s.Rows[i].New() != 1 || s.Rows[i].Computed == 0 {
			return false
		}
	}
	return true
}

// Output is the result of one step.
type Output struct {
	Sampled  []uint32 // greedy id per row: the lowest id among the largest logits of the row's last token
	Arrival  int64    // Monotonic() when Sampled became visible on the host, in nanoseconds
	Device   int64    // with Config.Timing the device's own time of the step, in nanoseconds; else 0
	Dispatch Dispatch // what was launched, taken from the launched object
}

// Info is what an engine knows about itself. Everything in it is the same in every rank and launch of one
// build on one kind of device, but for Host.
type Info struct {
	Engine           string            // "cpu", "sim" or "cuda"
	DType            string            // "float32", "bfloat16", ...: type of weights and activations
	KVDType          string            // type of keys and values in the cache
	KVLayout         string            // order of the cache's axes, outermost first
	AttentionBackend string            // name of the attention implementation
	LayerBackends    map[string]string // layer name ("model.layers.0.self_attn.attn") to attention implementation
	Async            bool              // a second step may be enqueued before the first was awaited
	Depth            int               // most steps in flight: 1, or 2 when Async
	Host             map[string]string // facts that may differ between ranks: device name, library versions, threads
	WeightBytes      int64             // bytes of weights this worker holds
	CacheBytes       int64             // bytes of KV pool this worker holds
}
