#!/usr/bin/env bash
# Checks the CUDA engine on a machine with a GPU, in stages that each take a few minutes and can run alone:
#
#   scripts/gpu-check.sh [--out FOLDER] STAGE...
#
#   door       driver and libraries open, the GPU is described, random weights and KV pool have the host's bits
#   kernels    all kernels compile for every head size without spills and within gpu/kernels/limits.txt, and each alone is as its twin in float64
#   logits     prefill, chunks, decode and mixed steps of every family and head size against the CPU engine
#   graphs     steps in captured graphs, padding, two steps in flight
#   oracle     4 layers of each dense family at full width, and a whole qwen3-0.6b, against transformers in float32 and bfloat16
#   sanitizer  compute-sanitizer's memcheck, racecheck and initcheck over small shapes
#   bench      decode and prefill steps of llama-3.1-8b with random weights beside their floor, and each kind of command of a step
#   peer       the same points by fpmbench with its own ceilings, and by PyTorch
#   evidence   fpmrun -np 1 fpmbench --engine cuda, its documents checked by fpmstat
#   limits     a model and a pool that do not fit are refused before anything is allocated
#   faults     a kernel that faults and a rank that is killed end with the first error named, and the GPU's memory is free afterwards; needs bin/fpmgpu
#   launch     fpmrun with PyTorch's gloo, a rank bound to the real GPU, and two that want one each of one GPU refused; needs bin/fpmgpu
#   report     the table of all stages that were run
#
# Nothing is built here: it needs bin/cuda.test (make gpu-test), bin/fpmrun, bin/fpmbench and bin/fpmstat (make build). A stage leaves STAGE.log and a line
# in stages.jsonl in the folder (default gpu-results).
set -euo pipefail
cd "$(dirname "$0")/.."
out=gpu-results
if [ "${1:-}" = --out ]; then
  out=${2:?--out needs a folder}
  shift 2
