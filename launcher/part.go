package launcher

import "os"

// part is what a plan says of a node beside its ranks. On one node the job starts with no more than the layout.
type part struct {
	layout
	meeting
	token   string           // the ranks' secret; "" is a fresh one
	ports   []*reservation   // of the meeting, where rank 0 runs here
	cluster *cluster         // the other nodes, seen from the head
	inputs  map[int]*os.File // of an agent: write ends of the standard inputs that the head feeds
	stdin   int              // of an agent: rank whose standard input that is, or StdinAll or StdinNone
}

// local is the number of ranks of this node.
func (p *Plan) local() int {
	n := 0
	for _, r := range p.Ranks {
		if r.Node == p.part.Node {
			n++
		}
	}
	return n
}

// meeting is where ranks find each other.
type meeting struct {
	Rendezvous string `json:"rendezvous"` // host:port
	Master     string `json:"master"`     // host:port of torch's store
}

// meet makes reserved ports the meeting.
func (m *meeting) meet(ports []*reservation) {
	m.Rendezvous, m.Master = ports[0].address, ports[1].address
}
