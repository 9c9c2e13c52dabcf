package launcher

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestConsole(t *testing.T) {
	type part struct {
		stream int
		text   string
	}
	for _, c := range []struct {
		name  string
		parts []part
		want  string
	}{
		{"whole lines", []part{{0, "a\nb\n"}, {1, "c\n"}}, "[0]: a\n[0]: b\n[1]: c\n"},
		{"one tag for a line in two parts", []part{{0, "AB"}, {0, "CD\n"}}, "[0]: ABCD\n"},
		{"empty lines", []part{{0, "\n\n"}}, "[0]: \n[0]: \n"},
		{"lines and the begin of one", []part{{0, "a\nAB"}, {0, "CD\nb\n"}}, "[0]: a\n[0]: ABCD\n[0]: b\n"},
		{"no newline at the end", []part{{0, "a"}}, "[0]: a"},
	} {
		var out bytes.Buffer
		console, streams := newConsole(false), make([]*stream, 2)
		for i := range streams {
			streams[i] = &stream{tag: fmt.Sprintf("[%d]: ", i), out: &sink{w: &out}}
		}
		for _, p := range c.parts {
			console.print(streams[p.stream], [][]byte{[]byte(p.text)})
		}
		if out.String() != c.want {
			t.Errorf("%s: got %q, want %q", c.name, out.String(), c.want)
		}
	}
}

// Another stream waits for the newline of an unfinished line; after holdTime it gets a line of its own and the
// rest is marked.
func TestConsoleUnfinishedLine(t *testing.T) {
	var out bytes.Buffer
	c := newConsole(false)
	a, b := &stream{tag: "[0]: ", out: &sink{w: &out}}, &stream{tag: "[1]: ", out: &sink{w: &out}}
	c.print(a, [][]byte{[]byte("AB")})
	done := make(chan struct{})
	go func() {
		c.print(b, [][]byte{[]byte("x\n")})
		close(done)
	}()
	c.print(a, [][]byte{[]byte("CD\n")})
	<-done
	if got, want := out.String(), "[0]: ABCD\n[1]: x\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	out.Reset()
	c.print(a, [][]byte{[]byte("AB")})
	c.since = c.since.Add(-2 * holdTime) // as if it had waited
	c.print(b, [][]byte{[]byte("x\n")})
	c.print(a, [][]byte{[]byte("CD\n")})
	if got, want := out.String(), "[0]: AB\n[1]: x\n[0]+: CD\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	out.Reset()
	c.print(a, [][]byte{[]byte("the end")})
	c.ended(a)
	c.print(b, [][]byte{[]byte("x\n")})
	if got, want := out.String(), "[0]: the end\n[1]: x\n"; got != want {
		t.Errorf("after the stream's end: got %q, want %q", got, want)
	}
}

type brokenPipe struct{ writes int }

func (b *brokenPipe) Write([]byte) (int, error) { b.writes++; return 0, errors.New("broken pipe") }

func TestConsoleClosedReader(t *testing.T) {
	w := &brokenPipe{}
	c, s := newConsole(false), &stream{out: &sink{w: w}}
	c.print(s, [][]byte{[]byte("a\n")})
	c.print(s, [][]byte{[]byte("b\n")})
	if w.writes != 1 {
		t.Errorf("%d writes to a closed console, want 1", w.writes)
	}
}

// Bytes come out as they went in, whatever the pieces: long lines, no newline at the end, many streams at once.
func TestStreamKeepsBytes(t *testing.T) {
	var out safeBuffer
	c := newConsole(false)
	var wg sync.WaitGroup
	want := map[string]string{}
	for i := range 4 {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		tag := fmt.Sprintf("[%d]", i)
		s := &stream{pipe: read, tag: tag + ": ", out: &sink{w: &out, console: c}, backlog: newBacklog(&spill{}, false, nil)}
		text := strings.Repeat(fmt.Sprintf("line of %d\n", i), 5000) + strings.Repeat("x", 3*lineMax) + "\nend\n"
		want[tag] = text
		wg.Go(func() { s.copy(-1) })
		wg.Go(func() {
			defer write.Close()
			for b := []byte(text); len(b) > 0; {
				n := min(len(b), 1+len(b)%7001)
				if _, err := write.Write(b[:n]); err != nil {
					t.Error(err)
					return
				}
				b = b[n:]
			}
		})
	}
	wg.Wait()
	got := map[string]string{}
	for line := range strings.Lines(out.String()) {
		tag, text, ok := strings.Cut(line, ": ")
		if !ok {
			t.Fatalf("line without a tag: %.60q", line)
		}
		got[tag] += text
	}
	for tag, text := range want {
		if got[tag] != text {
			t.Errorf("%s: %d bytes, want %d as they were written", tag, len(got[tag]), len(text))
		}
	}
}

type safeBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func TestStreamFlushesUnfinishedLine(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	printed := make(chan string, 8)
	out := &sink{w: writerFunc(func(b []byte) { printed <- string(b) }), console: newConsole(false)}
	s := &stream{pipe: read, out: out, backlog: newBacklog(&spill{}, false, nil)}
	done := make(chan struct{})
	go func() {
		s.copy(time.Millisecond)
		close(done)
	}()
	if _, err := write.WriteString("prompt> "); err != nil {
		t.Fatal(err)
	}
	if got := <-printed; got != "prompt> " {
		t.Errorf("printed %q", got)
	}
	write.Close()
	<-done
	if got := s.lastLine(); got != "prompt>" {
		t.Errorf("last line %q", got)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) { f(b); return len(b), nil }
