#!/usr/bin/env python3
"""Time PyTorch's forward passes on one GPU: bfloat16, random weights, CUDA graphs over a static KV cache.

    python3 scripts/peers/forward.py                     Llama-3.1-8B, the points of the table below
    python3 scripts/peers/forward.py --config config.json --decode 8x512 --prefill 2x1024
    python3 scripts/peers/forward.py --floors            the floors only; needs no PyTorch

A decode point BATCHxCONTEXT computes one token for each sequence over CONTEXT cached ones, a prefill point BATCHxTOKENS
all tokens of new sequences; logits of the last token of each, greedy ids, and these in pinned host memory. Projections
of q, k, v and of gate and up are fused. Each way that PyTorch can compute the attention is tried, and the fastest one
stands for it: flash, cuDNN and memory-efficient kernels, plain products where none of these takes the shape; for decode also with the query heads of a
KV head as rows of one query, which needs no repeated keys. Rotations are not rescaled: that costs no time.

A time is the host's: a decode step from the arrival of the ids before to that of its own, with the next step launched
already, a prefill step from its launch to the arrival of its ids. A figure is the median of 20 steps after 5 warm-up
steps. Every measurement is a JSON line on standard output; the table is last. Beside each figure stands the floor: the
sum over the step's dependent operations of the longer of reading their operands and doing their arithmetic, as
gpu/roofline.go computes it. Exit status 1: a time recorded earlier for the same point on an H200 is not reached.
"""

import argparse
import ctypes
import json
import statistics
import sys
import time

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "vocab_size": 128256,
}
READ_RATE, MATH_RATE = 4650e9, 787e12  # an H200's ceilings: bytes per second, operations per second
# What torch 2.11 reached for Llama-3.1-8B on an H200 (driver 580, CUDA 13.0), by CUDA events, in milliseconds: the
# floor, a graph's time and the time without one; a prefill was measured without one only.
RECORDED = {
    ("decode", 1, 1024): (3.26, 6.12, 16.5),
    ("decode", 1, 4096): (3.34, 6.24, 29.2),
    ("decode", 4, 128): (3.24, 6.25, 16.4),
    ("decode", 16, 4096): (5.07, 8.74, 16.4),
    ("decode", 64, 1024): (5.07, 9.21, 17.0),
    ("decode", 64, 4096): (10.6, 14.85, 17.1),
    ("decode", 256, 1024): (12.3, 17.67, 19.3),
    ("prefill", 1, 128): (3.23, None, 16.2),
    ("prefill", 1, 512): (9.39, None, 18.3),
    ("prefill", 1, 2048): (37.9, None, 55.6),
    ("prefill", 4, 2048): (151, None, 217),
    ("prefill", 1, 8192): (168, None, 243),
}
TOLERANCE = 0.05
WARM_UP, TIMED = 5, 20
DEADLINE = 30  # seconds that a step may take


class Geometry:
    """What a forward pass needs of a config.json."""

    FAMILIES = ("llama", "mistral", "qwen2", "qwen3")

    def __init__(self, config):
        kind = config.get("model_type")
        if kind not in self.FAMILIES:
            raise ValueError(f"model_type {kind!r}: want one of {', '.join(self.FAMILIES)}")
        self.hidden = config["hidden_size"]
        self.intermediate = config["intermediate_size"]
        self.heads = config["num_attention_heads"]
        self.layers = config["num_hidden_layers"]
        self.kv_heads = config.get("num_key_value_heads") or self.heads
        self.head_dim = config.get("head_dim") or self.hidden // self.heads
        self.vocab = config["vocab_size"]
        self.eps = config.get("rms_norm_eps", 1e-6)
        self.theta = config.get("rope_theta", 10000.0)
        self.tied = config.get("tie_word_embeddings", False)
        self.qkv_bias = config.get("attention_bias", kind == "qwen2")
        self.head_norms = kind == "qwen3"
        used = config.get("use_sliding_window", kind == "mistral")
        self.window = config.get("sliding_window") if used else None
        if self.heads % self.kv_heads:
            raise ValueError(f"num_attention_heads {self.heads} is not a multiple of num_key_value_heads {self.kv_heads}")

    @property
    def qkv(self):
        return (self.heads + 2 * self.kv_heads) * self.head_dim


