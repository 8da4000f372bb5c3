# SPDX-License-Identifier: Apache-2.0
"""The calls of tests/scheduler/plans.txt, which a test in C++ has made at random, give the same plans here. tests/scheduler/plan_log.h writes the file
and says what the digest of a plan has."""

import pathlib

import numpy as np
import pytest

import kvcache

PLANS = pathlib.Path(__file__).resolve().parents[3] / "tests" / "scheduler" / "plans.txt"
MASK = (1 << 64) - 1


def engines():
    """The lines of each engine."""
    found = []
    for line in PLANS.read_text().splitlines():
        word, *values = line.split()
        if word == "engine":
            found.append([])
        if word != "#":
            found[-1].append((word, values))
    return found


class Digest:
    """Of all plans so far."""

    def __init__(self):
        self.value = 0

    def note(self, *values):
        for value in values:
            mixed = (self.value ^ ((int(value) + 0x9E3779B97F4A7C15) & MASK)) * 0xFF51AFD7ED558CCD & MASK
            self.value = mixed ^ (mixed >> 32)

    def plan(self, plan, numbers):
        self.note(plan.num_items)
        for i, id in enumerate(plan.requests.tolist()):
            self.note(numbers[id], plan.rows[i], plan.first_tokens[i], plan.token_offsets[i + 1], plan.num_drafts[i], plan.samples[i], plan.is_new[i])
        self.note(*plan.slots.ravel().tolist())
        for pairs in (plan.copies,):
            self.note(len(pairs), *pairs.ravel().tolist())
        self.note(len(plan.preempted), *(numbers[id] for id in plan.preempted.tolist()))
        self.note(len(plan.encoder_runs), *plan.encoder_runs.ravel().tolist())
        self.note(len(plan.ended), *(numbers[one.request] for one in plan.ended))


class Player:
    """An engine that makes the calls of the file."""

    def __init__(self, values):
        numbers = [float(value) if "." in value else int(value) for value in values]
        blocks, block_size, vocab, requests, flags, window, states, quotas = numbers[:8]
        names = ("policy", "admission", "flags", "max_running", "max_tokens", "max_chunk", "max_drafts", "max_plans", "max_adapters", "max_tenants",
                 "max_encoder_tokens", "max_wait_ns", "high_watermark", "low_watermark", "adaptive_plans")
        options = dict(zip(names, numbers[8:]))
        order = options.pop("flags")
        groups = [kvcache.Group(), kvcache.Group(state=True)] if states else [kvcache.Group(), kvcache.Group(window_tokens=window)] if window else ()
        self.manager = kvcache.Manager(blocks, block_size, vocab_size=vocab, max_requests=requests, seed=7, max_quotas=quotas, groups=groups,
                                       partial_reuse=bool(flags & kvcache._native.KVC_MANAGER_PARTIAL_REUSE),
                                       fills=bool(flags & kvcache._native.KVC_MANAGER_FILLS),
                                       headroom=bool(flags & kvcache._native.KVC_MANAGER_HEADROOM))
        self.spaces = [0] + [self.manager.namespace(tenant=b"tenant %d" % (i + 1)) for i in range(quotas)]
        self.s = kvcache.Scheduler(self.manager, cache_aware=order == 1, depth_first=order == 2, **options)
        self.ids, self.numbers, self.flights, self.digest = [], {}, [], Digest()

    def add(self, space, now, new, expected, priority, tenant, adapter, flags, wait, num_inputs, *rest):
        inputs, tokens = rest[: 2 * num_inputs], rest[2 * num_inputs:]
        options = kvcache.RequestOptions(namespace=self.spaces[space], wait_until_ns=wait)
        id = self.s.add(np.array(tokens, np.int32), new, options=options, expected_new_tokens=expected, priority=priority, tenant=tenant, adapter=adapter,
                        inputs=np.array(inputs, np.uint64).reshape(-1, 2), ready=not flags, now_ns=now)
        self.numbers[id] = len(self.ids)
        self.ids.append(id)

    def abort(self, number):
        self.s.abort(self.ids[number])

    def ready(self, number):
        self.s.set_ready(self.ids[number])

    def priority(self, number, priority):
        self.s.set_priority(self.ids[number], priority)

    def drafts(self, number, count):
        self.s.set_drafts([self.ids[number]], [count])

    def weight(self, tenant, weight):
        self.s.set_weight(tenant, weight)

    def quota(self, space, least, most):
        try:
            self.manager.set_quota(self.spaces[space], min_blocks=least, max_blocks=most)
        except kvcache.KvCacheError:
            pass  # as there

    def plan(self, now, items, digest):
        plan = self.s.plan(now)
        assert plan.num_items == items
        self.digest.plan(plan, self.numbers)
        assert self.digest.value == digest
        if items:
            self.flights.append(plan)

    def finish(self, *values):
        plan = self.flights.pop(0)
        n = plan.num_items
        offsets, stopped, tokens = values[: n + 1], values[n + 1: 2 * n + 1], values[2 * n + 1:]
        self.s.finish(plan, np.array(tokens, np.int32), np.array(offsets, np.uint64), stopped=np.array(stopped, bool))

    def fail(self):
        self.s.finish(self.flights[0], failed=True)
        self.flights.clear()


@pytest.mark.parametrize("number", range(5))
def test_the_same_calls_give_the_same_plans(number):
    (_, head), *lines = engines()[number]
    player, plans = Player(head), 0
    with player.manager, player.s:
        assert player.s.stats().policy == (0 if number == 4 else number), "an engine of each policy"
        for word, values in lines:
            getattr(player, word)(*(float(value) if "." in value else int(value) for value in values))
            plans += word == "plan"
        assert plans > 50
        player.s.check()
        player.manager.check()
