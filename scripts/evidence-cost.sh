#!/bin/bash
# What the evidence of host and process costs a step: pairs of points of one coordinate in one run, with and without it, in turns first; the difference of
# the medians of their steady decode steps, with a bootstrap interval, on the sim and on the CPU engine. Fails when its upper end is above 0.5 % and 20 us.
# Many pairs of few steps stay close together in time: a neighbour on the machine then disturbs both of a pair.
#
#   scripts/evidence-cost.sh [PAIRS [STEPS]]      default 100 pairs of 20 steps
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${1:-100} steps=${2:-20}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/" ./cmd/fpmbench ./scripts/evidencecost
{
  echo '{"schema_version": 1, "prefill": [], "decode": ['
  for i in $(seq $((2 * pairs))); do
    echo "{\"batch_size\": 1, \"total_kv_read_tokens\": 64}$([ "$i" = $((2 * pairs)) ] || echo ,)"
  done
  echo ']}'
} >"$work/points.json"

# measure ENGINE MODEL
measure() {
  "$work/fpmbench" --engine "$1" --model "$2" --mode decode --points-file "$work/points.json" --max-model-len 1024 \
    --giant-kv-threshold 0 --giant-kv-repeats "$steps" --evidence alternate --output-path "$work/$1/benchmark.json" >"$work/out" 2>&1 || { cat "$work/out"; return 1; }
  echo -n "$1, $2: "
  "$work/evidencecost" "$work/$1/benchmark.json"
}

failed=0
measure sim llama-3.1-8b || failed=1
measure cpu tiny || failed=1
exit $failed