def floor(geometry, phase, batch, length, read_rate=READ_RATE, math_rate=MATH_RATE):
    """Seconds that a step takes at least: see gpu/roofline.go."""
    g = geometry
    fresh, computed = (1, length) if phase == "decode" else (length, 0)
    tokens = batch * fresh

    def matrix(elements, rows):
        return elements * max(2 / read_rate, 2 * rows / math_rate)

    layer = g.hidden * g.qkv + g.heads * g.head_dim * g.hidden + 3 * g.hidden * g.intermediate
    keys = batch * (computed + fresh)
    pairs = batch * (fresh * computed + fresh * (fresh + 1) / 2)
    attention = max(keys * 4 * g.kv_heads * g.head_dim / read_rate, pairs * 4 * g.heads * g.head_dim / math_rate)
    return g.layers * (matrix(layer, tokens) + attention) + matrix(g.hidden * g.vocab, batch)


def check_floors():
    """The recorded floors must come out, or nothing that is compared with a floor means anything."""
    for (phase, batch, length), (want, _, _) in RECORDED.items():
        got = floor(Geometry(LLAMA), phase, batch, length) * 1e3
        assert abs(got - want) <= 0.006 * want, f"floor of {phase} {batch}x{length}: {got:.3f} ms, recorded {want}"


def points(text, phase):
    """BATCHxLENGTH,... as a list of points."""
    found = []
    for part in text.split(","):
        batch, cross, length = part.strip().partition("x")
        if not (cross and batch.isdigit() and length.isdigit() and int(batch) > 0 and int(length) > 0):
            raise argparse.ArgumentTypeError(f"{part!r}: want points such as 1x1024,16x4096")
        found.append((phase, int(batch), int(length)))
    return found


class Model:
    """The geometry's weights, and one forward pass over them."""

    def __init__(self, torch, geometry):
        self.torch, self.g = torch, geometry
        torch.manual_seed(0)
        g = geometry

        def weight(*shape):
            return torch.empty(*shape, dtype=torch.bfloat16, device="cuda").normal_(0, 0.02)

        def ones(n):
            return torch.ones(n, dtype=torch.bfloat16, device="cuda")

        self.embed = weight(g.vocab, g.hidden)
        self.head = self.embed if g.tied else weight(g.vocab, g.hidden)
        self.norm = ones(g.hidden)
        self.layers = [
            {
                "norm": ones(g.hidden),
                "qkv": weight(g.qkv, g.hidden),
                "bias": weight(g.qkv) if g.qkv_bias else None,
                "q_norm": ones(g.head_dim) if g.head_norms else None,
                "k_norm": ones(g.head_dim) if g.head_norms else None,
                "o": weight(g.hidden, g.heads * g.head_dim),
                "mlp_norm": ones(g.hidden),
                "gate_up": weight(2 * g.intermediate, g.hidden),
                "down": weight(g.hidden, g.intermediate),
            }
            for _ in range(g.layers)
        ]

    def rotation(self, first, count):
        """Cosines and sines (count, head_dim) of positions from first."""
        torch, g = self.torch, self.g
        inverse = g.theta ** (-torch.arange(0, g.head_dim, 2, device="cuda", dtype=torch.float64) / g.head_dim)
        angles = torch.arange(first, first + count, device="cuda", dtype=torch.float64)[:, None] * inverse
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().bfloat16(), angles.sin().bfloat16()

    def rotate(self, x, cos, sin):
        half = x.shape[-1] // 2
        return x * cos + self.torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin

    def forward(self, ids, cache, first, rotation, attention):
        """Greedy ids (batch) after ids (batch, fresh) at positions from first; their keys and values go into the cache."""
        torch, g = self.torch, self.g
        F = torch.nn.functional
        batch, fresh = ids.shape
        total = first + fresh
        cos, sin = rotation
        x = F.embedding(ids, self.embed)
        for w, (keys, values) in zip(self.layers, cache):
            h = F.rms_norm(x, (g.hidden,), w["norm"], g.eps)
            qkv = F.linear(h, w["qkv"], w["bias"]).view(batch, fresh, g.heads + 2 * g.kv_heads, g.head_dim).transpose(1, 2)
            q, k, v = qkv.split((g.heads, g.kv_heads, g.kv_heads), dim=1)
            if g.head_norms:
                q = F.rms_norm(q, (g.head_dim,), w["q_norm"], g.eps)
                k = F.rms_norm(k, (g.head_dim,), w["k_norm"], g.eps)
            keys[:, :, first:total] = self.rotate(k, cos, sin)
            values[:, :, first:total] = v
            out = attention(self.rotate(q, cos, sin), keys[:, :, :total], values[:, :, :total])
            x = x + F.linear(out.transpose(1, 2).reshape(batch, fresh, g.heads * g.head_dim), w["o"])
            h = F.rms_norm(x, (g.hidden,), w["mlp_norm"], g.eps)
            gate, up = F.linear(h, w["gate_up"]).chunk(2, dim=-1)
            x = x + F.linear(F.silu(gate) * up, w["down"])
        h = F.rms_norm(x[:, -1], (g.hidden,), self.norm, g.eps)
        return F.linear(h, self.head).argmax(dim=-1)


