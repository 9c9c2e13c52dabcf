#!/usr/bin/env python3
"""Compares the ids of `fpmbench tokenize` with those of the tokenizers library, string by string.

    make build && python3 scripts/tokenizer-oracle.py                       # trains its own tokenizers, downloads nothing
    python3 scripts/tokenizer-oracle.py --fpmbench bin/fpmbench FILE...     # also each tokenizer.json given

It needs the Python package tokenizers. Exit status: 0 all ids are equal, 1 they are not, 2 it could not be run.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

LLAMA = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA.replace(r"\p{N}{1,3}", r"\p{N}")

WORDS = ("the there then an and sing singing ringing stone one on none over under water winter it's she'll we've I'm HE'D "
         "don't caf\u00e9 na\u00efve e\u0301te\u0301 stra\u00dfe \u65e5\u672c\u8a9e \u4f60\u597d \u05e9\u05dc\u05d5\u05dd "
         "\u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d\u0924\u0947 3.14159 1234567 2026-01-02 x=y+1; foo_bar(); "
         "https://a.b/c?d=e&f %d\\n <tag/> \U0001f642 \U0001f468\u200d\U0001f469\u200d\U0001f467").split(" ")
HARD = list("aabsStTdDmMrRevVlL'''''\u017f\u2019 \u00a0\u2003\u0085  \t\n\n\r\x0b\x0c019\u0663\u00bd\u2167\u4e8c\u00e7\u00e9\u65e5\u672c"
            "\u05d0\u05e9\U0001f642!?.,-_/\\(){}<|>$\u0301\u200d\u00ad\u1680\u2028\u202f\u3000\u200b\ufeff\u0345\u16ee\u2460")


def assigned(rng):
    """A character that every version of Unicode in question knows: a new letter is a symbol to an older version."""
    while True:
        c = chr(rng.choice([rng.randrange(0x20, 0x250), rng.randrange(0x370, 0xd7ff), rng.randrange(0x1f300, 0x1f600)]))
        if unicodedata.category(c) != "Cn":
            return c


def strings(n, added):
    """n texts: words, hard characters, and both with added tokens between."""
    rng = random.Random("tokenizer-oracle")
    for i in range(n):
        if i % 3 == 0:
            yield " ".join(rng.choice(WORDS) for _ in range(rng.randrange(60)))
        elif i % 3 == 1:
            yield "".join(rng.choice(HARD) for _ in range(rng.randrange(80)))
        else:
            parts = []
            for _ in range(rng.randrange(12)):
                parts.append(rng.choice([rng.choice(WORDS), rng.choice(HARD) * rng.randrange(1, 9), " " * rng.randrange(1, 6), "\n" * rng.randrange(1, 4),
                                         rng.choice(added) if added else "", assigned(rng)]))
            yield "".join(parts)


def trained(folder):
    """Two tokenizers in the form of Llama 3's and Qwen's, trained on made text."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    files = []
    for name, pattern, normalizer, ignore_merges in (("llama", LLAMA, None, True), ("qwen", QWEN, normalizers.NFC(), False)):
        tok = Tokenizer(models.BPE(ignore_merges=ignore_merges))
        if normalizer is not None:
            tok.normalizer = normalizer
        tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
                                                     pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        tok.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=3000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
        tok.train_from_iterator(strings(20000, []), trainer)
        tok.add_special_tokens([AddedToken("<|begin|>", normalized=False), AddedToken("<|end|>", normalized=False)])
        tok.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("<|end|>!", normalized=False)])
        path = str(pathlib.Path(folder) / (name + ".json"))
        tok.save(path)
        files.append(path)
    return files


def compare(path, n, fpmbench):
    """Compares one tokenizer; returns the number of strings that differ."""
    from tokenizers import Tokenizer

    tok = Tokenizer.from_file(path)
    added = [t["content"] for t in json.loads(pathlib.Path(path).read_text(encoding="utf-8")).get("added_tokens", [])][:20]
    texts = list(strings(n, added))
    lines = "".join(json.dumps(t) + "\n" for t in texts)
    ours = subprocess.run([fpmbench, "tokenize", "--tokenizer", path], input=lines, capture_output=True, text=True, check=False)
    if ours.returncode != 0:
        print(f"{path}: fpmbench exited with {ours.returncode}: {ours.stderr}")
        return n
    ids = [json.loads(line) for line in ours.stdout.splitlines()]
    if len(ids) != len(texts):
        print(f"{path}: {len(ids)} lines for {len(texts)} strings")
        return n
    bad = 0
    for text, got in zip(texts, ids):
        want = tok.encode(text, add_special_tokens=False).ids
        if got != want:
            bad += 1
            if bad <= 5:
                print(f"{path}: {text!r}\n  want {want}\n  got  {got}")
    print(f"{path}: {len(texts) - bad} of {len(texts)} strings have the same ids, {sum(map(len, ids))} ids")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="tokenizer.json files")
    parser.add_argument("--strings", type=int, default=10000)
    parser.add_argument("--fpmbench", default="bin/fpmbench")
    args = parser.parse_args()
    try:
        import tokenizers
    except ImportError:
        print("the Python package tokenizers is not installed", file=sys.stderr)
        return 2
    if not pathlib.Path(args.fpmbench).exists():
        print(f"{args.fpmbench} is not there: run make build, or give --fpmbench", file=sys.stderr)
        return 2
    print("tokenizers", tokenizers.__version__)
    with tempfile.TemporaryDirectory() as folder:
        files = trained(folder) + args.files
        return 1 if sum([compare(f, args.strings, args.fpmbench) for f in files]) else 0


if __name__ == "__main__":
    sys.exit(main())
