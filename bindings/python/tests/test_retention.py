# SPDX-License-Identifier: Apache-2.0
"""Hints and registered prompts. The rules are tested in C++; this shows that they arrive here."""

import pytest

import kvcache
from kvcache import Manager


def store(m, first):
    with m.allocate([first, 1, 2, 3, 4]) as r:
        r.commit(5)


def test_hints_decide_what_is_evicted():
    with Manager(8, block_size=4, hints=True) as m:
        store(m, 100)
        store(m, 200)
        m.set_time(10)
        assert m.set_prefix_priority([100, 1, 2, 3], 90, until_ns=20) == 4
        assert m.evict(1) == 1
        assert m.probe([100, 1, 2, 3, 4]).num_cached == 4
        with pytest.raises(kvcache.errors.InvalidArgumentError, match="monotonic"):
            m.set_time(9)
        with m.allocate(range(9)) as r:
            r.set_priority(50)
            r.set_priority(20, first_token=4, num_tokens=4, until_ns=11)
            with pytest.raises(kvcache.errors.InvalidArgumentError, match="101"):
                r.set_priority(101)
            r.commit(9)
            r.end_session(shared_tokens=4)
        assert m.set_prefix_priority(range(8), kvcache.PRIORITY_DEMOTED, first_token=4) == 4
        assert m.set_prefix_priority(range(8), kvcache.PRIORITY_DEMOTED) == 8
        step = kvcache.Step(m, 1, 1, 4)
        step.now_ns = 30
        step.run()
        step.now_ns = 29
        with pytest.raises(kvcache.errors.InvalidArgumentError):
            step.run()


def test_without_hints_they_are_refused():
    with Manager(8, block_size=4) as m, m.allocate(range(5)) as r:
        for refused in (lambda: r.set_priority(1), r.end_session, lambda: m.set_prefix_priority([1], 1)):
            with pytest.raises(kvcache.errors.UnsupportedError, match="create the manager with hints"):
                refused()


def test_registered_prompts_stay():
    with Manager(8, block_size=4) as m:
        assert m.prompts() == []
        assert m.register_prompt("sÿstem", range(8)) == 0
        with pytest.raises(kvcache.errors.InvalidArgumentError, match="sÿstem"):
            m.register_prompt("sÿstem", range(4))
        assert m.prompts() == ["sÿstem"]
        with m.allocate_from_prompt("sÿstem", [7], user_data=3) as r:
            assert r.num_cached == 0 and r.info.user_data == 3
            r.commit(9)
        assert m.evict(8) == 0
        with m.allocate_from_prompt("sÿstem") as r:
            assert r.num_cached == 4
        m.unregister_prompt("sÿstem")
        with pytest.raises(kvcache.NotFoundError):
            m.allocate_from_prompt("sÿstem", [7])
        assert m.evict(8) == 2
