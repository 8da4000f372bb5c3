# SPDX-License-Identifier: Apache-2.0
"""Manager.rebuild() carries what is cached, and Storage.copy_tokens() its bytes."""

import numpy as np
import pytest

import kvcache

TOKENS = np.arange(100, 140, dtype=np.int32)


def computed(m, tokens, namespace=0):
    """Computes a prompt and frees it. Returns its block table."""
    with m.allocate(tokens, namespace=namespace) as request:
        request.commit(len(tokens))
        return request.block_table()


def test_a_prefix_and_its_bytes_come_along():
    m = kvcache.Manager(32, 16)
    tenant = m.namespace(tenant=b"a")
    table = computed(m, TOKENS, tenant)
    old = kvcache.Storage(32, num_layers=2, num_heads=2, head_dim=8, block_size=16, dtype=kvcache.DType.INT8)
    k, v = np.random.default_rng(1).standard_normal((2, 2, 40, 2, 8), dtype=np.float32)
    slots = np.array([table[t // 16] * 16 + t % 16 for t in range(40)], np.int64)
    old.store(k, v, slots)

    made = m.rebuild(64, 6, policy="frequency")
    assert made.manager.properties.block_size == 6 and made.manager.properties.policy == 1
    assert made.manager.probe(TOKENS, namespace=made.namespaces[tenant.id]).num_cached == 30
    assert made.manager.probe(TOKENS).num_cached == 0
    assert made.copies.dtype == np.int32 and made.copies[0].tolist() == [0, table[0], 0, 0, 0, 6]
    assert made.copies[:, 5].sum() == 30
    new = kvcache.Storage(64, num_layers=2, num_heads=2, head_dim=8, block_size=6, dtype=kvcache.DType.INT8)
    new.copy_tokens(old, made.copies)
    with made.manager.allocate(TOKENS, namespace=made.namespaces[tenant.id]) as request:
        blocks = request.block_table()
        there = np.array([blocks[t // 6] * 6 + t % 6 for t in range(30)], np.int64)
        for now, before in zip(new.gather(there), old.gather(slots[:30])):
            assert np.array_equal(now, before)
    m.check()
    made.manager.check()


def test_what_is_in_the_way_is_named():
    m = kvcache.Manager(32, 16)
    with m.allocate(TOKENS) as request:
        with pytest.raises(kvcache.BusyError, match="1 requests are admitted"):
            m.rebuild(32, 8)
        request.preempt()
        m.rebuild(32, 8)
    with pytest.raises(kvcache.InvalidArgumentError, match="num_blocks is 0"):
        m.rebuild(0, 8)
    windows = kvcache.Manager(32, 16, groups=[kvcache.Group(window_tokens=32)])
    with pytest.raises(kvcache.UnsupportedError, match="a group has a window"):
        windows.rebuild(32, 8, groups=[kvcache.Group(window_tokens=32)])


def test_more_copies_than_the_first_guess():
    m = kvcache.Manager(4096, 1)
    computed(m, np.arange(3000, dtype=np.int32))
    made = m.rebuild(4096, 2)
    assert len(made.copies) == 3000
    assert made.manager.probe(np.arange(3001, dtype=np.int32)).num_cached == 3000


def test_options_are_those_of_manager():
    m = kvcache.Manager([8, 8], 4, groups=[kvcache.Group(), kvcache.Group(pool=1)])
    computed(m, [1, 2, 3, 4, 5])
    made = m.rebuild([4, 4], 2, groups=[kvcache.Group(), kvcache.Group(pool=1)], event_capacity=8)
    assert made.copies[:, 0].tolist() == [0, 0, 1, 1]
    assert len(list(made.manager.events())) == 4
    with pytest.raises(TypeError):
        m.rebuild(4, colour="red")
