package rank

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// pmi is a conversation with the process manager that started this rank, over the open socket that PMI_FD names: version 1.1 of the Process Management
// Interface's simple wire protocol, a line of key=value words each way (Balaji et al., "PMI: A Scalable Parallel Process-Management Interface for Extreme-Scale Systems",
// EuroMPI 2010). MPICH's hydra speaks it, and Slurm's mpi/pmi2 does as well.
type pmi struct {
	conn  net.Conn
	lines *bufio.Reader
	space string // name of the job's key-value space
}

// maxPMILine is the longest answer that is read, in bytes. Values have at most 1,024.
const maxPMILine = 8 << 10

// openPMI begins the conversation over a descriptor, given by its number. It ends with ctx.
func openPMI(ctx context.Context, descriptor string) (*pmi, error) {
	fd, err := strconv.Atoi(descriptor)
	if err != nil || fd < 0 {
		return nil, fmt.Errorf("PMI_FD=%q: want the number of an open socket", descriptor)
	}
	file := os.NewFile(uintptr(fd), "PMI_FD")
	conn, err := net.FileConn(file) // has a descriptor of its own
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("PMI_FD=%d: %w", fd, err)
	}
	return beginPMI(ctx, conn)
}

// beginPMI begins the conversation over a connection, which it closes when that fails.
func beginPMI(ctx context.Context, conn net.Conn) (p *pmi, err error) {
	p = &pmi{conn: conn, lines: bufio.NewReaderSize(conn, maxPMILine)}
	defer func() {
		if err != nil {
			err = errors.Join(err, conn.Close())
		}
	}()
	if limit, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(limit); err != nil {
			return nil, err
		}
	}
	context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	if _, err = p.ask("init", "response_to_init", "pmi_version=1", "pmi_subversion=1"); err != nil {
		return nil, err
	}
	answer, err := p.ask("get_my_kvsname", "my_kvsname")
	if err != nil {
		return nil, err
	}
	if p.space = answer["kvsname"]; p.space == "" {
		return nil, errors.New("PMI: the process manager named no key-value space")
	}
	return p, nil
}

// ask sends a command with words such as key=value, and is the words of the answer, whose command must be want.
func (p *pmi) ask(command, want string, words ...string) (map[string]string, error) {
	if _, err := p.conn.Write([]byte(strings.Join(append([]string{"cmd=" + command}, words...), " ") + "\n")); err != nil {
		return nil, fmt.Errorf("PMI: %s: %w", command, err)
	}
	line, err := p.lines.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("PMI: wait for the answer to %s: %w", command, err)
	}
	answer := map[string]string{}
	for word := range strings.FieldsSeq(string(line)) {
		key, value, _ := strings.Cut(word, "=")
		answer[key] = value
	}
	if rc := answer["rc"]; answer["cmd"] != want || rc != "" && rc != "0" {
		return nil, fmt.Errorf("PMI: %s was answered by %q, want cmd=%s and rc=0", command, strings.TrimSpace(string(line)), want)
	}
	return answer, nil
}

// put stores a value, without spaces, which others can get after the barrier.
func (p *pmi) put(key, value string) error {
	_, err := p.ask("put", "put_result", "kvsname="+p.space, "key="+key, "value="+value)
	return err
}

func (p *pmi) get(key string) (string, error) {
	answer, err := p.ask("get", "get_result", "kvsname="+p.space, "key="+key)
	if err == nil && answer["value"] == "" {
		err = fmt.Errorf("PMI: %s has no value", key)
	}
	return answer["value"], err
}

// barrier waits until all processes of the job have come.
func (p *pmi) barrier() error {
	_, err := p.ask("barrier_in", "barrier_out")
	return err
}

// finish ends the conversation. A process that ends without it is taken for one that failed.
func (p *pmi) finish() error {
	_, err := p.ask("finalize", "finalize_ack")
	return errors.Join(err, p.conn.Close())
}

// pmiKey is under which rank 0 publishes the secret and its address.
const pmiKey = "fpm-rendezvous"

// meetByPMI agrees on a fresh secret and an address: rank 0 chooses them, and the process manager hands them only to the processes that it started.
func meetByPMI(ctx context.Context, id *Identity) (m meetingPoint, err error) {
	p, err := openPMI(ctx, id.PMI)
	if err != nil {
		return m, err
	}
	return p.meet(id)
}

func (p *pmi) meet(id *Identity) (m meetingPoint, err error) {
	m.auth, m.run = AuthPMI, id.RunID
	if m.run == "" {
		m.run = id.Source + "-" + p.space
	}
	if id.Rank == 0 {
		if m.token, err = freshToken(); err == nil {
			list := id.Rendezvous
			if len(list) == 0 {
				list = candidates(id.Host, m.run)
			}
			m.address, err = freeAddress(list)
		}
		if err == nil {
			err = p.put(pmiKey, string(m.token)+"/"+m.address)
		}
		if err != nil {
			return m, errors.Join(err, p.conn.Close())
		}
	}
	if err := p.barrier(); err != nil {
		return m, errors.Join(fmt.Errorf("not all of the %d ranks came: %w", id.Size, err), p.conn.Close())
	}
	if id.Rank != 0 {
		value, err := p.get(pmiKey)
		if err != nil {
			return m, errors.Join(err, p.conn.Close())
		}
		token, address, ok := strings.Cut(value, "/")
		if !ok || len(token) < 16 {
			return m, errors.Join(errors.New("PMI: rank 0 published no secret"), p.conn.Close())
		}
		m.token, m.address = []byte(token), address
	}
	return m, p.finish()
}
