#!/usr/bin/env bash
# Long tests of the collective layer: 10,000 scenarios of late, silent and killed ranks on the simulated network, a GiB of garbage and
# 10,000 strangers against a running world, and 256 processes that join and pass a barrier. About five minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."

FPM_SEEDS=10000 go test -count=1 -timeout 20m -run '^TestFailures$' ./collective
FPM_LONG=1 go test -count=1 -timeout 20m -run '^TestHostileConnections$' ./collective
bin/fpmrun -np 256 fpmcoll --limit 1ms barrier:0
