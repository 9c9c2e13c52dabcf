package main

import (
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/cmd/internal/mistake"
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

// explain turns the flag library's message into one that says what to type instead.
func explain(err error, flags []cli.Flag) error { return mistake.Explain(err, "fpmrun", flags, usual) }
