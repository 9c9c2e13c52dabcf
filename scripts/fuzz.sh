#!/usr/bin/env bash
# Every fuzz target of the module, one after the other: scripts/fuzz.sh DURATION
#
# Go's fuzzing may end with "context deadline exceeded" and no failing input, when the time is over while a worker is between two inputs.
# That is no finding, so the target is run once more; a second such end counts as a failure, for a target that hangs would look like that.
set -euo pipefail
cd "$(dirname "$0")/.."
duration=${1:?usage: scripts/fuzz.sh DURATION, such as 10m}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

fuzz() {
  go test -run '^$' -fuzz "^$2\$" -fuzztime "$duration" "$1" 2>&1 | tee "$log"
}

overran() {
  grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input written' "$log"
}

for package in $(go list ./...); do
  for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
    echo "fuzz $package $target"
    fuzz "$package" "$target" && continue
    overran || exit 1
    echo "the time was over between two inputs: $target once more"
    fuzz "$package" "$target"
  done
done
