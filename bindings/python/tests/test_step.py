# SPDX-License-Identifier: Apache-2.0
"""The batched step over NumPy arrays against the same by single calls."""

import gc

import numpy as np
import pytest

import kvcache
from kvcache import Manager, NeverFitsError, NoSpaceError, Status, Step, StepFlags


def test_a_step_counts_its_failed_items():
    with Manager(4, 4) as m, Step(m, 2, 16, 8, max_frees=1) as step:
        a, b = m.allocate(range(7)), m.allocate(range(10, 17))
        step.requests[:], step.committed[:], step.extend_offsets[:] = [a.id, b.id], 7, [0, 1, 8]
        step.extend_tokens[:8] = range(8)
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
        assert step.status[:2].tolist() == [Status.OK, Status.NEVER_FITS]  # eight blocks of four
        assert step.num_refused == 1 and step.shortage_blocks == 0 and step.admitted[1] == 0
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


def test_what_never_fits_stops_nothing_behind_it():
    with Manager(4, 4) as m, Step(m, 0, 0, 8, max_admissions=4) as step:
        never, waits, behind = m.create(range(17)), m.create(range(100, 116)), m.create(range(200, 201))
        assert m.probe(range(17)).never_fits and not m.probe(range(16)).never_fits
        assert m.probe_request(never).never_fits and not m.probe_request(never).fits and not m.probe_request(waits).never_fits
        running = m.allocate(range(1))
        with pytest.raises(NeverFitsError, match="needs 5 blocks of pool 0 at once and can never get more than 4 of its 4"):
            never.admit()
        with pytest.raises(NoSpaceError) as waiting:
            waits.admit()
        assert type(waiting.value) is NoSpaceError and issubclass(NeverFitsError, NoSpaceError)
        assert step.flags == StepFlags(0) and type(step.flags) is StepFlags
        for flags, last in ((0, Status.SKIPPED), (StepFlags.ADMIT_PAST_REFUSAL, Status.OK)):
            step.flags = flags
            step.admit_requests[:4], step.num_admissions = [never.id, waits.id, never.id, behind.id], 4
            step.run()
            third = Status.SKIPPED if flags == 0 else Status.NEVER_FITS
            assert step.status[:4].tolist() == [Status.NEVER_FITS, Status.NO_SPACE, third, last]
            assert step.shortage_blocks == 1 and type(step.errors[0]) is NeverFitsError
        assert step.flags is StepFlags.ADMIT_PAST_REFUSAL
        for request in (never, waits, behind, running):
            request.close()


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
        tables = step.block_tables
        step.use(committed=False, extend_tokens=False, block_tables=False)
        step.run()
        assert r.info.capacity == 7 and r.info.num_tokens == 4 and (tables == -1).all()
        step.use(committed=True, extend_offsets=False, block_tables=True)
        step.committed[0] = 4
        step.run()
        assert r.info.num_committed == 4 and step.block_tables[0, 0, :2].tolist() == r.block_table().tolist()
        for unknown in ("requests", "extend_token", "commit_tokens"):
            with pytest.raises(TypeError, match=f"{unknown}"):
                step.use(committed=False, **{unknown: False})
        step.committed[0] = 4  # still on


def test_slots_alone_publish_no_tokens():
    """As docs/PYTHON.md and the text of use() have it; the ids come with the commit."""
    with Manager(8, 4) as m, Step(m, 1, 4, 4) as step, m.allocate(range(4)) as r:
        step.use(extend_tokens=False)
        step.requests[0], step.committed[0], step.extend_offsets[:2], step.num_requests = r.id, 4, [0, 4], 1
        step.run()
        assert step.status[0] == Status.OK and step.slots[0, :4].tolist() == r.slots(4, 4).tolist()
        assert r.info.num_tokens == 4 and m.probe([0, 1, 2, 3, 0, 0, 0, 0, 0]).num_cached == 4
        step.use(commit_offsets=True, extend_offsets=False)
        step.commit_tokens[:4], step.commit_offsets[1], step.committed[0] = [9, 8, 7, 6], 4, 8
        step.run()
        assert step.status[0] == Status.OK and m.probe([0, 1, 2, 3, 9, 8, 7, 6, 0]).num_cached == 8


