# SPDX-License-Identifier: Apache-2.0
"""The scheduler: plans of an engine over a small pool, their arrays, results and errors."""

import gc
import threading

import numpy as np
import pytest

import kvcache
from kvcache import Admission, EndReason, ScheduledState, SchedulePolicy, _native

SHARED, NEW = np.arange(16, dtype=np.int32), 9


def prompt_of(i):
    return np.concatenate([SHARED, np.arange(4 + i, dtype=np.int32) + 100 * (i + 1)])


class Engine:
    """Computes plans without a model, and holds them against what it has computed before. A slot has the position and the token that were written."""

    def __init__(self, scheduler, max_tokens):
        self.s, self.max_tokens = scheduler, max_tokens
        self.tokens, self.prompts, self.written, self.ended, self.cells = {}, {}, {}, {}, {}
        self.preempted = 0

    def add(self, prompt, new=NEW, **options):
        id = self.s.add(prompt, new, **options)
        self.tokens[id], self.prompts[id], self.written[id] = list(map(int, prompt)), len(prompt), 0
        return id

    def step(self):
        plan = self.s.plan()
        assert plan.num_items and plan.num_tokens <= self.max_tokens
        for id in plan.preempted.tolist():
            self.written[id] = 0
            self.preempted += 1
        for source, destination in plan.copies.tolist():
            for offset in range(4):
                self.cells[destination * 4 + offset] = self.cells.get(source * 4 + offset)
        offsets, sampled = plan.token_offsets.tolist(), []
        assert offsets[-1] == plan.num_tokens
        for i, id in enumerate(plan.requests.tolist()):
            first, count = int(plan.first_tokens[i]), offsets[i + 1] - offsets[i]
            if not plan.is_new[i]:
                assert first == self.written[id], "every token is computed once"
            tokens = self.tokens[id]
            for t in range(first, first + count):
                slot = int(plan.slots[0, offsets[i] + t - first])
                assert slot == plan.block_tables[0, plan.rows[i], t // 4] * 4 + t % 4
                self.cells[slot] = t, tokens[t]
            self.written[id] = first + count
            for t in range(first + count):  # the row has all that was written, hits included
                assert self.cells[int(plan.block_tables[0, plan.rows[i], t // 4]) * 4 + t % 4] == (t, tokens[t])
            assert plan.samples[i] == (first + count == len(tokens))
            if plan.samples[i]:
                sampled.append(id % 50)
                tokens.append(id % 50)
        for ended in self.s.finish(plan, sampled):
            self.ended[ended.request] = ended
        self.s.check()


@pytest.mark.parametrize("policy", list(SchedulePolicy))
def test_engine_loop(policy):
    pressure = []
    with kvcache.Manager(24, 4) as m, kvcache.Scheduler(m, policy=policy, max_running=6, max_tokens=16, max_chunk=10, high_watermark=0.9,
                                                        low_watermark=0.5, on_pressure=lambda *told: pressure.append(told)) as s:
        engine = Engine(s, 16)
        for i in range(20):
            engine.add(prompt_of(i), priority=i % 3)
        while len(engine.ended) < 20:
            engine.step()
        for id, ended in engine.ended.items():
            assert ended == (id, EndReason.LENGTH, NEW) and len(engine.tokens[id]) == engine.prompts[id] + NEW
        stats = s.stats()
        assert stats.ended == stats.added == stats.admissions == 20 and stats.preemptions == engine.preempted > 0
        assert stats.cached_tokens > 0 and stats.policy == (SchedulePolicy.FCFS if policy == SchedulePolicy.ADAPTIVE else policy)
        highs = [high for high, _ in pressure]
        assert highs == [i % 2 == 0 for i in range(len(highs))] and sum(highs) == stats.pressure_changes > 0
        assert all(usage >= 0.9 if high else usage <= 0.5 for high, usage in pressure)


def test_nothing_is_preempted_in_the_worst_case():
    with kvcache.Manager(24, 4) as m, kvcache.Scheduler(m, admission=Admission.WORST, max_running=6, max_tokens=16, cache_aware=True) as s:
        engine = Engine(s, 16)
        for i in range(10):
            engine.add(prompt_of(i))
        while len(engine.ended) < 10:
            engine.step()
        assert engine.preempted == 0


def test_arrays_of_a_plan():
    with kvcache.Manager(64, 4, groups=[kvcache.Group(), kvcache.Group(window_tokens=8)]) as m, kvcache.Scheduler(m, max_running=3, max_tokens=16) as s:
        first, second = s.add(range(9), 5), s.add(range(20, 29), 5)
        plan = s.plan()
        assert (plan.plan_id, plan.num_items, plan.num_tokens, plan.whole_tables) == (1, 2, 16, 0)
        assert plan.requests.tolist() == [first, second] and plan.token_offsets.tolist() == [0, 9, 16] and plan.first_tokens.tolist() == [0, 0]
        assert plan.samples.tolist() == [True, False] and plan.is_new.tolist() == [True, True] and plan.num_drafts.tolist() == [0, 0]
        assert plan.block_tables.shape == (2, 3, 64) and plan.slots.shape == (2, 16) and plan.slots.strides[0] == 16 * 8
        assert plan.copies.shape == (0, 2) and plan.changes.shape == (0, 4) and plan.encoder_runs.shape == (0, 2) and plan.preempted.shape == (0,)
        types = {name: getattr(plan, name).dtype.name for name in ("requests", "rows", "samples", "slots", "block_tables")}
        assert types == {"requests": "uint64", "rows": "int32", "samples": "bool", "slots": "int64", "block_tables": "int32"}
        for name in ("requests", "rows", "samples", "slots", "block_tables", "token_offsets"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(plan, name)[...] = 0
        assert plan.requests is plan.requests and s.plans == (plan,) and plan.ended == []
        assert repr(plan) == "<kvcache.Plan 1: 2 items, 16 tokens>"
        s.finish(plan, [5])
        assert repr(plan) == "<kvcache.Plan 1: 2 items, 16 tokens, finished>" and s.plans == ()
        with pytest.raises(ValueError, match="plan 1 is finished"):
            plan.requests
        plan = s.plan()
        assert plan.requests.tolist() == [first, second] and plan.is_new.tolist() == [False, False]
        assert plan.changes[:, :3].tolist() == [[0, 1, 2], [1, 1, 2]], "the third block of the second request"
        assert all(plan.block_tables[group, row, column] == block for group, row, column, block in plan.changes.tolist())
        s.finish(plan, np.array([6, 7], np.int32), stopped=[False, True])


def test_arrays_outlive_the_scheduler():
    m = kvcache.Manager(64, 4)
    s = kvcache.Scheduler(m, max_running=4, max_tokens=64)
    ids = [s.add(range(10 * i, 10 * i + 9), 5) for i in range(3)]
    plan = s.plan()
    requests, tables, slots = plan.requests, plan.block_tables, plan.slots
    expected = tables.copy(), slots.copy()
    s.close()
    m.check()
    assert m.requests() == [], "close() frees the requests although arrays are left"
    with kvcache.Scheduler(m) as other:
        assert other.plan().num_items == 0
    m.close()
    del s, m
    gc.collect()
    assert plan.rows.tolist() == [0, 1, 2], "also one that is read first now"
    del plan
    gc.collect()
    assert requests.tolist() == ids and np.array_equal(tables, expected[0]) and np.array_equal(slots, expected[1])


def test_every_object_is_freed():
    before = _native.kvc_live_objects()
    for _ in range(3):
        m = kvcache.Manager(64, 4)
        s = kvcache.Scheduler(m)
        s.add(range(9), 5, inputs=[(1, 2)])
        plan = s.plan()
        assert plan.encoder_runs.tolist() == [[0, 0]]
        del s, plan
        gc.collect()
        assert m.requests() == []
        m.close()
        del m
    gc.collect()
    assert _native.kvc_live_objects() == before


@pytest.mark.parametrize("order", (dict(), dict(cache_aware=True), dict(depth_first=True)))
def test_what_is_cached_decides_the_order_if_asked(order):
    with kvcache.Manager(64, 4) as m, kvcache.Scheduler(m, max_running=8, **order) as s:
        for first in (0, 100):
            s.add(range(first, first + 13), 1)
        plan = s.plan()
        s.finish(plan, [1, 1])
        cold, one, two, other = (s.add([*range(first, first + cached), *range(last, last + 4)], 1)
                                 for first, cached, last in ((50, 12, 900), (0, 12, 900), (100, 8, 900), (100, 8, 910)))
        expected = [one, two, other, cold] if order.get("cache_aware") else [two, other, one, cold] if order else [cold, one, two, other]
        assert s.plan().requests.tolist() == expected
    with kvcache.Manager(64, 4) as m, pytest.raises(kvcache.InvalidArgumentError, match="set one"):
        kvcache.Scheduler(m, cache_aware=True, depth_first=True)


def test_asynchronous_plans_and_failures():
    with kvcache.Manager(64, 4) as m, kvcache.Scheduler(m, max_plans=2, max_tokens=16, max_running=4) as s:
        id = s.add(range(12), 4)
        first, second = s.plan(), s.plan()
        assert second.first_tokens.tolist() == [12] and s.plans == (first, second)
        with pytest.raises(kvcache.BusyError, match="2 plans are in flight"):
            s.plan()
        with pytest.raises(kvcache.InvalidArgumentError, match="the oldest plan in flight is 1"):
            s.finish(second, [1])
        assert s.finish(first, [1]) == [] and s.plans == (second,)
        third = s.plan()
        s.finish(second, failed=True)
        assert s.plans == ()
        with pytest.raises(ValueError, match="plan 3 is finished"):
            third.rows
        again = s.plan()
        assert again.first_tokens.tolist() == [12] and s.request_info(id).num_tokens == 13
        assert s.finish(again, [2]) == []


def test_drafts():
    with kvcache.Manager(64, 4) as m, kvcache.Scheduler(m, max_drafts=3) as s:
        id = s.add(range(12), 6)
        s.finish(s.plan(), [1])
        s.set_drafts([id], [3])
        plan = s.plan()
        assert plan.num_drafts.tolist() == [3] and plan.num_tokens == 4
        with pytest.raises(kvcache.InvalidArgumentError, match="item 0 brings 5 tokens"):
            s.finish(plan, [1, 2, 3, 4, 5], [0, 5])
        with pytest.raises(ValueError, match="tokens has 2 tokens; the items of plan 2 bring 3"):
            s.finish(plan, [1, 2], [0, 3])
        with pytest.raises(kvcache.InvalidArgumentError, match="item 0 has 3 drafts"):
            s.finish(plan, [1])
        assert s.finish(plan, [1, 2, 3], [0, 3]) == [] and s.stats().accepted_drafts == 2
        with pytest.raises(kvcache.InvalidArgumentError, match="num_drafts"):
            s.set_drafts([id], [4])
        with pytest.raises(kvcache.InvalidArgumentError):
            s.set_drafts([id], [-1])
        with pytest.raises(kvcache.NotFoundError):
            s.set_drafts([id + 1], [1])
        with pytest.raises(ValueError, match="requests = 1"):
            s.set_drafts([id], [1, 1])


def test_states_of_requests():
    with kvcache.Manager(64, 4) as m, kvcache.Scheduler(m, max_tenants=2) as s:
        namespace = m.namespace(b"model")
        id = s.add(range(12), 4, ready=False, priority=3, tenant=1, adapter=7, now_ns=5, inputs=np.array([[2, 3], [8, 2]]),
                   options=kvcache.RequestOptions(namespace=namespace, user_data=9, keys=[kvcache.ExtraKey(2, 3, bytes(32))]))
        info = s.request_info(id)
        assert (info.state, info.row, info.num_prompt, info.priority, info.tenant, info.arrival_ns) == (ScheduledState.NOT_READY, -1, 12, 3, 1, 5)
        assert info.wait_reason is kvcache.WaitReason.READY and m.request(id).info.user_data == 9
        empty = s.plan(10)
        assert (empty.plan_id, empty.num_items, empty.num_tokens, empty.requests.tolist()) == (0, 0, 0, [])
        s.set_ready(id)
        s.set_priority(id, -1)
        s.set_weight(1, 2.5)
        assert s.request_info(id)[:1] == (ScheduledState.WAITING,) and s.request_info(id).priority == -1
        assert s.request_info(id).wait_reason is kvcache.WaitReason.TURN
        plan = s.plan(11)
        with pytest.raises(ValueError, match="plan 0 is finished"):
            empty.requests
        assert plan.encoder_runs.tolist() == [[0, 0], [0, 1]] and s.request_info(id)[:1] + s.request_info(id)[-1:] == (ScheduledState.RUNNING, kvcache.WaitReason.NONE)
        s.abort(id)
        assert s.finish(plan, [3]) == [], "tokens of a request that has ended are ignored"
        assert s.stats().aborted == 1 and repr(s) == "<kvcache.Scheduler: 0 requests running, 0 waiting, 0 plans in flight>"
        assert s.plan().num_items == 0
        namespace.close()


def test_a_request_that_the_pool_is_too_small_for():
    with kvcache.Manager(4, 4) as m, kvcache.Scheduler(m, max_running=4) as s:
        held = m.acquire_blocks(3)
        id = s.add(range(11), 5)
        assert s.plan().ended == [(id, EndReason.NO_SPACE, 0)]
        m.release_blocks(held)
        id = s.add(range(14), 20)
        s.finish(s.plan(), [1])
        assert s.finish(s.plan(), [1]) == [(id, EndReason.LENGTH, 2)]


def test_errors():
    with kvcache.Manager(64, 4, vocab_size=100) as m:
        for wrong in (dict(policy=9), dict(admission=-1), dict(max_running=1 << 20), dict(max_tokens=8, max_running=9), dict(high_watermark=2.0)):
            with pytest.raises((ValueError, OverflowError)):
                kvcache.Scheduler(m, **wrong)
        with pytest.raises(TypeError, match="kvcache.Manager"):
            kvcache.Scheduler(None)
        with pytest.raises(TypeError, match="kvcache.Offload"):
            kvcache.Scheduler(m, offload=m)
        s = kvcache.Scheduler(m)
        with pytest.raises(kvcache.BusyError, match="the manager has a scheduler"):
            kvcache.Scheduler(m)
        for call in (s.abort, s.set_ready, s.request_info, lambda id: s.set_priority(id, 1)):
            with pytest.raises(kvcache.NotFoundError, match="no request 77"):
                call(77)
        for wrong in (dict(tokens=[]), dict(tokens=[101]), dict(max_new_tokens=0), dict(tenant=1), dict(inputs=[(0, 99)]), dict(inputs=[3]),
                      dict(options=kvcache.RequestOptions(slots=4))):
            with pytest.raises(ValueError):
                s.add(**{"tokens": range(5), "max_new_tokens": 3, **wrong})
        with pytest.raises(TypeError, match="kvcache.RequestOptions"):
            s.add(range(5), 3, options={})
        with pytest.raises(ValueError):
            s.set_weight(0, 0.0)
        assert s.stats().added == 0 and m.requests() == []
        s.add(range(5), 3)
        plan = s.plan(7)
        with pytest.raises(kvcache.InvalidArgumentError, match="time never goes back"):
            s.add(range(5), 3, now_ns=6)
        for tokens, offsets, stopped, text in (([], None, None, "tokens has 0 tokens; the items of plan 1 bring 1"), ([1, 2], None, None, "tokens has 2"),
                                               ([], [0, 0], None, "item 0 brings 0 tokens"), ([1], [0, 1, 1], None, r"\[items \+ 1 = 2\]"),
                                               ([1], [1, 0], None, "token_offsets"), ([100], None, None, r"tokens\[0\] is 100"),
                                               ([1], [0, -1], None, "bring 18446744073709551615"), ([1], None, [True, False], "items = 1")):
            with pytest.raises(ValueError, match=text):
                s.finish(plan, tokens, offsets, stopped=stopped)
        with pytest.raises(TypeError, match="kvcache.Plan"):
            s.finish(plan.plan_id, [1])
        with kvcache.Manager(64, 4) as n, kvcache.Scheduler(n) as other, pytest.raises(ValueError, match="plan 1 is of another scheduler"):
            other.finish(plan, [1])
        assert s.finish(plan, [1]) == []
        with pytest.raises(kvcache.InvalidArgumentError, match="plan 1 is not in flight"):
            s.finish(plan, [1])
        s.close()
        s.close()
        assert repr(s) == "<kvcache.Scheduler, closed>"
        for call in (s.plan, s.stats, s.check, lambda: s.add(range(5), 3), lambda: s.finish(plan, [1])):
            with pytest.raises(ValueError, match="the scheduler is closed"):
                call()
        assert m.requests() == []


def test_a_callback_that_raises_loses_no_plan():
    def raises(high, usage):
        raise RuntimeError(f"{high}")

    with kvcache.Manager(4, 4) as m, kvcache.Scheduler(m, high_watermark=0.5, low_watermark=0.5, on_pressure=raises) as s:
        s.add(range(9), 3)
        with pytest.raises(RuntimeError, match="True"):
            s.plan()
        assert s.finish(s.plans[-1], [1]) == []


class Counted:
    """A lock that counts how often it is taken."""

    def __init__(self, lock):
        self.lock, self.count = lock, 0

    def __enter__(self):
        self.count += 1
        return self.lock.__enter__()

    def __exit__(self, *reason):
        return self.lock.__exit__(*reason)


def test_with_an_offload():
    with kvcache.Manager(16, 4, event_capacity=256) as m, kvcache.Tier("memory:?bytes=1MiB", 64, b"1" * 32) as tier:
        other = kvcache.Manager(16, 4, event_capacity=256)
        offload = kvcache.Offload(m, None, tier, b"a model", b"of May", page_bytes=64)
        with pytest.raises(ValueError, match="another manager"):
            kvcache.Scheduler(other, offload=offload)
        s = kvcache.Scheduler(m, offload=offload, max_running=4, max_tokens=16)
        offload.close()  # ends with the scheduler
        with pytest.raises(ValueError, match="the offload is closed"):
            offload.poll()
        with pytest.raises(kvcache.BusyError):
            kvcache.Offload(m, None, tier, b"a model", b"of May", page_bytes=64)
        s.add(range(9), 3)
        s.plan()
        s.close()
        with kvcache.Offload(m, None, tier, b"a model", b"of May", page_bytes=64) as offload, kvcache.Scheduler(m, offload=offload, max_running=4,
                                                                                                               max_tokens=16) as s:
            for i in range(8):
                s.add(np.arange(13, dtype=np.int32) + 100 * i, 9)
            lock = offload._lock = Counted(offload._lock)
            for i in range(10000):
                lock.count = 0
                plan = s.plan()
                assert lock.count == 1, "nobody polls it while it plans"
                offload.poll()
                if plan.num_items:
                    s.finish(plan, [1] * int(plan.samples.sum()))
                if s.stats().ended == 8:
                    break
            assert s.stats().ended == 8 and s.stats().preemptions > 0
            s.check()
        other.close()


def test_threads_add_while_one_plans():
    with kvcache.Manager(64, 4, max_requests=256) as m, kvcache.Scheduler(m, max_running=8, max_tokens=32) as s:
        def add(base):
            for i in range(20):
                s.add(range(base + i, base + i + 6), 2)

        threads = [threading.Thread(target=add, args=(1000 * i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        while s.stats().ended < 80:
            plan = s.plan()
            if plan.num_items:
                s.finish(plan, [1] * int(plan.samples.sum()))
        for thread in threads:
            thread.join()
        s.check()
