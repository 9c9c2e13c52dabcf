#!/usr/bin/env python3
"""Compare an engine's logits with those of transformers, for each model family.

Needs Python 3, torch and transformers 5, and no network. Go is needed to build the test program, not to run it:

    CGO_ENABLED=0 go test -c -trimpath -ldflags '-s -w' -o bin/cpu.test ./gpu/cpu
    FPM_ORACLE_DIR=/tmp/oracle bin/cpu.test -test.run '^TestOracleFolders$'
    python3 scripts/oracle.py /tmp/oracle --golden gpu/cpu/testdata/oracle

The test program writes one folder for each model: config.json, model.safetensors, oracle.json (prompt and which rows of
logits there are) and logits.f32 (our rows). This script computes the same rows in float32 with eager attention and
prints, for each model and each way to compute a token, the largest ||ours - theirs||2 / ||theirs||2 of a row. With
--bfloat16 theirs are computed in bfloat16, too, and ours may be at most that factor as far from float32 as they are, by the root mean
square over the rows of a way; an id that differs must be within ours' error of the best. With
--golden it also writes a few rows of each small model, for a Go test. Exit status: 0 all within the limit, 1 not.
"""

import argparse
import base64
import json
import pathlib
import sys

import numpy
import torch
import transformers

GOLDEN_POSITIONS = (0, 16, 40, -1)


def load(folder, device, dtype=torch.float32):
    """The model of a folder with eager attention, and what was odd about its weights."""
    options = {
        "dtype": dtype,
        "attn_implementation": "eager",
        "local_files_only": True,
        "output_loading_info": True,
    }
    model, info = transformers.AutoModelForCausalLM.from_pretrained(str(folder), **options)
    if hasattr(model, "set_experts_implementation"):
        try:
            model.set_experts_implementation("eager")
        except (AttributeError, ValueError):
            pass  # a family without experts
    tied = bool(getattr(model.config, "tie_word_embeddings", False))
    odd = [f"unexpected {name}" for name in info.get("unexpected_keys", ())]
    odd += [f"missing {name}" for name in info.get("missing_keys", ()) if not (tied and str(name) == "lm_head.weight")]
    odd += [f"mismatched {name}" for name in info.get("mismatched_keys", ())]
    return model.to(device).eval(), odd


def compute(model, tokens, device):
    """Logits of all positions of a prompt: (tokens, vocabulary) in float32."""
    ids = torch.tensor([tokens], dtype=torch.long, device=device)
    with torch.inference_mode():
        out = model(input_ids=ids, use_cache=False)
    return out.logits[0].float().cpu().numpy()


def distance(ours, theirs):
    """||ours - theirs||2 / ||theirs||2 in float64."""
    ours, theirs = ours.astype(numpy.float64), theirs.astype(numpy.float64)
    return float(numpy.linalg.norm(ours - theirs) / numpy.linalg.norm(theirs))


def write_golden(path, meta, theirs, command):
    """A few rows of a model, with all that a test needs to compute them again."""
    count = len(meta["tokens"])
    positions = sorted({p % count for p in GOLDEN_POSITIONS})
    rows = numpy.ascontiguousarray(theirs[positions], dtype="<f4")
    text = {
        "command": command,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "model": meta["model"],
        "preset": meta["preset"],
        "overrides": meta["overrides"],
        "seed": meta["seed"],
        "tokens": meta["tokens"],
        "positions": positions,
        "logits": base64.b64encode(rows.tobytes()).decode("ascii"),
    }
    path.write_text(json.dumps(text) + "\n")


def check(folder, args):
    """Compare one folder; returns the largest distance."""
    meta = json.loads((folder / "oracle.json").read_text())
    ours = numpy.fromfile(folder / "logits.f32", dtype="<f4").reshape(len(meta["rows"]), meta["vocab"])
    model, odd = load(folder, args.device)
    theirs = compute(model, meta["tokens"], args.device)
    rough = None
    if args.bfloat16:
        del model
        rough = compute(load(folder, args.device, torch.bfloat16)[0], meta["tokens"], args.device)
    worst, squares, rough_squares = {}, {}, {}
    agree, far = 0, 0
    for row, ours_row in zip(meta["rows"], ours):
        theirs_row = theirs[row["position"]]
        d = distance(ours_row, theirs_row)
        worst[row["way"]] = max(worst.get(row["way"], 0.0), d)
        best, chosen = theirs_row.argmax(), ours_row.argmax()
        agree += int(best == chosen)
        far += int(theirs_row[best] - theirs_row[chosen] > 2 * abs(ours_row - theirs_row).max())
        if rough is not None:
            squares.setdefault(row["way"], []).append(d * d)
            rough_squares.setdefault(row["way"], []).append(distance(rough[row["position"]], theirs_row) ** 2)
    ratios = {way: (numpy.mean(squares[way]) / numpy.mean(rough_squares[way])) ** 0.5 for way in squares}
    figures = "  ".join(f"{way} {d:.2e}" + (f" ({ratios[way]:.2f})" if way in ratios else "") for way, d in worst.items())
    print(f"{meta['model']:<22} {figures}  same greedy id in {agree} of {len(ours)} rows", flush=True)
    if far:
        print(f"{meta['model']:<22} {far} greedy ids are farther from the best than the error", flush=True)
        odd.append("greedy ids")
    if any(not ratio <= args.bfloat16 for ratio in ratios.values()):
        odd.append("bfloat16")
    if odd:
        print(f"{meta['model']:<22} wrong: {', '.join(odd)}", flush=True)
    if args.golden and meta["golden"]:
        command = f"python3 scripts/oracle.py DIR --golden gpu/cpu/testdata/oracle (device {args.device})"
        write_golden(args.golden / (meta["model"] + ".json"), meta, theirs, command)
    largest = max(worst.values())
    return float("inf") if odd or not largest == largest else largest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=pathlib.Path, help="folder that the test program wrote to")
    parser.add_argument("--golden", type=pathlib.Path, help="folder for golden logits")
    parser.add_argument("--limit", type=float, default=1e-5, help="largest distance allowed (1e-5)")
    parser.add_argument("--bfloat16", type=float, metavar="FACTOR", help="compare with bfloat16 of transformers, too")
    parser.add_argument("--device", default="cpu", help="torch device (cpu)")
    args = parser.parse_args()
    torch.set_float32_matmul_precision("highest")  # no TF32
    folders = sorted(p.parent for p in args.root.glob("*/oracle.json"))
    if not folders:
        parser.error(f"{args.root} has no folder with oracle.json")
    if args.golden:
        args.golden.mkdir(parents=True, exist_ok=True)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {args.device}, limit {args.limit:g}")
    failed = []
    for folder in folders:
        try:
            if not check(folder, args) <= args.limit:
                failed.append(folder.name)
        except Exception as error:  # the other models are still worth comparing
            print(f"{folder.name:<22} {type(error).__name__}: {error}", flush=True)
            failed.append(folder.name)
    if failed:
        print(f"beyond the limit or not compared: {', '.join(failed)}")
    else:
        print(f"all {len(folders)} models are within the limit")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
