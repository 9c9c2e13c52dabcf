package evidence

import (
	"io/fs"
	"math/bits"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fpmrun/fpmrun/artifact"
)

// Host reads the state of this host.
type Host struct {
	root     fs.FS // the file system, from /
	affinity func(*unix.CPUSet) error
}

// NewHost makes the reader.
func NewHost() *Host {
	return &Host{root: os.DirFS("/"), affinity: func(set *unix.CPUSet) error { return unix.SchedGetaffinity(0, set) }}
}

// Read is the host at this moment. It takes some tens of microseconds.
func (h *Host) Read() artifact.HostReading {
	var r artifact.HostReading
	// "0.52 0.58 0.59 3/467 12345": load over 1, 5 and 15 minutes, runnable and all threads, the last process.
	if text, err := fs.ReadFile(h.root, "proc/loadavg"); err == nil {
		fields := strings.Fields(string(text))
		if len(fields) >= 4 {
			if load, err := strconv.ParseFloat(fields[0], 64); err == nil {
				r.Load = (*artifact.Float)(&load)
			}
			runnable, _, _ := strings.Cut(fields[3], "/")
			if n, err := strconv.Atoi(runnable); err == nil {
				r.Runnable = &n
			}
		}
	}
	var set unix.CPUSet
	if h.affinity(&set) != nil {
		return r
	}
	cpus := numbers(&set)
	r.CPUs = ranges(cpus)
	if len(cpus) > 0 {
		path := "sys/devices/system/cpu/cpu" + strconv.Itoa(cpus[0]) + "/cpufreq/scaling_governor"
		if text, err := fs.ReadFile(h.root, path); err == nil {
			r.Governor = strings.TrimSpace(string(text))
		}
	}
	return r
}

// numbers lists the CPUs of a set.
func numbers(set *unix.CPUSet) []int {
	var list []int
	for i, word := range set {
		for w := uint64(word); w != 0; w &= w - 1 {
			list = append(list, i*bits.UintSize+bits.TrailingZeros64(w))
		}
	}
	return list
}

// ranges writes ascending numbers as the kernel does: 0-3,8.
func ranges(list []int) string {
	var b strings.Builder
	for i := 0; i < len(list); {
		last := i
		for last+1 < len(list) && list[last+1] == list[last]+1 {
			last++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(list[i]))
		if last > i {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(list[last]))
		}
		i = last + 1
	}
	return b.String()
}
