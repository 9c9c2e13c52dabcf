package collective

import (
	"os"
	"time"
)

// hostID is equal for processes of one host.
func hostID() string {
	name, _ := os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return name + "/" + string(boot)
}

// enter takes the table over and draws conclusions from who shares this host.
func (w *world) enter(table []member) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.table = table
	local := 0
	for rank, m := range table {
		if m.Host == table[w.rank].Host {
			if rank == w.rank {
				w.place = local
			}
			local++
		}
	}
	if local > w.cfg.CPUs || local == 1 {
		w.place = -1
	}
	w.crowded = local > w.cfg.CPUs
	w.yielding = local >= w.cfg.CPUs
	w.liveness = w.cfg.Liveness
	if w.liveness == 0 {
		w.liveness = 5 * time.Second
		if w.crowded {
			w.liveness = 30 * time.Second
		}
	}
}
