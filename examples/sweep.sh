#!/usr/bin/env bash
# Measures one cell for each model and phase, each in a folder of its own, and checks what was written before it goes on.
#
#     examples/sweep.sh OUT RANKS MODEL...
#
# A cell that fails is marked by a file "failed" with its exit status, and the sweep goes on; the exit status is 0 only when every cell is good. pipefail
# makes the status of a cell that of the run, not that of tee. FPM_* variables set anything else, such as FPM_POINTS_FILE.
set -euo pipefail

if (($# < 3)); then
  echo "usage: $0 OUT RANKS MODEL..." >&2
  exit 2
fi
out=$1 ranks=$2
shift 2

failed=0
for model in "$@"; do
  for mode in prefill decode; do
    cell=$out/${model//\//_}-$mode
    mkdir -p "$cell"
    status=0
    fpmrun -np "$ranks" fpmbench --model "$model" --mode "$mode" --output-path "$cell/benchmark.json" 2>&1 | tee "$cell/log" || status=$?
    if ((status == 0)); then
      fpmstat check "$cell"/benchmark*.json || status=$?
    fi
    if ((status != 0)); then
      echo "$status" >"$cell/failed"
      echo "$cell: failed with status $status" >&2
      failed=1
    fi
  done
done
exit "$failed"
