package bench

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/fpmrun/fpmrun/collective"
)

// ExpertGroup lets engines send tokens to the experts that other ranks hold, and results back, over the collective layer. See gpu.Exchange.
//
// The sizes of the parts are known to sender and receiver only, while the collective layer exchanges equal parts. Each pair first exchanges
// a part of 4 KiB: its real size, the largest size that the sender has for anybody, and as many values as fit. When some rank has more, which all
// know by then, the rest follows in a second exchange of parts as long as the longest one. The memory grows to the largest exchange and is kept.
type ExpertGroup struct {
	comm      *collective.Comm
	out, in   []float32 // (members, firstPart)
	more, got []float32 // (members, rest)
}

// The first parts.
const (
	firstPart   = 1024 // values of 4 bytes
	firstHead   = 2    // size, largest size
	firstValues = firstPart - firstHead
	mostValues  = 1 << 28 // in one part
)

// NewExpertGroup makes the exchange between all members of the communicator, whose ranks are those of the experts.
func NewExpertGroup(comm *collective.Comm) *ExpertGroup {
	n := comm.Size() * firstPart
	return &ExpertGroup{comm: comm, out: make([]float32, n), in: make([]float32, n)}
}

// Rank is this worker's place among the holders of experts. See gpu.Exchange.
func (g *ExpertGroup) Rank() int { return g.comm.Rank() }

// Size is the number of workers that hold experts. See gpu.Exchange.
func (g *ExpertGroup) Size() int { return g.comm.Size() }

// AllToAll exchanges parts of sizes that differ. See gpu.Exchange.
func (g *ExpertGroup) AllToAll(recv []float32, recvSizes []int, send []float32, sendSizes []int) error {
	me := g.comm.Rank()
	largest := 0
	for i, size := range sendSizes {
		if i != me {
			largest = max(largest, size)
		}
	}
	at := 0
	for i, size := range sendSizes {
		part := g.out[i*firstPart:][:firstPart]
		part[0], part[1] = math.Float32frombits(uint32(size)), math.Float32frombits(uint32(largest))
		if i != me {
			copy(part[firstHead:], send[at:at+size])
		}
		at += size
	}
	if err := collective.AllToAllInto(context.Background(), g.comm, g.in, g.out); err != nil {
		return fmt.Errorf("bench: exchange with the experts: %w", err)
	}
	for i, size := range recvSizes {
		part := g.in[i*firstPart:][:firstPart]
		if n := math.Float32bits(part[0]); n != uint32(size) {
			return fmt.Errorf("bench: exchange with the experts: rank %d sends %d values where rank %d expects %d", g.comm.WorldRank(i), n, g.comm.WorldRank(me), size)
		}
		largest = max(largest, int(math.Float32bits(part[1])))
	}
	if largest > mostValues {
		return fmt.Errorf("bench: exchange with the experts: a part of %d values: at most %d are one", largest, mostValues)
	}
	rest := max(0, largest-firstValues)
	if rest > 0 {
		if err := g.second(rest, send, sendSizes); err != nil {
			return err
		}
	}
	at, own := 0, 0
	for _, size := range sendSizes[:me] {
		own += size
	}
	for i, size := range recvSizes {
		part := recv[at : at+size]
		if i == me {
			copy(part, send[own:])
		} else if n := copy(part, g.in[i*firstPart+firstHead:(i+1)*firstPart]); n < size {
			copy(part[n:], g.got[i*rest:])
		}
		at += size
	}
	return nil
}

// second exchanges what did not fit the first parts, rest values at most of each.
func (g *ExpertGroup) second(rest int, send []float32, sizes []int) error {
	n := len(sizes) * rest
	g.more, g.got = slices.Grow(g.more[:0], n)[:n], slices.Grow(g.got[:0], n)[:n]
	at := 0
	for i, size := range sizes {
		if i != g.comm.Rank() && size > firstValues {
			copy(g.more[i*rest:], send[at+firstValues:at+size])
		}
		at += size
	}
	if err := collective.AllToAllInto(context.Background(), g.comm, g.got, g.more); err != nil {
		return fmt.Errorf("bench: exchange with the experts: %w", err)
	}
	return nil
}
