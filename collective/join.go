package collective

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/fpmrun/fpmrun/collective/state"
)

const maxMember = 1 << 10 // bytes of one member in a message

// joiner is a rank that has come to rank 0 while the world was not complete.
type joiner struct {
	pid  uint32
	conn net.Conn // nil until its member is known
	member
}

// joinReply is rank 0's answer when the world is complete, or will never be. Crosses the wire.
type joinReply struct {
	Err    string
	Blamed int
	Table  []member
}

// Join meets the other ranks and returns the world's Comm. It ends with an error when ctx ends, after
// Config.JoinTimeout, or within 200 ms when the launcher saw a rank exit; the error then names the
// missing ranks. A world of one opens no socket.
func Join(ctx context.Context, cfg Config) (*Comm, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	w, err := newWorld(cfg)
	if err != nil {
		return nil, err
	}
	slot := w.page.Begin("join", 0, 0)
	err = w.join(ctx)
	w.page.End(slot, kindOf(err), 0)
	if err != nil {
		e := &Error{Op: "join", Rank: w.rank, Kind: kindOf(err), Blamed: -1, Err: err}
		var j *joinError
		if errors.As(err, &j) {
			e.Kind, e.Missing, e.Blamed = j.kind, j.missing, j.blamed
		}
		w.page.Fail(e.Kind, e.Blamed, e.Error())
		w.page.SetPhase(state.Failed)
		if err := w.shut(false); err != nil {
			w.cfg.Logger.Debug("close after a failed join", "rank", w.rank, "err", err)
		}
		return nil, e
	}
	w.page.SetPhase(state.Joined)
	members := make([]int, w.size)
	for i := range members {
		members[i] = i
	}
	w.rpc.register(cfg.Handlers)
	return w.newComm(0, members, cfg.Timeout), nil
}

// joinError is why a world did not come together.
type joinError struct {
	kind    state.Kind
	blamed  int
	missing []Missing
	text    string
}

func (e *joinError) Error() string { return e.text }

