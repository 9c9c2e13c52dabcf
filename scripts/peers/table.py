"""Makes the table of bench-collectives.sh from rows `program op bytes ranks n median ...` on standard input."""

import collections
import statistics
import sys

peers = sys.argv[1:]
figures = collections.defaultdict(list)
for line in sys.stdin:
    fields = line.rstrip("\n").split("\t")
    if len(fields) < 6:
        continue  # what a launcher that was ended had to say
    program, op, size, ranks, _, median, *_ = fields
    figures[(op, int(size), int(ranks)), program].append(float(median))

cells = list(dict.fromkeys(cell for cell, _ in figures))


def number(x):
    return f"{x:,.1f}" if x < 100 else f"{x:,.0f}"


def shown(values):
    return f"{number(statistics.median(values))} ({number(min(values))} to {number(max(values))})"


print("| operation, bytes | ranks | ours | " + " | ".join(f"{p} | ratio" for p in peers) + " |")
print("|---" * (3 + 2 * len(peers)) + "|")
worst = {p: (0.0, "") for p in peers}
for op, size, ranks in cells:
    ours = figures[(op, size, ranks), "ours"]
    row = [f"{op} {size}" if size else op, str(ranks), shown(ours)]
    for p in peers:
        theirs = figures.get(((op, size, ranks), p))
        if not theirs:
            row += ["", ""]
            continue
        ratio = statistics.median(ours) / statistics.median(theirs)
        worst[p] = max(worst[p], (ratio, f"{row[0]} with {ranks} ranks"))
        row += [shown(theirs), f"{ratio:.2f}"]
    print("| " + " | ".join(row) + " |")
print()
for p, (ratio, cell) in worst.items():
    print(f"highest ratio to {p}: {ratio:.2f} ({cell})")
