package rank

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// manager is a process manager of some ranks, which answers as hydra does. wrong replaces the answers to some commands.
type manager struct {
	mu      sync.Mutex
	values  map[string]string
	ranks   int
	waiting []net.Conn
	wrong   map[string]string
}

func (m *manager) serve(conn net.Conn) {
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		words := map[string]string{}
		for word := range strings.FieldsSeq(lines.Text()) {
			key, value, _ := strings.Cut(word, "=")
			words[key] = value
		}
		m.mu.Lock()
		answer, wrong := m.wrong[words["cmd"]]
		switch {
		case wrong:
		case words["cmd"] == "init":
			answer = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
		case words["cmd"] == "get_my_kvsname":
			answer = "cmd=my_kvsname kvsname=kvs_1"
		case words["cmd"] == "put":
			m.values[words["key"]] = words["value"]
			answer = "cmd=put_result rc=0 msg=success"
		case words["cmd"] == "get":
			answer = "cmd=get_result rc=0 msg=success value=" + m.values[words["key"]]
		case words["cmd"] == "barrier_in":
			if m.waiting = append(m.waiting, conn); len(m.waiting) == m.ranks {
				for _, c := range m.waiting {
					fmt.Fprintln(c, "cmd=barrier_out")
				}
			}
		case words["cmd"] == "finalize":
			answer = "cmd=finalize_ack"
		}
		m.mu.Unlock()
		if answer != "" {
			fmt.Fprintln(conn, answer)
		}
	}
}

// meetAll is what ranks agree on over a manager.
func meetAll(t *testing.T, ctx context.Context, m *manager, ranks int) ([]meetingPoint, []error) {
	t.Helper()
	m.values = map[string]string{}
	points, errs := make([]meetingPoint, ranks), make([]error, ranks)
	var wg sync.WaitGroup
	for r := range ranks {
		theirs, ours := net.Pipe()
		t.Cleanup(func() { theirs.Close() })
		go m.serve(theirs)
		wg.Go(func() {
			p, err := beginPMI(ctx, ours)
			if err == nil {
				points[r], err = p.meet(&Identity{Source: FromMPICH, Rank: r, Size: m.ranks, Host: "127.0.0.1"})
			}
			errs[r] = err
		})
	}
	wg.Wait()
	return points, errs
}

func TestMeetByPMI(t *testing.T) {
	points, errs := meetAll(t, t.Context(), &manager{ranks: 3}, 3)
	for r, p := range points {
		if errs[r] != nil || string(p.token) != string(points[0].token) || len(p.token) < 32 || p.address != points[0].address || p.run != "mpich-kvs_1" || p.auth != AuthPMI {
			t.Errorf("rank %d: %+v (%v)", r, p, errs[r])
		}
	}
	again, _ := meetAll(t, t.Context(), &manager{ranks: 1}, 1)
	if string(again[0].token) == string(points[0].token) {
		t.Error("two launches have one secret")
	}
}

func TestPMIRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		wrong map[string]string
		ranks int
		want  string
	}{
		{"another protocol", map[string]string{"init": "cmd=response_to_init rc=-1"}, 1, `PMI: init was answered by "cmd=response_to_init rc=-1"`},
		{"no space", map[string]string{"get_my_kvsname": "cmd=my_kvsname"}, 1, "named no key-value space"},
		{"cannot store", map[string]string{"put": "cmd=put_result rc=-1 msg=full"}, 1, "PMI: put was answered by"},
		{"an endless line", map[string]string{"init": strings.Repeat("x", maxPMILine+1)}, 1, "wait for the answer to init: bufio: buffer full"},
		{"somebody is missing", nil, 2, "not all of the 2 ranks came: PMI: wait for the answer to barrier_in"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, errs := meetAll(t, ctx, &manager{ranks: c.ranks, wrong: c.wrong}, 1); errs[0] == nil || !strings.Contains(errs[0].Error(), c.want) {
				t.Errorf("%v, want %q", errs[0], c.want)
			}
		})
	}
}

func TestPMIDescriptor(t *testing.T) {
	for _, fd := range []string{"x", "-1", "999999"} {
		if _, err := openPMI(t.Context(), fd); err == nil || !strings.Contains(err.Error(), "PMI_FD=") {
			t.Errorf("%s: %v", fd, err)
		}
	}
}
