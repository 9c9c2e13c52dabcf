#!/bin/bash
# Collectives beside MPI libraries and Gloo on this machine: bench-collectives.sh [REPETITIONS [CELL...]]. Programs take turns within each
# repetition. Prints a Markdown table: median of the repetitions' medians and their range in microseconds, and the ratio of ours to
# each peer's. Needs Debian's libopenmpi-dev, libmpich-dev and libgloo-dev for the peers; one that is missing is named and left out.
# RANKS (2 4 8), LIMIT (seconds a row), PEERS (openmpi openmpi-shm mpich gloo) are read from the environment. A peer that does not
# end within PATIENCE (120 seconds) is ended, named, and has an empty cell.
set -euo pipefail
cd "$(dirname "$0")/.."
repetitions=${1:-5}
[ $# -gt 0 ] && shift
cells=("$@")
[ ${#cells[@]} -gt 0 ] || cells=(barrier:0 broadcast:64 broadcast:1048576 gather:64 gather:4096 gather:1048576
	allgather:64 allgather:1048576 allreduce:8 allreduce:4096 allreduce:1048576 allreduce:67108864)
ranks=${RANKS:-2 4 8}
limit=${LIMIT:-0.3}
patience=${PATIENCE:-120}
peers=${PEERS:-openmpi openmpi-shm mpich gloo}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cpus=$(nproc)

make -s bin/fpmrun bin/fpmcoll >&2
have=()
for peer in $peers; do
	case $peer in
	openmpi | openmpi-shm) build="mpicc.openmpi -O2 -o $work/openmpi scripts/peers/mpi.c" ;;
	mpich) build="mpicc.mpich -O2 -o $work/mpich scripts/peers/mpi.c" ;;
	gloo) build="g++ -O2 -std=c++17 -o $work/gloo scripts/peers/gloo.cc -lgloo -lpthread" ;;
	*) echo "peer $peer: want openmpi, openmpi-shm, mpich or gloo" >&2 && exit 2 ;;
	esac
	if $build 2>"$work/error"; then have+=("$peer"); else echo "left out: $peer ($(head -1 "$work/error"))" >&2; fi
done

# timed PROGRAM RANKS: the rows of one program, its name in front.
timed() {
	local bounded=(timeout -k 1 "$patience")
	local open=("${bounded[@]}" mpirun.openmpi --allow-run-as-root --oversubscribe -np "$2")
	[ "$2" -gt "$cpus" ] && open+=(--mca mpi_yield_when_idle 1)
	case $1 in
	ours) "${bounded[@]}" bin/fpmrun -np "$2" fpmcoll --tabs --limit "${limit}s" "${cells[@]}" ;;
	openmpi) "${open[@]}" --mca btl tcp,self "$work/openmpi" "$limit" "${cells[@]}" ;;
	openmpi-shm) "${open[@]}" --mca btl vader,self "$work/openmpi" "$limit" "${cells[@]}" ;;
	mpich) UCX_TLS=tcp,self "${bounded[@]}" mpiexec.hydra -n "$2" "$work/mpich" "$limit" "${cells[@]}" ;;
	gloo) TMPDIR=$work "${bounded[@]}" bin/fpmrun -np "$2" "$work/gloo" "$limit" "${cells[@]}" ;;
	esac 2>>"$work/errors" | sed "s/^/$1\t/"
}

for n in $ranks; do
	for _ in $(seq "$repetitions"); do
		for program in ours "${have[@]}"; do
			timed "$program" "$n" >>"$work/rows" || { echo "$program failed or did not end with $n ranks: $(tail -1 "$work/errors")" >&2 && [ "$program" != ours ]; }
		done
	done
done
echo "$(date -u +%F), $cpus CPUs, $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2- | xargs), $repetitions repetitions, microseconds: median (lowest to highest of the repetitions' medians)"
echo
python3 scripts/peers/table.py "${have[@]}" <"$work/rows"
