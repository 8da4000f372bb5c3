# SPDX-License-Identifier: Apache-2.0
"""The batched step over NumPy arrays against the same by single calls."""

import gc

import numpy as np
import pytest

import kvcache
from kvcache import Manager, Status, Step


def test_a_step_counts_its_failed_items():
    with Manager(4, 4) as m, Step(m, 2, 16, 8, max_frees=1) as step:
        a, b = m.allocate(range(7)), m.allocate(range(10, 17))
        step.requests[:], step.committed[:], step.extend_offsets[:] = [a.id, b.id], 7, [0, 1, 8]
        step.num_requests = 2
        step.run()
        assert step.num_failed == 1 and step.status[:2].tolist() == [Status.OK, Status.NO_SPACE]
        step.num_frees, step.num_requests, step.frees[0] = 1, 0, 12345
        step.run()
        assert step.num_failed == 1 and step.status[0] == Status.NOT_FOUND
        step.frees[0] = b.id
        step.run()
        b.forget()
        assert step.num_failed == 0
        a.close()


def test_a_decode_loop_equals_single_calls():
    n, steps = 5, 40
    with Manager(64, 4) as one, Manager(64, 4) as many, Step(many, n, n, 16) as step:
        singles = [one.allocate(range(i * 10, i * 10 + 6)) for i in range(n)]
        batch = [many.allocate(range(i * 10, i * 10 + 6)) for i in range(n)]
        step.requests[:] = [r.id for r in batch]
        step.committed[:] = 6
        step.extend_offsets[:] = np.arange(n + 1)
        step.num_requests = n
        for k in range(steps):
            step.extend_tokens[:] = np.arange(n) + k
            step.retired_step = step.step_id
            assert step.run() == k + 1
            assert (step.status[:n] == Status.OK).all() and step.num_slots == n and step.num_copies == 0
            for i, r in enumerate(singles):
                r.commit(6 + k)
                r.append(i + k)
            step.committed += 1
        one.retire_step(0)
        many.retire_step(steps)
        for i, (single, other) in enumerate(zip(singles, batch)):
            table = single.block_table()
            blocks = step.num_blocks[i]
            assert step.block_tables[0, i, :blocks].tolist() == other.block_table().tolist()
            assert blocks == len(table) and (step.block_tables[0, i, blocks:] == -1).all()
            assert step.slots[0, i] == other.slots(5 + steps, 1)[0]
        assert one.stats.published_blocks == many.stats.published_blocks > 0
        for r in singles + batch:
            r.close()


def test_admissions_frees_and_refusals_have_a_status_each():
    with Manager(4, 4) as m, Step(m, 2, 8, 8, max_admissions=2, max_prompt_tokens=40, max_frees=2) as step:
        step.admit_tokens[:39] = np.arange(39)
        step.admit_offsets[:] = [0, 9, 39]
        step.num_admissions = 2
        step.run()
        assert step.status[:2].tolist() == [Status.OK, Status.NO_SPACE]
        assert step.num_refused == 1 and step.shortage_blocks == 7 and step.admitted[1] == 0
        request = m.request(step.admitted[0])
        assert request.info.num_tokens == 9 and step.block_tables[0, 0].tolist() == [0, 1, 2] + [-1] * 5
        waiting = m.create(range(100, 104))
        step.num_admissions, step.num_frees = 1, 1
        step.frees[0] = request.id
        step.admit_requests[0] = waiting.id
        step.retired_step = step.step_id
        step.run()
        assert step.status[:2].tolist() == [Status.OK, Status.OK] and step.admitted[0] == waiting.id
        waiting.close()


def test_counts_past_the_arrays_are_refused():
    with Manager(4) as m, Step(m, 2, 3, 4) as step:
        step.num_requests = 3
        with pytest.raises(ValueError, match="3 entries.*2"):
            step.run()


def test_optional_arrays_are_taken_away_and_back():
    with Manager(8, 4) as m, Step(m, 1, 4, 4) as step, m.allocate(range(4)) as r:
        step.requests[0] = r.id
        step.extend_offsets[1] = 3
        step.num_requests = 1
        step.use(committed=False, extend_tokens=False, block_tables=False)
        step.run()
        assert r.info.capacity == 7 and r.info.num_tokens == 4 and (step.block_tables == -1).all()
        step.use(committed=True, extend_offsets=False, block_tables=True)
        step.committed[0] = 4
        step.run()
        assert r.info.num_committed == 4 and step.block_tables[0, 0, :2].tolist() == r.block_table().tolist()
        with pytest.raises(ValueError):
            step.use(requests=False)


def test_arrays_keep_the_memory_of_step_and_manager():
    gc.collect()
    live = kvcache._native.kvc_live_objects()
    m = Manager(8)
    step = Step(m, 4, 4, 4)
    array = step.extend_tokens
    step.close()
    m.close()
    del step, m
    gc.collect()
    array[:] = 7
    assert array.tolist() == [7] * 4
    assert kvcache._native.kvc_live_objects() == live + 2
    del array
    gc.collect()
    assert kvcache._native.kvc_live_objects() == live
