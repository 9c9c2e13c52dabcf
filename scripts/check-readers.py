#!/usr/bin/env python3
"""Lets a public reader of the artifact format judge what fpmbench writes: the native reader and the completion gate of aiconfigurator, unmodified.

    make build && python3 scripts/check-readers.py DIR       # DIR: a checkout of github.com/ai-dynamo/aiconfigurator

It measures small runs (prefill with 1, 2 and 4 data-parallel ranks, decode of a dense model with 1, decode of a mixture of experts over real KV
with 2 and 4), which both must accept; a run of both phases, which only the gate accepts; and changes one of them in more than twenty ways, each of which
the reader must refuse. Exit status: 0 all as expected, 1 not, 2 it could not be run.
"""
import argparse
import copy
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types


def load(name, path):
    """A module from its file, under a name."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def reader(tree):
    """The native reader, without the packages around it, which need more than plain Python."""
    for name in ("aiconfigurator", "collector", "collector.fpm_forward"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    load("aiconfigurator.fpm_contract", tree / "src/aiconfigurator/fpm_contract.py")
    load("collector.fpm_forward.types", tree / "collector/fpm_forward/types.py")
    planner = types.ModuleType("collector.fpm_forward.planner")
    planner.FPMCell = object
    sys.modules["collector.fpm_forward.planner"] = planner
    return load("collector.fpm_forward.native_artifact", tree / "collector/fpm_forward/native_artifact.py")


def gate(tree):
    """The text of the completion gate inside the shell script."""
    script = (tree / "collector/fpm_forward/runtime/fpm_exec.sh").read_text(encoding="utf-8")
    return re.search(r"check_result_files\(\) \{\n.*?<<'PY'\n(.*?)\nPY\n", script, re.S).group(1)


def texts(folder):
    """A tokenizer that knows bytes only, and a small data set."""
    chars, extra = {}, 256
    for b in range(256):
        if 33 <= b <= 126 or 0xA1 <= b <= 0xAC or b >= 0xAE:
            chars[chr(b)] = b
        else:
            chars[chr(extra)] = b
            extra += 1
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    steps = [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
             {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]
    (folder / "tokenizer.json").write_text(json.dumps({"pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}, "model": {"type": "BPE", "vocab": chars, "merges": []}}))
    items = [{"conversations": [{"value": f"question {i} of a conversation about {i * 7919 % 1000}"}, {"value": f"answer {i}: " + "word " * (10 + i % 9)}]} for i in range(60)]
    (folder / "conversations.json").write_text(json.dumps(items))


class Runs:
    """Runs in a folder, and what judges them."""

    def __init__(self, tree, folder, programs):
        self.native, self.gate_text, self.folder, self.programs = reader(tree), gate(tree), folder, programs
        self.bad = 0
        texts(folder)
        (folder / "points.json").write_text(json.dumps({"schema_version": 1, "prefill": [
            {"batch_size": 1, "total_prefill_tokens": 64, "total_kv_read_tokens": 0}, {"batch_size": 2, "total_prefill_tokens": 32, "total_kv_read_tokens": 128},
            {"batch_size": 4, "total_prefill_tokens": 40, "total_kv_read_tokens": 64}],
            "decode": [{"batch_size": 1, "total_kv_read_tokens": 64}, {"batch_size": 2, "total_kv_read_tokens": 90}, {"batch_size": 4, "total_kv_read_tokens": 300}]}))

    def measure(self, name, ranks, mode, *flags):
        """A run's folder, laid out as the collector lays it out."""
        pod = self.folder / name / "pod-0"
        pod.mkdir(parents=True)
        command = [self.programs / "fpmrun", "-np", str(ranks), self.programs / "fpmbench", "--mode", mode, "--points-file", "points.json",
                   "--output-path", pod / "benchmark.json", "--probe-path", self.folder / name / "probe.json", *flags]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True)
        (pod / "collector-provenance.json").write_text(json.dumps({"schema_name": "aic_fpm_collector_provenance", "schema_version": 1, "cell_id": "cell",
                                                                   "plan_sha256": "0" * 64, "attempt_id": "1", "runtime": {"backend": "vllm", "backend_version": "0"}}))
        return self.folder / name

    def read(self, root, ranks, mode, strategy):
        """What the native reader says: "" for yes."""
        cell = types.SimpleNamespace(cell_id="cell", workload_kind=mode, topology=types.SimpleNamespace(dp=ranks), parallel_strategy=strategy)
        try:
            self.native.validate_native_collection(cell, root)
        except (ValueError, TypeError, KeyError) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def passes(self, root, ranks, mode):
        """The exit status of the gate."""
        files = [root / "pod-0" / ("benchmark.json" if r == 0 else f"benchmark_dp{r}.json") for r in range(ranks)]
        return subprocess.run([sys.executable, "-", "0", mode, "2", *files], input=self.gate_text, text=True, capture_output=True, check=False).returncode

    def expect(self, ok, what, got):
        print(f"{'ok  ' if ok else 'BAD '} {what}: {got}")
        self.bad += not ok


