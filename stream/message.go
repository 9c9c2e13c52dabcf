package stream

import (
	"encoding/binary"
	"fmt"

	"github.com/fpmrun/fpmrun/artifact"
)

// Message is what a subscriber gets.
type Message struct {
	Sequence uint64 // of the publisher, from 0
	Record   artifact.FPM
}

// messageFrames is how many frames a message has: topic, sequence, record.
const messageFrames = 3

// sequenceFrame is a sequence number as a frame has it.
func sequenceFrame(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// ParseMessage reads the frames of a message; the topic does not count. Where only the record is wrong (*VersionError, or ErrRecord) the sequence number is
// returned beside the error, so that a reader can pass over the message and count on.
func ParseMessage(frames [][]byte) (Message, error) {
	if len(frames) != messageFrames {
		return Message{}, fmt.Errorf("stream: a message has %d frames, want %d: topic, sequence, record", len(frames), messageFrames)
	}
	if n := len(frames[1]); n != 8 {
		return Message{}, fmt.Errorf("stream: the sequence number has %d bytes, want 8", n)
	}
	m := Message{Sequence: binary.BigEndian.Uint64(frames[1])}
	var err error
	m.Record, err = Decode(frames[2])
	return m, err
}

// Heartbeat reports whether a record says only that its publisher is alive.
func Heartbeat(r artifact.FPM) bool {
	return r.WallTime == 0 && r.Scheduled == artifact.Scheduled{} && r.Queued == artifact.Queued{}
}