func (w *world) join(ctx context.Context) error {
	if w.size == 1 {
		w.table = make([]member, 1)
		w.wg.Go(w.tick)
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if w.cfg.JoinTimeout > 0 {
		t := time.AfterFunc(w.cfg.JoinTimeout, func() { cancel(context.DeadlineExceeded) })
		defer t.Stop()
	}
	w.wg.Go(w.tick)
	if w.job != nil {
		watch := make(chan struct{})
		defer close(watch)
		w.wg.Go(func() { w.watchExits(watch, cancel) })
	}
	var err error
	if w.rank == 0 {
		err = w.host(ctx)
	} else {
		err = w.attend(ctx)
	}
	if err == nil {
		err = w.connectTree(ctx)
	}
	var j *joinError
	if cause := context.Cause(ctx); err != nil && errors.As(cause, &j) {
		return j
	}
	return err
}

// watchExits cancels a Join when the launcher has seen a rank exit.
func (w *world) watchExits(done <-chan struct{}, cancel context.CancelCauseFunc) {
	t := time.NewTicker(jobPoll)
	defer t.Stop()
	for {
		for r := range w.size {
			if e, ok := w.job.Exit(r); ok && r != w.rank {
				text := e.String() + " before joining"
				cancel(&joinError{state.KindPeerLost, r, []Missing{{r, text}}, fmt.Sprintf("rank %d %s", r, text)})
				return
			}
		}
		select {
		case <-t.C:
		case <-done:
			return
		case <-w.ctx.Done():
			return
		}
	}
}

// host is rank 0's part: collect all members, then tell everybody the table.
func (w *world) host(ctx context.Context) error {
	ln, err := w.cfg.Network.Listen(ctx, listenAddress(w.cfg.Rendezvous))
	if err != nil {
		return fmt.Errorf("listen at the rendezvous: %w", err)
	}
	w.ln = ln
	var b [8]byte
	rand.Read(b[:]) // never fails
	w.mu.Lock()
	w.epoch, w.joining = binary.LittleEndian.Uint64(b[:])|1, true
	w.mu.Unlock()
	w.wg.Go(w.acceptLoop)
	own := w.self(w.cfg.Rendezvous)
	reply := joinReply{Blamed: -1, Table: make([]member, w.size)}
	reply.Table[0] = own
	err = w.collect(ctx, reply.Table)
	w.mu.Lock()
	w.joining = false
	joined := w.joined
	w.joined = map[int]*joiner{}
	w.mu.Unlock()
	if err != nil {
		reply.Table, reply.Err = nil, err.Error()
		var j *joinError
		if errors.As(err, &j) {
			reply.Blamed = j.blamed
		}
	}
	if err == nil {
		w.enter(reply.Table)
	}
	for _, j := range joined {
		if j.conn != nil {
			err = errors.Join(err, w.tell(j.conn, reply, err != nil))
		}
	}
	return err
}

// tell sends the table, or the reason why there is none, and closes the connection.
func (w *world) tell(conn net.Conn, reply joinReply, failed bool) error {
	err := writeMessage(conn, reply)
	if failed {
		err = nil // the reason is being returned already
	}
	_ = conn.Close() // the joiner has or misses the table; both show in the tree
	return err
}

// firstProgress is when rank 0 first says for whom it waits; it does so again after twice the time, and so on.
const firstProgress = 5 * time.Second

// collect waits for the members and checks that they agree.
func (w *world) collect(ctx context.Context, table []member) error {
	waited := firstProgress
	progress := time.NewTimer(waited)
	defer progress.Stop()
	for {
		w.mu.Lock()
		n := 1
		for r, j := range w.joined {
			if j.conn != nil {
				table[r] = j.member
				n++
			}
		}
		changed := w.changed
		w.mu.Unlock()
		if n == w.size {
			break
		}
		select {
		case <-changed:
		case <-progress.C:
			ranks := w.missing()
			w.cfg.Logger.Info("waiting for ranks to join", "arrived", w.size-len(ranks), "of", w.size, "missing", rankList(ranks), "for", waited)
			progress.Reset(waited)
			waited *= 2
		case <-ctx.Done():
			return w.incomplete(ctx)
		}
	}
	for r, m := range table {
		if m.Agreed != table[0].Agreed {
			return &joinError{state.KindMismatch, r, nil, fmt.Sprintf("rank %d has other settings than rank 0 (Check, MaxMessage or thresholds)", r)}
		}
	}
	return nil
}

// incomplete names who has not come.
func (w *world) incomplete(ctx context.Context) error {
	cause := context.Cause(ctx)
	var j *joinError
	if errors.As(cause, &j) {
		return j
	}
	e := &joinError{kind: kindOf(cause), blamed: -1}
	ranks := w.missing()
	for _, r := range ranks {
		e.missing = append(e.missing, Missing{r, "did not join"})
	}
	if len(ranks) > 0 {
		e.blamed = ranks[0]
	}
	e.text = fmt.Sprintf("%d of %d arrived: missing %s: %v", w.size-len(ranks), w.size, rankList(ranks), cause)
	return e
}

// missing are the ranks that have not come.
func (w *world) missing() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ranks []int
	for r := 1; r < w.size; r++ {
		if w.joined[r] == nil || w.joined[r].conn == nil {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// receiveJoiner reads the member that an authenticated joiner sends, and watches that it stays.
func (w *world) receiveJoiner(rank int, conn net.Conn) {
	var m member
	err := conn.SetDeadline(time.Now().Add(handshakeLimit))
	if err == nil {
		err = readMessage(conn, maxMember, &m)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	w.mu.Lock()
	j := w.joined[rank]
	keep := err == nil && j != nil && w.joining
	if keep {
		j.conn, j.member = conn, m
	} else {
		delete(w.joined, rank)
	}
	w.notify()
	w.mu.Unlock()
	if !keep {
		_ = conn.Close()
		return
	}
	stop := closeOnDone(w, conn)
	defer stop()
	// Nothing more comes; the read ends when the joiner goes away or host closes the connection.
	_, _ = io.ReadFull(conn, make([]byte, 1))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.joining && w.joined[rank] == j {
		delete(w.joined, rank)
		_ = conn.Close()
		w.notify()
	}
}

// attend is the part of the other ranks.
func (w *world) attend(ctx context.Context) error {
	conn, a, err := w.dial(ctx, w.cfg.Rendezvous, hello{Purpose: forJoin})
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(longAgo) })
	defer stop()
	defer func() { _ = conn.Close() }() // everything was said on it
	w.mu.Lock()
	w.epoch = a.Epoch
	w.mu.Unlock()
	ln, err := w.cfg.Network.Listen(ctx, anyPort(conn.LocalAddr()))
	if err != nil {
		return fmt.Errorf("listen for peers: %w", err)
	}
	w.ln = ln
	if err := writeMessage(conn, w.self(advertised(w.cfg.Advertise, conn.LocalAddr(), ln.Addr()))); err != nil {
		return fmt.Errorf("join rank 0 at %s: %w", w.cfg.Rendezvous, err)
	}
	var reply joinReply
	if err := readMessage(conn, maxMember*(w.size+1), &reply); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("wait for the world to be complete: %w", err)
	}
	if reply.Err != "" || len(reply.Table) != w.size {
		kind := state.KindAborted
		if reply.Blamed == w.rank {
			reply.Blamed = -1
		}
		return &joinError{kind, reply.Blamed, nil, "rank 0: " + reply.Err}
	}
	w.enter(reply.Table)
	w.wg.Go(w.acceptLoop)
	return nil
}

// self describes this rank for the table.
func (w *world) self(addr string) member {
	return member{Addr: addr, Host: cmp.Or(w.cfg.Host, hostID()), PID: os.Getpid(), Agreed: w.cfg.agreed()}
}

// connectTree opens this rank's edges of the control tree.
func (w *world) connectTree(ctx context.Context) error {
	if p := treeParent(w.rank); p >= 0 {
		if _, err := w.control(ctx, p); err != nil {
			return err
		}
	}
	for _, child := range treeChildren(w.rank, w.size) {
		for {
			w.mu.Lock()
			up, gone := w.controls[child] != nil, w.roster.gone(child)
			changed := w.changed
			w.mu.Unlock()
			if up || gone {
				break // a child that is gone already breaks the first operation, not Join
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return fmt.Errorf("wait for rank %d: %w", child, context.Cause(ctx))
			}
		}
	}
	return nil
}

// writeMessage sends a msgpack value with its length before it.
func writeMessage(conn net.Conn, v any) error {
	b, err := encodeValue(v)
	if err != nil {
		return err
	}
	_, err = conn.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

// readMessage receives one of at most limit bytes.
func readMessage(conn net.Conn, limit int, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if int64(n) > int64(limit) {
		return fmt.Errorf("%w: message of %d bytes, limit %d", ErrMalformed, n, limit)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(conn, b); err != nil {
		return err
	}
	return decodeValue(b, v)
}
