#!/usr/bin/env bash
# Measures on one GPU what graphs, asynchronous steps and evidence promise, with llama-3.1-8b in bfloat16 and random weights, and judges it:
#
#   scripts/gpu-contract.sh FOLDER [PART...]      all parts by default
#
#   width     16 x 128 decode with block tables for 4,096 and for 131,072 tokens
#   gap       what the host adds to a step: an ordinary run less the GPU's own time of a diagnostic one
#   cold      a process from its start to the end of 7 decode points, with empty caches and then with full ones
#   evidence  steps with and without the evidence of host and process
#   giant     the decode grid, with several steps for points that read at least 100,000 KV tokens
#   grid      the agg grid of the default limits
#   repeat    the decode grid in three launches, and 30 of its points in a run of their own
#
# It needs bin/fpmbench and python3, and bin/evidencecost (go build -o bin ./scripts/evidencecost) for the part evidence.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?a folder for the results}
shift
[ $# -gt 0 ] || set -- width gap cold evidence giant grid repeat
mkdir -p "$out"

# points FILE BATCHxCONTEXT...
points() {
  local file=$1 list='' p
  shift
  for p in "$@"; do list+="${list:+, }{\"batch_size\": ${p%x*}, \"total_kv_read_tokens\": $((${p%x*} * ${p#*x}))}"; done
  echo "{\"schema_version\": 1, \"prefill\": [], \"decode\": [$list]}" >"$file"
}

# measure NAME FLAG...
measure() {
  local name=$1 begin=$SECONDS status=0
  shift
  rm -rf "${out:?}/$name"
  mkdir -p "$out/$name"
  bin/fpmbench --engine cuda --model llama-3.1-8b --output-path "$out/$name/benchmark.json" "$@" >"$out/$name/log" 2>&1 || status=$?
  echo "$name: exit status $status, $((SECONDS - begin)) s"
  [ $status = 0 ] || tail -3 "$out/$name/log"
}

steady=(--mode decode --giant-kv-threshold 0 --giant-kv-repeats 40)
for part in "$@"; do
  case $part in
    width)
      points "$out/width.points" 16x128 16x128 16x128
      for n in 4096 131072; do measure "width-$n" "${steady[@]}" --points-file "$out/width.points" --max-model-len $n; done
      ;;
    gap)
      points "$out/gap.points" 1x1024 256x1024
      measure gap-plain "${steady[@]}" --points-file "$out/gap.points"
      measure gap-timed "${steady[@]}" --points-file "$out/gap.points" --gpu-timing
      ;;
    cold)
      points "$out/cold.points" 1x1024 1x4096 4x128 16x4096 64x1024 64x4096 256x1024
      caches=$(mktemp -d)
      for state in empty full; do
        begin=$(date +%s.%N)
        XDG_CACHE_HOME=$caches measure "cold-$state" --mode decode --points-file "$out/cold.points"
        echo "$begin $(date +%s.%N)" >"$out/cold-$state/seconds"
      done
      rm -rf "$caches"
      ;;
    evidence)
      # shellcheck disable=SC2046
      points "$out/evidence.points" $(printf '1x1024 %.0s' {1..200})
      measure evidence --mode decode --giant-kv-threshold 0 --giant-kv-repeats 20 --points-file "$out/evidence.points" --evidence alternate
      if [ -x bin/evidencecost ]; then bin/evidencecost "$out/evidence/benchmark.json"; else echo "SKIPPED: bin/evidencecost is missing"; fi
      ;;
    giant) measure giant --mode decode --giant-kv-threshold 100000 ;;
    grid) measure grid --mode agg ;;
    repeat)
      measure repeat --mode decode --repeat 3
      python3 scripts/contract.py subset "$out/repeat/launch-1/benchmark_merged.json" >"$out/subset.points"
      measure subset --mode decode --points-file "$out/subset.points"
      ;;
    *)
      echo "gpu-contract: unknown part $part; want width, gap, cold, evidence, giant, grid or repeat" >&2
      exit 2
      ;;
  esac
done
python3 scripts/contract.py judge "$out"
