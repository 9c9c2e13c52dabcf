package collective

// transport moves messages between the ranks of one group, during one operation. Algorithms are straight-line functions
// over it. Messages between two ranks arrive in order; a message is consumed by exactly one receive. Peers are
// ranks of the group, never the rank itself. Memory passed in belongs to the transport until the call returns.
type transport interface {
	Rank() int
	Size() int
	// Send returns when the message was handed to the network.
	Send(peer int, b []byte) error
	// Recv receives a message of exactly len(b) bytes.
	Recv(peer int, b []byte) error
	// RecvAny receives a message of any length into fresh memory.
	RecvAny(peer int) ([]byte, error)
	// SendRecv sends and receives at once, so that a ring of ranks that all send makes progress whatever the size.
	SendRecv(dst int, send []byte, src int, recv []byte) error
	// SendRecvAny is SendRecv with a received message of any length.
	SendRecvAny(dst int, send []byte, src int) ([]byte, error)
}

// Thresholds. They are part of the settings that ranks compare when they join: two ranks with different ones
// would choose different algorithms.
const (
	directBytes   = 64 << 10  // gather, scatter: larger parts do not travel through the tree
	bruckBytes    = 8 << 10   // allgather: larger parts go round the ring
	chainBytes    = 128 << 10 // broadcast: larger messages go down the pipelined chain
	chunkBytes    = 256 << 10 // broadcast: one stage of the chain
	doublingBytes = 32 << 10  // allreduce: larger vectors are reduced in parts
)
