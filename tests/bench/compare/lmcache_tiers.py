#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lmcache_tiers FOLDER [--chunk-bytes N] [--chunks N] [--job N] [--rounds N] [--slab PARAMETERS] [--cold] [--json]: a slab beside LMCache's disk adapters.

All are L2 adapters that LMCache makes from its own configuration: `native_plugin` with kvcache.integrations.lmcache_tier, `fs_native` (LMCache's C++
connector) and `fs` (its Python one), each with 4 threads past the page cache (O_DIRECT), and driven by LMCache's eventfds. tier_rounds.py says what a round
is. Bytes and lookups per second count from the first submit to the last result; microseconds are those of the calling thread per submitted job.

Needs LMCache and kvcache: `scripts/integrations tiers` makes such an environment in build/integrations.
"""
import argparse
import json
import logging
import os
import select
import sys
import time

import tier_rounds
import torch
from lmcache.v1.distributed.api import ObjectKey
from lmcache.v1.distributed.internal_api import L1MemoryDesc
from lmcache.v1.distributed.l2_adapters import create_l2_adapter
from lmcache.v1.distributed.l2_adapters.config import parse_args_to_l2_adapters_config
from lmcache.v1.memory_management import MemoryFormat, MemoryObjMetadata, TensorMemoryObj
from lmcache.v1.platform import consume_fd


def object_of(tensor):
    metadata = MemoryObjMetadata(shape=tensor.shape, dtype=tensor.dtype, address=tensor.data_ptr(), phy_size=tensor.nbytes, fmt=MemoryFormat.KV_2LTD, ref_count=1)
    return TensorMemoryObj(tensor, metadata, parent_allocator=None)


def run(descriptor, submit, take, batches):
    """Submits all batches, then waits for their results. Returns (seconds, seconds of the submits, results)."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    begin = time.perf_counter()
    waiting = {submit(*batch) for batch in batches}
    submitted = time.perf_counter() - begin
    results = {}
    while waiting:
        if not poll.poll(60000):
            sys.exit("an adapter does not answer")
        try:
            consume_fd(descriptor)
        except BlockingIOError:
            pass
        for task in list(waiting):
            result = take(task)
            if result is not None:
                results[task] = result
                waiting.discard(task)
    return time.perf_counter() - begin, submitted, list(results.values())


class Side:
    def __init__(self, entry, memory, per_job):
        config, = parse_args_to_l2_adapters_config(argparse.Namespace(l2_adapter=[json.dumps(entry)])).adapters
        self.objects, self.per_job, self.stored = [object_of(torch.from_numpy(row)) for row in memory], per_job, {}
        self.adapter = create_l2_adapter(config, l1_memory_desc=L1MemoryDesc(memory.ctypes.data, memory.nbytes, 4096))
        self.close = self.adapter.close

    def keys(self, count):
        return [ObjectKey(chunk_hash=os.urandom(32), model_name="model", kv_rank=0) for _ in range(count)]

    def batches(self, keys, others=None):
        return [(keys[start:start + self.per_job], {} if others is None else others[start:start + self.per_job]) for start in range(0, len(keys), self.per_job)]

    def look_up(self, keys):
        adapter = self.adapter
        seconds, _, found = run(adapter.get_lookup_and_lock_event_fd(), adapter.submit_lookup_and_lock_task, adapter.query_lookup_and_lock_result, self.batches(keys))
        self.timed.add("lookup", seconds)
        return sum(bitmap.popcount() for bitmap in found)

    def take_stored(self, task):
        self.stored.update(self.adapter.pop_completed_store_tasks())
        return self.stored.pop(task, None)

    def move(self, keys, load):
        adapter, batches = self.adapter, self.batches(keys, self.objects)
        if load:
            seconds, submits, loaded = run(adapter.get_load_event_fd(), adapter.submit_load_task, adapter.query_load_result, batches)
            adapter.submit_unlock(keys)
            done = sum(bitmap.popcount() for bitmap in loaded)
        else:
            seconds, submits, results = run(adapter.get_store_event_fd(), adapter.submit_store_task, self.take_stored, batches)
            done = len(keys) * sum(result.is_successful() for result in results) // len(batches)
        self.timed.add("submit", submits, len(batches))
        return seconds, done

    def figures(self, keys):
        return {"lookups_per_s": 2 * len(keys) / self.timed.seconds["lookup"], "submit_us": self.timed.us("submit")}


def main():
    arguments = tier_rounds.parse(__doc__, "direct=1&threads=4")
    logging.disable(logging.INFO)

    def open_sides(folder, memory, room):
        entries = {"libkvcache": {"type": "native_plugin", "module_path": "kvcache.integrations.lmcache_tier", "class_name": "KvCacheConnector",
                                  "adapter_params": {"url": f"slab:{folder}/slab?bytes={room}&{arguments.slab}", "page_bytes": arguments.chunk_bytes,
                                                     "lease": 0.1}},  # rounds are faster than in an engine, and the slab is small
                   "fs_native": {"type": "fs_native", "base_path": str(folder / "fs_native"), "num_workers": 4, "use_odirect": True},
                   "fs": {"type": "fs", "base_path": str(folder / "fs"), "use_odirect": True}}
        return {name: Side(entry, memory, arguments.job) for name, entry in entries.items()}

    tier_rounds.compare(arguments, open_sides)


if __name__ == "__main__":
    main()
