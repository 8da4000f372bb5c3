# SPDX-License-Identifier: Apache-2.0
"""Calls of Step."""

import numpy as np

import kvcache
from world import call, need


@call("Step")
def step(w):
    numbers = [w.number(n) for n in (4, 8, 4)]
    if any(isinstance(n, int) and n > 1 << 20 for n in numbers):
        numbers[0] = -1
    kvcache.Step(w.m, *numbers, max_admissions=w.rng.choice((0, 2, -1)), max_frees=w.rng.choice((0, 3))).close()


@call("Step.use")
def use(w):
    name = w.rng.choice(("committed", "commit_offsets", "extend_offsets", "extend_tokens", "rows", "block_tables", "slots", "changes"))
    w.step.use(**{w.rng.choice((name, name, "status")): w.rng.choice((True, True, False, w.number(1)))})


STEP_COUNTS = ("num_requests", "num_admissions", "num_frees", "num_preempts", "num_truncates", "retired_step", "flags", "fill_id")


@call("Step.run")
def run(w):
    """Right counts and ids, of which a few are spoilt."""
    s, rng = w.step, w.rng
    known = [r for r in w.requests]
    rng.shuffle(known)
    running = known[: rng.randrange(len(known) + 1)][:8]
    freed = known[len(running):][: rng.randrange(3)] if rng.random() < 0.5 else []
    infos = [r.info for r in running]
    for name in STEP_COUNTS:
        setattr(s, name, 0)
    s.num_requests, s.num_frees, s.fill_id, s.retired_step = len(running), len(freed), -1, s.step_id
    ids = [r.id for r in running]
    for name, values in (("requests", ids), ("frees", [r.id for r in freed]), ("committed", [i.num_tokens for i in infos]),
                         ("extend_offsets", range(len(running) + 1)), ("commit_offsets", [0] * (len(running) + 1)), ("extend_tokens", [1] * len(running)),
                         ("admit_requests", [0] * 3), ("admit_offsets", (0, 5, 10, 15)), ("admit_tokens", [2] * 15), ("rows", range(11))):
        array_of(s, name)[: len(values)] = values
    s.num_admissions = rng.choice((0, 0, 1, 2)) if len(known) < 8 else 0
    if rng.random() < 0.5:
        array = array_of(s, rng.choice(("requests", "committed", "extend_offsets", "commit_offsets", "extend_tokens", "frees", "admit_offsets",
                                        "admit_requests", "admit_tokens", "rows", "truncates", "truncate_lengths", "preempts")))
        array[:] = w.h.as_extremes(array)
    if rng.random() < 0.3:
        name = rng.choice(STEP_COUNTS)
        setattr(s, name, w.number(getattr(s, name)))
    none = [None] * s.num_admissions if s.num_admissions < 9 else []
    options = rng.choice(([], none, none, [kvcache.RequestOptions(slots=w.number(3), keys=w.keys() or ())] * len(none), Growing(len(none))))
    before = set(w.m.requests())
    try:
        s.run(options)
    finally:
        known = {r.id: r for r in w.requests}
        now = w.m.requests()
        for id in before - set(now):
            known.pop(id).forget()
        w.requests = [known.get(id) or w.m.request(id) for id in now]
        for r in w.requests:
            r._owned = True
    s.num_failed, s.errors


def array_of(s, name):
    """An array of the step; one of nobody if it is off."""
    return getattr(s, name, np.zeros(64, np.int64))


class Growing:
    """As many options as there are admissions, says its length; and gives more."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __iter__(self):
        return iter([None] * (self.length + 50))


@call("Step.num_failed")
def num_failed(w):
    name = w.rng.choice(STEP_COUNTS[:5])
    before = getattr(w.step, name)
    setattr(w.step, name, w.number(before))
    w.step.num_failed


@call("Step.error")
@call("Step.errors")
def errors_of_items(w):
    first, all_of_them = w.step.error, w.step.errors
    need((first is None) == (not all_of_them), "errors of items")
    need(first is None or [first.item for error in all_of_them if error.item == first.item] == [first.item] and ": " in str(first), "the first error")


@call("Step.close")
def close_step(w):
    s = kvcache.Step(w.m, 2, 2, 2)
    array = s.status
    s.close(), s.close()
    array[:] = 3
