# SPDX-License-Identifier: Apache-2.0
"""vLLM's own schedulers with vLLM's KVCacheManager and with ours in its place: microseconds of processor time per schedule() + update_from_output().

    PYTHONPATH=build/release/python:bindings/python/tests python bindings/python/bench/vllm_scheduler.py [--json | --table]

`requests` decoding requests at context `context`, one token per request and step. The asynchronous scheduler, vLLM's default, schedules
`depth` steps ahead of the outputs. Both managers take turns of `turn` steps in one process; the medians of the turns are given.
vLLM's requests hash their blocks with sha256 as by default; ours run without the hasher, as the plug-in sets them up ("with_hasher"
keeps it). "no_manager": a manager that does nothing and costs nothing but the calls, which is what vLLM's scheduler takes by itself: no
manager makes a step shorter. "most": vllm / no_manager. "scheduler": kvcache.integrations.vllm.Scheduler in place of vLLM's.
"""

import argparse
import gc
import json
import statistics
import tempfile
import time
from collections import deque

import vllm.v1.core.sched.scheduler as scheduling
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.structured_output import StructuredOutputManager
from vllm_engine import BLOCK, engine_config, layout, model_output
from vllm_real import KVCacheManager, VllmManager, hasher, make_request

from kvcache.integrations.vllm import Scheduler


NAMES = {"async": "asynchronous (vLLM's default), full", "async_windows": "asynchronous, full and window 1,024", "plain": "plain, full",
         "plain_windows": "plain, full and window 1,024"}


class Lane:
    """A scheduler with its requests, all of them decoding."""

    def __init__(self, config, kind, manager, block_hasher, options, windows):
        blocks = len(windows) * options.requests * ((options.context + 2 * options.steps) // BLOCK + 8)
        config.cache_config.num_gpu_blocks = blocks
        scheduling.KVCacheManager = manager
        self.scheduler = kind(vllm_config=config, kv_cache_config=layout(blocks, BLOCK, windows), block_size=BLOCK, log_stats=True,
                              structured_output_manager=StructuredOutputManager(config))
        self.depth = options.depth if config.scheduler_config.async_scheduling else 0
        self.flying = deque()
        for i in range(options.requests):
            request = make_request(str(i), [i * 7 % 997] * 8 + list(range(options.context - 8)), block_hasher)
            request.sampling_params.ignore_eos = True
            self.scheduler.add_request(request)
        while any(r.num_computed_tokens < options.context for r in self.scheduler.requests.values()) or len(self.scheduler.running) < options.requests:
            self.step()

    def without_manager(self):
        """The calls that a decoding request makes are answered at once."""
        manager = self.scheduler.kv_cache_manager
        nothing = manager.empty_kv_cache_blocks
        manager.allocate_slots = lambda request, tokens, num_lookahead_tokens=0: nothing
        manager.cache_blocks = lambda request, tokens: None
        return self

    def step(self):
        """Seconds of processor time of one schedule() and one update_from_output()."""
        begin = time.thread_time()
        out = self.scheduler.schedule()
        seconds = time.thread_time() - begin
        # Which of them sample a token: known when they are scheduled.
        self.flying.append((out, model_output(out, [[7] if not self.scheduler.requests[id].is_prefill_chunk else [] for id in out.num_scheduled_tokens])))
        if len(self.flying) > self.depth:
            item = self.flying.popleft()
            begin = time.thread_time()
            self.scheduler.update_from_output(*item)
            seconds += time.thread_time() - begin
        return seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--steps", type=int, default=320)
    parser.add_argument("--turn", type=int, default=32)
    parser.add_argument("--depth", type=int, default=1)
    parser.add_argument("--only", help="plain or async")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--table", action="store_true", help="rows of the table of docs/INTEGRATIONS.md")
    options = parser.parse_args()
    result = {}
    for name, kind, windows in (("async", AsyncScheduler, (0,)), ("async_windows", AsyncScheduler, (0, 1024)),
                                ("plain", scheduling.Scheduler, (0,)), ("plain_windows", scheduling.Scheduler, (0, 1024))):
        if options.only and not name.startswith(options.only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            config = engine_config(folder, max_num_seqs=options.requests, max_num_batched_tokens=65536,
                                   max_model_len=options.context + 4 * options.steps, async_scheduling=kind is AsyncScheduler)
            lanes = {label: Lane(config, kind, manager, block_hasher, options, windows)
                     for label, manager, block_hasher in (("vllm", VllmManager, hasher(BLOCK)), ("ours", KVCacheManager, None),
                                                          ("with_hasher", KVCacheManager, hasher(BLOCK)))}
            lanes["no_manager"] = Lane(config, kind, KVCacheManager, None, options, windows).without_manager()
            lanes["scheduler"] = Lane(config, Scheduler, VllmManager, None, options, windows)
        gc.collect()
        gc.freeze()
        gc.disable()
        times = {label: [] for label in lanes}
        for _ in range(options.steps // options.turn):
            for label, lane in lanes.items():
                times[label].append(sum(lane.step() for _ in range(options.turn)) / options.turn)
        gc.enable()
        gc.unfreeze()
        entry = {label: round(1e6 * statistics.median(all)) for label, all in times.items()}
        entry["ratio"] = round(entry["vllm"] / entry["ours"], 2)
        entry["most"] = round(entry["vllm"] / entry["no_manager"], 2)
        entry["ratio_scheduler"] = round(entry["vllm"] / entry["scheduler"], 2)
        result[name] = entry
        if options.table:
            columns = ("vllm", "ours", "ratio", "with_hasher", "no_manager", "most", "scheduler", "ratio_scheduler")
            print("|", NAMES[name], *(f"| {entry[column]:,}" for column in columns), "|", flush=True)
        elif not options.json:
            print(f"{name}: {entry}", flush=True)
        del lanes
        gc.collect()
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
