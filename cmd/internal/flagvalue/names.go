package flagvalue

import "github.com/urfave/cli/v2"

// KeepNames returns flags that know their names and nothing else, for a program with a help text of its own. The library's flags
// work their names out by regular expression at every look, and it looks at each flag for each: a millisecond for fifty
// flags, a tenth of what a small job costs to start.
func KeepNames(flags []cli.Flag) []cli.Flag {
	kept := make([]cli.Flag, len(flags))
	for i, f := range flags {
		kept[i] = named{f, f.Names()}
	}
	return kept
}

// named is a flag and its names.
type named struct {
	cli.Flag
	names []string
}

// Names implements cli.Flag.
func (n named) Names() []string { return n.names }
