# SPDX-License-Identifier: Apache-2.0
"""Hits that end inside a block."""

import pytest

import kvcache
from kvcache import Group, Manager, Step


def test_the_head_of_a_block_is_copied():
    with Manager(16, 4, partial_reuse=True) as m:
        with m.allocate(range(8)) as r:
            r.commit(8)
        assert m.probe([0, 1, 2, 3, 4, 5, 9]).num_cached == 6
        with m.allocate([0, 1, 2, 3, 4, 5, 9]) as r:
            assert r.info.num_cached == r.info.num_committed == 6
            assert m.take_pending().copies.tolist() == [[1, r.block_table()[1]]]
        stats = m.stats
        assert (stats.partial_hits, stats.partial_tokens, stats.copies) == (1, 2, 1)
        with Step(m, 2, 2, 16, max_admissions=2, max_prompt_tokens=8) as step:
            step.admit_tokens[:3], step.admit_offsets[1], step.num_admissions = range(3), 3, 1
            step.run()
            assert step.cached[0] == 2 and step.num_copies == 1
        m.check()


def test_it_is_an_option_that_states_refuse():
    with Manager(16, 4) as m:
        with m.allocate(range(8)) as r:
            r.commit(8)
        assert m.probe(range(7)).num_cached == 4
    with pytest.raises(kvcache.UnsupportedError, match="partial reuse"):
        Manager(16, 4, groups=[Group(state=True)], partial_reuse=True)
