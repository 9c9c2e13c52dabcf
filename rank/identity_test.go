package rank

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/rank/env"
)

func environ(pairs ...string) func(string) string {
	return func(name string) string {
		for _, p := range slices.Backward(pairs) {
			if key, value, _ := strings.Cut(p, "="); key == name {
				return value
			}
		}
		return ""
	}
}

func TestIdentify(t *testing.T) {
	ours := env.Set{Rank: 2, WorldSize: 4, LocalRank: 2, LocalWorldSize: 4, Nodes: 1, Rendezvous: "127.0.0.1:1234", RunID: "r", TokenFile: "/t"}.Environ()
	step := []string{"SLURM_JOB_ID=42", "SLURM_STEP_ID=3", "SLURM_PROCID=1", "SLURM_LOCALID=1", "SLURM_NTASKS=4", "SLURM_STEP_NUM_TASKS=4",
		"SLURM_GTIDS=0,1", "SLURM_STEP_NODELIST=n[1-2]", "SLURM_STEP_NUM_NODES=2"}
	mpi := []string{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=77", "PMIX_RANK=1"}
	torch := []string{"TORCHELASTIC_RUN_ID=none", "RANK=1", "WORLD_SIZE=2", "MASTER_PORT=29500", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=here"}
	pod := []string{"JOB_COMPLETION_INDEX=1", "FPM_WORLD_SIZE=2", "FPM_RENDEZVOUS=job-0.job:29400", "FPM_TOKEN_FILE=/t"}
	for _, c := range []struct {
		name       string
		environ    []string
		source     string
		rank, size int
		local      int
		wrong      string
	}{
		{"nobody", nil, FromNobody, 0, 1, 1, ""},
		{"fpmrun", ours, FromFPMRun, 2, 4, 4, ""},
		{"fpmrun inside a Slurm step", append(slices.Clone(step), ours...), FromFPMRun, 2, 4, 4, ""},
		{"forced to Slurm", append(append(slices.Clone(step), ours...), "FPM_IDENTITY=slurm"), FromSlurm, 1, 4, 2, ""},
		{"forced to none", append(slices.Clone(ours), "FPM_IDENTITY=none"), FromNobody, 0, 1, 1, ""},
		{"forced to fpmrun without it", append(slices.Clone(step), "FPM_IDENTITY=fpmrun"), "", 0, 0, 0, "FPM_RANK is not set"},
		{"forced to Slurm without it", []string{"FPM_IDENTITY=slurm"}, "", 0, 0, 0, "no task of a Slurm step"},
		{"forced to something else", []string{"FPM_IDENTITY=magic"}, "", 0, 0, 0, "want fpmrun, openmpi, mpich, torchrun, slurm, kubernetes or none"},
		{"Slurm step", step, FromSlurm, 1, 4, 2, ""},
		{"garbage for the join limit", append(slices.Clone(step), "FPM_JOIN_TIMEOUT=soon"), "", 0, 0, 0, `FPM_JOIN_TIMEOUT="soon"`},
		{"batch script of several tasks", []string{"SLURM_JOB_ID=42", "SLURM_STEP_ID=4294967291", "SLURM_PROCID=0", "SLURM_NTASKS=4"}, "", 0, 0, 0, "inside Slurm job 42 (4 tasks) but not started by srun"},
		{"batch script that looks like a task", []string{"SLURM_JOB_ID=42", "SLURM_PROCID=0", "SLURM_NTASKS=2"}, "", 0, 0, 0, "not started by srun"},
		{"interactive step", []string{"SLURM_JOB_ID=42", "SLURM_STEP_ID=4294967290", "SLURM_PROCID=0", "SLURM_NTASKS=3"}, "", 0, 0, 0, "not started by srun"},
		{"batch script of one task", []string{"SLURM_JOB_ID=42", "SLURM_PROCID=0", "SLURM_NTASKS=1"}, FromNobody, 0, 1, 1, ""},
		{"rank outside the step", []string{"SLURM_JOB_ID=42", "SLURM_STEP_ID=0", "SLURM_PROCID=4", "SLURM_NTASKS=4"}, "", 0, 0, 0, "SLURM_PROCID=4"},
		{"garbage", []string{"SLURM_JOB_ID=42", "SLURM_STEP_ID=0", "SLURM_PROCID=x", "SLURM_NTASKS=4"}, "", 0, 0, 0, `SLURM_PROCID="x"`},
		{"Open MPI", mpi, FromOpenMPI, 1, 2, 2, ""},
		{"Open MPI inside a Slurm step", append(slices.Clone(step), mpi...), FromOpenMPI, 1, 2, 2, ""},
		{"Slurm outside Open MPI, forced", append(append(slices.Clone(step), mpi...), "FPM_IDENTITY=slurm"), FromSlurm, 1, 4, 2, ""},
		{"Open MPI on several hosts", append(slices.Clone(mpi), "OMPI_COMM_WORLD_SIZE=4"), "", 0, 0, 0, "several hosts, where no rank knows the address of rank 0; set FPM_RENDEZVOUS"},
		{"Open MPI on several hosts that know", append(slices.Clone(mpi), "OMPI_COMM_WORLD_SIZE=4", "FPM_RENDEZVOUS=a:1"), FromOpenMPI, 1, 4, 2, ""},
		{"one process of Open MPI", []string{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1"}, FromOpenMPI, 0, 1, 1, ""},
		{"MPICH", []string{"PMI_RANK=0", "PMI_SIZE=2", "PMI_FD=6", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=2"}, FromMPICH, 0, 2, 2, ""},
		{"MPICH without a way to meet", []string{"PMI_RANK=0", "PMI_SIZE=2"}, "", 0, 0, 0, "started by MPICH (PMI_RANK=0, PMI_SIZE=2) without PMI_FD"},
		{"srun --mpi=pmi2", append(slices.Clone(step), "PMI_RANK=1", "PMI_SIZE=4", "PMI_FD=12"), FromSlurm, 1, 4, 2, ""},
		{"hydra inside a step of its own size", append(slices.Clone(step), "PMI_RANK=1", "PMI_SIZE=4", "PMI_FD=12", "HYDI_CONTROL_FD=7", "MPI_LOCALNRANKS=4"), FromMPICH, 1, 4, 4, ""},
		{"torchrun", torch, FromTorchrun, 1, 2, 2, ""},
		{"torchrun inside a Slurm step", append(slices.Clone(step), torch...), FromTorchrun, 1, 2, 2, ""},
		{"torchrun without its master", torch[:4], "", 0, 0, 0, "started by torchrun (RANK=1, WORLD_SIZE=2) without MASTER_ADDR"},
		{"torchrun's rank outside", append(slices.Clone(torch), "RANK=2"), "", 0, 0, 0, "RANK=2 is outside WORLD_SIZE=2"},
		{"Kubernetes", pod, FromKubernetes, 1, 2, 1, ""},
		{"a pod of a Job for one", []string{"JOB_COMPLETION_INDEX=0"}, FromKubernetes, 0, 1, 1, ""},
		{"a pod whose manifest says nothing", []string{"JOB_COMPLETION_INDEX=1"}, "", 0, 0, 0, "does not set FPM_WORLD_SIZE (the Job's completions), FPM_RENDEZVOUS (pod 0's name in the headless service, and a port), FPM_TOKEN_FILE"},
		{"a pod without a secret", pod[:3], "", 0, 0, 0, "does not set FPM_TOKEN_FILE (a Secret, mounted with mode 0600)"},
		{"a pod too many", append(slices.Clone(pod), "JOB_COMPLETION_INDEX=2"), "", 0, 0, 0, "JOB_COMPLETION_INDEX=2 is outside FPM_WORLD_SIZE=2"},
		{"an address that is none", append(slices.Clone(pod), "FPM_RENDEZVOUS=job-0"), "", 0, 0, 0, `FPM_RENDEZVOUS="job-0": want HOST:PORT`},
		{"somebody's RANK", []string{"RANK=0", "WORLD_SIZE=2"}, FromNobody, 0, 1, 1, ""},
		{"garbage of ours", []string{"FPM_RANK=5", "FPM_WORLD_SIZE=4"}, "", 0, 0, 0, "FPM_RANK"},
	} {
		id, err := Identify(environ(c.environ...))
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: got %v, want %q", c.name, err, c.wrong)
			}
			continue
		}
		if err != nil || id.Source != c.source || id.Rank != c.rank || id.Size != c.size || id.LocalSize != c.local {
			t.Errorf("%s: %+v (%v)", c.name, id, err)
		}
	}
}

// A launcher further outside that says something else is told of, one that says the same is not.
func TestOverruled(t *testing.T) {
	mpi := []string{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=77"}
	for _, c := range []struct {
		tasks string
		want  []string
	}{{"2", nil}, {"4", []string{"rank 1 of 4 (slurm)"}}} {
		id, err := Identify(environ(append(mpi, "SLURM_JOB_ID=42", "SLURM_STEP_ID=0", "SLURM_PROCID=1", "SLURM_NTASKS="+c.tasks, "SLURM_STEP_NODELIST=vm", "SLURM_STEP_NUM_NODES=1")...))
		if err != nil || !slices.Equal(id.Overruled, c.want) || id.String() != "rank 1 of 2 (openmpi)" {
			t.Errorf("%s tasks: %v overrules %q (%v), want %q", c.tasks, id, id.Overruled, err, c.want)
		}
	}
}

// Ports that Slurm reserved for the step are the only candidates.
func TestReservedPorts(t *testing.T) {
	step := []string{"SLURM_JOB_ID=42", "SLURM_STEP_ID=0", "SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_STEP_NODELIST=vm", "SLURM_STEP_NUM_NODES=1"}
	id, err := Identify(environ(append(step, "SLURM_STEP_RESV_PORTS=12000-12001,12010")...))
	if want := []string{"127.0.0.1:12000", "127.0.0.1:12001", "127.0.0.1:12010"}; err != nil || !slices.Equal(id.Rendezvous, want) {
		t.Errorf("%q (%v), want %q", id.Rendezvous, err, want)
	}
	for _, ports := range []string{"x", "0", "5-4", "1-70000"} {
		if _, err := Identify(environ(append(step, "SLURM_STEP_RESV_PORTS="+ports)...)); err == nil || !strings.Contains(err.Error(), "SLURM_STEP_RESV_PORTS=") {
			t.Errorf("%s: %v", ports, err)
		}
	}
}

// All tasks of a step compute the same meeting places, another step others.
func TestSlurmMeetingPlaces(t *testing.T) {
	step := func(id, procID string) Identity {
		got, err := Identify(environ("SLURM_JOB_ID=42", "SLURM_STEP_ID="+id, "SLURM_PROCID="+procID, "SLURM_NTASKS=2", "SLURM_STEP_NODELIST=vm", "SLURM_STEP_NUM_NODES=1"))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	a, b, other := step("0", "0"), step("0", "1"), step("1", "0")
	if !slices.Equal(a.Rendezvous, b.Rendezvous) || a.RunID != b.RunID || len(a.Rendezvous) != candidatePorts {
		t.Errorf("%v and %v", a, b)
	}
	if slices.Equal(a.Rendezvous, other.Rendezvous) || a.RunID == other.RunID {
		t.Error("two steps meet at the same places")
	}
}

func TestFirstHost(t *testing.T) {
	for _, c := range []struct{ list, nodes, want string }{
		{"n[1-2]", "2", "n1"}, {"n[03,7-9]", "3", "n03"}, {"a,b[1-3]", "4", "a"}, {"rack1-n[5-6]x,c", "3", "rack1-n5"}, {"vm", "1", "127.0.0.1"}, {"", "2", ""}, {"n[", "2", ""},
	} {
		got, err := firstHost(c.list, c.nodes)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%q: got %q (%v), want %q", c.list, got, err, c.want)
		}
	}
}

func TestAgree(t *testing.T) {
	told := Identity{Source: FromFPMRun, Size: 8, Topology: env.Topology{DP: 2, PP: 1, PCP: 1, TP: 4}}
	all := Identity{Source: FromSlurm, Size: 8, Topology: env.Topology{DP: 1, PP: 2, PCP: 2, TP: 2}}
	for _, c := range []struct {
		name  string
		id    Identity
		flags env.Topology
		want  env.Topology
		wrong string
	}{
		{"launcher alone", told, env.Topology{}, told.Topology, ""},
		{"both the same", told, env.Topology{DP: 2, TP: 4}, told.Topology, ""},
		{"different", told, env.Topology{DP: 4}, env.Topology{}, "--dp 4 contradicts the launcher's dp 2 x pp 1 x pcp 1 x tp 4"},
		{"program alone", Identity{Size: 8}, env.Topology{TP: 2}, env.Topology{DP: 4, PP: 1, PCP: 1, TP: 2}, ""},
		{"nobody", Identity{Size: 3}, env.Topology{}, env.Topology{DP: 3, PP: 1, PCP: 1, TP: 1}, ""},
		{"every dimension", Identity{Size: 16}, env.Topology{TP: 2, PCP: 2, PP: 2}, env.Topology{DP: 2, PP: 2, PCP: 2, TP: 2}, ""},
		{"every dimension by the launcher", all, env.Topology{PP: 2, PCP: 2}, all.Topology, ""},
		{"another pp", all, env.Topology{PP: 4}, env.Topology{}, "--pp 4 contradicts the launcher's dp 1 x pp 2 x pcp 2 x tp 2"},
		{"another pcp", all, env.Topology{PCP: 1}, env.Topology{}, "--pcp 1 contradicts the launcher's dp 1 x pp 2 x pcp 2 x tp 2"},
		{"does not divide", Identity{Size: 8}, env.Topology{DP: 3}, env.Topology{}, "dp 3 = 3 does not divide 8 ranks"},
	} {
		got, err := Agree(c.id, c.flags)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: got %v, want %q", c.name, err, c.wrong)
			}
		} else if err != nil || got != c.want {
			t.Errorf("%s: got %v (%v), want %v", c.name, got, err, c.want)
		}
	}
}

func TestToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, auth, err := secret(Identity{TokenFile: path}, environ())
	if err != nil || auth != AuthFile || string(got) != "0123456789abcdef" {
		t.Errorf("%q, %s (%v)", got, auth, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := secret(Identity{TokenFile: path}, environ()); err == nil || !strings.Contains(err.Error(), "0644") {
		t.Errorf("a file that others can read: %v", err)
	}
	if got, auth, _ := secret(Identity{}, environ("FPM_TOKEN=from-the-environment")); auth != AuthEnv || string(got) != "from-the-environment" {
		t.Errorf("%q, %s", got, auth)
	}
	a, auth, _ := secret(Identity{RunID: "slurm-1.0.0"}, environ())
	b, _, _ := secret(Identity{RunID: "slurm-1.1.0"}, environ())
	if auth != AuthPublic || len(a) < 16 || slices.Equal(a, b) {
		t.Errorf("%q and %q, %s", a, b, auth)
	}
}