def attentions(torch, g, phase):
    """The ways to compute attention of q (batch, heads, fresh, dim) over k and v (batch, kv_heads, total, dim), by name."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    sdpa = torch.nn.functional.scaled_dot_product_attention
    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}
    group, causal = g.heads // g.kv_heads, phase == "prefill"

    def native(backend):
        def run(q, k, v):
            with sdpa_kernel(backend):
                return sdpa(q, k, v, is_causal=causal, enable_gqa=group > 1)

        return run

    def repeated(backend):
        def run(q, k, v):
            with sdpa_kernel(backend):
                return sdpa(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), is_causal=causal)

        return run

    def grouped(backend):  # all keys are visible to every head of a decode step
        def run(q, k, v):
            batch = q.shape[0]
            with sdpa_kernel(backend):
                out = sdpa(q.reshape(batch, g.kv_heads, group, g.head_dim), k, v)
            return out.reshape(batch, g.heads, 1, g.head_dim)

        return run

    def products(q, k, v):
        batch, _, fresh, dim = q.shape
        q = q.reshape(batch, g.kv_heads, group * fresh, dim)
        scores = (q @ k.transpose(-1, -2)) * dim**-0.5
        if causal:
            hidden = torch.ones(fresh, fresh, dtype=torch.bool, device=q.device).triu(1).repeat(group, 1)
            scores = scores.masked_fill(hidden, float("-inf"))
        return (scores.softmax(dim=-1, dtype=torch.float32).to(v.dtype) @ v).reshape(batch, group * g.kv_heads, fresh, dim)

    ways = {"math": products}
    for name, backend in backends.items():
        if name != "efficient" or group == 1:
            ways[name] = native(backend)
        elif causal:
            ways[name] = repeated(backend)
        if not causal and group > 1:
            ways[name + ", grouped"] = grouped(backend)
    return ways


class Step:
    """A step that can be launched again and again, and the way of its ids to the host."""

    def __init__(self, torch, model, point, attention, graph):
        phase, batch, length = point
        g = model.g
        fresh, first = (1, length) if phase == "decode" else (length, 0)
        self.torch = torch
        self.ids = torch.randint(g.vocab, (batch, fresh), device="cuda")
        self.cache = [
            [torch.empty(batch, g.kv_heads, first + fresh, g.head_dim, dtype=torch.bfloat16, device="cuda").normal_() for _ in range(2)]
            for _ in range(g.layers)
        ]
        self.number = torch.zeros(1, dtype=torch.int64, device="cuda")
        self.host_ids = torch.zeros(batch, dtype=torch.int64).pin_memory()
        self.host_number = torch.zeros(1, dtype=torch.int64).pin_memory()
        self.seen = ctypes.c_int64.from_address(self.host_number.data_ptr())
        self.launched = 0
        rotation = model.rotation(first, fresh)

        def once():
            sampled = model.forward(self.ids, self.cache, first, rotation, attention)
            if fresh == 1:
                self.ids.copy_(sampled[:, None])
            self.number.add_(1)
            self.host_ids.copy_(sampled, non_blocking=True)
            self.host_number.copy_(self.number, non_blocking=True)  # after the ids: copies of one stream are in order

        self.once = once
        stream = torch.cuda.Stream()  # what is loaded at the first use is not captured
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                once()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        if graph:
            captured = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured):
                once()
            self.once = captured.replay
        self.launched = self.seen.value

    def launch(self):
        self.once()
        self.launched += 1

    def arrival(self, number):
        """The host's clock in seconds when the ids of a step are here."""
        begin = time.perf_counter()
        while self.seen.value < number:
            if time.perf_counter() - begin > DEADLINE:
                raise RuntimeError(f"a step has not ended after {DEADLINE} s")
        return time.perf_counter()

    def decode(self, count):
        """Seconds of each of count steps, two in flight."""
        times = []
        self.launch()
        before = None
        for _ in range(count + 1):
            self.launch()
            now = self.arrival(self.launched - 1)
            if before is not None:
                times.append(now - before)
            before = now
        self.arrival(self.launched)
        return times

    def prefill(self, count):
        """Seconds of each of count steps, one after the other."""
        times = []
        for _ in range(count):
            begin = time.perf_counter()
            self.launch()
            times.append(self.arrival(self.launched) - begin)
        return times


