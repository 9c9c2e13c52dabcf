#!/bin/bash
# Ends jobs in rough ways, many times each: after every run the status must be right and no process may be left.
#
#   scripts/stress-launcher.sh [RUNS [MANY]]      default 200 runs of each way and 1000 of `fpmrun -np 64 true`
set -uo pipefail
# An interrupt that is ignored when a shell begins stays ignored in all that it starts.
[ -z "$(trap -p INT)" ] || exec env --default-signal=INT bash "$0" "$@"
cd "$(dirname "$0")/.."
runs=${1:-200} many=${2:-1000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/" ./cmd/fpmrun ./cmd/fpm-keeper ./test/launchprog || exit 1
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

# nodes RANKS COMMAND...: the job on two nodes, both of them here; other is the fpmrun of node 1.
nodes() {
  local flags="--timeout 60 --nnodes 2 --rendezvous 127.0.0.1:$port --token-file token -np $1"
  shift
  FPM_STRESS=$mark fpmrun $flags --node-rank 1 "$@" >out1 2>err1 </dev/null &
  other=$!
  job fpmrun $flags --node-rank 0 "$@"
}
# both WANT WANT: the statuses of both nodes, and what is left.
both() {
  wait "$pid" 2>/dev/null
  local status=$?
  wait "$other" 2>/dev/null
  check "$1 $2" "$status $?"
}
kill_node0() {
  nodes 4 sh -c "$ranks"
  wait_for up0 up1 up2 up3
  kill -9 "$pid"
  both 137 1
}
kill_node1() {
  nodes 4 sh -c "$ranks"
  wait_for up0 up1 up2 up3
  kill -9 "$other"
  both 1 137
  grep -q '^fpmrun: node 1 .*was lost' err || fail "node 1 is not named"
}
kill_node1_keeper() {
  nodes 4 sh -c "$ranks"
  wait_for up0 up1 up2 up3
  kill -9 "$(pgrep -P "$other")"
  both 1 1
}
crash_node1() {
  nodes 8 launchprog join 7:crash barrier
  both 137 137
  grep -q '^fpmrun: rank 7 .*was killed by signal 9' err || fail "rank 7 is not named"
  grep -Eq '^fpmrun: rank [0-6] .*(exited|killed)' err && fail "a victim is named as a cause"
}
(umask 077; head -c 32 /dev/urandom | base64 >token)
port=$((20000 + RANDOM % 10000))

each "kill -9 of fpmrun" kill_fpmrun
each "kill -9 of the keeper" kill_keeper
each "kill -9 of a rank" kill_rank
each "kill -9 of a shell with children" kill_shell
each "interrupt during the start" interrupt_start
each "closed stdout" closed_stdout
each "full disk" full_disk
each "rank 0 crashes while 7 wait" crash
each "two nodes: kill -9 of node 0" kill_node0
each "two nodes: kill -9 of node 1" kill_node1
each "two nodes: kill -9 of node 1's keeper" kill_node1_keeper
each "two nodes: rank 7 crashes while 7 wait" crash_node1

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
