# SPDX-License-Identifier: Apache-2.0
"""What a decode step of a Transformers model costs with each cache: PYTHONPATH=build/release/python python bindings/python/bench/transformers_decode.py
[--model NAME] [--layers N] [--dtype float32|bfloat16] [--context N] [--batch N] [--steps N] [--threads N] [--tiled] [--json]

DynamicCache with SDPA, CachePool that gathers for SDPA, and CachePool with the attention "kvcache" decode the same tokens of one model with
random weights, a step each in turn, so that other load meets all alike. The first tokens they choose must be equal (float32), and logits close.
"""

import argparse
import json
import statistics
import time
import warnings

import numpy as np
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from kvcache import StorageFlags
from kvcache.integrations.transformers import CachePool

# Shapes of known models: hidden, intermediate, query heads, KV heads.
MODELS = {"qwen2.5-0.5b": (896, 4864, 14, 2), "llama-3.2-1b": (2048, 8192, 32, 8), "llama-3-8b": (4096, 14336, 32, 8)}
KINDS = {"DynamicCache": "sdpa", "gathered": "sdpa", "in place": "kvcache"}


def make_model(name, layers, dtype, context):
    hidden, intermediate, heads, kv_heads = MODELS[name]
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=1024, hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers, num_attention_heads=heads,
                         num_key_value_heads=kv_heads, max_position_embeddings=context, dtype=dtype, initializer_range=0.02)
    return LlamaForCausalLM(config).to(dtype).eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="qwen2.5-0.5b")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tiled", action="store_true", help="keys in tiles (StorageFlags.TILED_KEYS)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    total = options.context + options.steps + 8
    model = make_model(options.model, options.layers, getattr(torch, options.dtype), total)
    ids = torch.randint(0, 1024, (options.batch, options.context), generator=torch.Generator().manual_seed(2))
    pool = CachePool(model.config, 2 * options.batch * (-(-total // 16) + 1), flags=StorageFlags.TILED_KEYS if options.tiled else StorageFlags(0))
    times, tokens, logits = {kind: [] for kind in KINDS}, {}, {}
    with torch.inference_mode():
        caches = {}
        for kind, attention in KINDS.items():
            model.set_attn_implementation(attention)
            # A mask says that no token is padding: both pools compute all of the prompt.
            caches[kind] = DynamicCache(config=model.config) if kind == "DynamicCache" else pool.new_cache(ids, torch.zeros_like(ids))
            out = model(ids, past_key_values=caches[kind], use_cache=True, logits_to_keep=1)
            tokens[kind] = out.logits[:, -1:].argmax(-1)
        for step in range(options.steps + 3):
            fed = tokens["DynamicCache"]
            for kind, attention in KINDS.items():
                model.set_attn_implementation(attention)
                start = time.perf_counter()
                out = model(fed, past_key_values=caches[kind], use_cache=True)
                elapsed = time.perf_counter() - start
                if step >= 3:
                    times[kind].append(elapsed * 1e3)
                logits[kind] = out.logits[:, -1].float()
                tokens[kind] = out.logits[:, -1:].argmax(-1)
            reference = logits["DynamicCache"]
            for kind in KINDS:
                distance = float((logits[kind] - reference).norm() / reference.norm())
                if distance > (1e-4 if options.dtype == "float32" else 5e-2):
                    raise SystemExit(f"{kind}: logits differ by {distance:.2g} in step {step}")
                if options.dtype == "float32" and not torch.equal(tokens[kind], tokens["DynamicCache"]):
                    raise SystemExit(f"{kind}: other tokens in step {step}")
    median = {kind: statistics.median(each) for kind, each in times.items()}
    ratio = {kind: statistics.median(np.array(times["DynamicCache"]) / np.array(times[kind])) for kind in KINDS}  # of steps side by side
    result = {**{name: getattr(options, name) for name in ("model", "layers", "dtype", "context", "batch", "threads", "tiled")}, "ms": median, "ratio": ratio}
    if options.json:
        print(json.dumps(result))
        return
    print(f"{options.model} x {options.layers} layers, {options.dtype}, batch {options.batch}, context {options.context}, {options.threads} thread(s)")
    for kind in KINDS:
        print(f"{kind:>14}: {median[kind]:8.2f} ms a step, {ratio[kind]:.3f} of the speed of DynamicCache")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