fi
[ $# -gt 0 ] || { sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'; exit 2; }
mkdir -p "$out"
for program in cuda.test fpmrun fpmbench fpmstat; do
  [ -x "bin/$program" ] || { echo "gpu-check: bin/$program is missing; run make build gpu-test where Go is, and bring bin along" >&2; exit 1; }
done
export FPM_REQUIRE_GPU=1
commit=$(git describe --always --dirty 2>/dev/null || bin/fpmbench --version | awk '{print $NF}')
failed=0

tests() { bin/cuda.test -test.v -test.run "$1"; }

oracle() {
  local folder
  folder=$(mktemp -d)
  # shellcheck disable=SC2064
  trap "rm -rf '$folder'" RETURN
  FPM_ORACLE_DIR=$folder tests TestOracleFolders
  python3 scripts/oracle.py "$folder" --device cuda --limit 2e-2 --bfloat16 1.5
}

sanitizer() {
  command -v compute-sanitizer >/dev/null || { echo "SKIPPED: compute-sanitizer is not installed"; return 0; }
  local status=0 tool tests
  for tool in memcheck racecheck initcheck; do
    echo "== $tool"
    tests='TestKernelTwins|TestLogits/(llama|head_64)'
    [ $tool != initcheck ] || tests=TestKernelTwins # it does not see what cuBLASLt writes, and takes its results for uninitialised
    if ! compute-sanitizer --tool "$tool" --error-exitcode 9 bin/cuda.test -test.short -test.run "$tests" >"$out/$tool.log" 2>&1; then status=1; fi
    if grep -q 'not supported\|Failed to initialize' "$out/$tool.log"; then
      echo "SKIPPED: $(grep -m1 'not supported\|Failed to initialize' "$out/$tool.log")"
    else
      grep 'SUMMARY' "$out/$tool.log" || echo "no summary: see $tool.log"
      grep -E 'error|hazard|Uninitialized|at [A-Za-z_0-9]+\(|at [a-z_]+\+' "$out/$tool.log" | sed 's/=========//' | sort | uniq -c | sort -rn | head -8 || true
    fi
  done
  return $status
}

evidence() {
  rm -rf "$out/run"
  bin/fpmrun -np 1 fpmbench --engine cuda --model llama-3.1-8b --mode decode --max-num-seqs 64 --max-model-len 8192 --kv-blocks 20000 \
    --decode-max-batch-size-samples 4 --decode-max-kv-read-token-samples 4 --output-path "$out/run/benchmark.json"
  bin/fpmstat check "$out/run/benchmark.json"
}

peer() {
  local points=$out/points.json
  cat >"$points" <<'END'
{"schema_version": 1,
 "prefill": [{"batch_size": 1, "total_prefill_tokens": 512, "total_kv_read_tokens": 0}, {"batch_size": 1, "total_prefill_tokens": 2048, "total_kv_read_tokens": 0},
  {"batch_size": 4, "total_prefill_tokens": 8192, "total_kv_read_tokens": 0}, {"batch_size": 1, "total_prefill_tokens": 8192, "total_kv_read_tokens": 0},
  {"batch_size": 1, "total_prefill_tokens": 512, "total_kv_read_tokens": 4096}],
 "decode": [{"batch_size": 1, "total_kv_read_tokens": 1024}, {"batch_size": 1, "total_kv_read_tokens": 4096}, {"batch_size": 4, "total_kv_read_tokens": 512},
  {"batch_size": 16, "total_kv_read_tokens": 65536}, {"batch_size": 64, "total_kv_read_tokens": 65536}, {"batch_size": 64, "total_kv_read_tokens": 262144},
  {"batch_size": 256, "total_kv_read_tokens": 262144}]}
END
  bin/fpmbench --engine cuda --model llama-3.1-8b --points-file "$points" --mode agg --giant-kv-threshold 0 --giant-kv-repeats 40 --max-model-len 16384 --roofline \
    --output-path "$out/peer/benchmark.json"
  python3 scripts/peers/forward.py
}

# refused EXPECTED... -- COMMAND...: the command must end with status 2 and say each of the words.
refused() {
  local words=() text status=0
  while [ "$1" != -- ]; do words+=("$1"); shift; done
  shift
  text=$("$@" 2>&1) || status=$?
  echo "$text"
  [ "$status" = 2 ] || { echo "exit status $status, want 2"; return 1; }
  for word in "${words[@]}"; do
    grep -qF -- "$word" <<<"$text" || { echo "want \"$word\" in the message"; return 1; }
  done
}

limits() {
  refused "131.4 GiB" --gpu-memory-utilization -- bin/fpmbench --engine cuda --model llama-3.1-70b &&
    refused --kv-blocks "room for" -- bin/fpmbench --engine cuda --model llama-3.1-8b --kv-blocks 90000000 &&
    bin/fpmbench --engine cuda --model llama-3.1-8b --dry-run
}

# memory_used prints how many bytes of the GPUs' memory are in use, by NVML.
memory_used() { bin/fpmgpu list | grep -o '"memory_used":[0-9]*' | awk -F: '{ n += $2 } END { printf "%.0f\n", n }'; }

# freed BEFORE: the programs that ended have left nothing, which the driver may need a moment for. A CUDA context alone takes more than what is let pass.
freed() {
  local now turn
  for ((turn = 0; turn < 100; turn++)); do
    now=$(memory_used) || return 1
    if ((now <= $1 + (128 << 20))); then
      echo "memory within the limit: $1 bytes in use before, $now after"
      return 0
    fi
    sleep 0.1
  done
  echo "error: $now bytes of GPU memory are in use, want at most 128 MiB more than the $1 before"
  return 1
}

# killed: a rank of two on one GPU is killed while it measures. fpmrun names it, ends with its status, and leaves no process.
killed() {
  local dir=$out/killed line pid='' last='' run status=0 word
  rm -rf "$dir"
  mkdir -p "$dir"
  awk 'BEGIN { printf "{\"schema_version\": 1, \"prefill\": [], \"decode\": ["
    for (i = 0; i < 1000; i++) printf "%s{\"batch_size\": %d, \"total_kv_read_tokens\": %d}", i ? ",\n" : "", i % 8 + 1, 16 * (i % 8 + 1) * (int(i / 8) + 1)
    print "]}" }' >"$dir/points.json"
  exec 3< <(exec bin/fpmrun -np 2 --gpus-per-rank 1 --oversubscribe-gpu --events "$dir/events" fpmbench --engine cuda --model qwen3-0.6b --mode decode \
    --points-file "$dir/points.json" --output-path "$dir/benchmark.json" 2>&1)
  run=$!
  while read -r line <&3; do
    echo "$line"
    last=$line
    if [ -z "$pid" ] && [[ $line =~ [1-9][0-9]*/[0-9]+\ points,\  ]]; then
      pid=$(grep '"event":"start"' "$dir/events" | grep '"rank":1,' | grep -o '"pid":[0-9]*' | cut -d: -f2)
      kill -9 "$pid"
    fi
  done
  exec 3<&-
  wait "$run" || status=$?
  [ -n "$pid" ] || { echo "error: fpmbench came to no point, exit status $status"; return 1; }
  [ "$status" = 137 ] || { echo "error: exit status $status, want 137"; return 1; }
  grep -qF "fpmrun: rank 1 (pid $pid, " <<<"$last" || { echo "error: the last line does not name rank 1, pid $pid: $last"; return 1; }
  for word in $(grep '"event":"start"' "$dir/events" | grep -o '"pid":[0-9]*' | cut -d: -f2); do
    if kill -0 "$word" 2>/dev/null; then echo "error: process $word is left"; return 1; fi
  done
}