def measure(torch, model, point, name, attention, graph):
    """One measurement: a dictionary with milliseconds, or with what went wrong."""
    phase, batch, length = point
    line = {"phase": phase, "batch": batch, "length": length, "attention": name, "graph": graph}
    step = None
    try:
        with torch.inference_mode():
            step = Step(torch, model, point, attention, graph)
            times = step.decode(WARM_UP + TIMED) if phase == "decode" else step.prefill(WARM_UP + TIMED)
            times = [t * 1e3 for t in times[WARM_UP:]]
        line.update(ms=round(statistics.median(times), 4), min=round(min(times), 4), max=round(max(times), 4), n=len(times))
    except RuntimeError as error:  # a kernel that does not take the shape, or no memory
        line["error"] = str(error).strip().splitlines()[0][:200]
    del step
    torch.cuda.empty_cache()
    print(json.dumps(line), flush=True)
    return line


def best(lines):
    good = [line for line in lines if "ms" in line]
    return min(good, key=lambda line: line["ms"]) if good else None


def report(geometry, results, recorded, read_rate, math_rate):
    """The table, and whether the recorded times are reached: {point: (graph, eager)} in, exit status out."""
    print(f"{'point':<20}{'floor ms':>9}{'graph ms (min to max)':>28}{'ratio':>7}{'attention':>20}{'eager ms':>10}{'recorded':>10}{'':>4}")
    status = 0
    for point, (graph, eager) in results.items():
        least = floor(geometry, *point, read_rate, math_rate) * 1e3
        row = f"{point[0]} {point[1]} x {point[2]}"
        cell, ratio, name = "none", "", ""
        if graph:
            cell = f"{graph['ms']:.2f} ({graph['min']:.2f} to {graph['max']:.2f})"
            ratio, name = f"{graph['ms'] / least:.2f}", graph["attention"]
        eager_ms = f"{eager['ms']:.1f}" if eager else "none"
        verdict = ""
        if recorded:
            want = RECORDED.get(point)
            mine = (graph if want and want[1] else eager) if want else None
            if want:
                figure = want[1] or want[2]
                verdict = f"{figure:>10g}  " + judge(mine, figure)
                status |= mine is None or mine["ms"] > figure * (1 + TOLERANCE)
        print(f"{row:<20}{least:>9.2f}{cell:>28}{ratio:>7}{name:>20}{eager_ms:>10}{verdict}")
    if recorded:
        print("the recorded times are " + ("NOT reached: do not compare with this peer" if status else "reached within 5 %"))
    return int(status)


