package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Tasks that srun starts agree on a secret by each of the ways that there are. A process of another user that takes the place of rank 1, with all that rank 1
// knows but the user's own, gets in by none of them: rank 0 waits for rank 1 in vain.
func TestSlurmSecrets(t *testing.T) {
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("needs setpriv")
	}
	lab := newSlurm(t)
	token := filepath.Join(lab.dir, "token")
	if err := os.WriteFile(token, []byte("a secret of this test only"), 0o600); err != nil {
		t.Fatal(err)
	}
	const other = "setpriv --reuid=65534 --regid=65534 --clear-groups "
	for _, c := range []struct {
		auth, setting, srun string
		other               string   // how the other user's process is started
		want                []string // what it and rank 0 say
	}{
		{"munge", "", "srun", other, []string{`missing 1: context deadline exceeded`, `no secret by MUNGE from rank 0 at .*unmunge: .*[Uu]nauthorized`}},
		{"pmi", "", "srun --mpi=pmi2", "env -u PMI_FD FPM_MUNGE_SOCKET=/none " + other, []string{`not all of the 2 ranks came: PMI: wait for the answer to barrier_in`, `nobody of this run listens at`}},
		{"file", "FPM_TOKEN_FILE=" + token, "srun", other, []string{`1 of 2 arrived: missing 1`, `FPM_TOKEN_FILE=.*token belongs to user 0, want 65534`}},
		{"env", "FPM_TOKEN=0123456789abcdef", "srun", "env -u FPM_TOKEN " + other, []string{`1 of 2 arrived: missing 1`, `no secret by MUNGE from rank 0 at`}},
	} {
		t.Run(c.auth, func(t *testing.T) {
			lab.t = t
			dir := t.TempDir()
			good := lab.run(dir, "", "env", "sh", "-c", c.setting+" "+c.srun+" --overcommit -N2 -n2 fpmbench --require-secret --engine sim --max-num-seqs 1 --max-num-batched-tokens 4 --max-model-len 16 --output-path benchmark.json")
			if good.status != 0 {
				t.Fatalf("status %d\n%s", good.status, good.stderr)
			}
			files, _ := rankFiles(dir, 2)
			for _, path := range files {
				if !strings.Contains(text(t, path), `"auth": "`+c.auth+`"`) {
					t.Errorf("%s: the ranks did not meet by %s", path, c.auth)
				}
			}
			r := lab.run(dir, "", "env", "sh", "-c", "FPM_JOIN_TIMEOUT=4s "+c.setting+" "+c.srun+` -W0 --kill-on-bad-exit=0 --overcommit -N2 -n2 sh -c '[ $SLURM_PROCID = 0 ] && exec launchprog join; exec `+c.other+` launchprog join'`)
			if r.status == 0 {
				t.Error("the other user got in")
			}
			for _, want := range c.want {
				if !regexp.MustCompile(want).MatchString(r.stderr) {
					t.Errorf("stderr has nothing like %q", want)
				}
			}
			if t.Failed() {
				t.Logf("stderr:\n%s", r.stderr)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		lab.t = t
		r := lab.run(t.TempDir(), "", "env", "FPM_MUNGE_SOCKET=/none", "srun", "--overcommit", "-N2", "-n2", "fpmbench", "--require-secret")
		if r.status == 0 || !strings.Contains(r.stderr, "have only the launch's public name to meet by, and a secret is required") {
			t.Errorf("status %d\n%s", r.status, r.stderr)
		}
	})
}
