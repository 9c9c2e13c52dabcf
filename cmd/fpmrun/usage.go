package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"
)

// errNoProgram is what a command line without a program gets.
var errNoProgram = errors.New("no program given; type fpmrun -np 2 PROGRAM [ARG...]")

// usual shows how a flag that was used wrongly is used.
var usual = map[string]string{
	"np": "-np 2", "nproc-per-node": "--nproc-per-node 2", "nnodes": "--nnodes 2", "node-rank": "--node-rank 1", "rendezvous": "--rendezvous 10.0.0.1:29500", "token-file": "--token-file FILE", "master-port": "--master-port 29500", "via": "--via srun", "gpus-per-rank": "--gpus-per-rank 1", "gpu-map": "--gpu-map 1,0", "map-by": "--map-by ppr:1:gpu", "dp": "--dp 2", "tp": "--tp 2", "pp": "--pp 2", "pcp": "--pcp 2", "x": "-x NAME=VALUE", "env-file": "--env-file FILE",
	"wdir": "--wdir DIR", "output-dir": "--output-dir logs", "show": "--show 0,2-3", "stdin": "--stdin all", "timeout": "--timeout 15m",
	"kill-grace": "--kill-grace 30s", "kill-signal": "--kill-signal INT", "join-timeout": "--join-timeout 5m", "iface": "--iface eth0", "tls": "--tls on", "flush-partial": "--flush-partial 1s",
	"status-interval": "--status-interval 10s", "restarts": "--restarts 3", "output-spill": "--output-spill 2G", "events": "--events job.jsonl", "redirects": "--redirects 3 --output-dir logs",
}

var (
	wrongValue  = regexp.MustCompile(`(?s)^invalid value "(.*)" for flag -([^ :]+): (.*)$`)
	wrongSwitch = regexp.MustCompile(`(?s)^invalid boolean value "(.*)" for -([^ :]+): `)
	gotAtTheEnd = regexp.MustCompile(`(?s), got ".*"$`)
)

// explain turns the flag library's message into one that says what to type instead.
func explain(err error, flags []cli.Flag) error {
	message := err.Error()
	if name, ok := strings.CutPrefix(message, "flag provided but not defined: -"); ok {
		return unknownFlag(name, flags)
	}
	if name, ok := strings.CutPrefix(message, "flag needs an argument: -"); ok {
		return fmt.Errorf("%s needs a value%s", dashed(name), example(name, flags))
	}
	if m := wrongSwitch.FindStringSubmatch(message); m != nil {
		return fmt.Errorf("%s=%s: want no value, or true or false", dashed(m[2]), m[1])
	}
	if m := wrongValue.FindStringSubmatch(message); m != nil {
		return fmt.Errorf("%s %s: %s%s", dashed(m[2]), m[1], gotAtTheEnd.ReplaceAllString(m[3], ""), example(m[2], flags))
	}
	return err
}

// example is the end of a message about a flag: how it is used.
func example(name string, flags []cli.Flag) string {
	for _, f := range flags {
		for _, known := range f.Names() {
			if known == strings.TrimLeft(name, "-") && usual[f.Names()[0]] != "" {
				return ", as in " + usual[f.Names()[0]]
			}
		}
	}
	return ""
}

// unknownFlag names the nearest flag that there is.
func unknownFlag(name string, flags []cli.Flag) error {
	best, distance := "", 0
	typed := strings.TrimLeft(name, "-")
	for _, f := range flags {
		for _, known := range f.Names() {
			if d := editDistance(typed, known); best == "" || d < distance {
				best, distance = known, d
			}
		}
	}
	if distance > max(1, len(typed)/3) {
		return fmt.Errorf("unknown flag %s; type fpmrun --help for the list", dashed(name))
	}
	return fmt.Errorf("unknown flag %s; did you mean %s?", dashed(name), dashed(best))
}

// dashed writes a flag's name as users do.
func dashed(name string) string {
	name = strings.TrimLeft(name, "-")
	if len(name) <= 2 && name != "dp" && name != "tp" && name != "pp" {
		return "-" + name
	}
	return "--" + name
}

// editDistance is Levenshtein's.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
