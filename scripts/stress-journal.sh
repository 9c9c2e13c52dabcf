#!/bin/bash
# Ends a run of three data-parallel ranks over 40 points at a random moment and goes on with it until it is complete: by kill -9 of a random process, by
# SIGTERM, and by a disk that fills up. Every point that all ranks had kept must be in the result unchanged, none twice, and the result must be valid.
#
#   scripts/stress-journal.sh [KILLS [TERMS [DISKS]]]      default 100, 30 and 20
set -uo pipefail
cd "$(dirname "$0")/.."
kills=${1:-100} terms=${2:-30} disks=${3:-20}
work=$(mktemp -d)
mounted=
trap '[ -z "$mounted" ] || umount "$work/disk"; rm -rf "$work"' EXIT
go build -o "$work/" ./cmd/fpmrun ./cmd/fpmbench ./cmd/fpmstat || exit 1
export PATH=$work:$PATH
cd "$work" || exit 1
failed=0 run=0 way=

# 24 prefill and 16 decode points: a second or two on two cores.
points() {
  echo '{"schema_version": 1, "prefill": ['
  for i in $(seq 24); do echo "{\"batch_size\": $((i % 4 + 1)), \"total_prefill_tokens\": $((i * 10)), \"total_kv_read_tokens\": 0}$([ "$i" = 24 ] || echo ,)"; done
  echo '], "decode": ['
  for i in $(seq 16); do echo "{\"batch_size\": $((i % 8 + 1)), \"total_kv_read_tokens\": $(((i % 8 + 1) * (i * 25 + 1)))}$([ "$i" = 16 ] || echo ,)"; done
  echo ']}'
}
points >points.json
bench=(fpmbench --model tiny --points-file points.json)

# fail TEXT: says what was wrong with this run and what the launcher said.
fail() {
  failed=$((failed + 1))
  echo "run $run of '$way': $1"
  sed 's/^/    /' err
}

# job OUT FLAG...: starts a launch in the background.
job() {
  mark=$$-$RANDOM$RANDOM
  FPM_STRESS=$mark fpmrun -np 3 "${bench[@]}" "$@" >out.txt 2>err &
  pid=$!
}

# moment: somewhere in the time that a whole run takes.
moment() { sleep "$(printf '%d.%03d' $((RANDOM * whole / 32768 / 1000)) $((RANDOM * whole / 32768 % 1000)))"; }

# signal NAME: to a random process of the launch.
signal() {
  local all
  mapfile -t all < <(grep -lzx "FPM_STRESS=$mark" /proc/[0-9]*/environ 2>/dev/null)
  [ ${#all[@]} -eq 0 ] && return
  local one=${all[$((RANDOM % ${#all[@]}))]%/environ}
  kill "-$1" "${one#/proc/}" 2>/dev/null
}

# remember DIR: adds the points that all ranks keep in DIR to what must be in the result.
remember() {
  local rank lists=()
  for rank in 0 1 2; do
    local file=$1/benchmark.journal
    [ $rank = 0 ] || file=$1/benchmark_dp$rank.journal
    [ -e "$file" ] || return
    fpmstat show --csv "$file" 2>/dev/null | tail -n +2 | sort >"kept$rank"
    lists+=("kept$rank")
  done
  comm -12 "${lists[0]}" "${lists[1]}" | comm -12 - "${lists[2]}" >>must
}

# finish DIR: goes on until the run is complete.
finish() {
  local status how=(--resume "$1")
  [ -e "$1/benchmark.journal" ] || how=(--output-path "$1/benchmark.json" --overwrite) # ended before anything was kept
  fpmrun -np 3 "${bench[@]}" "${how[@]}" >out.txt 2>err
  status=$?
  [ $status = 0 ] || fail "going on: status $status"
}

# verify DIR: what the result must be.
verify() {
  local files=("$1"/benchmark.json "$1"/benchmark_dp1.json "$1"/benchmark_dp2.json)
  fpmstat check "${files[@]}" "$1"/benchmark*.journal >checked 2>&1 || fail "$(cat checked)"
  fpmstat check "$1"/benchmark_merged.json "$1"/benchmark_merged_worker_probe.json >checked 2>&1 || fail "$(cat checked)"
  fpmstat show --csv "$1/benchmark.json" | tail -n +2 | sort >result
  [ "$(cut -d, -f1 result | sort -un | wc -l)/$(wc -l <result)" = 40/40 ] || fail "$(wc -l <result) points, $(cut -d, -f1 result | sort -un | wc -l) of them different, want 40"
  local lost
  lost=$(sort -u must | comm -23 - result)
  [ -z "$lost" ] || fail "kept and then lost or changed: $lost"
  grep -q '"status": "complete"' "$1/benchmark_merged.json" || fail "the merged document is not complete"
  kept=$((kept + $(sort -u must | wc -l)))
}

killed() {
  job --output-path out/benchmark.json
  moment
  signal KILL
  wait "$pid" 2>/dev/null
  remember out
  if [ $((RANDOM % 3)) = 0 ] && [ -e out/benchmark.journal ]; then # once more, while it goes on
    job --resume out
    moment
    signal KILL
    wait "$pid" 2>/dev/null
    remember out
  fi
  finish out
  verify out
}

terminated() {
  job --output-path out/benchmark.json
  moment
  signal TERM
  wait "$pid" 2>/dev/null
  local status=$?
  case $status in # complete, stopped by a rank, by the launcher, or before there was a run to stop
  0 | 3 | 143 | 1) ;;
  *) fail "status $status after SIGTERM" ;;
  esac
  if [ $status = 3 ]; then
    fpmstat check out/benchmark*.json >checked 2>&1 || fail "the partial documents: $(cat checked)"
  fi
  remember out
  finish out
  verify out
}

filled() {
  mkdir -p disk
  mount -t tmpfs -o "size=$((RANDOM % 160 + 16))k" tmpfs disk || return
  mounted=yes
  fpmrun -np 3 "${bench[@]}" --output-path disk/benchmark.json >out.txt 2>err
  local status=$?
  [ $status = 0 ] || grep -q 'no space left on device' err || fail "status $status, and the full disk is not named"
  remember disk
  mount -o remount,size=64m disk
  finish disk
  verify disk
  umount disk
  mounted=
}

each() {
  way=$1
  kept=0
  local before=$failed n=$3
  for run in $(seq "$n"); do
    rm -rf out must kept*
    : >must
    "$2"
  done
  echo "$n runs of '$way': $((failed - before)) failures; $kept points were kept and gone on from"
}

begin=$(date +%s%3N)
way="nothing" run=1
: >must
job --output-path out/benchmark.json
wait "$pid" || fail "status $?"
kept=0
verify out
whole=$(($(date +%s%3N) - begin))
echo "a whole run takes $whole ms"
each "kill -9" killed "$kills"
each "SIGTERM" terminated "$terms"
if mkdir -p disk && mount -t tmpfs -o size=16k tmpfs disk 2>/dev/null; then
  umount disk
  each "full disk" filled "$disks"
else
  echo "full disk: left out, since a small file system cannot be mounted here"
fi
[ "$failed" -eq 0 ]
