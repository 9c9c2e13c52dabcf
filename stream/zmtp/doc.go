// Package zmtp speaks the ZeroMQ Message Transport Protocol, versions 3.0 and 3.1 (ZeroMQ RFC 23 and RFC 37), over TCP with the NULL mechanism, as far
// as publishing and subscribing need it: a [Pub] socket that any libzmq SUB socket can connect to, and a [Sub] that connects to any PUB socket.
//
// # A first program
//
//	pub, err := zmtp.Listen(ctx, "127.0.0.1:0", zmtp.PubConfig{})
//	if err != nil { ... }
//	defer pub.Close(time.Second)
//	pub.Send([]byte("topic"), []byte("payload")) // never waits
//
//	sub, err := zmtp.Dial(ctx, pub.Addr().String(), zmtp.SubConfig{})
//	if err != nil { ... }
//	defer sub.Close()
//	frames, err := sub.Next(ctx)
//
// # What a publisher bears
//
// Nobody who connects can hold up [Pub.Send] or another subscriber. A connection has [PubConfig].Handshake to prove that it is a subscriber; one that says
// nothing, or something else, is closed and counted. Each subscriber has a queue and a goroutine of its own; when the queue is full, because the
// subscriber is stopped or its network is slow, further messages for it are dropped whole and counted, as a PUB socket is expected to. What
// a subscriber may send is bounded, in the size of a frame and in the number of subscriptions.
//
// Messages that are sent before a subscription has arrived are not for that subscriber; there is no way to know from here that it will come.
//
// # Why not a library
//
// The one pure Go library, go-zeromq/zmq4 v0.17.0, makes the handshake inside its accept loop and without a deadline, so that one silent TCP client keeps
// every later subscriber out, and has one goroutine write to all subscribers in turn, so that one that is stopped holds up the rest; its
// queue has no bound unless one is set and counts no drops. Bindings of libzmq need cgo and the library on each machine.
// What is left to write without either is this package.
//
// It is not for other patterns (REQ, ROUTER, ...), other mechanisms (PLAIN, CURVE) or other transports, and encrypts nothing.
package zmtp
