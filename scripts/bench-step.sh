#!/bin/bash
# What a steady decode step costs between the leader of an engine and its workers, beside Open MPI's broadcast of the 64 bytes that it is:
# bench-step.sh [REPETITIONS]. Programs take turns within each repetition; the row "step" ends when the slowest worker has
# woken up and launches the step, "broadcast" when it has the bytes. Prints a Markdown table as bench-collectives.sh does. Needs Debian's libopenmpi-dev.
# RANKS (8) and LIMIT (0.3 seconds a row) are read from the environment.
set -euo pipefail
cd "$(dirname "$0")/.."
repetitions=${1:-5}
ranks=${RANKS:-8}
limit=${LIMIT:-0.3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cpus=$(nproc)

make -s bin/fpmrun bin/fpmcoll >&2
mpicc.openmpi -O2 -o "$work/openmpi" scripts/peers/mpi.c
peer=(timeout -k 1 120 mpirun.openmpi --allow-run-as-root --oversubscribe -np "$ranks" --mca btl tcp,self)
[ "$ranks" -gt "$cpus" ] && peer+=(--mca mpi_yield_when_idle 1)

for _ in $(seq "$repetitions"); do
	timeout -k 1 120 bin/fpmrun -np "$ranks" fpmcoll --tabs --limit "${limit}s" step:64 broadcast:64 | sed "s/^/ours\t/" >>"$work/rows"
	# One figure of the peer stands beside both of ours.
	"${peer[@]}" "$work/openmpi" "$limit" broadcast:64 2>>"$work/errors" | awk '{ print "openmpi\t" $0; sub("broadcast", "step"); print "openmpi\t" $0 }' >>"$work/rows"
done
echo "$(date -u +%F), $cpus CPUs, $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2- | xargs), $repetitions repetitions, microseconds: median (lowest to highest of the repetitions' medians)"
echo
python3 scripts/peers/table.py openmpi <"$work/rows"
