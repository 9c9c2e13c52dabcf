#!/usr/bin/env bash
# Parses every specialisation of the CUDA kernels with clang's CUDA front end and makes PTX of it, on a machine without CUDA: Debian's clang-19, device
# side only, no CUDA header. CLANG names another compiler.
set -euo pipefail
cd "$(dirname "$0")/../gpu/kernels"
clang=${CLANG:-$(command -v clang-19 || command -v clang || true)}
[ -n "$clang" ] || { echo "check-kernels: no clang found; apt-get install clang-19, or name it in CLANG" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat clang.h base.h hopper.h layer.cu linear.cu chain.cu attention.cu attention_tensor.cu attention_few.cu attention_wide.cu attention_hopper.cu attention_generic.cu sample.cu random.cu roofline.cu progress.cu >"$work/kernels.cu"
for head in 32 64 80 96 128 256; do
  "$clang" -x cuda --cuda-device-only --cuda-gpu-arch=sm_90a -nocudainc -nocudalib -std=c++17 -O2 -S -Wall -Werror -Wno-unknown-cuda-version \
    -Wno-pass-failed -Wno-unused-function "-DHEAD_SIZE=$head" -o "$work/$head.ptx" "$work/kernels.cu"
  echo "head size $head: $(grep -c '^\.visible \.entry\|^	\.visible \.entry\|\.entry ' "$work/$head.ptx") kernels"
done
