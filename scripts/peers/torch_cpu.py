#!/usr/bin/env python3
"""Time the CPU engine beside PyTorch: forward passes of the qwen3-0.6b geometry in float32 with random weights.

    CGO_ENABLED=0 go test -c -trimpath -ldflags '-s -w' -o bin/cpu.test ./gpu/cpu
    python3 scripts/peers/torch_cpu.py bin/cpu.test

Both take the same steps: a prefill of 512 tokens into an empty cache, and decode of 1 and 8 sequences over 512 cached
tokens each; logits of the last token of each sequence, greedy id included. They run in turn, all of ours and then all of
PyTorch's, REPEATS times; the table has the median over the repetitions, the least and the most, in milliseconds, and the
ratio of the medians (below 1: ours is faster). Both may use every CPU that this process may use. PyTorch runs
transformers' Qwen3 with fused attention (sdpa) and a cache that is filled once and cut back outside the timed region.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import time

import torch
import transformers

LENGTH = 512
STEPS = ("prefill512", "decode1", "decode8")
CONFIG = {
    "vocab_size": 151936,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "attention_bias": False,
    "use_sliding_window": False,
}


def ours(program, iterations):
    """Milliseconds of each step by our benchmark, each the mean of some iterations of one process."""
    command = [program, "-test.run", "^$", "-test.bench", "^BenchmarkQwen3$", "-test.benchtime", f"{iterations}x"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = dict(re.findall(r"^BenchmarkQwen3/(\w+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op", text, re.MULTILINE))
    missing = [step for step in STEPS if step not in found]
    if missing:
        raise RuntimeError(f"{program} did not time {missing}:\n{text}")
    return {step: float(found[step]) / 1e6 for step in STEPS}


class Peer:
    """The same geometry in PyTorch."""

    def __init__(self):
        torch.manual_seed(0)
        config = transformers.Qwen3Config(**CONFIG)
        config._attn_implementation = "sdpa"
        self.model = transformers.Qwen3ForCausalLM(config).float().eval()

    def step(self, ids, cache):
        """One forward pass up to the greedy ids; milliseconds."""
        begin = time.perf_counter()
        out = self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        out.logits[:, -1].argmax(dim=-1)
        return (time.perf_counter() - begin) * 1e3

    def prefill(self, iterations):
        ids = torch.arange(LENGTH).reshape(1, LENGTH)
        times = [self.step(ids, transformers.DynamicCache()) for _ in range(iterations + 1)]
        return statistics.mean(times[1:])

    def decode(self, batch, iterations):
        cache = transformers.DynamicCache()
        self.step(torch.arange(LENGTH).reshape(1, LENGTH).repeat(batch, 1), cache)
        ids = torch.arange(batch).reshape(batch, 1)
        times = []
        for _ in range(iterations + 1):
            times.append(self.step(ids, cache))
            cache.crop(LENGTH)
        return statistics.mean(times[1:])

    def run(self, iterations):
        with torch.inference_mode():
            return {
                "prefill512": self.prefill(iterations),
                "decode1": self.decode(1, iterations),
                "decode8": self.decode(8, iterations),
            }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="our test program")
    parser.add_argument("--repeats", type=int, default=5, help="repetitions of ours and theirs (5)")
    parser.add_argument("--iterations", type=int, default=5, help="steps of one kind in one repetition (5)")
    args = parser.parse_args()
    cpus = len(os.sched_getaffinity(0))
    torch.set_num_threads(cpus)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {cpus} CPUs, {args.repeats} repetitions")
    peer = Peer()
    results = {"ours": {step: [] for step in STEPS}, "torch": {step: [] for step in STEPS}}
    for _ in range(args.repeats):
        for name, figures in (("ours", ours(args.program, args.iterations)), ("torch", peer.run(args.iterations))):
            for step in STEPS:
                results[name][step].append(figures[step])
    print(f"{'step':<12}{'ours, ms':>30}{'torch, ms':>30}{'ratio':>8}")
    for step in STEPS:
        cells = []
        for name in ("ours", "torch"):
            times = results[name][step]
            cells.append(f"{statistics.median(times):.1f} ({min(times):.1f} to {max(times):.1f})")
        ratio = statistics.median(results["ours"][step]) / statistics.median(results["torch"][step])
        print(f"{step:<12}{cells[0]:>30}{cells[1]:>30}{ratio:>8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
