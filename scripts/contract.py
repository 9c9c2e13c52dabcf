#!/usr/bin/env python3
"""Judge the runs of scripts/gpu-contract.sh.

    contract.py judge FOLDER      a line for each promise whose runs are there; exit status 1 when one is not kept
    contract.py subset MERGED     a points file with 30 decode points of a merged document, evenly spread
"""

import json
import pathlib
import statistics
import sys


def merged(folder):
    return json.loads((folder / "benchmark_merged.json").read_text())


def key(point):
    return point["point_type"], point["batch_size"], point["total_prefill_tokens"], point["total_kv_read_tokens"]


def raw(result):
    return result["fpms"][0]["benchmark_measurement"]["raw_fpms"]


def steady(result):
    """Seconds from the output before to that of the step, of the steps that follow another."""
    return [s["wall_time"] for s in raw(result) if s["benchmark_sample"]["timing"]["basis"] == "inter_output"]


def width(folder):
    medians = {n: statistics.median(t for r in merged(folder / f"width-{n}")["results"] for t in steady(r)) for n in (4096, 131072)}
    ratio = medians[131072] / medians[4096]
    yield abs(ratio - 1) <= 0.03, f"16 x 128 decode: {medians[4096] * 1e3:.3f} ms with --max-model-len 4096, {medians[131072] * 1e3:.3f} ms with 131072: ratio {ratio:.3f}, at most 3 % apart"


def gap(folder):
    rank = json.loads((folder / "gap-timed" / "benchmark.json").read_text())  # a diagnostic run is not merged
    timed = {t["benchmark_id"]: t["seconds"] for t in rank["fpmrun"]["diagnostic"]["gpu_timing"]}
    for result in merged(folder / "gap-plain")["results"]:
        point = result["point"]
        plain = statistics.median(steady(result))
        device = statistics.median(timed[point["benchmark_id"]][1:])
        yield plain - device < 30e-6, f"host gap at batch {point['batch_size']}: {plain * 1e6:.1f} us between outputs, {device * 1e6:.1f} us on the GPU: {(plain - device) * 1e6:.1f} us, below 30"


def cold(folder):
    for state, limit in (("empty", 25), ("full", 10)):
        begin, end = map(float, (folder / f"cold-{state}" / "seconds").read_text().split())
        split = merged(folder / f"cold-{state}")["fpmrun"]["0"]["engine_preparation_seconds"]
        parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in split.items())
        yield end - begin < limit, f"cold start with {state} caches: {end - begin:.1f} s, below {limit} ({parts})"


def giant(folder):
    document = merged(folder / "giant")
    limits = document["limits"]
    large = [r for r in document["results"] if r["point"]["total_kv_read_tokens"] >= 100000]
    short = [r["point"] for r in large if len(steady(r)) < 3]

    def room(point):
        """Whether the requests and the pool have place for the tokens of four steps more."""
        longest = -(-point["total_kv_read_tokens"] // point["batch_size"]) + 4
        blocks = point["batch_size"] * -(-longest // limits["block_size"])
        return longest <= limits["max_model_len"] and blocks <= 0.99 * limits["num_gpu_blocks"]  # the rest is held back for running requests

    early = [p for p in short if room(p)]
    yield large and not early, f"{len(large) - len(short)} of {len(large)} points over 100,000 KV tokens have 3 steady steps; {len(early)} of the others had room for them"


def grid(folder):
    document = merged(folder / "grid")
    seconds = document["timing"]["benchmark_elapsed_seconds"]
    results = document["results"]
    yield seconds < 300, f"agg grid: {len(results)} points in {seconds:.1f} s, below 300"
    spans = sorted((raw(r)[0]["benchmark_sample"]["timing"]["start_monotonic"], raw(r)[-1]["benchmark_sample"]["timing"]["end_monotonic"]) for r in results)
    between = statistics.median(after[0] - before[1] for before, after in zip(spans, spans[1:]))
    yield between < 15e-3, f"from the end of a point to the beginning of the next: median {between * 1e3:.2f} ms, below 15"
    samples = [s for r in results for s in raw(r)]
    observed = sum(s["benchmark_sample"]["cudagraph"]["status"] == "observed" for s in samples)
    yield observed == len(samples), f"{observed} of {len(samples)} raw samples have an observed dispatch"


def repeat(folder):
    launches = [merged(folder / "repeat" / f"launch-{n}") for n in (1, 2, 3)]
    times = {}
    for document in launches:
        for result in document["results"]:
            times.setdefault(key(result["point"]), []).append(result["fpms"][0]["wall_time"])
    variable = {k: 100 * statistics.stdev(t) / statistics.mean(t) for k, t in times.items()}
    over = {k: cv for k, cv in variable.items() if cv > 5}
    share = 100 * len(over) / len(times)
    yield share <= 2, f"{len(over)} of {len(times)} coordinates vary by more than 5 % between 3 launches: {share:.2f} %, at most 2"
    for k, cv in sorted(over.items(), key=lambda item: -item[1])[:10]:
        yield True, f"  {k}: {cv:.1f} %, ms {[round(t * 1e3, 3) for t in times[k]]}"
    far = []
    for result in merged(folder / "subset")["results"]:
        k, alone = key(result["point"]), result["fpms"][0]["wall_time"]
        full = statistics.median(times[k])
        if abs(alone / full - 1) > 0.05:
            far.append(f"  {k}: {full * 1e3:.3f} ms in the grid, {alone * 1e3:.3f} ms alone")
    yield not far, f"{len(far)} of 30 points differ by more than 5 % from the full grid's when measured in a run of their own"
    for line in far:
        yield True, line


PARTS = {"width-4096": width, "gap-timed": gap, "cold-full": cold, "giant": giant, "grid": grid, "subset": repeat}


def judge(folder):
    kept = True
    for name, part in PARTS.items():
        if not (folder / name).is_dir():
            continue
        try:
            for good, line in part(folder):
                kept = kept and bool(good)
                print(("ok      " if good else "NOT KEPT ") + line)
        except (OSError, KeyError, ValueError) as e:
            kept = False
            print(f"NOT KEPT {name}: {type(e).__name__}: {e}")
    return 0 if kept else 1


def subset(path):
    points = [r["point"] for r in json.loads(pathlib.Path(path).read_text())["results"] if r["point"]["point_type"] == "decode"]
    chosen = [points[i * len(points) // 30] for i in range(30)]
    print(json.dumps({"schema_version": 1, "prefill": [], "decode": [{k: p[k] for k in ("batch_size", "total_kv_read_tokens")} for p in chosen]}))
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("judge", "subset"):
        sys.exit(__doc__)
    sys.exit(judge(pathlib.Path(sys.argv[2])) if sys.argv[1] == "judge" else subset(sys.argv[2]))
