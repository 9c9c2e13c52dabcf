package evidence

import (
	"encoding/json"
	"errors"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

func TestHostReading(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	allowed := func(cpus ...int) func(*unix.CPUSet) error {
		return func(set *unix.CPUSet) error {
			set.Zero()
			for _, c := range cpus {
				set.Set(c)
			}
			return nil
		}
	}
	for _, c := range []struct {
		name string
		host Host
		want string
	}{
		{"all there", Host{fstest.MapFS{"proc/loadavg": file("0.52 0.58 0.59 3/467 12345\n"), "sys/devices/system/cpu/cpu2/cpufreq/scaling_governor": file("performance\n")},
			allowed(2, 3, 4, 8, 64, 65, 130)}, `{"load_1m":0.52,"runnable":3,"allowed_cpus":"2-4,8,64-65,130","governor":"performance"}`},
		{"no governor", Host{fstest.MapFS{"proc/loadavg": file("12.00 1 1 1/2 3\n")}, allowed(0)}, `{"load_1m":12.0,"runnable":1,"allowed_cpus":"0"}`},
		{"torn load", Host{fstest.MapFS{"proc/loadavg": file("x 1")}, allowed(5)}, `{"allowed_cpus":"5"}`},
		{"nothing", Host{fstest.MapFS{}, func(*unix.CPUSet) error { return errors.New("no") }}, `{}`},
	} {
		text, err := json.Marshal(c.host.Read())
		if err != nil || string(text) != c.want {
			t.Errorf("%s: got %s (%v), want %s", c.name, text, err, c.want)
		}
	}
}

// On a real host the reading says at least which CPUs there are.
func TestThisHost(t *testing.T) {
	if r := NewHost().Read(); r.CPUs == "" || r.Load == nil || r.Runnable == nil {
		t.Errorf("reading %+v", r)
	}
}
