package mistake

import (
	"errors"
	"io"
	"testing"

	"github.com/urfave/cli/v2"
)

func TestExplain(t *testing.T) {
	flags := []cli.Flag{&cli.StringFlag{Name: "engine", Aliases: []string{"e"}}, &cli.IntFlag{Name: "repeat"}, &cli.BoolFlag{Name: "dry-run"}}
	for message, want := range map[string]string{
		"flag provided but not defined: -engin":                        "unknown flag --engin; did you mean --engine?",
		"flag provided but not defined: -zebra":                        "unknown flag --zebra; type prog --help for the list",
		"flag needs an argument: -e":                                   "-e needs a value, as in --engine cpu",
		"flag needs an argument: -repeat":                              "--repeat needs a value",
		`invalid value "x" for flag -repeat: want an integer, got "x"`: "--repeat x: want an integer",
		`invalid value "x" for flag -repeat: parse error`:              "--repeat x: want an integer of at most 64 bits",
		`invalid value "1e9" for flag -repeat: value out of range`:     "--repeat 1e9: want an integer of at most 64 bits",
		`invalid value "x" for flag -e: parse error`:                   "-e x: parse error, as in --engine cpu",
		`invalid value "x" for flag -e: want one of a, b, got "x"`:     "-e x: want one of a, b, as in --engine cpu",
		`invalid boolean value "x" for -dry-run: parse error`:          "--dry-run=x: want no value, or true or false",
		"something else": "something else",
	} {
		if got := Explain(errors.New(message), "prog", flags, map[string]string{"engine": "--engine cpu"}); got.Error() != want {
			t.Errorf("%s: got %q, want %q", message, got, want)
		}
	}
	if got := Explain(errors.New("flag provided but not defined: -x"), "prog", nil, nil); got.Error() != "unknown flag -x; type prog --help for the list" {
		t.Errorf("without flags: %q", got)
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"np", "npp", 1}, {"tag-outptu", "tag-output", 1}, {"abc", "", 3}, {"", "ab", 2}, {"jsno", "json", 1}, {"ca", "abc", 3}, {"kitten", "sitting", 3}} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("%q, %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// A flag that a command does not know is looked up in the command's own help.
func TestHandlerNamesTheCommand(t *testing.T) {
	app := &cli.App{
		Name: "prog", OnUsageError: Handler, Writer: io.Discard, ErrWriter: io.Discard, ExitErrHandler: func(*cli.Context, error) {},
		Commands: []*cli.Command{{Name: "show", OnUsageError: Handler}},
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"prog", "--zebra"}, "unknown flag --zebra; type prog --help for the list"},
		{[]string{"prog", "show", "--zebra"}, "unknown flag --zebra; type prog show --help for the list"},
	} {
		if err := app.Run(c.args); err == nil || err.Error() != c.want {
			t.Errorf("%q: got %v, want %q", c.args, err, c.want)
		}
	}
}
