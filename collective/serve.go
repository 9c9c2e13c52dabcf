package collective

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/fpmrun/fpmrun/collective/state"
)

// called takes a request in. Built-in methods are answered at once.
func (t *rpcTable) called(peer int, id uint64, msg []byte, stream bool, reply func([]byte)) error {
	r, err := decodeCall(msg)
	if err != nil {
		return err
	}
	if r.method == whereMethod {
		var args whereArgs
		kind, body := state.KindNone, []byte(nil)
		if err = decodeValue(r.args, &args); err == nil {
			body, err = encodeValue(t.w.answerWhere(args))
		}
		if err != nil {
			kind, body = state.KindMalformed, []byte(err.Error())
		}
		reply(encodeReply(kind, body))
		return nil
	}
	var ctx context.Context
	var cancel context.CancelFunc
	if r.limit > 0 {
		ctx, cancel = context.WithTimeout(t.w.ctx, r.limit)
	} else {
		ctx, cancel = context.WithCancel(t.w.ctx)
	}
	key := callKey{peer, id}
	t.mu.Lock()
	t.serving[key] = cancel
	req := &Request{From: peer, Method: r.method, Args: r.args, ctx: ctx, group: r.group, reply: reply}
	if stream {
		req.out = &outflow{send: t.chunkSender(peer, id), credit: streamWindow, changed: make(chan struct{}, 1)}
		t.streams[key] = req.out
	}
	run := func() {
		t.serve(ctx, req)
		cancel()
		t.mu.Lock()
		delete(t.serving, key)
		delete(t.streams, key)
		t.mu.Unlock()
		t.release()
	}
	start := t.running < maxHandlers
	if start {
		t.running++
	} else {
		t.backlog = append(t.backlog, run)
	}
	t.mu.Unlock()
	if start {
		go run()
	}
	return nil
}

// release gives a handler's place to the call that has waited longest.
func (t *rpcTable) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.backlog) == 0 || t.w.ctx.Err() != nil {
		t.running--
		return
	}
	next := t.backlog[0]
	t.backlog = t.backlog[1:]
	go next()
}

// cancelled ends the context of a handler whose caller gave up.
func (t *rpcTable) cancelled(peer int, id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if cancel := t.serving[callKey{peer, id}]; cancel != nil {
		cancel()
	}
}

// serve finds and runs the handler and sends what it returns.
func (t *rpcTable) serve(ctx context.Context, req *Request) {
	t.mu.Lock()
	h := t.methods[req.Method]
	ready := t.ready
	t.mu.Unlock()
	if h == nil {
		select {
		case <-ready:
		case <-ctx.Done():
		}
		t.mu.Lock()
		h = t.methods[req.Method]
		known := slices.Sorted(maps.Keys(t.methods))
		t.mu.Unlock()
		if h == nil {
			req.send(encodeReply(state.KindUnknown, fmt.Appendf(nil, "method %q; known: %s", req.Method, strings.Join(known, ", "))))
			return
		}
	}
	v, err := runHandler(ctx, h, req)
	if err != nil {
		kind := kindOf(err)
		if kind == state.KindOther || ctx.Err() == nil && !isOurs(err) {
			kind = state.KindRemote
		}
		req.send(encodeReply(kind, []byte(err.Error())))
		return
	}
	if v == nil && req.answered() {
		return
	}
	body, err := replyBody(v)
	if err == nil && int64(len(body)) > t.w.cfg.MaxMessage {
		err = invalid("reply of %d bytes, limit %d", len(body), t.w.cfg.MaxMessage)
	}
	if err != nil {
		req.send(encodeReply(kindOf(err), []byte(err.Error())))
		return
	}
	req.send(encodeReply(state.KindNone, body))
}

// isOurs reports whether the error has a class of this package, which the caller shall see.
func isOurs(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return true
	}
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return true
		}
	}
	return false
}

func replyBody(v any) (b []byte, err error) {
	defer func() {
		if p := recover(); p != nil { // a MarshalMsgpack of the value
			err = fmt.Errorf("%w: encode %T: panic: %v", ErrMalformed, v, p)
		}
	}()
	if raw, ok := v.(Raw); ok {
		return raw, nil
	}
	return encodeValue(v)
}

func runHandler(ctx context.Context, h Handler, req *Request) (v any, err error) {
	defer func() {
		if p := recover(); p != nil {
			v, err = nil, fmt.Errorf("panic in handler of %q: %v\n%s", req.Method, p, debug.Stack())
		}
	}()
	return h(ctx, req)
}
