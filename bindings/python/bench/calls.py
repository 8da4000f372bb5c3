# SPDX-License-Identifier: Apache-2.0
"""What calls cost from Python: PYTHONPATH=build/release/python python bindings/python/bench/calls.py [--json]"""

import json
import sys
import timeit

import numpy as np

import kvcache
from kvcache import _native


def ns(function, number):
    return min(timeit.repeat(function, number=number, repeat=7)) / number * 1e9


def trivial():
    """commit to the present count: a few ns in C, what remains is the binding. The loop's own cost is taken off."""
    with kvcache.Manager(64) as m, m.allocate(range(40)) as r:
        r.commit(40)
        empty = ns(lambda: None, 200_000)
        native, handle, id = _native.kvc_manager_commit_tokens, m._m, r.id
        return ns(lambda: native(handle, id, 40), 200_000) - empty, ns(lambda: r.commit(40), 200_000) - empty


def decode(n=256, length=8192):
    """Steps of a batch at a context of 8,192 tokens, as BM_DecodeStep: commit, extend by one token, tables and slots."""
    blocks = -(-(length + 512) // 16)
    with kvcache.Manager(n * blocks, max_requests=n) as m, kvcache.Step(m, n, n, blocks) as step:
        requests = [m.allocate(np.full(length + i % 16, i, np.int32)) for i in range(n)]
        step.requests[:] = [r.id for r in requests]
        step.committed[:] = [length + i % 16 for i in range(n)]
        for r, committed in zip(requests, step.committed.tolist()):
            r.commit(committed)
        step.extend_offsets[:] = np.arange(n + 1)
        step.num_requests = n
        sampled = np.arange(n, dtype=np.int32)

        def one():
            step.extend_tokens[:] = sampled
            step.retired_step = step.step_id
            step.run()
            np.add(step.committed, 1, out=step.committed)

        one()
        result = ns(one, 60) / 1000
        if (step.status[:n] != 0).any():
            raise RuntimeError("a step failed")
        table = requests[3].block_table()
        if step.block_tables[0, 3, : len(table)].tolist() != table.tolist():
            raise RuntimeError("a table is wrong")
        for r in requests:
            r.close()
        return result


native, method = trivial()
results = {"native_call_ns": round(native, 1), "method_call_ns": round(method, 1), "decode_step_256_us": round(decode(), 2)}
print(json.dumps(results) if "--json" in sys.argv else "\n".join(f"{name}: {value}" for name, value in results.items()))
