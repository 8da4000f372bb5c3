#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""triton_check.py [libkvcache.so]: by hand, without a GPU: the Triton kernel of scripts/gpu-compare, interpreted on small shapes, against PyTorch."""
import os
import pathlib
import sys

os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported

import torch
from torch.nn import functional

import capi
import triton_paged

ROOT = pathlib.Path(__file__).resolve().parents[3]
LIMIT = 2e-3  # relative L2, for fp16: the interpreter does not multiply bfloat16


def main():
    library = capi.Library(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release/lib/libkvcache.so")
    checked, worst = 0, 0
    for context in (1, 15, 16, 17, 63, 130):
        for heads, kv_heads in ((8, 2), (4, 4), (6, 1)):
            k, v = torch.randn(2, 1, 2, kv_heads, context, 32, dtype=torch.float16)
            q = torch.randn(2, heads, 32, dtype=torch.float16)
            storage = capi.Storage(library, k, v, 16)
            planes = [storage.plane(name, 0) for name in ("KVC_PLANE_K", "KVC_PLANE_V")]
            expected = functional.scaled_dot_product_attention(q[:, :, None].float(), k[0].float(), v[0].float(), enable_gqa=True)[:, :, 0]
            for config in triton_paged.CONFIGS[::4]:  # of each tile size one
                for parts in (1, 2, 5):
                    out = triton_paged.Decode(q, storage.table, storage.context, 16, kv_heads, config, parts)(*planes).float()
                    distance = ((out - expected).norm() / expected.norm()).item()
                    checked, worst = checked + 1, max(worst, distance)
                    if not distance <= LIMIT:
                        sys.exit(f"{context} tokens, {heads} heads on {kv_heads}, {config}, {parts} parts: differs by {distance:.2g}")
            storage.close()
    print(f"{checked} shapes, relative L2 at most {worst:.2g}")


if __name__ == "__main__":
    main()
