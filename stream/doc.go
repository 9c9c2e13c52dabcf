// Package stream publishes forward-pass-metrics records (version 1, [artifact.FPM]) while they are made, and reads them.
//
// Every data-parallel rank has a publisher, at the port that [Port] says. A message is a ZeroMQ multipart message of three frames: an empty topic, a sequence
// number of 8 bytes, big-endian, and the record as a MessagePack map. docs/stream.md has the wire format whole. Any ZeroMQ SUB socket can read it; in Go:
//
//	reader := stream.Reader{Address: "host:20380"}
//	err := reader.Read(ctx, func(e stream.Event) error { ... })
//
// A program that publishes does
//
//	p, err := stream.Listen(ctx, ":20380", stream.Config{DPRank: 0})
//	if err != nil { ... }
//	defer p.Close()
//	p.Resume() // a publisher begins paused
//	p.Publish(record)
//
// # Guarantees
//
// Publish never waits, whatever subscribers do. A record takes a place in a queue of [Config].Queue, from which one goroutine numbers and sends them in the order in which they
// were published; what finds no place is dropped and counted ([Stats].Overflowed). Each subscriber has a queue of [Config].Backlog of its own, where the same holds
// ([Stats].Dropped), and what it lost shows as a gap in the sequence. The sequence begins at 0 and goes up by one for each record, whether or not anybody
// listens, so the numbers that a subscriber misses are what it missed. Records that are published while the publisher is paused are not sent and take no number.
//
// When nothing was sent for [Config].Heartbeat a record of zeros is, which takes a number, too; not while the publisher is paused.
//
// The transport is package zmtp below, which says why it is not a library. Nothing is encrypted and anybody who reaches the port can read.
package stream