def test_ids_that_are_not_set_are_refused_and_count_once():
    with Manager(16, 4) as m, Step(m, 2, 4, 4, max_admissions=1, max_prompt_tokens=12, max_frees=1) as step, m.allocate(range(4)) as r:
        assert (step.extend_tokens == -1).all() and (step.admit_tokens == -1).all() and step.truncate_lengths.tolist() == [2**64 - 1]
        assert step.admit_offsets.tolist() == [0, 2**64 - 1]
        step.requests[0], step.committed[0], step.extend_offsets[1], step.num_requests = r.id, 4, 1, 1
        step.run()
        assert step.status[0] == Status.INVALID_ARGUMENT and r.info.num_tokens == 4 and step.slots[0, 0] == -1
        assert "extend_tokens[0] is -1, which means not set" in kvcache._native.kvc_last_error()
        step.extend_tokens[0] = 0  # an id like others
        step.run()
        assert step.status[0] == Status.OK and r.info.num_tokens == 5 and step.extend_tokens[0] == -1
        step.run()
        assert step.status[0] == Status.INVALID_ARGUMENT and r.info.num_tokens == 5
        step.num_requests, step.num_admissions = 0, 1
        with pytest.raises(ValueError, match=r"admit_offsets\[1\].*not set"):
            step.run()
        step.admit_offsets[1], step.admit_tokens[:4] = 5, range(4)
        step.run()
        assert step.status[0] == Status.INVALID_ARGUMENT and "admit_tokens[4]" in kvcache._native.kvc_last_error()
        assert m.requests() == [r.id] and step.admit_offsets[1] == 2**64 - 1
        step.num_admissions, step.num_truncates, step.truncates[0] = 0, 1, r.id
        step.run()
        assert step.status[0] == Status.INVALID_ARGUMENT and "truncate_lengths[0]" in kvcache._native.kvc_last_error()
        step.use(rows=True)
        step.num_truncates, step.num_requests = 0, 1
        with pytest.raises(ValueError, match=r"rows\[0\] is -2147483648, which means not set"):
            step.run()
        assert r.info.num_tokens == 5


@pytest.mark.parametrize("name, switch", [
    ("committed", "committed"), ("commit_offsets", "commit_offsets"), ("commit_tokens", "commit_offsets"), ("extend_offsets", "extend_offsets"),
    ("extend_tokens", "extend_tokens"), ("extend_tokens", "extend_offsets"), ("admit_requests", "admit_requests"), ("admit_tokens", "admit_offsets"),
    ("rows", "rows"), ("block_tables", "block_tables"), ("slots", "slots"), ("changes", "changes")])
def test_an_array_that_is_off_is_neither_written_nor_read(name, switch):
    with Manager(8) as m, Step(m, 2, 4, 4, max_admissions=2, max_prompt_tokens=4) as step:
        step.use(commit_offsets=True, rows=True)
        kept = getattr(step, name)
        kept[0] = 0
        step.use(**{switch: False})
        with pytest.raises(AttributeError, match=f"{name} is off.*{switch}=True"):
            getattr(step, name)[0] = 1
        with pytest.raises(AttributeError, match=f"{name} is off"):
            setattr(step, name, kept)
        with pytest.raises(ValueError, match="read-only"):
            kept[0] = 1
        assert not hasattr(step, name) and (kept[0] == 0).all()
        step.use(**{switch: True})
        assert getattr(step, name) is kept
        kept[0] = 1


def test_a_step_has_no_attributes_but_its_own():
    with Manager(8) as m, Step(m, 2, 4, 4) as step:
        for name, meant in (("extend_token", "extend_tokens"), ("num_request", "num_requests"), ("retired", "retired_step"), ("xyz", "")):
            with pytest.raises(AttributeError, match=f"no attribute '{name}'.*{meant}"):
                setattr(step, name, 1)
            with pytest.raises(AttributeError, match=f"no attribute '{name}'.*{meant}"):
                getattr(step, name)
        with pytest.raises(AttributeError, match=r"in place: step.requests\[:n\] = "):
            step.requests = [1, 2]
        for name in ("step_id", "num_slots", "run", "num_failed"):
            with pytest.raises(AttributeError, match=f"{name} of a Step cannot be set"):
                setattr(step, name, 1)
        committed = step.committed
        step.committed += 3
        assert step.committed is committed and committed.tolist() == [3, 3]


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


def test_admit_slots_are_those_of_the_first_chunk():
    with kvcache.Manager(64, 4) as m, kvcache.Step(m, 1, 1, 16, max_admissions=2, max_prompt_tokens=40) as step:
        assert step.admit_slots.tolist() == [0, 0]
        waiting = m.create(np.arange(100, 120, dtype=np.int32))
        step.admit_requests[:] = [0, waiting.id]
        step.admit_offsets[:] = [0, 20, 20]
        step.admit_tokens[:20] = np.arange(20)
        step.admit_slots[:] = [6, 9]
        step.num_admissions = 2
        step.run()
        assert step.num_failed == 0 and step.num_blocks[:2].tolist() == [2, 3] and step.admit_slots.tolist() == [0, 0]
        assert [m.request(id).info.capacity for id in step.admitted.tolist()] == [6, 9]
        step.admit_slots[0], step.num_admissions = 2**63, 1
        with pytest.raises(kvcache.InvalidArgumentError, match=r"admit_slots\[0\] is 9223372036854775808; at most max_request_tokens"):
            step.run()
