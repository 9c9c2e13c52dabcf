package collective

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fpmrun/fpmrun/collective/state"
)

// member is a rank in the table that rank 0 sends to all. Crosses the wire.
type member struct {
	Addr   string // where it accepts control and data connections
	Host   string // equal for ranks that share a host
	PID    int
	Agreed uint64 // hash of the settings that must be equal
}

// world is everything that one Join owns.
type world struct {
	cfg        Config
	rank, size int
	epoch      uint64
	tls        func() (*tls.Config, error) // made when it is needed
	table      []member
	page       *state.Page
	job        *state.Job // nil without a launcher
	ln         net.Listener
	crowded    bool          // local ranks exceed the CPUs
	place      int           // among the ranks of the host, when each can have a CPU of its own; else -1
	yielding   bool          // local ranks leave no CPU free: who polls lets others run
	liveness   time.Duration // limit of silence

	ctx    context.Context // ends when the connections are to be closed
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced at every change of what follows
	roster    *roster
	controls  map[int]*control
	every     []*control // all that were ever started, for Close to wait for
	dialing   map[int]*dialling
	admitting map[int]bool         // ranks whose own control connection is admitted and about to be in controls
	joined    map[int]*joiner      // rank 0, while it waits for the world to be complete
	joining   bool                 // rank 0 accepts joiners
	parked    map[linkKey]net.Conn // data connections that no operation has taken; nil: admitted and about to be here
	groups    map[uint64]*Comm
	closing   bool
	exits     map[int]time.Time // exits seen in the job page, waiting for their LEAVE
	quiet     time.Time         // no heartbeats before this

	rpc rpcTable

	refused atomic.Int64 // connections that did not authenticate
	late    atomic.Int64 // replies that no call waited for
}

type linkKey struct {
	group uint64
	peer  int // world rank
}

func newWorld(cfg Config) (*world, error) {
	w := &world{cfg: cfg, rank: cfg.Rank, size: cfg.Size, place: -1, changed: make(chan struct{}), roster: newRoster(cfg.Rank, cfg.Size),
		controls: map[int]*control{}, dialing: map[int]*dialling{}, admitting: map[int]bool{}, joined: map[int]*joiner{}, parked: map[linkKey]net.Conn{},
		groups: map[uint64]*Comm{}, exits: map[int]time.Time{}}
	w.tls = sync.OnceValues(func() (*tls.Config, error) { return newTLS(cfg.Token, cfg.RunID) })
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.rpc.init(w)
	var err error
	if cfg.StateFile == "" {
		w.page = state.NewPrivate()
	} else if w.page, err = state.Open(cfg.StateFile, cfg.StatePage); err != nil {
		return nil, fmt.Errorf("collective: %w", err)
	}
	if cfg.JobFile != "" {
		w.job, err = state.OpenJob(cfg.JobFile)
		if err == nil && w.job.Size() != cfg.Size {
			err = errors.Join(fmt.Errorf("job page %q is for %d ranks, world size is %d", cfg.JobFile, w.job.Size(), cfg.Size), w.job.Close())
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("collective: %w", err), w.page.Close())
		}
	}
	w.page.Start(cfg.Rank, cfg.Size, cfg.RunID)
	return w, nil
}

// notify tells everybody who waits on changed. Called with mu held.
func (w *world) notify() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// dispatch handles a message of a control connection. An error ends the connection.
func (w *world) dispatch(c *control, f frame, msg []byte) error {
	switch f.Type {
	case frameEvent:
		e, err := decodeEvent(msg, w.size)
		if err != nil {
			return err
		}
		w.take(e, c)
	case frameCall:
		return w.rpc.called(c.peer, f.ID, msg, false, func(body []byte) { c.send(frameReply, f.ID, body) })
	case frameStream:
		return w.rpc.called(c.peer, f.ID, msg, true, func(body []byte) { c.send(frameReply, f.ID, body) })
	case frameNotify:
		return w.rpc.notified(c.peer, f.ID, msg)
	case frameChunk:
		return w.rpc.chunk(c.peer, f.ID, msg)
	case frameCredit:
		if len(msg) != 4 {
			return fmt.Errorf("%w: credit of %d bytes", ErrMalformed, len(msg))
		}
		w.rpc.credit(c.peer, f.ID, int(binary.LittleEndian.Uint32(msg)))
	case frameReply:
		w.rpc.replied(c.peer, f.ID, msg)
	case frameCancel:
		w.rpc.cancelled(c.peer, f.ID)
	}
	return nil
}

