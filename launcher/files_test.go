package launcher

import (
	"strings"
	"testing"
)

func TestRoomFor(t *testing.T) {
	both := map[int]Files{1: FileOut | FileErr}
	for _, c := range []struct {
		what  string
		o     Options
		l     layout
		local int
		need  uint64
	}{
		{"two outputs a rank", Options{Stdin: StdinNone}, alone(10), 10, 20},
		{"and an input", Options{Stdin: StdinAll}, alone(10), 10, 30},
		{"and files", Options{Stdin: StdinNone, OutputDir: "d"}, alone(10), 10, 40},
		{"and those of one rank", Options{Stdin: StdinNone, OutputDir: "d", Files: both}, alone(10), 10, 22},
		{"ranks elsewhere, at the head", Options{Stdin: StdinNone}, layout{Node: 0, Nodes: 2, World: 10}, 4, 8 + 24},
		{"ranks elsewhere, at an agent", Options{Stdin: StdinNone}, layout{Node: 1, Nodes: 2, First: 4, World: 10}, 6, 12},
	} {
		need := c.need + ownFiles
		if err := c.o.roomFor(c.l, c.local, need); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if err := c.o.roomFor(c.l, c.local, need-1); err == nil || !strings.HasPrefix(err.Error(), "-np 10: ") {
			t.Errorf("%s: a file too few: %v", c.what, err)
		}
	}
}

func TestRoomOfAWorld(t *testing.T) {
	o := Options{Stdin: StdinNone}
	if err := o.room(layout{Node: 1, Nodes: 2, World: 1<<16 + 1}, 1); err == nil || !strings.Contains(err.Error(), "at most 65536") {
		t.Errorf("got %v", err)
	}
	if err := o.room(layout{Node: 1, Nodes: 2, World: 1 << 16}, 1); err != nil {
		t.Error(err)
	}
}
