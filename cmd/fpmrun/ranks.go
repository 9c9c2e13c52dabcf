package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/fpmrun/fpmrun/launcher"
	"github.com/fpmrun/fpmrun/launcher/machine"
)

// rankCount is the value of -np: a number, or torchrun's gpu, cpu and auto.
type rankCount struct {
	Value int
	Given bool
}

// Set implements flag.Value.
func (n *rankCount) Set(s string) error {
	switch s {
	case "gpu":
		n.Value = launcher.RanksPerGPU
	case "cpu":
		n.Value = launcher.RanksPerCPU
	case "auto":
		n.Value = launcher.RanksAuto
	default:
		number, err := strconv.Atoi(s)
		if err != nil || number < 1 {
			return errors.New("want an integer of at least 1")
		}
		n.Value = number
	}
	n.Given = true
	return nil
}

// String implements flag.Value.
func (n *rankCount) String() string { return "" }

// mapping is the value of --map-by: ppr:N:node, numa or gpu, for N ranks for each; or mpirun's plain words.
type mapping struct {
	count int
	per   machine.Per
	round bool
	text  string
}

// Set implements flag.Value.
func (m *mapping) Set(s string) error {
	*m = mapping{text: s}
	switch s {
	case "slot", "core", "node":
		return nil
	case "numa":
		m.round = true
		return nil
	}
	words := strings.Split(s, ":")
	if len(words) == 3 && words[0] == "ppr" {
		n, err := strconv.Atoi(words[1])
		per := machine.Per(words[2])
		if err == nil && n > 0 && n < 1<<20 && (per == machine.PerNode || per == machine.PerNUMA || per == machine.PerGPU) {
			m.count, m.per = n, per
			return nil
		}
	}
	return errors.New("want ppr:N:node, ppr:N:numa or ppr:N:gpu for N ranks for each, or slot or numa")
}

// String implements flag.Value.
func (m *mapping) String() string { return m.text }

// resources are what the flags ask of the machine.
func (o *options) resources() launcher.Resources {
	perRank := o.gpusPerRank.Value
	if o.gpuMap != nil && perRank == 0 {
		perRank = 1
	}
	return launcher.Resources{
		GPUs: launcher.GPUs{GPUsPerRank: perRank, GPUMap: o.gpuMap, SeeAll: o.visibility.Value == "all", Oversub: o.shareGPU},
		Bind: machine.Bind(o.bind.Value), Map: o.mapBy.count, Per: o.mapBy.per, Round: o.mapBy.round || o.rankBy.Value == "numa", Report: o.bindings,
	}
}