# Each step says by itself that the stage has failed: bash does not end a function at a command that fails where its status is looked at.
faults() {
  local before way
  [ -x bin/fpmgpu ] || { echo "error: bin/fpmgpu is missing; make build, where a C compiler is, makes it"; return 1; }
  before=$(memory_used) || { echo "error: fpmgpu list does not say how much memory is in use"; return 1; }
  for way in synchronous later; do
    echo "== a kernel that faults, $way"
    FPM_TEST_FAULT=$way tests '^TestFaultingKernel$' || return 1
    freed "$before" || return 1
  done
  echo "== a rank that is killed"
  killed || return 1
  freed "$before"
}

# launch: PyTorch meets with what fpmrun sets alone, and fpmrun knows the GPU by name.
launch() {
  local name
  bin/fpmrun -np 4 --timeout 2m python3 examples/torch_allreduce.py | tee "$out/launch.txt" || return 1
  grep -qF "sum over 4 ranks is right" "$out/launch.txt" || { echo 'error: want "sum over 4 ranks is right"'; return 1; }
  name=$(bin/fpmgpu list | grep -o '"name":"[^"]*"' | head -n 1 | cut -d '"' -f 4)
  CUDA_VISIBLE_DEVICES=0 bin/fpmrun --gpus-per-rank 1 -np 1 --report-bindings true 2>&1 | tee "$out/launch.txt" || return 1
  grep -qF "GPU 0 ${name:?fpmgpu list names no GPU}" "$out/launch.txt" || { echo "error: want \"GPU 0 $name\" in the report"; return 1; }
  CUDA_VISIBLE_DEVICES=0 refused "2 ranks need 2 GPUs" --oversubscribe-gpu -- bin/fpmrun -np 2 --gpus-per-rank 1 true
}

report() {
  echo "| stage | result | seconds | commit |"
  echo "|---|---|---|---|"
  sed 's/.*"stage":"\([^"]*\)","result":"\([^"]*\)","seconds":\([0-9]*\),"commit":"\([^"]*\)".*/| \1 | \2 | \3 | \4 |/' "$out/stages.jsonl"
}

for stage in "$@"; do
  case $stage in
    door) run=(tests 'TestRandomBits|TestRepeats') ;;
    kernels) run=(tests '^(TestKernelLimits|TestKernelPipelines|TestKernelTwins)$') ;;
    logits) run=(tests 'TestLogits|TestCase24') ;;
    graphs) run=(tests 'TestGraphs|TestReplay|TestCase2[123]|TestDispatch|TestTwoInFlight|TestCeilings|TestTiming|TestProgress|TestStages|TestAbort') ;;
    bench) run=(bin/cuda.test -test.run '^$' -test.bench 'Decode|Prefill|Commands' -test.benchtime 20x) ;;
    oracle | sanitizer | evidence | limits | faults | peer | launch) run=("$stage") ;;
    report) report; continue ;;
    *) echo "gpu-check: unknown stage $stage; want door, kernels, logits, graphs, oracle, sanitizer, bench, peer, evidence, limits, faults, launch or report" >&2; exit 2 ;;
  esac
  begin=$SECONDS
  result=passed
  set +e # not "||", under which a stage would go on after a command that fails
  (set -e; "${run[@]}") >"$out/$stage.log" 2>&1
  [ $? = 0 ] || { result=failed; failed=1; }
  set -e
  printf '{"stage":"%s","result":"%s","seconds":%d,"commit":"%s"}\n' "$stage" "$result" $((SECONDS - begin)) "$commit" >>"$out/stages.jsonl"
  echo "$stage: $result"
  grep -E 'worst row|worst error|greedy|within the limit|ns/op|SUMMARY|SKIPPED|FAIL|error|want' "$out/$stage.log" | cut -c1-160 | tail -30 || true
done
exit $failed
