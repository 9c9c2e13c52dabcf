package launcher

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
)

// linked makes both ends of a link; what either is told goes into its channel.
func linked(t *testing.T) (ends [2]*link, told [2]chan string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for i, conn := range []net.Conn{near, far} {
		told[i] = make(chan string, 64)
		ends[i] = newLink(conn, func(text []byte) { told[i] <- string(text) })
	}
	t.Cleanup(func() {
		for _, l := range ends {
			l.close()
		}
	})
	return ends, told
}

func TestLinkMessages(t *testing.T) {
	ends, told := linked(t)
	for i := range 2 {
		if err := ends[i].send(map[string]int{"from": i}); err != nil {
			t.Fatal(err)
		}
		var got map[string]int
		if err := json.Unmarshal([]byte(<-told[1-i]), &got); err != nil || got["from"] != i {
			t.Errorf("end %d got %v (%v)", 1-i, got, err)
		}
	}
	// The end that is closed ends the other, and both say so once.
	ends[0].close()
	for i := range 2 {
		if text := <-told[i]; text != "" {
			t.Errorf("end %d: %q, want the end", i, text)
		}
	}
	if err := ends[0].ended(); !errors.Is(err, errClosed) {
		t.Errorf("closed: %v", err)
	}
	if err := ends[1].ended(); !errors.Is(err, io.EOF) {
		t.Errorf("the other side closed: %v, want EOF", err)
	}
}

// A farewell arrives before the connection ends.
func TestLinkFarewell(t *testing.T) {
	ends, told := linked(t)
	go func() {
		<-told[1]
		ends[1].close()
	}()
	ends[0].farewell("bye")
	if err := ends[0].ended(); errors.Is(err, errSilent) {
		t.Error("the other side did not get the farewell")
	}
}

// full is a taker that takes nothing until it is opened.
type full struct {
	*io.PipeWriter
	open chan struct{}
}

func (f full) Write(p []byte) (int, error) {
	<-f.open
	return f.PipeWriter.Write(p)
}

// A flow that nobody takes holds up neither others nor messages, and all bytes arrive in the end.
func TestLinkFlows(t *testing.T) {
	ends, told := linked(t)
	want := bytes.Repeat([]byte("0123456789abcdef"), flowWindow/4)
	slow := full{open: make(chan struct{})}
	var slowly, quickly *io.PipeReader
	var quick *io.PipeWriter
	slowly, slow.PipeWriter = io.Pipe()
	quickly, quick = io.Pipe()
	go ends[1].drain(1, slow)
	go ends[1].drain(2, quick)
	for flow := range uint32(2) {
		go func() {
			if err := ends[0].pump(flow+1, bytes.NewReader(want)); err != nil {
				t.Errorf("flow %d: %v", flow+1, err)
			}
		}()
	}
	if got, err := io.ReadAll(quickly); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes (%v) beside a flow that is stuck, want %d", len(got), err, len(want))
	}
	if err := ends[0].send("still there"); err != nil {
		t.Fatal(err)
	}
	if text := <-told[1]; text != `"still there"` {
		t.Errorf("%q beside a flow that is stuck", text)
	}
	ends[1].mu.Lock()
	if size := ends[1].incoming(1).size; size > flowWindow {
		t.Errorf("%d bytes wait for a taker, want at most %d", size, flowWindow)
	}
	ends[1].mu.Unlock()
	close(slow.open)
	if got, err := io.ReadAll(slowly); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes (%v) of the slow flow, want %d", len(got), err, len(want))
	}
}

// A message goes before data that waits, but not before what a rank said on its standard error; a last message comes after
// everything.
func TestLinkOrder(t *testing.T) {
	l := &link{credit: map[uint32]int{}}
	l.changed.L = &l.mu
	l.mu.Lock()
	l.queue(frameData, flowOf(0, 1, 1), 3, []byte("out"))
	l.queue(frameData, flowOf(0, 1, stderrFlow), 3, []byte("err"))
	l.mu.Unlock()
	if err := errors.Join(l.sendLast("done"), l.send("exit")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for l.pending() {
		for _, frame := range l.batch() {
			got = append(got, string(frame[frameHead:]))
		}
	}
	if want := []string{"err", `"exit"`, "out", `"done"`}; !slices.Equal(got, want) {
		t.Errorf("written in the order %q, want %q", got, want)
	}
	// Much data is written in small parts, between which what is urgent finds its place.
	for range 10 {
		l.queue(frameData, flowOf(0, 1, 1), flowChunk, make([]byte, flowChunk))
	}
	if n := len(l.batch()); n > 2 {
		t.Errorf("%d pieces of data at once, want 2", n)
	}
}

// zeros gives bytes without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// A taker that closes ends the flow at its source.
func TestLinkFlowUnwanted(t *testing.T) {
	ends, _ := linked(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go ends[1].drain(3, write)
	pumped := make(chan error)
	go func() { pumped <- ends[0].pump(3, zeros{}) }()
	if _, err := io.ReadFull(read, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	read.Close()
	if err := <-pumped; !errors.Is(err, errUnwanted) {
		t.Errorf("pump: %v, want errUnwanted", err)
	}
}

// What breaks the rules ends the link.
func TestLinkRefuses(t *testing.T) {
	head := func(kind byte, flow, n uint32) []byte {
		b := binary.LittleEndian.AppendUint32([]byte{kind}, flow)
		return binary.LittleEndian.AppendUint32(b, n)
	}
	chunk := append(head(frameData, 1, flowChunk), make([]byte, flowChunk)...)
	for want, wire := range map[string][]byte{
		"frame of kind 9":    head(9, 0, 0),
		"length 67108865":    head(frameMessage, 0, maxMessage+1),
		"length 32769":       head(frameData, 1, flowChunk+1),
		"on its way":         bytes.Repeat(chunk, flowWindow/flowChunk+1),
		"goes on":            append(head(frameData, 1, 0), head(frameData, 1, 0)...),
		"length 262145":      head(frameCredit, 1, flowWindow+1),
		"kind 4 with length": head(frameBeat, 0, 1),
	} {
		near, far := net.Pipe()
		over := make(chan struct{})
		l := newLink(far, func(text []byte) {
			if text == nil {
				close(over)
			}
		})
		go func() { _, _ = io.Copy(io.Discard, near) }()
		go func() { _, _ = near.Write(wire) }()
		<-over
		if err := l.ended(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ended with %v, want %q", err, want)
		}
		near.Close()
		l.close()
	}
}

// FuzzLink: whatever comes, a link ends without a panic and holds no more than its windows.
func FuzzLink(f *testing.F) {
	f.Add([]byte{frameMessage, 0, 0, 0, 0, 2, 0, 0, 0, '{', '}'})
	f.Add([]byte{frameData, 1, 0, 0, 0, 1, 0, 0, 0, 'x', frameCredit, 1, 0, 0, 0, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		l := &link{credit: map[uint32]int{}, unwant: map[uint32]bool{}, coming: map[uint32]*arriving{}, gone: make(chan struct{})}
		l.changed.L = &l.mu
		near, far := net.Pipe()
		l.conn = far
		go func() {
			_, _ = near.Write(b)
			near.Close()
		}()
		if err := l.read(func([]byte) {}); err == nil {
			t.Error("read ended without an error")
		}
		for flow, a := range l.coming {
			if a.size > flowWindow {
				t.Errorf("flow %d holds %d bytes", flow, a.size)
			}
		}
		far.Close()
	})
}
