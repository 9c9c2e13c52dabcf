package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/cmd/internal/flagvalue"
	"github.com/fpmrun/fpmrun/stream"
)

// streamOptions say whether, where and when records are published as they are made.
type streamOptions struct {
	port   flagvalue.Count
	host   string
	points bool
	wait   flagvalue.Duration
}

// longestWait is less than what the ranks wait for each other.
const longestWait = 2 * time.Minute

// flags declares the options.
func (o *streamOptions) flags() []cli.Flag {
	o.port.High = 65535
	return []cli.Flag{
		&cli.GenericFlag{Name: "stream-port", DefaultText: "none: nothing is published", Value: &o.port, EnvVars: []string{"FPM_STREAM_PORT", "DYN_FORWARDPASS_METRIC_PORT"},
			Usage: fmt.Sprintf("publish records over ZeroMQ, DP rank r at `PORT` + r, usually %d; 0 is any free port. The stream is silent while points are measured", stream.DefaultPort)},
		&cli.StringFlag{Name: "stream-host", DefaultText: "all interfaces", Destination: &o.host, EnvVars: []string{"FPM_STREAM_HOST"}, Usage: "publish at `HOST`, a name or address of this machine, only"},
		&cli.BoolFlag{Name: "stream-points", Destination: &o.points, EnvVars: []string{"FPM_STREAM_POINTS"}, Usage: "publish each point's records as soon as it is measured, too"},
		&cli.GenericFlag{Name: "stream-wait", DefaultText: "do not wait", Value: &o.wait, EnvVars: []string{"FPM_STREAM_WAIT"}, Usage: "let each rank wait for a subscriber before the first point, up to `D`, in seconds or as 1m; then it goes on without"},
	}
}

// check refuses options that say nothing by themselves.
func (o *streamOptions) check() error {
	var errs []error
	if !o.port.Given && o.host != "" {
		errs = append(errs, fmt.Errorf("--stream-host %s: nothing is published without --stream-port; give it, such as %d", o.host, stream.DefaultPort))
	}
	if !o.port.Given && o.points {
		errs = append(errs, fmt.Errorf("--stream-points: nothing is published without --stream-port; give it, such as %d", stream.DefaultPort))
	}
	if !o.points && o.wait > 0 {
		errs = append(errs, fmt.Errorf("--stream-wait %v: nothing is published that a subscriber could miss; give --stream-points, too", time.Duration(o.wait)))
	}
	if time.Duration(o.wait) > longestWait {
		errs = append(errs, fmt.Errorf("--stream-wait %v: want at most %v", time.Duration(o.wait), longestWait))
	}
	return errors.Join(errs...)
}

// checkPorts refuses a port that leaves one of dpSize ranks without one.
func (o *streamOptions) checkPorts(dpSize int) error {
	if o.port.Value == 0 {
		return nil
	}
	if err := stream.CheckPorts(o.port.Value, dpSize); err != nil {
		return fmt.Errorf("--stream-port %d: %w", o.port.Value, err)
	}
	return nil
}

// live is the publisher of one DP rank's records.
type live struct {
	*stream.Publisher
	p    *program
	rank int
}

// stream opens the publisher of a DP rank before any work is done, so that a port that is taken ends the run at once; nil where nothing is to be published.
// proc is what is mounted at /proc.
func (p *program) stream(ctx context.Context, o *options, rank, dpSize int, proc fs.FS) (*live, error) {
	so := &o.stream
	if !so.port.Given {
		return nil, nil
	}
	port := so.port.Value
	if port > 0 {
		if ephemeral, ok := stream.EphemeralRange(proc); ok {
			if warning := stream.PortWarning(stream.Block(port, dpSize), ephemeral, "--stream-port"); warning != "" {
				p.log.Warn(warning)
			}
		}
		port = stream.Port(port, rank)
	}
	publisher, err := stream.Listen(ctx, net.JoinHostPort(so.host, strconv.Itoa(port)), stream.Config{WorkerID: o.workerID, DPRank: rank})
	if err != nil {
		return nil, fmt.Errorf("--stream-port %d: DP rank %d cannot publish at port %d: %w", so.port.Value, rank, port, err)
	}
	if rank == 0 || so.port.Value == 0 {
		p.log.Info("publishing records", "dp_rank", rank, "address", "tcp://"+reachable(publisher.Addr()))
	}
	if rank == 0 && !so.points && o.serve == "" {
		p.log.Warn("nothing will be published: the stream is silent while points are measured, and the run ends with them; --stream-points publishes them, --serve stays afterwards")
	}
	if so.points {
		publisher.Resume()
	}
	return &live{Publisher: publisher, p: p, rank: rank}, nil
}

// reachable is an address that others can connect to: where it is that of all interfaces, the host's name stands for them.
func reachable(address net.Addr) string {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return address.String()
	}
	host, err := os.Hostname()
	if err != nil {
		host = "*"
	}
	return net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}

// record is what the session tells the records of each point to; nil when nobody is to hear them. It returns when they are with the subscribers' queues, so
// that the next point does not compete with that.
func (l *live) record(o *streamOptions) func(point []artifact.FPM) {
	if l == nil || !o.points {
		return nil
	}
	return func(point []artifact.FPM) {
		for _, r := range point {
			l.Publish(r)
		}
		l.Flush()
	}
}

// wait waits for a subscriber, where that was asked for, until stop is closed or ctx ends.
func (l *live) wait(ctx context.Context, limit time.Duration, stop <-chan struct{}) {
	if l == nil || limit == 0 {
		return
	}
	if l.rank == 0 {
		l.p.log.Info("each rank waits for a subscriber", "at_most", limit)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-l.Subscribed():
	case <-timer.C:
		l.p.log.Warn("no subscriber came; going on without", "dp_rank", l.rank, "waited", limit)
	case <-stop:
	case <-ctx.Done():
	}
}

// evidence is what the rank's document says of a stream between the points; nil where there was none.
func (l *live) evidence(o *streamOptions) *ownStream {
	if l == nil || !o.points {
		return nil
	}
	s := l.Stats()
	return &ownStream{Messages: s.Published, Subscribers: s.Joined, Dropped: s.Dropped + s.Overflowed}
}

// resume begins what comes after the points, where anything is published.
func (l *live) resume() {
	if l != nil {
		l.Resume()
	}
}

// end closes the publisher and says what was lost; DP rank 0 also says what was sent.
func (l *live) end() error {
	if l == nil {
		return nil
	}
	err := l.Close()
	s := l.Stats()
	facts := []any{"dp_rank", l.rank, "records", s.Published, "heartbeats", s.Heartbeats, "subscribers", s.Joined, "dropped", s.Dropped + s.Overflowed, "refused", s.Refused}
	switch {
	case s.Dropped+s.Overflowed > 0:
		l.p.log.Warn("subscribers were too slow: the stream has gaps", facts...)
	case l.rank == 0:
		l.p.log.Info("the stream has ended", facts...)
	}
	if err != nil {
		return fmt.Errorf("--stream-port: %w", err)
	}
	return nil
}
