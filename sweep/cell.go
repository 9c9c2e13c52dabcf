package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/fpmrun/fpmrun/rank/env"
)

// Cell is one run of a sweep.
type Cell struct {
	Name     string // of its folder, and unique in the sweep
	Ranks    int
	Topology env.Topology // zero: fpmbench chooses
	Launch   []string     // flags of fpmrun
	Bench    []string     // flags of fpmbench, all but those of paths
	Digest   string       // of what was measured, in hex: ranks, the flags that place them, fpmbench's flags and the points
}

// maxName is the longest part of a folder's name that a value may be.
const maxName = 60

// Cells are the sweep's runs, in the order in which they are started. An error says which cell cannot be.
func (f *File) Cells() ([]Cell, error) {
	sets := []Flags{nil}
	if f.Preset != nil {
		sets = f.Preset.sets()
	}
	for _, axis := range slices.Backward(f.Matrix) {
		var more []Flags
		for _, value := range axis.Values {
			for _, set := range sets {
				more = append(more, append(Flags{{axis.Name, value}}, set...))
			}
		}
		sets = more
	}
	if len(f.Matrix) == 0 && f.Preset == nil && len(f.Include) > 0 {
		sets = nil
	}
	sets = slices.DeleteFunc(sets, func(set Flags) bool { return slices.ContainsFunc(f.Exclude, set.matches) })
	sets = append(sets, f.Include...)
	var cells []Cell
	var errs []error
	names := map[string]bool{}
	for _, set := range sets {
		for repeat := range max(1, f.Repeats) {
			cell, err := f.cell(set, repeat)
			if err == nil && names[cell.Name] {
				err = errors.New("two cells of the sweep are the same run")
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", cell.Name, err))
				continue
			}
			names[cell.Name] = true
			cells = append(cells, cell)
		}
	}
	if len(cells) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("matrix: nothing is left to run"))
	}
	return cells, errors.Join(errs...)
}

// matches reports whether the set has all flags of another.
func (f Flags) matches(other Flags) bool {
	for _, one := range other {
		if value, ok := f.value(one.Name); !ok || value != one.Value {
			return false
		}
	}
	return true
}

// cell is the run with the given flags of its own.
func (f *File) cell(set Flags, repeat int) (Cell, error) {
	c := Cell{Name: name(set)}
	if f.Repeats > 1 {
		c.Name += "_run" + strconv.Itoa(repeat+1)
	}
	launch, bench := f.Launch, f.Bench
	if _, given := bench.value("warmup-iterations"); f.Preset != nil && !given {
		bench = bench.with(Flags{{"warmup-iterations", "5"}})
	}
	for _, one := range set {
		if slices.Contains(launchAxes, one.Name) {
			launch = launch.with(Flags{one})
		} else {
			bench = bench.with(Flags{one})
		}
	}
	var errs []error
	count := func(name string) int {
		value, given := launch.value(name)
		if !given {
			return 0
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			errs = append(errs, fmt.Errorf("%s: %s: want a number of at least 1", name, value))
		}
		return n
	}
	c.Topology = env.Topology{DP: count("dp"), PP: count("pp"), PCP: count("pcp"), TP: count("tp")}
	c.Ranks = max(count("np"), count("n"))
	if len(errs) > 0 {
		return c, errors.Join(errs...)
	}
	if c.Ranks == 0 {
		c.Ranks = 1
		if c.Topology != (env.Topology{}) {
			c.Ranks = c.Topology.Ranks()
		}
		launch = append(Flags{{"np", strconv.Itoa(c.Ranks)}}, launch...)
	}
	if c.Topology != (env.Topology{}) {
		var err error
		if c.Topology, err = c.Topology.Resolve(c.Ranks); err != nil {
			return c, err
		}
	}
	c.Launch, c.Bench = launch.words(), bench.words()
	sum := sha256.New()
	placed := slices.DeleteFunc(slices.Clone(launch), func(one Flag) bool { return !slices.Contains(launchAxes, one.Name) })
	fmt.Fprintf(sum, "%d %q %q", c.Ranks, placed.words(), c.Bench)
	if path, ok := bench.value("points-file"); ok {
		points, err := os.ReadFile(path)
		if err != nil {
			return c, fmt.Errorf("points-file: %w", err)
		}
		sum.Write(points)
	}
	c.Digest = hex.EncodeToString(sum.Sum(nil)[:16])
	return c, nil
}

// name is a folder's name that says what is special about a run: the values of model and mode, and those of other flags with their names.
func name(set Flags) string {
	if len(set) == 0 {
		return "run"
	}
	var parts []string
	for _, one := range set {
		part := one.Value
		switch {
		case one.Name == "model" || one.Name == "mode":
		case one.Value == "true":
			part = one.Name
		default:
			part = one.Name + one.Value
		}
		parts = append(parts, plain(part))
	}
	whole := strings.Join(parts, "_")
	if whole[0] == '.' || whole[0] == '-' {
		whole = "run" + whole
	}
	if strings.HasSuffix(whole, ".json") {
		whole += "_" // readers look for documents by their ending
	}
	return whole
}

// plain is a word without what is unusual in file names. One that is changed, or too long, gets a part of its digest, so that it stays unique.
func plain(word string) string {
	changed := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".+-", r) {
			return r
		}
		return '-'
	}, word)
	if changed == word && len(word) <= maxName {
		return word
	}
	sum := sha256.Sum256([]byte(word))
	return changed[max(0, len(changed)-maxName):] + "-" + hex.EncodeToString(sum[:4])
}
