package launcher

import (
	"bufio"
	"io"
	"sync"

	"github.com/fpmrun/fpmrun/launcher/keeper"
)

// told is what the keeper says. It is read all the time, and kept until somebody looks: a keeper that has to wait until its notices
// are read starts no further rank, and takes no further order.
type told struct {
	some chan struct{} // has a value when take has something to give

	mu   sync.Mutex // guards what follows
	list []keeper.Notice
	err  error
}

// listen reads notices until the keeper is gone.
func listen(from io.Reader) *told {
	t := &told{some: make(chan struct{}, 1)}
	go func() {
		in := bufio.NewReader(from)
		for {
			var n keeper.Notice
			err := n.Read(in)
			t.add(n, err)
			if err != nil {
				return
			}
		}
	}()
	return t
}

// add keeps a notice, or the reason why no more come.
func (t *told) add(n keeper.Notice, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.err = err
	} else {
		t.list = append(t.list, n)
	}
	select {
	case t.some <- struct{}{}:
	default: // the one that looks has not come yet
	}
}

// take are the notices since the last call. An error means that the keeper is gone, and is told once.
func (t *told) take() (list []keeper.Notice, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list, err, t.list, t.err = t.list, t.err, nil, nil
	return list, err
}
