# SPDX-License-Identifier: Apache-2.0
"""Index: fed by the events of managers, it says what they have."""
import numpy as np
import pytest

import kvcache

PROMPT = list(range(64))


def served(*prompts):
    manager = kvcache.Manager(64, 16, event_capacity=1000)
    for prompt in prompts:
        request = manager.allocate(prompt)
        request.commit(len(prompt))
        request.free()
    return manager


def follow(index, worker, manager):
    reader = manager.events()
    while len(events := reader.poll()[0]):
        index.apply(worker, events)


def rows(matches):
    return {int(worker): row.tolist() for worker, row in zip(matches.workers, matches.blocks)}


def test_it_has_what_the_managers_have():
    index = kvcache.Index(num_media=2)
    managers = {7: served(PROMPT), 9: served(PROMPT[:32], [5] * 48)}
    for worker, manager in managers.items():
        index.add_worker(worker, f"engine-{worker}", now_ns=3)
        follow(index, worker, manager)
    assert rows(index.match_tokens(PROMPT)) == {7: [4, 4, 0], 9: [2, 2, 0]}
    digests = managers[7].position_digests(PROMPT)
    assert np.array_equal(digests, kvcache.prefix_digests(PROMPT))
    assert rows(index.match(digests)) == {7: [4, 4, 0], 9: [2, 2, 0]}
    assert rows(index.match([bytes(digest) for digest in digests[:1]])) == {7: [1, 1, 0], 9: [1, 1, 0]}
    assert sorted(index.workers()) == [7, 9]
    assert index.worker(7) == ("engine-7", 3, (4, 0), (4, 0), (False, False))
    index.remove_worker(7)
    assert rows(index.match_tokens(PROMPT)) == {9: [2, 2, 0]}
    assert index.stats.num_workers == 1
    with pytest.raises(kvcache.NotFoundError):
        index.worker(7)


def test_events_may_begin_at_any_byte():
    manager = served(PROMPT)
    events, _ = manager.events().poll()
    memory = np.zeros(events.nbytes + 1, np.uint8)
    memory[1:] = events.view(np.uint8)
    shifted = memory[1:].view(events.dtype)
    assert shifted.ctypes.data % 8 != 0  # the address sanitizer tells if C reads there
    index = kvcache.Index(num_media=2)
    index.add_worker(1, "engine")
    index.apply(1, shifted)
    assert rows(index.match_tokens(PROMPT)) == {1: [4, 4, 0]}


def test_events_may_be_objects():
    index = kvcache.Index()
    index.add_worker(1)
    applied = index.apply(1, list(served(PROMPT).events()), medium=3)
    assert (applied.applied, applied.next_sequence, applied.is_stale) == (4, 4, False)
    assert rows(index.match_tokens(PROMPT)) == {1: [4, 0, 0, 0, 4]}
    with pytest.raises(TypeError, match="EventReader.poll"):
        index.apply(1, np.zeros(3, np.uint8))
    with pytest.raises(TypeError, match="EventReader.poll"):
        index.apply(1, memoryview(np.zeros(2, "i4,i4")))


def test_a_gap_is_mended_by_a_list():
    manager = served(PROMPT)
    index = kvcache.Index()
    index.add_worker(1)
    assert index.apply(1, list(manager.events())[2:]).is_stale
    index.begin_resync(1)
    prefixes = manager.prefixes()
    index.apply(1, prefixes)
    index.end_resync(1, prefixes.event_cursor)
    assert not index.worker(1).is_stale[0]
    assert rows(index.match_tokens(PROMPT)) == {1: [4, 4, 0, 0, 0]}


def test_namespaces_have_roots():
    manager = kvcache.Manager(64, 16, event_capacity=1000)
    request = manager.allocate(PROMPT, namespace=manager.namespace(tenant=b"one"))
    request.commit(64)
    index = kvcache.Index()
    index.add_worker(1)
    follow(index, 1, manager)
    assert rows(index.match_tokens(PROMPT)) == {}
    assert rows(index.match_tokens(PROMPT, root=kvcache.namespace_root(tenant=b"one"))) == {1: [4, 4, 0, 0, 0]}
    assert kvcache.namespace_root() != kvcache.namespace_root(tenant=b"")
    assert len(kvcache.prefix_digests(list(range(5000)), 4, kvcache.namespace_root(model=b"m"))) == 1250


def test_silent_workers_expire():
    index = kvcache.Index(ttl_ns=10)
    index.add_worker(1, now_ns=0)
    index.add_worker(2, now_ns=5)
    index.touch_worker(1, 8)
    assert index.expire(17) == 1
    assert index.workers() == [1]


def test_a_dump_comes_back():
    index, other = kvcache.Index(), kvcache.Index()
    index.add_worker(1, "one")
    follow(index, 1, served(PROMPT))
    dump = index.dump()
    other.load(dump)
    assert other.dump() == dump
    assert rows(other.match_tokens(PROMPT)) == rows(index.match_tokens(PROMPT))
    with pytest.raises(kvcache.BusyError):
        other.load(dump)
    with pytest.raises(kvcache.InvalidArgumentError):
        kvcache.Index().load(dump[:-1])
