package cpu

import (
	"fmt"

	"github.com/fpmrun/fpmrun/gpu"
)

// dispatch moves tokens to the members of an expert-parallel group that hold their experts, and the results back.
type dispatch struct {
	group  gpu.Exchange
	hidden int
	bounds []int // (members + 1): the experts that each member holds

	sendCounts []float32 // (Count): rows for each expert, by member; numbers below 2^24 are exact
	recvCounts []float32 // (members, experts here): rows from each member for each expert here
	sendSizes  []int     // (members): values of the exchange in progress
	recvSizes  []int     // (members)
	received   []float32 // (R, Hidden): rows by member and expert, then their results
	rows       int       // in received
}

func newDispatch(group gpu.Exchange, count, rows, hidden int) *dispatch {
	n := group.Size()
	d := &dispatch{
		group: group, hidden: hidden, bounds: make([]int, n+1), sendCounts: make([]float32, count),
		sendSizes: make([]int, n), recvSizes: make([]int, n), received: make([]float32, rows*hidden),
	}
	for m := range d.bounds {
		d.bounds[m] = count * m / n
	}
	d.recvCounts = make([]float32, n*d.local())
	return d
}

// local is the number of experts here.
func (d *dispatch) local() int {
	r := d.group.Rank()
	return d.bounds[r+1] - d.bounds[r]
}

// send moves the rows of sorted, of which counts says how many each expert gets, and appends the segments of what
// arrived here.
func (d *dispatch) send(sorted []float32, counts []int, segments []segment) ([]segment, error) {
	local := d.local()
	for x, n := range counts {
		d.sendCounts[x] = float32(n)
	}
	for m := range d.sendSizes {
		d.sendSizes[m], d.recvSizes[m] = d.bounds[m+1]-d.bounds[m], local
	}
	if err := d.group.AllToAll(d.recvCounts, d.recvSizes, d.sendCounts, d.sendSizes); err != nil {
		return segments, err
	}
	sent := 0
	d.rows = 0
	for m := range d.sendSizes {
		d.sendSizes[m], d.recvSizes[m] = 0, 0
		for _, n := range counts[d.bounds[m]:d.bounds[m+1]] {
			d.sendSizes[m] += n * d.hidden
		}
		for _, n := range d.recvCounts[m*local : (m+1)*local] {
			d.recvSizes[m] += int(n) * d.hidden
		}
		sent += d.sendSizes[m]
		d.rows += d.recvSizes[m] / d.hidden
	}
	if most := len(d.received) / d.hidden; d.rows > most {
		return segments, fmt.Errorf("expert-parallel rank %d of %d was given %d rows, more than %d: do all ranks have one --max-num-batched-tokens?",
			d.group.Rank(), d.group.Size(), d.rows, most)
	}
	for x := range local {
		first := 0
		for m := range d.recvSizes {
			for y, n := range d.recvCounts[m*local : (m+1)*local] {
				if y == x {
					segments = append(segments, segment{x, first, int(n)})
				}
				first += int(n)
			}
		}
	}
	return segments, d.group.AllToAll(d.received[:d.rows*d.hidden], d.recvSizes, sorted[:sent], d.sendSizes)
}

// giveBack returns the results in received to where the rows came from.
func (d *dispatch) giveBack(sorted []float32) error {
	sent := 0
	for _, n := range d.sendSizes {
		sent += n
	}
	return d.group.AllToAll(sorted[:sent], d.sendSizes, d.received[:d.rows*d.hidden], d.recvSizes)
}