// publish floods an event of this rank, after it took effect here.
func (w *world) publish(e event) {
	w.mu.Lock()
	e = w.roster.originate(e)
	torn := len(w.roster.lost)+len(w.roster.left) > 0
	w.mu.Unlock()
	w.take(e, nil)
	if torn && e.Kind != eventLeft {
		w.reach(e)
	}
}

// take lets an event take effect once and passes it on to every connection but the one it came from.
func (w *world) take(e event, from *control) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.roster.step(e) {
		return
	}
	if body, err := encodeValue(e); err == nil { // plain struct: encoding cannot fail
		for _, c := range w.controls {
			if c != from {
				c.send(frameEvent, 0, body)
			}
		}
	}
	switch e.Kind {
	case eventLost:
		err := &Error{Rank: w.rank, Kind: state.KindPeerLost, Blamed: e.Subject,
			Text: fmt.Sprintf("rank %d lost: %s", e.Subject, e.Text), Missing: []Missing{{e.Subject, e.Text}}}
		level := slog.LevelWarn
		if w.closing { // nobody here needs it any more
			level = slog.LevelDebug
		}
		w.cfg.Logger.Log(w.ctx, level, "peer lost", "rank", w.rank, "peer", e.Subject, "reason", e.Text)
		for _, g := range w.groups {
			if g.has(e.Subject) {
				g.breakLocked(err)
			}
		}
		w.rpc.peerGone(e.Subject, err)
		if c := w.controls[e.Subject]; c != nil {
			delete(w.controls, e.Subject)
			c.close()
		}
	case eventLeft:
		for _, g := range w.groups {
			if g.has(e.Origin) {
				g.leftLocked(e.Origin, e.Seqs[g.id])
			}
		}
	case eventAbort:
		if g := w.groups[e.Group]; g != nil {
			g.breakLocked(w.roster.abortError(e))
		}
	}
	w.notify()
}

// reach sends an event directly to every rank that is still there, because the tree has a hole.
func (w *world) reach(e event) {
	body, err := encodeValue(e)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing {
		return
	}
	for peer := range w.size {
		if peer == w.rank || w.controls[peer] != nil || w.roster.gone(peer) {
			continue
		}
		w.wg.Go(func() {
			ctx, cancel := context.WithTimeout(w.ctx, time.Second)
			defer cancel()
			if c, err := w.control(ctx, peer); err == nil {
				c.send(frameEvent, 0, body)
			}
		})
	}
}

// controlEnded is called by the reader of a control connection when it is over.
func (w *world) controlEnded(c *control, err error) {
	w.mu.Lock()
	current := w.controls[c.peer] == c
	gone := w.roster.gone(c.peer)
	if current {
		delete(w.controls, c.peer)
		w.notify()
	}
	closing := w.closing && w.roster.allGone()
	w.mu.Unlock()
	if gone || closing {
		w.rpc.peerGone(c.peer, w.peerGoneError(c.peer))
	}
	c.end()
	if !current || gone || closing || w.ctx.Err() != nil {
		return
	}
	w.publish(event{Kind: eventLost, Subject: c.peer, Text: w.lossText(c.peer, err)})
}

// lossText says how a peer was lost; its exit status, when the launcher has it already.
func (w *world) lossText(peer int, err error) string {
	if w.job != nil {
		if e, ok := w.job.Exit(peer); ok {
			return e.String()
		}
	}
	return fmt.Sprintf("connection closed (%v)", err)
}

// peerGoneError is why a call to the peer cannot be answered.
func (w *world) peerGoneError(peer int) *Error {
	w.mu.Lock()
	defer w.mu.Unlock()
	text, lost := w.roster.lost[peer]
	if !lost {
		text = "left normally"
	}
	return &Error{Rank: w.rank, Kind: state.KindPeerLost, Blamed: peer, Text: fmt.Sprintf("rank %d: %s", peer, text)}
}
