#!/bin/bash
# Does fpmstat diff name a point that was really slowed, and no other? Each comparison is of launches of one measurement on the CPU engine, where in those of NEW
# the steps of one point do all their work six times, which takes them three to ten times as long: fpmbench is built a second time for that, with forward.go
# replaced. Each point has its turn. Fails unless every comparison names its point alone and none of equals, which are made of the same OLD, names one.
#
#   scripts/slowed-point.sh [COMPARISONS [LAUNCHES]]      default 20 comparisons of 8 launches on each side
set -euo pipefail
cd "$(dirname "$0")/.."
comparisons=${1:-20} launches=${2:-8}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
  sed 's/^func (e \*Engine) forward(step/func (e *Engine) forwardOnce(step/; s/^package cpu/package cpu\n\nimport (\n\t"fmt"\n\t"os"\n)/' gpu/cpu/forward.go
  cat <<'GO'
func (e *Engine) forward(step *gpu.Step) error {
	if fmt.Sprintf("%d %d %v", len(step.Rows), step.Tokens(), step.Decode()) == os.Getenv("SLOWED_STEP") {
		for range 5 {
			if err := e.forwardOnce(step); err != nil {
				return err
			}
		}
	}
	return e.forwardOnce(step)
}
GO
} >"$work/forward.go"
echo "{\"Replace\": {\"$PWD/gpu/cpu/forward.go\": \"$work/forward.go\"}}" >"$work/overlay.json"
go build -o "$work/plain/" ./cmd/fpmrun ./cmd/fpmbench ./cmd/fpmstat
go build -overlay "$work/overlay.json" -o "$work/slow/" ./cmd/fpmbench
cp "$work/plain/fpmrun" "$work/slow/"

# The points of the mixed grid: rows, new tokens and whether these are decode steps, by benchmark_id.
steps=("1 64 false" "1 1 false" "4 130 false" "2 32 false" "3 30 false" "1 1 true" "3 3 true" "7 7 true" "8 8 true")

# measure PROGRAMS FOLDER
measure() {
  "$work/$1/fpmrun" -np 2 fpmbench --engine cpu --repeat "$launches" --points-file artifact/testdata/points-mixed.json --output-path "$work/$2/benchmark.json" >"$work/out" 2>&1 ||
    { cat "$work/out"; return 1; }
}

# named OLD NEW: the ids that diff names
named() {
  "$work/plain/fpmstat" diff "$work/$1" "$work/$2" | tee "$work/diff" | awk '$1 == "id" {rows = 1; next} rows {print $1}' | sort -nu | xargs
}

right=0 silent=0
for i in $(seq "$comparisons"); do
  id=$(((i - 1) % ${#steps[@]} + 1))
  measure plain old
  measure plain equal
  SLOWED_STEP=${steps[id - 1]} measure slow new
  other=$(named old equal)
  got=$(named old new)
  [ "$got" = "$id" ] && right=$((right + 1)) || cat "$work/diff"
  [ -z "$other" ] && silent=$((silent + 1))
  echo "comparison $i: point $id slowed, named: ${got:-none}; of equals: ${other:-none}; $(head -1 "$work/diff"); load $(cut -d ' ' -f 1 /proc/loadavg); new/old $(awk '$1 == "id" {rows = 1; next} rows {print $9}' "$work/diff" | xargs)"
  rm -r "$work/old" "$work/equal" "$work/new"
done
echo "the slowed point and no other in $right of $comparisons; none of equals in $silent of $comparisons"
[ "$right" = "$comparisons" ] && [ "$silent" = "$comparisons" ]
