package collective

import (
	"context"
	"errors"
	"os"
	"time"
)

// listensLimit is how long whoever listens at an address may take to say what it is.
const listensLimit = time.Second

// Listens reports whether rank 0 of a run listens at an address ("host:port"), not another run or another program. Nothing is proven by
// that: Join does so. It lets ranks that know several possible addresses find the right one.
func Listens(ctx context.Context, address, runID string, token Secret) bool {
	ctx, cancel := context.WithTimeout(ctx, listensLimit)
	defer cancel()
	conn, err := TCP{}.Dial(ctx, address)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }() // the other side has closed it, too
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(longAgo) })
	defer stop()
	_, err = dialHandshake(conn, token, hello{Purpose: forPeer, PID: uint32(os.Getpid()), Run: runHash(runID)})
	var r *refusal
	return errors.As(err, &r) && r.status == statusMember // a world has no place for peers
}
