# SPDX-License-Identifier: Apache-2.0
"""Lives of all objects, right and wrong calls, for valgrind: see valgrind_check.py. Prints how many objects are left."""

import array
import gc
import tempfile

import numpy as np

import kvcache
from kvcache import _native

for _ in range(2):
    m = kvcache.Manager([64, 32], 4, groups=[kvcache.Group(), kvcache.Group(8, pool=1)], event_capacity=32)
    r = m.allocate(list(range(40)), keys=[kvcache.ExtraKey(0, 4, b"x" * 32)], lookahead=2)
    r.commit(40)
    r.append([1, 2])
    r.fork().close()
    for bad in ([-1], [1, 2**40], "abc", 2**40, array.array("d", [1.0]), np.arange(9)):
        try:
            m.allocate(bad)
        except (ValueError, TypeError):
            pass
    for call in (lambda: m.release_blocks([1]), lambda: m.pin([9] * 8), lambda: kvcache.find_model("?"), lambda: m.allocate(range(999))):
        try:
            call()
        except kvcache.KvCacheError as error:
            str(error)
    m.namespace(model=b"abc").close()
    m.stats, m.properties, m.requests(), m.take_pending(), m.digest(), m.check(), list(m.events())
    step = kvcache.Step(m, 4, 8, 20, max_admissions=2, max_prompt_tokens=8)
    step.run()
    step.num_admissions, step.admit_offsets[:] = 2, [0, 4, 8]
    for options in ([kvcache.RequestOptions(keys=[kvcache.ExtraKey(0, 2, b"y" * 32)]), None], [None], [None, kvcache.RequestOptions(slots=2**40)]):
        try:
            step.run(options)
        except ValueError:
            pass
    view = step.block_tables
    scheduler = kvcache.Scheduler(kvcache.Manager(16, 4), max_running=4, max_tokens=16)
    scheduler.add(range(9), 4, inputs=[(0, 2)])
    plan = scheduler.plan()
    tables = plan.block_tables
    for bad in ([], [1, 2], [-1]):
        try:
            scheduler.finish(plan, bad)
        except ValueError:
            pass
    scheduler.close()
    int(tables.sum()), int(plan.slots.sum())  # which stay
    del scheduler, plan
    int(tables.sum())
    del tables
    s = kvcache.Storage(8, 1, 1, 16, dtype="int8", block_size=4)
    k = np.ones((4, 1, 16), np.float32)
    s.store(k, k, np.arange(4))
    s.gather(np.arange(4))
    s.attend(k, np.array([0, 4], np.uint64), np.array([4], np.uint64), np.zeros((1, 1), np.int32))
    plane = s.view(kvcache.Plane.K)
    info = kvcache.Storage(8, 1, 1, 16, block_size=4).page_info(b"m", b"w")
    tier = kvcache.Tier("memory:?bytes=4096", info.page_bytes, info.fingerprint)
    tier.put(kvcache.page_keys(m.position_digests(range(9)), 0, info.fingerprint), np.ones((2, info.page_bytes), np.uint8))
    tier.submit_get(bytes(32), bytearray(info.page_bytes))
    for bad in (b"x", None):
        try:
            tier.get(bad, bytearray(8))
        except (ValueError, TypeError):
            pass
    with tempfile.TemporaryDirectory() as folder:
        a, b = kvcache.Manager(8, 4, event_capacity=8), kvcache.Manager(8, 4)
        memory = [kvcache.Storage(8, 1, 1, 16, block_size=4) for _ in range(2)]
        with a.allocate(range(9)) as waiting:
            waiting.commit(9)
        kvcache.save_checkpoint(a, memory[0], folder, model=b"m", weights=b"w")
        kvcache.restore_checkpoint(b, memory[1], folder, model=b"m", weights=b"w")
        chain = [kvcache.Tier("memory:?bytes=4096", info.page_bytes, info.fingerprint) for _ in range(2)]
        offload = kvcache.Offload(a, memory[0], chain, b"m", b"w", policy=kvcache.OffloadPolicy.WRITE_THROUGH)
        offload.poll()
        chain[0].close(), a.close(), memory[0].close()
        offload.stats()
    m.close(), s.close()
    view[:] = 3
    plane[:] = 1
    for model in kvcache.models():
        model.estimate("int4", scale_group=32)
    del r, step, view, s, plane, call, tier, a, b, memory, waiting, chain, offload
    gc.collect()
del m
gc.collect()
print(_native.kvc_live_objects(), "objects left")
