# SPDX-License-Identifier: Apache-2.0
"""Calls of Scheduler and Plan."""

import contextlib

import numpy as np

import kvcache
from world import call, need

OPTIONS = ("policy", "admission", "max_chunk", "max_drafts", "max_plans", "max_adapters", "max_tenants", "max_encoder_tokens", "max_wait_ns", "adaptive_plans",
           "high_watermark", "low_watermark")


@contextlib.contextmanager
def scheduler(w, **options):
    with kvcache.Manager(16, 4, max_requests=8, max_request_tokens=64, vocab_size=100) as m:
        with kvcache.Scheduler(m, max_running=4, max_tokens=16, **options) as s:
            for i in range(3):
                s.add(np.arange(9 + i, dtype=np.int32) + 10 * i, 6)
            yield s


def finish_all(s):
    while s.plans:
        s.finish(s.plans[0], [1] * int(s.plans[0].samples.sum()))


@call("Scheduler")
@call("Scheduler.close")
@call("Scheduler.stats")
@call("Scheduler.check")
def make(w):
    """With plans in flight, closed in any order; arrays are read afterwards."""
    m = kvcache.Manager(16, 4, max_requests=8)
    told = []
    s = kvcache.Scheduler(w.rng.choice((m, m, m, m, None, w.m)), max_running=w.rng.choice((0, 3)), on_pressure=lambda *it: told.append(it),
                          **{name: w.number(0) for name in OPTIONS if w.rng.random() < 0.2})
    s.add([1, 2, 3], 4)
    plan = s.plan()
    arrays = [plan.requests, plan.block_tables, plan.slots, plan.changes]
    before = [array.copy() for array in arrays]
    s.check()
    need(s.stats().running == plan.num_items <= 1, "what runs is planned")
    repr(s), repr(plan)
    things = [m, s]
    w.rng.shuffle(things)
    for it in things[: w.rng.randrange(3)]:
        it.close()
    del m, s, plan, things
    need(all(np.array_equal(a, b) for a, b in zip(arrays, before)), "arrays stay")


@call("Scheduler.add")
def add(w):
    with scheduler(w) as s:
        spoilt = w.rng.randrange(12)
        values = dict(tokens=w.array(np.arange(7, dtype=np.int32)), max_new_tokens=3, options=kvcache.RequestOptions(keys=w.keys() or ()), expected_new_tokens=2, priority=-1,
                      tenant=0, adapter=3, inputs=[(1, 2)], ready=False, now_ns=1)
        for i, name in enumerate(("max_new_tokens", "expected_new_tokens", "priority", "tenant", "adapter", "now_ns")):
            if spoilt == i:
                values[name] = w.number(values[name])
        if spoilt == 6:
            values["inputs"] = w.rng.choice(([(0, 2**64)], [(1, 2), (2, 1)], [(-1, 1)], [(1,)], 3, [None], w.array(np.array([[1, 2]], np.int64))))
        if spoilt == 7:
            values["options"] = w.rng.choice(({}, None, kvcache.RequestOptions(slots=w.number(1))))
        try:
            s.set_ready(s.add(**values))
        finally:
            s.check()


@call("Scheduler.abort")
@call("Scheduler.set_ready")
@call("Scheduler.set_priority")
@call("Scheduler.set_weight")
@call("Scheduler.request_info")
def change(w):
    with scheduler(w) as s:
        id = s.add([1, 2], 3, ready=w.rng.choice((True, False)))
        try:
            s.set_priority(w.number(id), w.number(2))
            s.set_weight(w.number(0), w.rng.choice((1.0, 2.5, w.number(1))))
            s.set_ready(w.number(id))
            s.request_info(w.number(id))
            s.abort(w.number(id))
        finally:
            s.check()


@call("Scheduler.plan")
@call("Scheduler.plans")
@call("Scheduler.finish")
@call("Scheduler.set_drafts")
@call("Plan.ended")
def run(w):
    """Plans of which a few results are spoilt."""
    with scheduler(w, max_plans=w.rng.choice((1, 2)), max_drafts=3) as s:
        try:
            for _ in range(w.rng.randrange(1, 8)):
                plan = s.plan(w.number(0))
                need(plan.ended == [] or plan.ended[0].request, "ended requests")
                if not s.plans:
                    continue
                plan, samples = s.plans[0], s.plans[0].samples
                offsets = np.concatenate(([0], np.cumsum(samples))).astype(np.uint64)
                s.finish(plan, w.array(np.ones(int(samples.sum()), np.int32)), w.rng.choice((None, w.array(offsets))),
                         stopped=w.rng.choice((None, w.array(np.zeros(plan.num_items, np.uint8)))), failed=w.rng.random() < 0.1)
                ids = plan.requests if s.plans and s.plans[0] is plan else [s.add([1, 2, 3], 3)]
                s.set_drafts(w.array(np.array(ids, np.uint64)), w.array(np.ones(len(ids), np.int32)))
        finally:
            s.check()
        finish_all(s)