def judge(line, figure):
    """What a measurement says of a recorded one."""
    if line is None:
        return "not measured"
    change = line["ms"] / figure - 1
    if abs(change) <= TOLERANCE:
        return "reproduced"
    return f"{abs(change):.0%} " + ("slower" if change > 0 else "faster")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", help="a config.json of another model (Llama-3.1-8B)")
    default = {phase: ",".join(f"{b}x{n}" for p, b, n in RECORDED if p == phase) for phase in ("decode", "prefill")}
    for phase, length in (("decode", "CONTEXT"), ("prefill", "TOKENS")):
        parser.add_argument(f"--{phase}", metavar=f"BATCHx{length},...", default=default[phase], help=f"({default[phase]})")
    parser.add_argument("--read-rate", type=float, default=READ_RATE, help="the floor's ceiling in bytes per second (%(default)g)")
    parser.add_argument("--math-rate", type=float, default=MATH_RATE, help="the floor's ceiling in operations per second (%(default)g)")
    parser.add_argument("--floors", action="store_true", help="print the floors and measure nothing")
    args = parser.parse_args()
    check_floors()
    config = LLAMA
    if args.config:
        with open(args.config, encoding="utf-8") as file:
            config = json.load(file)
    try:
        geometry = Geometry(config)
        chosen = points(args.decode, "decode") + points(args.prefill, "prefill")
    except (ValueError, KeyError, argparse.ArgumentTypeError) as error:
        parser.error(f"{args.config or 'points'}: {error}")
    for phase, batch, length in chosen:
        if geometry.window and length + 1 > geometry.window:
            parser.error(f"{phase} {batch}x{length}: sliding_window {geometry.window} is shorter; this script knows no windows")
    if args.floors:
        for point in chosen:
            phase, batch, length = point
            ms = floor(geometry, *point, args.read_rate, args.math_rate) * 1e3
            print(json.dumps({"phase": phase, "batch": batch, "length": length, "floor_ms": ms}))
        return 0

    try:
        import torch
    except ImportError as error:
        parser.error(f"{error}: install PyTorch for CUDA; --floors needs none")
    if not torch.cuda.is_available():
        parser.error("PyTorch sees no GPU; --floors needs none")
    gpu = torch.cuda.get_device_name()
    print(json.dumps({"gpu": gpu, "torch": torch.__version__, "cuda": torch.version.cuda, "warm_up": WARM_UP, "timed": TIMED}), flush=True)
    model = Model(torch, geometry)
    results = {}
    for point in chosen:
        ways = attentions(torch, geometry, point[0])
        plain = ways.pop("math")  # by far the slowest: only where nothing else takes the shape
        graph = best([measure(torch, model, point, way, attend, True) for way, attend in ways.items()])
        if graph is None:
            graph = measure(torch, model, point, "math", plain, True)
            graph = graph if "ms" in graph else None
        way = graph["attention"] if graph else "math"
        eager = best([measure(torch, model, point, way, ways.get(way, plain), False)])
        results[point] = (graph, eager)
    return report(geometry, results, config == LLAMA and "H200" in gpu, args.read_rate, args.math_rate)


if __name__ == "__main__":
    sys.exit(main())
