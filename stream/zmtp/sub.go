package zmtp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// SubConfig is what a subscriber asks for and puts up with.
type SubConfig struct {
	Prefix    string        // of the messages' first frames; "" is all messages
	Handshake time.Duration // how long connecting and the handshake may take; 0 is 10 s
	Frame     int           // most bytes in a frame; 0 is 1 MiB
	Frames    int           // most frames in a message; 0 is 16
}

func (c *SubConfig) validate() error {
	if c.Handshake < 0 || c.Frame < 0 || c.Frames < 0 {
		return fmt.Errorf("zmtp: Handshake %v, Frame %d and Frames %d have to be at least 0", c.Handshake, c.Frame, c.Frames)
	}
	if c.Handshake == 0 {
		c.Handshake = 10 * time.Second
	}
	if c.Frame == 0 {
		c.Frame = 1 << 20
	}
	if c.Frames == 0 {
		c.Frames = 16
	}
	return nil
}

// Sub is one connection to a publisher. One goroutine at a time may use it.
type Sub struct {
	cfg   SubConfig
	conn  net.Conn
	r     *bufio.Reader
	minor byte     // of the publisher's version
	early [][]byte // a message that came while Confirm waited; nil: none
}

// Dial connects to a publisher and subscribes. A peer that is no publisher is ErrProtocol. Unlike libzmq's socket a Sub does not connect again by itself.
func Dial(ctx context.Context, address string, cfg SubConfig) (_ *Sub, err error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Handshake)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Sub{cfg: cfg, conn: conn, r: bufio.NewReaderSize(conn, 64<<10)}
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	release := s.bound(ctx)
	defer release()
	if s.minor, err = shake(conn, s.r, "SUB", "PUB", "XPUB"); err == nil {
		request := appendMessage(nil, [][]byte{append([]byte{1}, cfg.Prefix...)})
		if s.minor > 0 {
			request = appendCommand(nil, "SUBSCRIBE", []byte(cfg.Prefix))
		}
		_, err = conn.Write(request)
	}
	if err != nil {
		return nil, because(ctx, err)
	}
	return s, nil
}

// bound ends what is waited for on the connection when ctx ends, until the returned function is called.
func (s *Sub) bound(ctx context.Context) (release func()) {
	_ = s.conn.SetDeadline(time.Time{})
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = s.conn.SetDeadline(time.Unix(1, 0)) // in the past
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}

// because is the reason of an error: that of ctx when it has one.
func because(ctx context.Context, err error) error {
	var late net.Error
	if cause := context.Cause(ctx); cause != nil && errors.As(err, &late) && late.Timeout() {
		return cause
	}
	return err
}

// confirmation is the context of a PING that Confirm sends.
const confirmation = "subscribed?"

// Confirm waits until the publisher has taken the subscription, so that all that is sent from then on is for this subscriber. It asks with a PING, which
// is answered behind the subscription; a message is a sign as good. Publishers of version 3.0 know no PING; for them it returns at once.
func (s *Sub) Confirm(ctx context.Context) error {
	if s.minor == 0 {
		return nil
	}
	release := s.bound(ctx)
	defer release()
	if _, err := s.conn.Write(appendCommand(nil, "PING", []byte("\x00\x00"+confirmation))); err != nil {
		return because(ctx, err)
	}
	for s.early == nil {
		frames, answer, err := s.read()
		if err != nil {
			return because(ctx, err)
		}
		if frames != nil || answer == confirmation {
			s.early = frames
			return nil
		}
	}
	return nil
}

// Next waits for the next message and returns its frames, which are the caller's. io.EOF says that the publisher ended between two messages. After any error
// the Sub is of no more use, since part of a message may have been read.
func (s *Sub) Next(ctx context.Context) ([][]byte, error) {
	if frames := s.early; frames != nil {
		s.early = nil
		return frames, nil
	}
	release := s.bound(ctx)
	defer release()
	for {
		frames, _, err := s.read()
		if err != nil {
			return nil, because(ctx, err)
		}
		if frames != nil {
			return frames, nil
		}
	}
}

// read reads the next message, or the answer to a PING. Other commands are dealt with.
func (s *Sub) read() (frames [][]byte, answer string, err error) {
	for {
		f, err := readFrame(s.r, s.cfg.Frame)
		if err != nil {
			return nil, "", err
		}
		if f.command {
			if len(frames) > 0 {
				return nil, "", wrong("a command stands between the frames of a message")
			}
			if answer, err := s.command(f.body); err != nil || answer != "" {
				return nil, answer, err
			}
			continue
		}
		if len(frames) == s.cfg.Frames {
			return nil, "", wrong("a message has more than %d frames", s.cfg.Frames)
		}
		if frames = append(frames, f.body); !f.more {
			return frames, "", nil
		}
	}
}

// command answers a PING and returns what a PONG says; other commands mean nothing to a subscriber.
func (s *Sub) command(body []byte) (answer string, err error) {
	name, data, err := parseCommand(body)
	if err != nil {
		return "", err
	}
	switch name {
	case "PING":
		reply, err := pong(data)
		if err != nil {
			return "", err
		}
		_, err = s.conn.Write(reply)
		return "", err
	case "PONG":
		return string(data), nil
	case "ERROR":
		return "", wrong("the publisher ends the connection: %q", data)
	}
	return "", nil
}

// Close ends the connection.
func (s *Sub) Close() error { return s.conn.Close() }
