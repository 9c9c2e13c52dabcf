package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/cmd/internal/flagvalue"
	"github.com/fpmrun/fpmrun/cmd/internal/mistake"
)

// completionUsage is what a wrong `fpmrun completion` gets.
const completionUsage = "type fpmrun completion bash, zsh or fish; for bash: source <(fpmrun completion bash)"

// completion is the script that makes a shell complete fpmrun's flags, their values, and programs.
func completion(args []string, flags []cli.Flag) (string, error) {
	if len(args) != 1 {
		return "", fmt.Errorf("completion: %d shells given; %s", len(args), completionUsage)
	}
	var names, withValue []string
	words := map[string][]string{} // flag -> its values
	for _, f := range flags {
		name := mistake.Dashed(f.Names()[0])
		if _, refused := f.(*cli.GenericFlag); refused && name == "--hostfile" {
			continue
		}
		names = append(names, name)
		g, generic := f.(*cli.GenericFlag)
		if generic {
			if choice, ok := g.Value.(*flagvalue.Choice); ok {
				words[name] = choice.Allowed
			}
		}
		if _, bare := f.(*cli.BoolFlag); !bare {
			withValue = append(withValue, name)
		}
	}
	slices.Sort(names)
	slices.Sort(withValue)
	switch args[0] {
	case "bash":
		return bashCompletion(names, withValue, words), nil
	case "zsh":
		// zsh runs bash's functions once it is told to.
		return "autoload -U +X bashcompinit && bashcompinit\n" + bashCompletion(names, withValue, words), nil
	case "fish":
		return fishCompletion(names, withValue, words), nil
	}
	return "", fmt.Errorf("completion %s: unknown shell; %s", args[0], completionUsage)
}

// bashCompletion walks over flags and their values; the first other word is the program, whose own words complete as
// files.
func bashCompletion(names, withValue []string, words map[string][]string) string {
	var b strings.Builder
	b.WriteString("_fpmrun() {\n  local cur=${COMP_WORDS[COMP_CWORD]} i=1 word flag=\n  COMPREPLY=()\n")
	b.WriteString("  while (( i < COMP_CWORD )); do\n    word=${COMP_WORDS[i]}\n    if [[ -n $flag ]]; then flag=\n    else case $word in\n")
	fmt.Fprintf(&b, "      %s) flag=$word ;;\n      bench|sweep|-*) ;;\n      *) COMPREPLY=( $(compgen -f -- \"$cur\") ); return ;;\n    esac; fi\n    i=$((i+1))\n  done\n", strings.Join(withValue, "|"))
	b.WriteString("  case $flag in\n    '') ;;\n")
	for _, name := range withValue {
		if w := words[name]; w != nil {
			fmt.Fprintf(&b, "    %s) COMPREPLY=( $(compgen -W '%s' -- \"$cur\") ); return ;;\n", name, strings.Join(w, " "))
		}
	}
	b.WriteString("    *) COMPREPLY=( $(compgen -f -- \"$cur\") ); return ;;\n  esac\n")
	fmt.Fprintf(&b, "  if [[ $cur == -* ]]; then COMPREPLY=( $(compgen -W '%s --help --version' -- \"$cur\") )\n", strings.Join(names, " "))
	b.WriteString("  else COMPREPLY=( $(compgen -c -- \"$cur\") $(compgen -f -- \"$cur\") ); fi\n}\ncomplete -o filenames -F _fpmrun fpmrun\n")
	return b.String()
}

func fishCompletion(names, withValue []string, words map[string][]string) string {
	var b strings.Builder
	b.WriteString("complete -c fpmrun -n __fish_is_first_token -a 'bench sweep completion'\n")
	for _, name := range names {
		kind := "-l"
		if !strings.HasPrefix(name, "--") {
			kind = "-o"
		}
		fmt.Fprintf(&b, "complete -c fpmrun %s %s", kind, strings.TrimLeft(name, "-"))
		if slices.Contains(withValue, name) {
			b.WriteString(" -r")
		}
		if w := words[name]; w != nil {
			fmt.Fprintf(&b, " -f -a '%s'", strings.Join(w, " "))
		}
		b.WriteString("\n")
	}
	return b.String()
}
