# SPDX-License-Identifier: Apache-2.0
"""Pools that change their size, headroom of admissions, and memory that goes back."""

import pytest

import kvcache
from kvcache import Group, Manager, RequestOptions, Step, Storage


def test_a_pool_grows_and_shrinks():
    with Manager(4, block_size=4, max_blocks=8) as m:
        low, high = m.allocate(range(8)), m.allocate(range(50, 58))
        assert m.pool_info().num_blocks == 4 and m.pool_info().max_blocks == 8 and m.properties.max_blocks == 8
        assert m.resize(8).tolist() == [] and m.pool_info().free == 4
        low.close()
        moves = dict(m.resize(2).tolist())
        assert sorted(moves) == [2, 3] and high.block_table().tolist() == [moves[2], moves[3]]
        before = m.digest()
        with pytest.raises(kvcache.NoSpaceError, match="2 blocks of pool 0 are held"):
            m.resize(1)
        with pytest.raises(ValueError, match="max_blocks 8"):
            m.resize(9)
        with pytest.raises(ValueError, match="pool 1 does not exist"):
            m.resize(2, pool=1)
        assert m.digest() == before
        high.close()
        m.check()


def test_many_moves_are_told_at_once():
    with Manager(400, block_size=1) as m:
        low, high = m.allocate(range(200)), m.allocate(range(1000, 1200))
        low.free()
        assert len(m.resize(200)) == 200
        assert sorted(high.block_table().tolist()) == list(range(200))
        high.close()


def test_each_pool_has_room_of_its_own():
    with Manager([4, 2], 4, groups=[Group(), Group(pool=1)], max_blocks=[4, 6]) as m:
        assert (m.pool_info(0).max_blocks, m.pool_info(1).max_blocks, m.pool_info(1).first_block) == (4, 6, 4)
        m.resize(6, pool=1)
        assert m.pool_info(1).num_blocks == 6
    for rooms, error, text in ([8], ValueError, "1 entries for 2 pools"), ("8", TypeError, "must be an int"), ([8, -1], OverflowError, "max_blocks is -1"):
        with pytest.raises(error, match=text):
            Manager([4, 2], 4, groups=[Group(), Group(pool=1)], max_blocks=rooms)
    with pytest.raises(ValueError, match="2 entries for one pool"):
        Manager(4, max_blocks=[4, 4])
    with pytest.raises(ValueError, match="max_blocks 3"):
        Manager(4, max_blocks=3)


def test_an_admission_reserves_what_ended_requests_got():
    with Manager(64, 4, headroom=True) as m:
        assert m.expected_tokens("aggressive") == 0
        with m.allocate(range(4)) as r:
            r.append(range(10))
        assert m.expected_tokens("minimal") == 10 and m.expected_tokens("balanced", 4) == 6 and m.expected_tokens("none") == 0
        with m.allocate(range(4), headroom="balanced") as r:
            assert r.info.capacity == 14
        with Step(m, 1, 1, 16, max_admissions=1, max_prompt_tokens=8) as step:
            step.admit_tokens[:4], step.admit_offsets[1], step.num_admissions = range(4), 4, 1
            step.run([RequestOptions(headroom="aggressive")])
            assert m.request(int(step.admitted[0])).info.capacity == 14
        for wrong in ("most", 1, None):
            with pytest.raises(ValueError, match="must be one of 'none', 'minimal', 'balanced', 'aggressive'"):
                m.allocate(range(4), headroom=wrong)
            with pytest.raises(ValueError, match="must be one of"):
                m.expected_tokens(wrong)
    with Manager(64, 4) as m:
        with pytest.raises(kvcache.UnsupportedError, match="create the manager with headroom=True"):
            m.allocate(range(4), headroom="minimal")
        with pytest.raises(kvcache.UnsupportedError, match="create it with headroom=True"):
            m.expected_tokens("minimal")


def test_memory_of_unused_blocks_goes_back():
    with Storage(64, 1, 2, 128, dtype="float32", layout=kvcache.Layout.BLNHC, block_size=16) as s:
        assert s.discard_blocks(0, 64) >= 62 * 2 * 16 * 2 * 128 * 4
        with pytest.raises(ValueError, match="the storage has 64"):
            s.discard_blocks(60, 5)
