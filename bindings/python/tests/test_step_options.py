# SPDX-License-Identifier: Apache-2.0
"""Admissions of a step with options of their own, against the same by single calls."""

import numpy as np
import pytest

from kvcache import ExtraKey, Manager, RequestFlags, RequestOptions, Status, Step, UnsupportedError
from kvcache.errors import InvalidArgumentError

KEYS = (ExtraKey(0, 4, b"a" * 32), ExtraKey(4, 3, b"b" * 32))


def admit(m, step, prompts, options=()):
    """Runs one step that admits these prompts."""
    ends = np.cumsum([len(prompt) for prompt in prompts])
    step.admit_offsets[1 : len(prompts) + 1] = ends
    step.admit_tokens[: ends[-1]] = np.concatenate(prompts)
    step.num_admissions, step.retired_step = len(prompts), step.step_id
    step.run(options)
    return step.admitted[: len(prompts)]


def step_of(m):
    return Step(m, 1, 1, 8, max_admissions=4, max_prompt_tokens=64)


def test_options_of_admissions_equal_those_of_single_calls():
    with Manager(64, 4) as one, Manager(64, 4) as many, step_of(many) as step:
        namespaces = [m.namespace(tenant=b"x") for m in (one, many)]
        prompts = [list(range(9)), list(range(9)), list(range(20, 33)), list(range(9))]

        def options(namespace):
            return [RequestOptions(namespace=namespace, lookahead=3), None, RequestOptions(slots=4, keys=KEYS, user_data=7),
                    RequestOptions(namespace=namespace.id, flags=RequestFlags.NO_READ, max_cached_tokens=4)]

        for _ in range(2):  # the second time with hits
            singles = [one.allocate(prompt, **each._asdict()) if each else one.allocate(prompt) for prompt, each in zip(prompts, options(namespaces[0]))]
            batch = [many.request(id) for id in admit(many, step, prompts, options(namespaces[1]))]
            assert (step.status[:4] == Status.OK).all()
            for i, (single, other) in enumerate(zip(singles, batch)):
                assert step.cached[i] == single.num_cached
                assert single.info._replace(namespace_id=0) == other.info._replace(namespace_id=0)
                assert other.info.namespace_id == (0 if i in (1, 2) else namespaces[1].id)
                assert single.block_table().tolist() == other.block_table().tolist() == step.block_tables[0, i, : step.num_blocks[i]].tolist()
                single.commit(min(single.info.num_tokens, single.info.capacity))
                other.commit(min(other.info.num_tokens, other.info.capacity))
            assert batch[2].info.user_data == 7 and batch[2].info.capacity < 13
            one.retire_step(0)
            for each in singles + batch:
                each.free()
            many.retire_step(step.step_id)
        assert step.cached[:4].tolist() == [8, 8, 4, 0]
        assert one.stats.cached_tokens == many.stats.cached_tokens == 20
        for namespace in namespaces:
            namespace.close()


def test_admissions_without_options_take_their_namespaces_from_the_step():
    with Manager(64, 4) as m, step_of(m) as step, m.namespace(tenant=b"x") as namespace:
        for options, wanted in (((), [0, namespace.id]), ([RequestOptions(namespace=namespace), None], [namespace.id, 0]), ((), [0, namespace.id])):
            step.admit_namespaces[:2] = 0, namespace.id  # a step consumes them
            requests = [m.request(id) for id in admit(m, step, [[1, 2], [3, 4]], options)]
            assert options or not step.admit_namespaces.any()
            assert [request.info.namespace_id for request in requests] == wanted
            for request in requests:
                request.free()
        step.admit_namespaces[0] = 12345
        admit(m, step, [[1, 2]])
        assert step.status[0] == Status.NOT_FOUND


def test_without_options_admissions_have_the_defaults_again():
    with Manager(64, 4) as m, step_of(m) as step:
        for options, capacity in (([RequestOptions(lookahead=8)], 13), ((), 5), ([None], 5)):
            (id,) = admit(m, step, [range(5)], options)
            assert m.request(id).info.capacity == capacity
            m.request(id).free()


def test_a_bad_config_in_the_middle_changes_nothing():
    with Manager(64, 4) as m, step_of(m) as step:
        prompts = [range(9)] * 3
        digest = m.digest()
        for bad, error in ((RequestOptions(slots=1 << 40), InvalidArgumentError), (RequestOptions(flags=1 << 20), UnsupportedError),
                           (RequestOptions(keys=[ExtraKey(0, 4, b"short")]), ValueError), (RequestOptions(lookahead=-1), OverflowError)):
            with pytest.raises(error):
                admit(m, step, prompts, [RequestOptions(lookahead=4), bad, None])
            assert m.digest() == digest and m.requests() == []
        for wrong in ([None] * 2, [None] * 4):
            with pytest.raises(ValueError, match=f"{len(wrong)} entries for 3"):
                admit(m, step, prompts, wrong)
            assert m.digest() == digest
        admit(m, step, prompts, [RequestOptions(), RequestOptions(namespace=12345), RequestOptions()])
        assert step.status[:3].tolist() == [Status.OK, Status.NOT_FOUND, Status.OK]


def test_a_waiting_request_keeps_what_it_was_created_with():
    with Manager(64, 4) as m, step_of(m) as step, m.create(range(9), lookahead=2) as waiting:
        step.admit_requests[:2] = [waiting.id, 0]
        step.admit_offsets[:3], step.admit_tokens[:5] = [0, 0, 5], range(5)
        step.num_admissions = 2
        step.run([RequestOptions(lookahead=30), RequestOptions(lookahead=1)])
        assert step.status[:2].tolist() == [Status.OK, Status.OK]
        assert waiting.info.capacity == 11 and m.request(step.admitted[1]).info.capacity == 6
