package stream_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/stream"
)

// A publisher and a reader in one program: the reader says when it is subscribed, and ends after the first record.
func Example() {
	ctx := context.Background()
	p, err := stream.Listen(ctx, "127.0.0.1:0", stream.Config{WorkerID: "worker"})
	if err != nil {
		fmt.Println(err)
		return
	}
	p.Resume()
	enough := errors.New("enough")
	reader := stream.Reader{Address: p.Addr().String()}
	err = reader.Read(ctx, func(e stream.Event) error {
		switch e.Kind {
		case stream.Subscribed:
			p.Publish(artifact.FPM{WorkerID: "worker", WallTime: 0.0125, Scheduled: artifact.Scheduled{NumDecodeRequests: 8}})
		case stream.Received:
			fmt.Printf("record %d: %d requests in %v s\n", e.Sequence, e.Record.Scheduled.NumDecodeRequests, e.Record.WallTime)
			return enough
		}
		return nil
	})
	fmt.Println(err, p.Close())
	// Output:
	// record 0: 8 requests in 0.0125 s
	// enough <nil>
}
