package stream

import "testing"

// An address that is accepted is read as itself, with or without its scheme.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{"tcp://127.0.0.1:20380", "host:1", "[::1]:65535", "tcp://*:1", "ipc:///x", "tcp://h:0", "tcp://tcp://h:1", "[a]b:1", "tcp://[fe80::1%eth0]:9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		address, err := ParseAddress(s)
		if err != nil {
			return
		}
		for _, again := range []string{address, "tcp://" + address} {
			if got, err := ParseAddress(again); err != nil || got != address {
				t.Fatalf("%q is %q, and that is %q (%v)", s, address, got, err)
			}
		}
	})
}

// Of any frames a message is taken or refused; of one whose record alone is wrong the sequence number stays.
func FuzzMessage(f *testing.F) {
	payload, err := Encode(example())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint8(3), sequenceFrame(7), payload)
	f.Add(uint8(3), sequenceFrame(1<<63), []byte{0xc1})
	f.Add(uint8(2), []byte{1}, []byte(nil))
	f.Fuzz(func(t *testing.T, n uint8, sequence, record []byte) {
		frames := append([][]byte{nil, sequence, record}, make([][]byte, 3)...)[:n%6]
		m, err := ParseMessage(frames)
		if len(frames) == messageFrames && len(sequence) == 8 {
			if got := sequenceFrame(m.Sequence); string(got) != string(sequence) {
				t.Fatalf("sequence %x of %x (%v)", got, sequence, err)
			}
		} else if err == nil {
			t.Fatalf("%d frames, a sequence of %d bytes", len(frames), len(sequence))
		}
	})
}
