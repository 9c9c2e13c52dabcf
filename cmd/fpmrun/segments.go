package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fpmrun/fpmrun/cmd/internal/flagvalue"
	"github.com/fpmrun/fpmrun/cmd/internal/mistake"
	"github.com/fpmrun/fpmrun/launcher"
)

// segments splits PROGRAM ARG... : PROGRAM ARG... at lone colons; "::" stands for a literal one.
func segments(args []string) [][]string {
	list := [][]string{nil}
	for _, arg := range args {
		switch arg {
		case ":":
			list = append(list, nil)
			continue
		case "::":
			arg = ":"
		}
		list[len(list)-1] = append(list[len(list)-1], arg)
	}
	return slices.DeleteFunc(list, func(s []string) bool { return len(s) == 0 && len(list) == 1 })
}

// segments reads the programs. The first uses the main flags; each further one may begin with flags of its own.
func (o *options) segments(args, environ []string) ([]launcher.Segment, error) {
	var list []launcher.Segment
	for i, words := range segments(args) {
		s := launcher.Segment{Ranks: 1, Dir: o.dir}
		if i == 0 {
			s.Ranks = o.ranks()
		} else {
			var err error
			if words, err = o.ownFlags(&s, words, environ); err != nil {
				return nil, err
			}
		}
		if len(words) == 0 {
			return nil, errNoProgram
		}
		if i == 0 && o.module {
			words = append([]string{python(lookup(environ, "PATH")), "-m"}, words...)
		}
		s.Program, s.Args = words[0], words[1:]
		list = append(list, s)
	}
	if len(list) == 0 {
		return nil, errNoProgram
	}
	return list, nil
}

// ownFlags reads the flags of a further program, as far as it has any of its own. What it does not say of GPUs is as for the others.
func (o *options) ownFlags(s *launcher.Segment, words, environ []string) ([]string, error) {
	perRank := flagvalue.Count{Low: 0}
	visibility := flagvalue.Choice{Allowed: []string{"own", "all"}}
	var gpuMap flagvalue.Sizes
	shared, gpus := false, false
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		flag, value, joined := strings.Cut(words[0], "=")
		words = words[1:]
		name := strings.ReplaceAll(strings.TrimLeft(flag, "-"), "_", "-")
		if name == "" { // "--" ends the flags
			break
		}
		if name == "oversubscribe-gpu" {
			if joined {
				return nil, fmt.Errorf("%s after ':': want no value", flag)
			}
			shared, gpus = true, true
			continue
		}
		if !joined {
			if len(words) == 0 {
				return nil, fmt.Errorf("%s after ':' needs a value", flag)
			}
			value, words = words[0], words[1:]
		}
		var err error
		switch name {
		case "np", "n", "c":
			count := flagvalue.Count{Low: 1}
			if err = count.Set(value); err == nil {
				s.Ranks = count.Value
			}
		case "wdir", "wd":
			s.Dir = value
		case "x":
			s.Env, err = appendVariables(s.Env, []string{value}, environ)
		case "gpus-per-rank":
			err, gpus = perRank.Set(value), true
		case "gpu-map":
			err, gpus = gpuMap.Set(value), true
		case "gpu-visibility":
			err, gpus = visibility.Set(value), true
		default:
			err = errors.New("want -np, -x, --wdir, --gpus-per-rank, --gpu-map, --gpu-visibility or --oversubscribe-gpu")
			value = ""
		}
		if err != nil {
			return nil, fmt.Errorf("%s after ':': %s", strings.TrimSpace(flag+" "+value), mistake.Wanted(err.Error()))
		}
	}
	if !gpus {
		return words, nil
	}
	g := o.resources().GPUs
	g.GPUMap = gpuMap
	switch {
	case perRank.Given:
		g.GPUsPerRank = perRank.Value
	case gpuMap != nil:
		g.GPUsPerRank = max(g.GPUsPerRank, 1)
	}
	g.Oversub = g.Oversub || shared
	if visibility.Value != "" {
		g.SeeAll = visibility.Value == "all"
	}
	if g.GPUsPerRank == 0 && (shared || visibility.Value == "all" || gpuMap != nil) {
		return nil, errors.New("--gpu-map, --gpu-visibility and --oversubscribe-gpu after ':' go with --gpus-per-rank N")
	}
	s.GPUs = &g
	return words, nil
}
