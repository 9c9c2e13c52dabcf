#!/bin/bash
# Times whole commands, each N times and in turn, and prints a table: median, smallest and largest of N in milliseconds. Rows that
# are to be compared run interleaved, so that a slow moment of the machine hits all of them. MPICH's launcher is measured
# beside ours where it is installed (Debian: mpich).
#
#   scripts/measure.sh [N]        default 11
set -euo pipefail
cd "$(dirname "$0")/.."
n=${1:-11}
bin=$PWD/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# time_once FILE COMMAND...: appends the command's wall time in microseconds.
time_once() {
  local file=$1 begin end
  shift
  begin=$(date +%s%N)
  "$@" >/dev/null 2>&1
  end=$(date +%s%N)
  echo $(((end - begin) / 1000)) >>"$file"
}

# row FILE TEXT: prints a table row.
row() {
  sort -n "$1" | awk -v text="$2" '{ v[NR] = $1 / 1000 } END {
    m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
    printf "| %s | %d | %.1f | %.1f | %.1f |\n", text, NR, m, v[1], v[NR] }'
}

echo "| command | n | median ms | min | max |"
echo "|---|---|---|---|---|"
for ranks in 2 8 32 64; do
  for _ in $(seq "$n"); do
    time_once "ours-$ranks" "$bin/fpmrun" -np "$ranks" /bin/true
    if command -v mpiexec.hydra >/dev/null; then
      time_once "hydra-$ranks" mpiexec.hydra -n "$ranks" /bin/true
    fi
  done
  row "ours-$ranks" "\`fpmrun -np $ranks /bin/true\`"
  if [ -e "hydra-$ranks" ]; then
    row "hydra-$ranks" "\`mpiexec.hydra -n $ranks /bin/true\`"
  fi
done
for i in $(seq 5); do
  time_once main "$bin/fpmrun" -np 2 "$bin/fpmbench" --output-path "main-$i/benchmark.json"
  time_once qwen "$bin/fpmrun" -np 2 "$bin/fpmbench" --model qwen3-0.6b --hf-overrides '{"num_hidden_layers":2}' \
    --max-num-batched-tokens 64 --max-num-seqs 4 --max-model-len 256 --prefill-max-new-token-samples 4 \
    --prefill-max-kv-read-token-samples 4 --decode-max-kv-read-token-samples 4 --decode-max-batch-size-samples 4 \
    --prefix-max-batch-size-samples 4 --output-path "qwen-$i/benchmark.json"
done
row main "main job: \`fpmrun -np 2 fpmbench\`"
row qwen "grid of qwen3-0.6b cut to 2 layers, 2 ranks"
