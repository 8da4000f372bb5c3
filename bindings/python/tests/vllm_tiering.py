# SPDX-License-Identifier: Apache-2.0
"""vLLM's own tiering: its specification, manager and CPU cache, with a kvcache tier below, and the calls of its scheduler in their order."""

import time

import numpy as np
from vllm.v1.kv_offload.base import LookupResult, ReqContext, ScheduleEndContext, make_offload_key
from vllm.v1.kv_offload.config import OffloadingCacheConfig, OffloadingConfig, OffloadingGroupConfig, OffloadingModelConfig, OffloadingParallelConfig
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

HIT, MISS, RETRY, HIT_PENDING = LookupResult.HIT, LookupResult.MISS, LookupResult.RETRY, LookupResult.HIT_PENDING


def key_of(number, group=0):
    return make_offload_key(np.random.default_rng([number, group]).bytes(32), group)


def content_of(key, size):
    """Bytes of a chunk, which differ with each key and in each piece of it."""
    return np.random.default_rng(list(key)).integers(0, 2**63, size // 8, dtype=np.int64).view(np.uint8)


def specification(url, chunk_bytes=8192, chunks=16, model="model", dtype="bfloat16", groups=1, tp=1, dp=0, engine="engine", **tier):
    entry = {"type": "KvCacheTier", "module_path": "kvcache.integrations.vllm_tier", "url": url, **tier}
    return TieringOffloadingSpec(OffloadingConfig(
        groups=tuple(OffloadingGroupConfig(16, (f"layer {i}",), i) for i in range(groups)), worker_kv_bytes_per_block=chunk_bytes // tp,
        enable_kv_cache_events=False, extra_config={"cpu_bytes_to_use": chunk_bytes * chunks, "secondary_tiers": [entry]},
        engine_id=f"{engine}-{time.monotonic_ns()}", model=OffloadingModelConfig(model, dtype), cache=OffloadingCacheConfig(16, 1),
        parallel=OffloadingParallelConfig(0, tp, tp, 1, 1, 1, dp, dp + 1, None, False)))


class Engine:
    """The scheduler's part of an engine. What the GPU would write to the CPU cache is content_of()."""

    def __init__(self, url, **options):
        self.manager = specification(url, **options).get_manager()
        self.tier = self.manager.secondary_tiers[0]
        self.chunk_bytes = self.tier.block_size_bytes
        self.requests = 0

    def close(self):
        self.manager.shutdown()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def request(self):
        self.requests += 1
        context = ReqContext(f"request {self.requests}")
        self.manager.on_new_request(context)
        return context

    def finish(self, context):
        self.manager.on_request_finished(context)

    def step(self):
        self.manager.on_schedule_end(ScheduleEndContext((), ()))

    def settle(self):
        """Steps until nothing is under way."""
        for _ in range(20000):
            self.step()
            if not self.manager.has_pending_work() and not self.tier._asked:
                return
            time.sleep(0.0005)
        raise AssertionError(f"still under way: {self.manager._jobs}")

    def look_up(self, keys, context):
        """Steps until each key is a hit or a miss."""
        for _ in range(20000):
            answers = [self.manager.lookup(key, context) for key in keys]
            self.step()
            if not any(answer in (RETRY, HIT_PENDING) for answer in answers):
                return answers
            time.sleep(0.0005)
        raise AssertionError(f"no answer: {answers}")

    def chunk(self, row):
        return np.asarray(self.manager.primary_tier.get_kv_memoryview())[row].view(np.uint8)

    def store(self, keys, context):
        """What the GPU has computed goes to the CPU cache and on to the tier."""
        prepared = self.manager.prepare_store(keys, context)
        if prepared is None:
            return []
        for key, row in zip(prepared.keys_to_store, prepared.store_spec.chunk_ids):
            self.chunk(row)[:] = content_of(key, self.chunk_bytes)
        if prepared.keys_to_store:
            self.manager.complete_store(prepared.keys_to_store, context)
        return prepared.keys_to_store

    def wrong(self, keys, context):
        """Loads hits to the GPU: how many of them have other bytes than they should."""
        rows = self.manager.prepare_load(keys, context).chunk_ids
        count = sum(not np.array_equal(self.chunk(row), content_of(key, self.chunk_bytes)) for key, row in zip(keys, rows))
        self.manager.complete_load(keys, context)
        return count

    def forget_primary(self):
        """Empties the CPU cache."""
        self.manager.reset_cache()
        self.manager.on_reset_flushed()
