package zmtp

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"time"
)

const (
	requestFrame  = 1024      // most bytes in a frame that a subscriber sends
	subscriptions = 1024      // most subscriptions of one subscriber
	writeAtOnce   = 64 * 1024 // messages that wait are written together up to about so many bytes
)

// subscriber is one connection of a publisher.
type subscriber struct {
	pub      *Pub
	conn     net.Conn
	queue    chan []byte    // whole messages, encoded; nil before the handshake is over; closed by who ends the subscription, under pub.mu
	control  chan []byte    // answers to PING
	joined   bool           // past the handshake; under pub.mu
	prefixes map[string]int // how often each is subscribed; under pub.mu
	total    int            // of the counts in prefixes
}

// wants reports whether a topic has a subscribed prefix. The caller holds pub.mu.
func (s *subscriber) wants(topic []byte) bool {
	for prefix := range s.prefixes {
		if bytes.HasPrefix(topic, []byte(prefix)) {
			return true
		}
	}
	return false
}

// serve talks with the peer until the connection or the publisher ends.
func (s *subscriber) serve() {
	defer s.hangUp()
	defer s.pub.leave(s) // before: who sees the connection end sees it counted
	r := bufio.NewReaderSize(s.conn, 512)
	if err := s.conn.SetDeadline(time.Now().Add(s.pub.cfg.Handshake)); err != nil {
		return
	}
	if _, err := shake(s.conn, r, "PUB", "SUB", "XSUB"); err != nil {
		return
	}
	if err := s.conn.SetDeadline(time.Time{}); err != nil || !s.pub.join(s) {
		return
	}
	s.pub.running.Go(s.write)
	for {
		f, err := readFrame(r, requestFrame)
		if err == nil {
			err = s.request(f)
		}
		if err != nil {
			return
		}
	}
}

// hangUp ends the connection; that it may have ended before is no error.
func (s *subscriber) hangUp() { _ = s.conn.Close() }

// request does what a subscriber's frame asks for: subscriptions come as messages in version 3.0 and as commands in 3.1. What else a subscriber
// may say is nothing to a publisher.
func (s *subscriber) request(f frame) error {
	if !f.command {
		if len(f.body) > 0 && f.body[0] <= 1 && !f.more {
			return s.subscribe(f.body[0] == 1, string(f.body[1:]))
		}
		return nil
	}
	name, data, err := parseCommand(f.body)
	if err != nil {
		return err
	}
	switch name {
	case "SUBSCRIBE", "CANCEL":
		return s.subscribe(name == "SUBSCRIBE", string(data))
	case "PING":
		answer, err := pong(data)
		if err != nil {
			return err
		}
		select {
		case s.control <- answer:
		default: // one is on its way
		}
	case "ERROR":
		return fmt.Errorf("zmtp: the subscriber leaves: %q", data)
	}
	return nil
}

// subscribe adds or takes away one subscription of a prefix.
func (s *subscriber) subscribe(add bool, prefix string) error {
	s.pub.mu.Lock()
	defer s.pub.mu.Unlock()
	switch {
	case add && s.total == subscriptions:
		return wrong("more than %d subscriptions", subscriptions)
	case add:
		s.prefixes[prefix]++
		s.total++
		if !s.pub.heard {
			s.pub.heard = true
			close(s.pub.first)
		}
	case s.prefixes[prefix] > 1:
		s.prefixes[prefix]--
		s.total--
	case s.prefixes[prefix] == 1:
		delete(s.prefixes, prefix)
		s.total--
	}
	return nil
}

// write sends what is queued, until the queue is closed and empty or the connection fails.
func (s *subscriber) write() {
	defer s.hangUp() // ends serve, too
	buffer := make([]byte, 0, writeAtOnce)
	for {
		messages := 0
		buffer = buffer[:0]
		select {
		case message, more := <-s.queue:
			if !more {
				return
			}
			buffer, messages = append(buffer, message...), 1
		case answer := <-s.control:
			buffer = append(buffer, answer...)
		}
		for more := true; more && len(buffer) < writeAtOnce; {
			var message []byte
			select {
			case message, more = <-s.queue:
				if more {
					buffer, messages = append(buffer, message...), messages+1
				}
			default:
				more = false
			}
		}
		if _, err := s.conn.Write(buffer); err != nil {
			s.pub.undelivered(messages)
			return
		}
	}
}
