//go:build linux && cgo

package cuda

// #include "program.h"
import "C"

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/fpmrun/fpmrun/gpu"
)

// capture makes a graph of each run of commands that keep does not except; the others stay as they are.
func (m *machine) capture(from commands, keep func(c *C.command) bool) (commands, error) {
	began := gpu.Monotonic()
	defer func() { m.stages.Lap("capture", began) }()
	var to commands
	for begin := 0; begin < len(from.list); {
		if c := &from.list[begin]; keep(c) {
			to.add(C.GoString(&c.name[0]), from.names[begin], *c)
			begin++
			continue
		}
		end := begin + 1
		for end < len(from.list) && !keep(&from.list[end]) {
			end++
		}
		purpose := fmt.Sprintf("%d commands, %s to %s", end-begin, from.names[begin], from.names[end-1])
		var at C.int
		var graph unsafe.Pointer
		if err := check(C.capture(m.c, &from.list[begin], C.int(end-begin), &at, &graph)); err != nil {
			return commands{}, fmt.Errorf("cuda: capture %s: at %s: %w", purpose, from.names[begin+int(at)], err)
		}
		m.graphs = append(m.graphs, graph)
		to.add("graph", purpose, C.command{kind: C.GRAPH, function: graph})
		begin = end
	}
	return to, nil
}

// none excepts no command.
func none(*C.command) bool { return false }

// attends excepts the commands that stay outside of piecewise graphs: those whose work depends on the lengths of the sequences.
func attends(c *C.command) bool {
	return strings.HasPrefix(C.GoString(&c.name[0]), "attention")
}
