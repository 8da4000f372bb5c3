#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vllm_tiers FOLDER [--chunk-bytes N] [--chunks N] [--job N] [--rounds N] [--slab PARAMETERS] [--cold] [--json]: a slab beside vLLM's own `fs` tier.

Both are made by vLLM's SecondaryTierFactory from an entry of secondary_tiers and driven through SecondaryTierManager, as vLLM's scheduler does: a step
looks keys up, ends, takes finished jobs. Both go past the page cache (O_DIRECT), with vLLM's default threads (16 + 16) and 16 threads of this library.
tier_rounds.py says what a round is. Bytes per second count from the first submit to the last finished job. Microseconds are those of the calling thread (wall
clock, as the engine waits for it): per key of a lookup, from the first question to the end of the request; per job that is submitted; per question which
jobs have ended, once in a step of 2 ms, of those that return jobs (`finished`) and of those that do not (`idle`). A call of the same form that
does nothing (`nothing`) goes before each of these, so that this program is in the caches, and the tier is not.

Needs vLLM and kvcache: `scripts/integrations tiers` makes such an environment in build/integrations.
"""
import os
import time

import numpy as np
import tier_rounds
from tier_rounds import Timed
from vllm.v1.kv_offload.base import ReqContext, ScheduleEndContext, make_offload_key
from vllm.v1.kv_offload.config import OffloadingCacheConfig, OffloadingConfig, OffloadingGroupConfig, OffloadingModelConfig, OffloadingParallelConfig
from vllm.v1.kv_offload.tiering.base import TransferJob
from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

STEP = ScheduleEndContext(set(), set())


def spec_of(chunk_bytes, chunks):
    return TieringOffloadingSpec(OffloadingConfig(
        groups=(OffloadingGroupConfig(16, ("layer",), 0),), worker_kv_bytes_per_block=chunk_bytes, enable_kv_cache_events=False,
        extra_config={"cpu_bytes_to_use": chunk_bytes * chunks}, engine_id="compare", model=OffloadingModelConfig("model", "bfloat16"),
        cache=OffloadingCacheConfig(16, 1), parallel=OffloadingParallelConfig(0, 1, 1, 1, 1, 1, 0, 1, None, False)))


def look_up(tier, keys, timed, name):
    """One request looks all keys up, step by step, until each is answered."""
    request = ReqContext(name)
    timed("lookup", tier.on_new_request, request)
    while True:
        timed("lookup", tier.get_finished_jobs)
        answers = timed("lookup", lambda: [tier.lookup(key, request) for key in keys])
        timed("lookup", tier.on_schedule_end, STEP)
        if not any(answer.name == "RETRY" for answer in answers):
            break
        time.sleep(0.002)
    timed("lookup", tier.on_request_finished, request)
    return sum(answer.name == "HIT" for answer in answers)


def ask(question, timed):
    """A question which jobs have ended."""
    begin = time.perf_counter()
    ended = list(question())
    timed.add("finished" if ended else "idle", time.perf_counter() - begin)
    return ended


def transfer(tier, keys, rows, timed, per_job, load, first_job):
    """Submits all keys in jobs and waits for their end. Returns seconds, how many jobs succeeded, and how many there were."""
    request = ReqContext("transfer")
    call = tier.submit_load if load else tier.submit_store
    begin, waiting, good = time.perf_counter(), {}, 0
    for start in range(0, len(keys), per_job):
        number = first_job + len(waiting)
        waiting[number] = TransferJob(number, keys[start:start + per_job], rows[start:start + per_job], load, request)
        timed("submit", call, waiting[number])
    jobs, unused = len(waiting), Timed()
    while waiting:
        time.sleep(0.002)
        ask(list, unused)
        for result in ask(tier.get_finished_jobs, timed):
            del waiting[result.job_id]
            good += result.success
    timed.add("nothing", unused.seconds["idle"], unused.calls["idle"])
    return time.perf_counter() - begin, good, jobs


class Side:
    def __init__(self, entry, memory, spec, per_job):
        self.tier, self.per_job = SecondaryTierFactory.create_secondary_tier(entry, memoryview(memory), spec), per_job
        self.close = self.tier.shutdown

    def keys(self, count):
        return [make_offload_key(os.urandom(32), 0) for _ in range(count)]

    def look_up(self, keys):
        return look_up(self.tier, keys, self.timed, "request")

    def move(self, keys, load):
        seconds, good, jobs = transfer(self.tier, keys, np.arange(len(keys), dtype=np.int32), self.timed, self.per_job, load, 0)
        return seconds, len(keys) * good // jobs

    def figures(self, keys):
        return {"lookup_us_per_key": self.timed.us("lookup", 2 * len(keys)), **{f"{kind}_us": self.timed.us(kind) for kind in ("submit", "finished", "idle", "nothing")}}


def main():
    arguments = tier_rounds.parse(__doc__, "direct=1&threads=16")

    def open_sides(folder, memory, room):
        spec = spec_of(arguments.chunk_bytes, arguments.chunks)
        entries = {"libkvcache": {"type": "KvCacheTier", "module_path": "kvcache.integrations.vllm_tier", "url": f"slab:{folder}/slab?bytes={room}&{arguments.slab}",
                                   "lease": 0.1},  # rounds are faster than in an engine, and the slab is small
                   "fs": {"type": "fs", "root_dir": str(folder / "fs")}}
        return {name: Side(entry, memory, spec, arguments.job) for name, entry in entries.items()}

    tier_rounds.compare(arguments, open_sides)


if __name__ == "__main__":
    main()
