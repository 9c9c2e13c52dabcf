package stream

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// DefaultPort is the port of data-parallel rank 0 where nothing else is chosen.
const DefaultPort = 20380

const mostPort = 65535

// Range is a closed range of TCP ports.
type Range struct{ First, Last int }

// String is the range as a message has it.
func (r Range) String() string {
	if r.First == r.Last {
		return strconv.Itoa(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

func (r Range) overlaps(o Range) bool { return r.First <= o.Last && o.First <= r.Last }

// Port is the port of a data-parallel rank's publisher.
func Port(base, dpRank int) int { return base + dpRank }

// CheckPorts reports a base that leaves one of dpSize ranks without a port.
func CheckPorts(base, dpSize int) error {
	if most := mostPort - (dpSize - 1); base < 1 || base > most {
		return fmt.Errorf("ranks 0 to %d use the ports %v: want a base from 1 to %d", dpSize-1, Range{base, base + dpSize - 1}, most)
	}
	return nil
}

// Block is what a run of dpSize data-parallel ranks takes of the ports: one for each rank and, with more than one rank, the port behind the last, which
// the synchronizer of the format's other producers binds.
func Block(base, dpSize int) Range {
	if dpSize <= 1 {
		return Range{base, base}
	}
	return Range{base, base + dpSize}
}

// EphemeralRange is the range from which the kernel takes ports for outgoing connections, read from proc, the file system mounted at /proc; false when it
// cannot be read.
func EphemeralRange(proc fs.FS) (Range, bool) {
	text, err := fs.ReadFile(proc, "sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return Range{}, false
	}
	fields := strings.Fields(string(text))
	if len(fields) != 2 {
		return Range{}, false
	}
	first, err1 := strconv.Atoi(fields[0])
	last, err2 := strconv.Atoi(fields[1])
	return Range{first, last}, err1 == nil && err2 == nil
}

// PortWarning says what may happen to publishers whose ports the kernel may give to others; "" when there is nothing to say. flag is what the operator
// sets the base with.
func PortWarning(block, ephemeral Range, flag string) string {
	if !block.overlaps(ephemeral) {
		return ""
	}
	return fmt.Sprintf("the stream's ports %v lie in the kernel's range for outgoing connections, %v: a start may fail now and then with \"address already in use\"; set %s to a base below %d",
		block, ephemeral, flag, ephemeral.First)
}
