package sweep

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// File is a sweep as a user writes it down in YAML; docs/sweep.md describes each key.
type File struct {
	Output  string  `yaml:"output"`   // folder of the runs' folders, relative to the working directory
	Launch  Flags   `yaml:"fpmrun"`   // flags of fpmrun in every run
	Bench   Flags   `yaml:"fpmbench"` // flags of fpmbench in every run
	Preset  *Preset `yaml:"preset"`   // further axes
	Matrix  Axes    `yaml:"matrix"`   // axes, the last one fastest
	Exclude []Flags `yaml:"exclude"`  // cells of the matrix that match all flags of one of these are left out
	Include []Flags `yaml:"include"`  // cells beside the matrix
	Repeats int     `yaml:"repeats"`  // runs of each cell; 0 is 1
	Retries int     `yaml:"retries"`  // launches after a failed one
	Budget  string  `yaml:"budget"`   // no run is begun after so long; empty: no limit
}

// Read reads a sweep from a file. Errors name the file and the line.
func Read(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Parse reads a sweep. A key that there is not is an error.
func Parse(text []byte) (*File, error) {
	var f File
	if err := decode(text, &f); err != nil {
		return nil, err
	}
	return &f, f.validate()
}

// decode reads YAML. The library panics on some tagged scalars where a list belongs; that is an error of the text as any other.
func decode(text []byte, f *File) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("YAML that cannot be read, such as a tag on what is no list (%v)", r)
		}
	}()
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(f); err != nil && !errors.Is(err, io.EOF) {
		return errors.New(strings.TrimSpace(yaml.FormatError(err, false, false)))
	}
	return nil
}

// Limit is the budget as a duration; 0 is none.
func (f *File) Limit() (time.Duration, error) {
	if f.Budget == "" {
		return 0, nil
	}
	d, err := duration(f.Budget)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("budget: %s: want a duration such as 90s or 2h", f.Budget)
	}
	return d, nil
}

// launchAxes are the axes of a matrix that are flags of fpmrun; all others are fpmbench's.
var launchAxes = []string{"np", "dp", "tp", "pp", "pcp", "gpus-per-rank", "gpu-map", "bind-to", "map-by", "iface", "tls"}

// ownFlags are set by the sweep itself, or contradict it.
var ownFlags = map[string]string{
	"output-path": "every run has a folder of its own below output", "resume": "every run goes on with what its folder holds",
	"overwrite": "a finished run is kept; delete its folder to measure it again", "repeat": "runs below one folder would be read as ranks of one run; write repeats: 2",
	"probe-path": "the runs would share it", "serve": "a run would not end", "dry-run": "type fpmrun sweep --dry-run", "json": "type fpmrun sweep --json",
	"events": "the runs would share it", "output-dir": "the runs would share it; what the ranks say is in run.log of each run",
	"nproc-per-node": "write np, the ranks of all nodes", "node-rank": "a sweep runs from one place",
	"benchmark-output-path": "every run has a folder of its own below output",
}

func (f *File) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if f.Output == "" {
		fail("output: no folder is named; write output: DIR")
	}
	if f.Repeats < 0 || f.Retries < 0 {
		fail("repeats: %d, retries: %d: want 0 or more", f.Repeats, f.Retries)
	}
	if _, err := f.Limit(); err != nil {
		errs = append(errs, err)
	}
	own := func(where string, name string) {
		if why, ok := ownFlags[name]; ok {
			fail("%s: %s cannot be set: %s", where, name, why)
		}
	}
	fixed := map[string]string{}
	for _, one := range f.Launch {
		own("fpmrun", one.Name)
		fixed[one.Name] = "fpmrun"
	}
	for _, one := range f.Bench {
		own("fpmbench", one.Name)
		if slices.Contains(launchAxes, one.Name) {
			fail("fpmbench: %s: the topology is fpmrun's; write it below fpmrun or matrix", one.Name)
		}
		fixed[one.Name] = "fpmbench"
	}
	axes := map[string]bool{}
	for _, axis := range f.Matrix {
		own("matrix", axis.Name)
		if where, twice := fixed[axis.Name]; twice {
			fail("matrix: %s is set below %s too; keep one of them", axis.Name, where)
		}
		axes[axis.Name] = true
	}
	if f.Preset != nil {
		errs = append(errs, f.Preset.validate(fixed, axes))
	}
	for _, set := range f.Exclude {
		for _, one := range set {
			if !axes[one.Name] && f.Preset == nil {
				fail("exclude: %s is no axis of the matrix", one.Name)
			}
		}
	}
	for _, set := range f.Include {
		for _, one := range set {
			own("include", one.Name)
		}
	}
	return errors.Join(errs...)
}
