package env

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func lookup(environ []string) func(string) string {
	m := map[string]string{}
	for _, kv := range environ {
		k, v, _ := strings.Cut(kv, "=")
		m[k] = v
	}
	return func(k string) string { return m[k] }
}

func example() Set {
	return Set{Rank: 5, WorldSize: 8, LocalRank: 1, LocalWorldSize: 4, NodeRank: 1, Nodes: 2,
		Topology: Topology{DP: 2, PP: 1, PCP: 1, TP: 4}, Rendezvous: "[::1]:2345", MasterAddr: "::1", MasterPort: 2346,
		RunID: "r1", TokenFile: "/t", StateFile: "/s", JobFile: "/j", Restarts: 1, MaxRestarts: 3, GPUSharers: 2,
		JoinTimeout: 90 * time.Second, Iface: "eth0", TLS: "on"}
}

func TestRoundTrip(t *testing.T) {
	for name, want := range map[string]Set{
		"everything": example(),
		"smallest":   {WorldSize: 1, LocalWorldSize: 1, Nodes: 1},
	} {
		got, ok, err := Parse(lookup(want.Environ()))
		if err != nil || !ok {
			t.Fatalf("%s: Parse = %v, %v", name, ok, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: (-want +got)\n%s", name, d)
		}
	}
}

func TestEveryVariableIsListed(t *testing.T) {
	var want []string
	for _, v := range Vars {
		if v.SetBy == byLauncher {
			want = append(want, v.Name)
		}
	}
	want = append(want, KeyJoinTimeout, KeyIface, KeyTLS)
	var got []string
	for _, kv := range example().Environ() {
		k, _, _ := strings.Cut(kv, "=")
		got = append(got, k)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Vars and Environ disagree (-Vars +Environ)\n%s", d)
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct{ name, set, want string }{
		{"rank outside", "FPM_RANK=8", `FPM_RANK="8": want a number from 0 to 7`},
		{"not a number", "FPM_WORLD_SIZE=two", `FPM_WORLD_SIZE="two"`},
		{"world of none", "FPM_WORLD_SIZE=0", `FPM_WORLD_SIZE="0"`},
		{"local rank outside", "FPM_LOCAL_RANK=4", `FPM_LOCAL_RANK="4"`},
		{"rendezvous without port", "FPM_RENDEZVOUS=localhost", "want host:port"},
		{"rendezvous port", "FPM_RENDEZVOUS=localhost:70000", "1 to 65535"},
		{"own GPU elsewhere", "FPM_LOCAL_GPU=3", `FPM_LOCAL_GPU="3": want a number from 0 to 0`},
		{"more sharers than ranks", "FPM_GPU_SHARERS=5", `FPM_GPU_SHARERS="5": want a number from 1 to 4`},
		{"join timeout", "FPM_JOIN_TIMEOUT=soon", "not a duration"},
		{"topology", "FPM_TP_SIZE=3", "dp 2 x pp 1 x pcp 1 x tp 3 = 6 ranks, but there are 8"},
		{"coordinates", "FPM_TP_RANK=0", "rank 5 of dp 2 x pp 1 x pcp 1 x tp 4 has 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := Parse(lookup(append(example().Environ(), tt.set)))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Parse error = %v, want it to contain %q", err, tt.want)
			}
		})
	}
	if _, ok, err := Parse(lookup([]string{"FPM_WORLD_SIZE=x"})); ok || err != nil {
		t.Errorf("Parse without FPM_RANK = %v, %v, want false, nil", ok, err)
	}
}

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{"90": 90 * time.Second, "0.5": 500 * time.Millisecond, "2m": 2 * time.Minute, "0": 0} {
		if got, err := ParseDuration(in); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "x", "-1", "-1s", "NaN", "1e10", "inf"} {
		if got, err := ParseDuration(in); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", in, got)
		}
	}
}

func TestStrip(t *testing.T) {
	in := []string{"PATH=/bin", "FPM_RANK=1", "FPM_TP_SIZE=2", "RANK=1", "FPM_JOIN_TIMEOUT=5", "OMPI_COMM_WORLD_RANK=1", "PMI_FD=5",
		"PMIX_RANK=1", "TORCHELASTIC_USE_AGENT_STORE=True", "NCCL_DEBUG=INFO", "CUDA_VISIBLE_DEVICES=0", "SLURM_PROCID=0"}
	want := []string{"PATH=/bin", "FPM_JOIN_TIMEOUT=5", "NCCL_DEBUG=INFO", "CUDA_VISIBLE_DEVICES=0", "SLURM_PROCID=0"}
	if got := Strip(in); !slices.Equal(got, want) {
		t.Errorf("Strip = %q, want %q", got, want)
	}
}

// FuzzParse: whatever the environment holds, Parse does not panic, and what it accepts survives a round trip.
func FuzzParse(f *testing.F) {
	f.Add(strings.Join(example().Environ(), "\n"))
	f.Add("FPM_RANK=0")
	f.Add("FPM_RANK=0\nFPM_TP_SIZE=1048576\nFPM_DP_SIZE=1048576")
	f.Fuzz(func(t *testing.T, environ string) {
		s, ok, err := Parse(lookup(strings.Split(environ, "\n")))
		if !ok || err != nil {
			return
		}
		again, ok, err := Parse(lookup(s.Environ()))
		if !ok || err != nil || again != s {
			t.Errorf("round trip of %+v: %+v, %v, %v", s, again, ok, err)
		}
	})
}

// A duration that is accepted is not negative and, written by Go, means the same.
func FuzzDuration(f *testing.F) {
	for _, v := range []string{"90s", "1h30m", "0.5", "1e9", "-1", "-0s", "1e400", "NaN", "Inf", "9223372036.9", "1e-9"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v string) {
		d, err := ParseDuration(v)
		if err != nil {
			return
		}
		if again, err := ParseDuration(d.String()); d < 0 || err != nil || again != d {
			t.Fatalf("%q is %v, which is %v (%v)", v, d, again, err)
		}
	})
}
