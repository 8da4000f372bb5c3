# SPDX-License-Identifier: Apache-2.0
"""What vLLM's own schedulers find again with our KVCacheManager, beside vLLM's: tokens of hits, ours / vLLM's, in pools so small that requests are
preempted and come back.

    PYTHONPATH=build/release/python:bindings/python/tests python bindings/python/bench/vllm_hits.py [--seeds N] [--blocks N ...]
    [--groups NAME ...] [--json]

Requests with shared prefixes come at random; both managers get the same ones. `depth`: steps that are scheduled ahead of the outputs (0 = the plain
scheduler). Hits of preempted requests count.
"""

import argparse
import contextlib
import json
import pathlib
import random
import tempfile

from test_vllm_scheduler import BLOCK, Engine, config_of, hasher, make_request
from vllm_real import KVCacheManager, VllmManager

GROUPS = {"full": (0,), "full, window 48": (0, 48), "full, chunk 64": (0, ("chunk", 64)), "full, Mamba": (0, ("state", 0))}


class Setter:
    """monkeypatch of pytest, without taking back."""

    def setattr(self, owner, name, value):
        setattr(owner, name, value)


def run(config, depth, manager, groups, blocks, seed, requests):
    """Tokens of hits of a load, and how often a request was preempted."""
    engine = Engine((depth, config), manager, Setter(), groups, blocks, seed)
    scheduler, rng, block_hasher, number = engine.scheduler, random.Random(seed), hasher(BLOCK), 0
    preempted = hits = asked = computed = 0

    def record(request, num_hits):  # of each request that begins or comes back
        nonlocal hits, asked
        hits, asked = hits + num_hits, asked + request.num_tokens

    scheduler.kv_cache_manager.record_prefix_cache_stats = record
    while number < requests or scheduler.has_unfinished_requests():
        if number < requests and rng.random() < 0.4:
            tokens = [token for token in (rng.randrange(2), rng.randrange(2)) for _ in range(3 * BLOCK)] + [100 + number] * rng.randint(1, 40)
            request = make_request(str(number), tokens, block_hasher)
            request.max_tokens, request.sampling_params.ignore_eos = rng.randint(1, 60), True
            scheduler.add_request(request)
            number += 1
        out = engine.step()
        preempted += len(out.preempted_req_ids or ())
        computed += out.total_num_scheduled_tokens
    return hits, asked, computed, preempted


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=150)
    parser.add_argument("--blocks", type=int, nargs="+", default=[40, 60, 400], help="blocks for each group")
    parser.add_argument("--groups", choices=GROUPS, nargs="+", default=list(GROUPS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(KeyboardInterrupt):
        for name, groups in ((name, GROUPS[name]) for name in options.groups):
            for depth in (0, 1, 2):
                config = config_of(pathlib.Path(folder), depth, 0)
                config.cache_config.mamba_cache_mode = "align" if name == "full, Mamba" else "none"
                for blocks in options.blocks:
                    totals = {}
                    for manager in VllmManager, KVCacheManager:
                        runs = [run(config, depth, manager, groups, blocks * len(groups), seed, options.requests) for seed in range(options.seeds)]
                        totals[manager] = [sum(column) for column in zip(*runs)]
                    theirs, ours = totals[VllmManager], totals[KVCacheManager]
                    row = {"groups": name, "depth": depth, "blocks": blocks * len(groups), "hits": [theirs[0], ours[0]], "preempted": [theirs[3], ours[3]],
                           "hit_rate": [round(each[0] / each[1], 3) for each in (theirs, ours)], "ratio": round(ours[0] / theirs[0], 3),
                           "ratio_of_rates": round(ours[0] / ours[1] / (theirs[0] / theirs[1]), 3), "ratio_computed": round(ours[2] / theirs[2], 3)}
                    rows.append(row)
                    if not options.json:
                        print(row, flush=True)
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
