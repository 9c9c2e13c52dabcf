package launcher

import (
	"errors"
	"io"
	"testing"

	"github.com/fpmrun/fpmrun/launcher/keeper"
)

// The keeper never waits for one that looks, everything is kept in its order, and its end is told once, after what it said.
func TestToldKeepsEverything(t *testing.T) {
	const count = 10_000
	read, write := io.Pipe() // a write returns when it was read
	kept := listen(read)
	for i := range count {
		n := keeper.Notice{Rank: i, Exited: true}
		if err := n.Write(write); err != nil {
			t.Fatal(err)
		}
	}
	end := errors.New("the end")
	_ = write.CloseWithError(end)
	next, lost := 0, error(nil)
	for lost == nil {
		<-kept.some
		var list []keeper.Notice
		list, lost = kept.take()
		for _, n := range list {
			if n.Rank != next || !n.Exited {
				t.Fatalf("notice %d is %+v", next, n)
			}
			next++
		}
	}
	if next != count || !errors.Is(lost, end) {
		t.Errorf("%d notices and %v, want %d and %v", next, lost, count, end)
	}
	if list, err := kept.take(); len(list) > 0 || err != nil {
		t.Errorf("after the end: %v, %v", list, err)
	}
}
