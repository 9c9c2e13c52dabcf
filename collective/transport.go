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
