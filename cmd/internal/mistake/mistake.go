// Package mistake turns what the flag library says of a wrong command line into one line that says what to type instead.
package mistake

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/cmd/internal/exit"
)

// Patterns of what the flag library says. They are compiled where there is a mistake, which takes longer than most else at a program's start.
const (
	wrongValue  = `(?s)^invalid value "(.*)" for flag -([^ :]+): (.*)$`
	wrongSwitch = `(?s)^invalid boolean value "(.*)" for -([^ :]+): `
	gotAtTheEnd = `(?s), got ".*"$`
)

// Handler is a program's or a command's OnUsageError. Its errors have the exit status of a wrong command line.
func Handler(c *cli.Context, err error, _ bool) error {
	flags, program := c.App.Flags, c.App.Name
	if c.Command != nil {
		flags = append(append([]cli.Flag{}, flags...), c.Command.Flags...)
		if c.App.Command(c.Command.Name) != nil { // a command lists its own flags
			program += " " + c.Command.Name
		}
	}
	return exit.AsUsage(Explain(err, program, flags, nil))
}

// Explain turns the flag library's message into one that says what to type instead. examples shows how flags are used, by their first name.
func Explain(err error, program string, flags []cli.Flag, examples map[string]string) error {
	example := func(name string) string {
		for _, f := range flags {
			for _, known := range f.Names() {
				if text := examples[f.Names()[0]]; known == strings.TrimLeft(name, "-") && text != "" {
					return ", as in " + text
				}
			}
		}
		return ""
	}
	message := err.Error()
	if name, ok := strings.CutPrefix(message, "flag provided but not defined: -"); ok {
		return unknown(name, program, flags)
	}
	if name, ok := strings.CutPrefix(message, "flag needs an argument: -"); ok {
		return fmt.Errorf("%s needs a value%s", Dashed(name), example(name))
	}
	if m := regexp.MustCompile(wrongSwitch).FindStringSubmatch(message); m != nil {
		return fmt.Errorf("%s=%s: want no value, or true or false", Dashed(m[2]), m[1])
	}
	if m := regexp.MustCompile(wrongValue).FindStringSubmatch(message); m != nil {
		return fmt.Errorf("%s %s: %s%s", Dashed(m[2]), m[1], Wanted(unparsed(m[3], m[2], flags)), example(m[2]))
	}
	return err
}

// unparsed says what an integer flag wants where the flag library says only that the text is none, or too long a one.
func unparsed(message, name string, flags []cli.Flag) string {
	for _, f := range flags {
		if _, ok := f.(*cli.IntFlag); ok && slices.Contains(f.Names(), strings.TrimLeft(name, "-")) && (message == "parse error" || message == "value out of range") {
			return "want an integer of at most 64 bits"
		}
	}
	return message
}

// Wanted is what a flag's value says of a wrong one, without the value at its end, for a message that begins with it.
func Wanted(message string) string {
	return regexp.MustCompile(gotAtTheEnd).ReplaceAllString(message, "")
}

// unknown names the flag that there is and that is nearest.
func unknown(name, program string, flags []cli.Flag) error {
	best, distance := "", 0
	typed := strings.TrimLeft(name, "-")
	for _, f := range flags {
		for _, known := range f.Names() {
			if d := editDistance(typed, known); best == "" || d < distance {
				best, distance = known, d
			}
		}
	}
	if best == "" || distance > max(1, len(typed)/3) {
		return fmt.Errorf("unknown flag %s; type %s --help for the list", Dashed(name), program)
	}
	return fmt.Errorf("unknown flag %s; did you mean %s?", Dashed(name), Dashed(best))
}

// Dashed writes a flag's name as users do.
func Dashed(name string) string {
	name = strings.TrimLeft(name, "-")
	if len(name) <= 2 && name != "dp" && name != "tp" && name != "pp" {
		return "-" + name
	}
	return "--" + name
}

// editDistance is Levenshtein's with neighbours that changed places as one edit (optimal string alignment).
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
