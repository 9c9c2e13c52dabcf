package launcher

import (
	"errors"
	"fmt"
	"io"
)

// errUnwanted says that the taker of a flow has closed it.
var errUnwanted = errors.New("launcher: nobody takes the flow any more")

// pump sends what r gives as a flow, as fast as it is taken, to the end of r; the other side then sees the flow's end. An
// error of r is such an end, too; errUnwanted or the link's end are returned.
func (l *link) pump(flow uint32, r io.Reader) error {
	buf := make([]byte, flowChunk)
	for {
		room, err := l.room(flow)
		if err != nil {
			return err
		}
		n, rerr := r.Read(buf[:min(room, len(buf))])
		l.mu.Lock()
		if n > 0 {
			l.credit[flow] -= n
			l.queue(frameData, flow, n, buf[:n])
		}
		if rerr != nil {
			l.queue(frameData, flow, 0, nil)
			l.forget(flow)
		}
		l.mu.Unlock()
		if rerr != nil {
			return nil //nolint:nilerr // the end of r, however it came, is the end of the flow
		}
	}
}

// room waits until a flow may send, and returns how much.
func (l *link) room(flow uint32) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.credit[flow]; !known {
		l.credit[flow] = flowWindow
	}
	for l.credit[flow] <= 0 && l.err == nil && !l.unwant[flow] {
		l.changed.Wait()
	}
	switch {
	case l.err != nil:
		return 0, l.err
	case l.unwant[flow]:
		l.forget(flow)
		return 0, errUnwanted
	}
	return l.credit[flow], nil
}

// forget drops what is known of a flow that is sent; l.mu is held.
func (l *link) forget(flow uint32) {
	delete(l.credit, flow)
	delete(l.unwant, flow)
}

// credited takes note of bytes that the other side has taken.
func (l *link) credited(flow uint32, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.credit[flow]; !known {
		return // it has ended here
	}
	if n == 0 {
		l.unwant[flow] = true
	}
	l.credit[flow] += n
	l.changed.Broadcast()
}

// arrived keeps a piece of a flow until it is taken.
func (l *link) arrived(flow uint32, chunk []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.incoming(flow)
	switch {
	case len(l.coming) > maxFlows:
		return fmt.Errorf("launcher: more than %d flows", maxFlows)
	case a.over:
		return fmt.Errorf("launcher: flow %d goes on after its end", flow)
	case a.size+len(chunk) > flowWindow:
		return fmt.Errorf("launcher: flow %d has more than %d bytes on its way", flow, flowWindow)
	}
	a.over = len(chunk) == 0
	switch {
	case a.closed && a.over:
		delete(l.coming, flow)
	case !a.closed && !a.over:
		a.chunks, a.size = append(a.chunks, chunk), a.size+len(chunk)
	}
	l.changed.Broadcast()
	return nil
}

// incoming is a flow that comes in; its first piece may come before its taker. l.mu is held.
func (l *link) incoming(flow uint32) *arriving {
	a := l.coming[flow]
	if a == nil {
		a = &arriving{}
		l.coming[flow] = a
	}
	return a
}

// drain writes a flow into w to its end, or to the link's, and closes w. A w that takes no more ends the flow on both
// sides.
func (l *link) drain(flow uint32, w io.WriteCloser) {
	for {
		chunk, ok := l.take(flow)
		if !ok {
			_ = w.Close() // a pipe, whose reader sees the end
			return
		}
		_, err := w.Write(chunk)
		l.mu.Lock()
		if err == nil {
			l.queue(frameCredit, flow, len(chunk), nil)
		} else {
			a := l.incoming(flow)
			a.chunks, a.size, a.closed = nil, 0, true
			if a.over {
				delete(l.coming, flow)
			}
			l.queue(frameCredit, flow, 0, nil)
		}
		l.mu.Unlock()
		if err != nil {
			_ = w.Close()
			return
		}
	}
}

// take waits for the next piece of a flow; false is its end.
func (l *link) take(flow uint32) ([]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.incoming(flow)
	for len(a.chunks) == 0 && !a.over && l.err == nil {
		l.changed.Wait()
	}
	if len(a.chunks) == 0 { // what came before the link's end is not lost
		delete(l.coming, flow)
		return nil, false
	}
	chunk := a.chunks[0]
	a.chunks, a.size = a.chunks[1:], a.size-len(chunk)
	return chunk, true
}

// expect makes a flow known before its first piece comes, so that cut ends it.
func (l *link) expect(flow uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.incoming(flow)
}

// cut ends a flow of which no more will come.
func (l *link) cut(flow uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.coming[flow]; a != nil {
		a.over = true
		l.changed.Broadcast()
	}
}
