package collective

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"time"
)

// MaxSize is the largest world.
const MaxSize = 1 << 16

const minToken = 16 // bytes

// Secret is a token that does not appear in logs and prints.
type Secret []byte

// LogValue hides the secret from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue("(secret)") }

// String hides the secret from fmt.
func (Secret) String() string { return "(secret)" }

// GoString hides the secret from fmt's %#v.
func (Secret) GoString() string { return "(secret)" }

// Config says how a process joins its world. Rank, Size, Rendezvous, Token, RunID and the thresholds are agreed
// between all ranks; the rest is each rank's own.
type Config struct {
	Rank       int    // this process, 0 to Size-1
	Size       int    // number of ranks, 1 to MaxSize
	Rendezvous string // "host:port" where rank 0 listens, "[v6]:port"; not used in a world of one
	Token      Secret // the job's secret, at least 16 bytes; may be empty in a world of one
	RunID      string // name of the run; ranks of different runs refuse each other

	Timeout     time.Duration // limit of one operation; 0 = 5 min, negative = none
	JoinTimeout time.Duration // limit of Join; 0 = 2 min, negative = none
	Linger      time.Duration // how long Close waits for the others to leave; 0 = 5 s, or 30 s when local ranks exceed CPUs, negative = not at all
	Liveness    time.Duration // silence after which a neighbour counts as lost; 0 = 5 s, or 30 s when local ranks exceed CPUs
	Spin        time.Duration // how long an operation polls before it sleeps; 0 = 200 us, negative = not at all
	CPUs        int           // CPUs this process may use, shared with the ranks of its host; 0 = as the scheduler affinity says

	Thresholds Thresholds // where operations change their algorithm; the same on all ranks
	Check      bool       // exchange signatures before every operation: a mismatch is then known to all from that very call
	MaxMessage int64      // largest payload of one operation or call in bytes; 0 = 4 GiB

	Handlers map[string]Handler // RPC methods that exist when Join returns
	Logger   *slog.Logger       // nil = nothing is logged

	StateFile string // state pages made by the launcher (collective/state); "" = a private one
	StatePage int    // which of them is this rank's
	JobFile   string // job page made by the launcher; "" = none

	Host      string  // name of this host; ranks with one name share memory and CPUs; "" = its host name and boot
	TLS       TLS     // which connections are encrypted
	Advertise string  // address that other hosts reach this process at, without port; "" = the local address of the connection to the rendezvous
	Network   Network // what carries the bytes; nil = TCP
}

// Validate fills the defaults in and reports every problem at once.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Size < 1 || c.Size > MaxSize {
		bad("world size %d, want 1 to %d", c.Size, MaxSize)
	}
	if c.Rank < 0 || c.Rank >= max(c.Size, 1) {
		bad("rank %d, want 0 to %d", c.Rank, c.Size-1)
	}
	if c.Size > 1 {
		if _, _, err := net.SplitHostPort(c.Rendezvous); err != nil {
			bad("rendezvous %q, want host:port: %w", c.Rendezvous, err)
		}
		if len(c.Token) < minToken {
			bad("token of %d bytes, want at least %d", len(c.Token), minToken)
		}
	}
	if len(c.RunID) > 64 {
		bad("run id of %d bytes, want at most 64", len(c.RunID))
	}
	if c.MaxMessage < 0 {
		bad("largest message %d bytes, want 0 for 4 GiB or a positive number", c.MaxMessage)
	}
	for name, h := range c.Handlers {
		if h == nil || !validMethod(name) {
			bad("handler %q: want a name of 1 to %d bytes and a function", name, maxMethod)
		}
	}
	if t := c.Thresholds; min(t.Direct, t.Bruck, t.Flat, t.Chain, t.Chunk, t.Pack, t.Doubling) < 0 {
		bad("thresholds %+v, want 0 for the defaults or positive numbers", t)
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w: %w", ErrInvalid, errors.Join(errs...))
	}
	setDefault(&c.Timeout, 5*time.Minute)
	setDefault(&c.JoinTimeout, 2*time.Minute)
	setDefault(&c.Spin, 200*time.Microsecond)
	if c.CPUs <= 0 {
		c.CPUs = runtime.NumCPU()
	}
	if c.MaxMessage == 0 {
		c.MaxMessage = 4 << 30
	}
	c.Thresholds = c.Thresholds.orDefault()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Network == nil {
		c.Network = TCP{}
	}
	return nil
}

func setDefault(d *time.Duration, v time.Duration) {
	if *d == 0 {
		*d = v
	}
}

// agreed hashes what must be the same on all ranks beyond size, token and run.
func (c *Config) agreed() uint64 {
	h := sha256.Sum256(fmt.Appendf(nil, "check=%v max=%d thresholds=%v", c.Check, c.MaxMessage, c.Thresholds))
	return binary.LittleEndian.Uint64(h[:])
}
