# SPDX-License-Identifier: Apache-2.0
"""Lives of all objects, right and wrong calls, for valgrind: see valgrind_check.py. Prints how many objects are left."""

import array
import gc

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
    s = kvcache.Storage(8, 1, 1, 16, dtype="int8", block_size=4)
    k = np.ones((4, 1, 16), np.float32)
    s.store(k, k, np.arange(4))
    s.gather(np.arange(4))
    s.attend(k, np.array([0, 4], np.uint64), np.array([4], np.uint64), np.zeros((1, 1), np.int32))
    plane = s.view(kvcache.Plane.K)
    m.close(), s.close()
    view[:] = 3
    plane[:] = 1
    for model in kvcache.models():
        model.estimate("int4", scale_group=32)
    del r, step, view, s, plane, call
    gc.collect()
del m
gc.collect()
print(_native.kvc_live_objects(), "objects left")
