package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/cmd/internal/mistake"
)

// unexplained are flags that --help leaves out on purpose: they do nothing, are refused, or are another launcher's words for one that is there.
var unexplained = []string{"allow-run-as-root", "oversubscribe", "standalone", "no-python", "hostfile", "master-addr", "master-port"}

// The help fits one screen, and names every flag.
func TestHelp(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(helpText, "\n"), "\n")
	if len(lines) > 49 { // and the prompt
		t.Errorf("%d lines, want at most 49", len(lines))
	}
	for i, line := range lines {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("line %d has %d columns, want at most 80: %s", i+1, n, line)
		}
	}
	words := strings.FieldsFunc(helpText, func(r rune) bool { return strings.ContainsRune(" \n;:,[]", r) })
	var o options
	for _, f := range o.flags() {
		if name := f.Names()[0]; !slices.Contains(words, mistake.Dashed(name)) && !slices.Contains(unexplained, name) {
			t.Errorf("%s is not in the help", mistake.Dashed(name))
		}
	}
	var out, errs bytes.Buffer
	if status := run(context.Background(), []string{"fpmrun", "--help"}, nil, nil, &out, &errs); status != 0 || out.String() != helpText || errs.Len() > 0 {
		t.Errorf("--help: status %d, stderr %q, stdout\n%s", status, errs.String(), out.String())
	}
}

// What is usual is shown for flags that there are, and is itself accepted.
func TestUsualFlags(t *testing.T) {
	var o options
	flags := o.flags()
	for name, usage := range usual {
		if !slices.ContainsFunc(flags, func(f cli.Flag) bool { return f.Names()[0] == name }) {
			t.Errorf("usual has %s, which is no flag", name)
		}
		if !strings.HasPrefix(usage, mistake.Dashed(name)+" ") {
			t.Errorf("the usual %s does not begin with %s", usage, mistake.Dashed(name))
		}
	}
}

// What shells complete, as they say themselves.
func TestCompletion(t *testing.T) {
	for _, c := range []struct {
		shell, name, line string
		want, no          string
	}{
		{"bash", "flag", "fpmrun --tag", "--tag-output", "--tee"},
		{"bash", "value", "fpmrun --on-failure w", "wait", "ignore"},
		{"bash", "program", "fpmrun -np 2 basenam", "basename", "-np"},
		{"bash", "flags of the program", "fpmrun -np 2 basename --tag", "", "--tag-output"},
		{"fish", "flag", "fpmrun --tag", "--tag-output", "--tee"},
		{"fish", "value", "fpmrun --on-failure w", "wait", "ignore"},
	} {
		t.Run(c.shell+" "+c.name, func(t *testing.T) {
			if _, err := exec.LookPath(c.shell); err != nil {
				t.Skipf("%s is not installed", c.shell)
			}
			var script, errs bytes.Buffer
			if status := run(context.Background(), []string{"fpmrun", "completion", c.shell}, nil, nil, &script, &errs); status != 0 {
				t.Fatalf("status %d: %s", status, errs.String())
			}
			words := strings.Fields(c.line)
			ask := "COMP_WORDS=(" + c.line + "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _fpmrun; printf '%s\\n' \"${COMPREPLY[@]}\""
			if c.shell == "fish" {
				ask = "complete -C '" + c.line + "'"
			}
			cmd := exec.Command(c.shell, "-c", script.String()+ask)
			cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			offered := strings.Fields(string(out))
			if c.want != "" && !slices.Contains(offered, c.want) || slices.Contains(offered, c.no) {
				t.Errorf("after %q: offered %q, want %q among them and not %q", words[len(words)-1], offered, c.want, c.no)
			}
		})
	}
}

// zsh takes bash's functions over and knows the command afterwards.
func TestCompletionInZsh(t *testing.T) {
	zsh, err := exec.LookPath("zsh")
	if err != nil {
		t.Skip("zsh is not installed")
	}
	var script, errs bytes.Buffer
	if status := run(context.Background(), []string{"fpmrun", "completion", "zsh"}, nil, nil, &script, &errs); status != 0 {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	out, err := exec.Command(zsh, "-fc", "autoload -U compinit && compinit -D -u\n"+script.String()+"\nprint -r -- ${_comps[fpmrun]}").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "_fpmrun") {
		t.Errorf("fpmrun completes with %q (%v), want _fpmrun", out, err)
	}
}
