#!/bin/bash
# Ends jobs in rough ways, many times each: after every run the status must be right and no process may be left.
#
#   scripts/stress-launcher.sh [RUNS [MANY]]      default 200 runs of each way and 1000 of `fpmrun -np 64 true`
set -uo pipefail
cd "$(dirname "$0")/.."
runs=${1:-200} many=${2:-1000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/" ./cmd/fpmrun ./test/launchprog || exit 1
export PATH=$work:$PATH TMPDIR=$work
unset XDG_RUNTIME_DIR
cd "$work" || exit 1
failed=0 run=0

# fail TEXT: says what was wrong with this run and what the launcher said.
fail() {
  failed=$((failed + 1))
  echo "run $run of '$way': $1"
  sed 's/^/    /' err
}

# left prints the processes that carry the run's marker; they get 5 s to go.
left() {
  local i found
  for i in $(seq 100); do
    found=$(grep -lzx "FPM_STRESS=$mark" /proc/[0-9]*/environ 2>/dev/null)
    [ -z "$found" ] && return
    sleep 0.05
  done
  for i in $found; do tr '\0' ' ' <"${i%environ}cmdline"; echo "(${i%/environ})"; done
}

# check WANT GOT: the status, and what is left.
check() {
  [ "$2" = "$1" ] || fail "status $2, want $1"
  local rest
  rest=$(left)
  [ -z "$rest" ] || fail "left: $rest"
}

# begin: a fresh run.
begin() {
  run=$((run + 1))
  mark=$$-${way// /_}-$run
  rm -f up* err
  : >err
}

# wait_for FILE...: until ranks say that they have come so far.
wait_for() {
  local file
  for file in "$@"; do
    while [ ! -s "$file" ]; do sleep 0.005; done
  done
}

# job COMMAND...: starts it in the background with the marker.
job() {
  FPM_STRESS=$mark "$@" >out 2>err &
  pid=$!
}

each() {
  way=$1
  run=0
  local before=$failed
  while [ "$run" -lt "$runs" ]; do
    begin
    "$2"
  done
  echo "$runs runs of '$way': $((failed - before)) failures"
}

# Every rank starts a grandchild in a session of its own.
ranks='setsid sleep 1000 & sleep 1001 & echo $$ >up$FPM_RANK; wait'

kill_fpmrun() {
  job fpmrun --timeout 60 -np 3 sh -c "$ranks"
  wait_for up0 up1 up2
  kill -9 "$pid"
  wait "$pid" 2>/dev/null
  check 137 $?
}
kill_keeper() {
  job fpmrun --timeout 60 -np 3 sh -c "$ranks"
  wait_for up0 up1 up2
  kill -9 "$(pgrep -P "$pid")"
  wait "$pid"
  check 1 $?
}
kill_rank() {
  job fpmrun --timeout 60 -np 3 sh -c "echo \$\$ >up\$FPM_RANK; exec sleep 1000"
  wait_for up0 up1 up2
  kill -9 "$(cat up1)"
  wait "$pid"
  check 137 $?
  grep -q "^fpmrun: rank 1 .*was killed by signal 9" err || fail "rank 1 is not named"
}
kill_shell() {
  job fpmrun --timeout 60 -np 3 sh -c "$ranks"
  wait_for up0 up1 up2
  kill -9 "$(cat up1)"
  wait "$pid"
  check 137 $?
}
interrupt_start() {
  set -m # a shell without job control starts background jobs with SIGINT ignored
  job fpmrun --timeout 60 -np 16 sh -c "$ranks"
  set +m
  # At any moment of the first 40 ms, also before anything is there: then the signal itself ends the process.
  sleep "0.0$(printf %02d $((RANDOM % 40)))"
  kill -INT "$pid" 2>/dev/null
  wait "$pid"
  local status=$?
  check 130 "$status"
}
closed_stdout() {
  FPM_STRESS=$mark fpmrun -np 3 sh -c 'seq 2000; exit 0' >&- 2>err
  check 0 $?
  FPM_STRESS=$mark fpmrun -np 3 sh -c 'seq 2000; exit 6' 2>err | head -1 >out
  check 6 "${PIPESTATUS[0]}"
}
full_disk() {
  FPM_STRESS=$mark fpmrun -np 3 seq 3000 >/dev/full 2>err
  check 1 $?
  grep -q 'no space left on device' err || fail "the full disk is not named"
}
crash() {
  FPM_STRESS=$mark fpmrun --timeout 60 -np 8 launchprog join 0:crash barrier >out 2>err
  check 137 $?
  grep -q '^fpmrun: rank 0 .*was killed by signal 9' err || fail "rank 0 is not named"
  grep -Eq '^fpmrun: rank [1-7] .*(exited|killed)' err && fail "a victim is named as a cause"
}

each "kill -9 of fpmrun" kill_fpmrun
each "kill -9 of the keeper" kill_keeper
each "kill -9 of a rank" kill_rank
each "kill -9 of a shell with children" kill_shell
each "interrupt during the start" interrupt_start
each "closed stdout" closed_stdout
each "full disk" full_disk
each "rank 0 crashes while 7 wait" crash

way="fpmrun -np 64 true"
slowest=0
for run in $(seq "$many"); do
  mark=$$-many-$run
  begin_ms=$(date +%s%3N)
  FPM_STRESS=$mark fpmrun -np 64 true >out 2>err
  status=$?
  took=$(($(date +%s%3N) - begin_ms))
  [ "$took" -gt "$slowest" ] && slowest=$took
  [ "$status" = 0 ] || fail "status $status, want 0"
done
echo "$many runs of '$way'; the slowest took $slowest ms"
[ "$failed" = 0 ] || { echo "$failed failures"; exit 1; }
