package collective

import "cmp"

// Thresholds say at which size an operation changes its algorithm, in bytes unless said otherwise. Ranks compare them when they join: with different
// ones they would choose different algorithms. A field that is 0 takes its default; `fpmrun bench` suggests others.
type Thresholds struct {
	Direct   int // gather, scatter: larger parts go between root and their rank directly; 64 KiB
	Bruck    int // allgather: larger parts go round the ring; 8 KiB
	Flat     int // broadcast: in groups of up to so many ranks root sends to each; 8 ranks
	Chain    int // broadcast: larger messages go down the pipelined chain; 128 KiB
	Chunk    int // broadcast: one piece in the chain; 256 KiB
	Pack     int // calls between hosts: longer bodies are compressed; 64 KiB
	Doubling int // allreduce: longer vectors are reduced in parts around the ring; 32 KiB
}

// orDefault fills the fields that are 0.
func (t Thresholds) orDefault() Thresholds {
	return Thresholds{
		Direct:   cmp.Or(t.Direct, 64<<10),
		Bruck:    cmp.Or(t.Bruck, 8<<10),
		Flat:     cmp.Or(t.Flat, 8),
		Chain:    cmp.Or(t.Chain, 128<<10),
		Chunk:    cmp.Or(t.Chunk, 256<<10),
		Pack:     cmp.Or(t.Pack, 64<<10),
		Doubling: cmp.Or(t.Doubling, 32<<10),
	}
}

// The choices. Each is a pure function of sizes that all ranks know.

func (t Thresholds) direct(part int) bool     { return part > t.Direct }
func (t Thresholds) aroundRing(part int) bool { return part > t.Bruck }
func (t Thresholds) downChain(bytes int) bool { return bytes > t.Chain }

func (t Thresholds) inParts(bytes, elements, ranks int) bool {
	return bytes > t.Doubling && elements >= ranks && ranks > 1
}

// Choice names the algorithm of an operation of equal parts on one host: barrier, broadcast, gather, scatter, allgather or allreduce, of so
// many bytes a rank.
func (t Thresholds) Choice(op string, ranks, bytes int) string {
	t = t.orDefault()
	pick := func(large bool, then, otherwise string) string {
		if large {
			return then
		}
		return otherwise
	}
	switch op {
	case "barrier":
		return "dissemination"
	case "broadcast":
		return pick(t.downChain(bytes), "chain", pick(ranks > t.Flat, "binomial tree", "root to each"))
	case "gather", "scatter":
		return pick(t.direct(bytes), "direct", "binomial tree")
	case "allgather":
		return pick(t.aroundRing(bytes), "ring", "Bruck")
	case "allreduce":
		return pick(t.inParts(bytes, ranks, ranks), "ring", "recursive doubling")
	}
	return "unknown operation"
}