def faults():
    """Ways to break the rank documents of a good decode run of two ranks; each changes the list of documents in place."""
    def each(change):
        return lambda docs: [change(d) for d in docs]

    def one(change):
        return lambda docs: change(docs[1])

    def records(doc, point):  # the local record and the group's, of the document's own rank
        rank = doc["dp"]["rank"]
        return [doc["results"][point]["fpms"][0], doc["iteration_groups"][point]["rank_results"][rank]["fpms"][0]]

    def everywhere(change):  # in all copies of rank 0's record of the first point
        def apply(docs):
            for doc in docs:
                change(doc["iteration_groups"][0]["rank_results"][0]["fpms"][0])
            change(docs[0]["results"][0]["fpms"][0])
        return apply

    put = lambda key, value: lambda d: d.__setitem__(key, value)
    return {
        "another run": one(put("run_id", "ff")), "another grid": one(put("grid_digest", "ff")), "partial": each(put("status", "partial")),
        "not valid": one(put("valid", False)), "not usable": one(put("usable", False)), "times not valid": one(put("timing_valid", False)),
        "stopped": one(put("stop_reason", "timeout")), "an error": one(put("error", "boom")), "no skipped_points": one(lambda d: d.pop("skipped_points")),
        "a missing phase": each(put("missing_phases", ["decode"])), "another mode": each(lambda d: d["config"].__setitem__("mode", "agg")),
        "one more point expected": each(lambda d: d["coverage"].__setitem__("expected_points", d["coverage"]["expected_points"] + 1)),
        "another size": one(lambda d: d["dp"].__setitem__("size", 3)), "the same rank twice": one(lambda d: d["dp"].__setitem__("rank", 0)),
        "no rank 1": lambda docs: docs.pop(), "no kvwarm": each(lambda d: d.pop("kvwarm")), "a reason to skip": each(lambda d: d["kvwarm"].__setitem__("skip_reason", "x")),
        "ranks of two regimes": one(lambda d: d["kvwarm"].update(warm_eligible=False, skip_reason="x")),
        "more measured than elapsed": each(lambda d: d["timing"].__setitem__("benchmark_elapsed_seconds", 0.0)),
        "measured is not the sum": each(lambda d: d["timing"].__setitem__("measured_iteration_seconds", d["timing"]["measured_iteration_seconds"] / 2)),
        "ids with a gap": each(lambda d: d["results"][0]["point"].__setitem__("benchmark_id", 99)),
        "a whole float for a size": each(lambda d: d["results"][0]["point"].__setitem__("batch_size", float(d["results"][0]["point"]["batch_size"]))),
        "a rank in a point": one(lambda d: d["results"][0]["point"].__setitem__("dp_rank", 1)),
        "another counter": everywhere(lambda f: f.__setitem__("counter_id", 99)), "no time": everywhere(lambda f: f.__setitem__("wall_time", 0.0)),
        "other tokens": everywhere(lambda f: f["scheduled_requests"].__setitem__("sum_decode_kv_tokens", 1)),
        "the local record differs": one(lambda d: records(d, 0)[0].__setitem__("worker_id", "x")),
        "the group's time is not the slowest": each(lambda d: d["iteration_groups"][0].__setitem__("wall_time", 9.0)),
        "groups in another order": one(lambda d: d["iteration_groups"].reverse()), "a group that is not complete": each(lambda d: d["iteration_groups"][0].__setitem__("complete", False)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("bin"))
    args = parser.parse_args()
    if not (args.checkout / "collector/fpm_forward/native_artifact.py").exists() or not (args.bin / "fpmbench").exists():
        print("want a checkout of aiconfigurator, and built programs in --bin", file=sys.stderr)
        return 2
    os.environ["PATH"] = f"{args.bin.resolve()}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as temp:
        runs = Runs(args.checkout, pathlib.Path(temp), args.bin.resolve())
        experts = ("--model", "tiny-moe", "--expert-parallel", "--tokenizer", "tokenizer.json", "--dataset", "conversations.json")
        for mode, ranks, strategy, flags in (("prefill", 1, "tp", ()), ("prefill", 2, "dep", experts), ("prefill", 4, "dep", experts), ("prefill", 2, "tp", ("--prefill-real-seed", "on")),
                                             ("decode", 1, "tp", ()), ("decode", 2, "dep", experts), ("decode", 4, "dep", experts)):
            root = runs.measure(f"{mode}-{ranks}-{strategy}-{len(flags)}", ranks, mode, *flags)
            said = runs.read(root, ranks, mode, strategy)
            runs.expect(said == "", f"{mode}, {ranks} ranks, {strategy}: reader", said or "accepted")
            status = runs.passes(root, ranks, mode)
            runs.expect(status == 0, f"{mode}, {ranks} ranks, {strategy}: gate", status)
        root = runs.measure("agg", 2, "agg")
        said = runs.read(root, 2, "prefill", "tp")
        runs.expect(said != "", "both phases: reader refuses", said)
        runs.expect(runs.passes(root, 2, "agg") == 0, "both phases: gate", "accepted")

        pod = runs.folder / "decode-2-dep-7" / "pod-0"
        paths = [pod / "benchmark.json", pod / "benchmark_dp1.json"]
        good = [json.loads(p.read_text()) for p in paths]
        for name, change in faults().items():
            docs = copy.deepcopy(good)
            change(docs)
            for i, path in enumerate(paths):
                if i < len(docs):
                    path.write_text(json.dumps(docs[i]))
                else:
                    path.unlink()
            said = runs.read(pod.parent, 2, "decode", "dep")
            ours = subprocess.run([args.bin / "fpmstat", "check", *[p for p in paths if p.exists()]], capture_output=True, check=False).returncode
            runs.expect(said != "", f"{name}: reader refuses (fpmstat check: {ours})", said)
    return 1 if runs.bad else 0


if __name__ == "__main__":
    sys.exit(main())
