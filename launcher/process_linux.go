package launcher

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// process is what the kernel says of a rank's process group.
type process struct {
	letter    byte          // state of the rank's own process: R, S, D, T, Z ...; '?' when it is gone
	waits     string        // kernel function that it sleeps in; "" when unknown
	threads   int           // of the whole group
	processes int           // in the group
	cpu       time.Duration // user and system time of the whole group
}

// clockTick is the unit of CPU times in /proc: USER_HZ, which is 100 on every architecture that Go runs on.
const clockTick = 10 * time.Millisecond

// inspect reads a rank's process and the others of its group, which have its pid as their group's number.
func inspect(pid int) process {
	p := process{letter: '?'}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return p
	}
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		p.add(stat, pid, n == pid)
	}
	if text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/wchan"); err == nil && string(text) != "0" {
		p.waits = strings.TrimSpace(string(text))
	}
	return p
}

// add counts a process by its line in /proc/PID/stat when it belongs to the group.
func (p *process) add(stat []byte, group int, own bool) {
	// The name in parentheses may itself contain spaces and parentheses. What follows begins with field 3.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 18 || string(fields[2]) != strconv.Itoa(group) {
		return
	}
	number := func(field int) int {
		n, err := strconv.Atoi(string(fields[field-3]))
		if err != nil {
			return 0
		}
		return n
	}
	p.processes++
	p.threads += number(20)
	p.cpu += time.Duration(number(14)+number(15)) * clockTick
	if own {
		p.letter = fields[0][0]
	}
}

// describe says it in words. before is the CPU time at the last report; negative when this is the first.
func (p *process) describe(before time.Duration) string {
	text := fmt.Sprintf("process state %c", p.letter)
	if p.waits != "" {
		text += " in " + p.waits
	}
	if p.processes > 1 {
		text += fmt.Sprintf(", %d processes", p.processes)
	}
	since := "since the last report"
	if before < 0 {
		before, since = 0, "since its start"
	}
	return text + fmt.Sprintf(", %s, %.2fs of CPU time %s", plural(p.threads, "thread"), (p.cpu-before).Seconds(), since)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
