# SPDX-License-Identifier: Apache-2.0
"""The life of requests, and what ends it."""

import gc
import warnings

import numpy as np
import pytest

import kvcache
from kvcache import ExtraKey, Group, Manager, Status


def test_a_freed_prompt_is_found_again():
    with Manager(64) as m:
        with m.allocate(range(40)) as r:
            assert r.num_cached == 0
            assert r.block_table().tolist() == [0, 1, 2]
            assert r.slots(0, 3).tolist() == [0, 1, 2]
            r.commit(40)
            r.append(7)
            assert r.info.num_tokens == 41
        again = m.allocate(range(40))
        assert again.num_cached == 32
        again.free()
        assert m.stats.block_hits == 2 and m.usage == 0
        m.check()


def test_a_refused_admission_changes_nothing_and_says_what_is_missing():
    with Manager(4) as m:
        r = m.allocate(range(48))
        before = m.digest()
        with pytest.raises(kvcache.NoSpaceError, match="2") as error:
            m.allocate(range(100, 130))
        assert error.value.status == kvcache.Status.NO_SPACE
        assert m.digest() == before
        r.free()


def test_blocks_to_clear_and_to_move_are_told():
    with Manager(8, block_size=4, zero="always") as m:
        with m.allocate(range(8)):
            assert sorted(m.take_pending().zero_blocks.tolist()) == [0, 1] and m.take_pending().zero_blocks.tolist() == []
    with Manager(8, block_size=4) as m:
        low, high = m.allocate(range(8)), m.allocate(range(50, 58))
        low.close()
        assert m.take_pending().zero_blocks.size == 0
        assert high.block_table().tolist() == [2, 3]
        moves = dict(m.compact().tolist())
        assert sorted(moves) == [2, 3] and high.block_table().tolist() == [moves[2], moves[3]] and max(moves.values()) == 1
        high.close()


def test_each_status_is_a_class_that_python_users_expect():
    with Manager(4, vocab_size=100, max_request_tokens=50) as m:
        with pytest.raises(ValueError, match="100"):
            m.allocate([100])
        with pytest.raises(kvcache.errors.LimitError, match="50"):
            m.allocate([1] * 51)
        r = m.allocate([1, 2])
        with pytest.raises(kvcache.errors.BusyError):
            r.admit()
        r.free()
        with pytest.raises(LookupError):
            r.free()
        with pytest.raises(kvcache.errors.NotHeldError):
            m.release_blocks([0])
        with pytest.raises(NotImplementedError):
            m.allocate([1], flags=1 << 30)
        with pytest.raises(TypeError, match="priority"):
            m.allocate([1], priority=3)
    with pytest.raises(ValueError, match="num_blocks"):
        Manager(0)
    with pytest.raises(TypeError, match="blok_size"):
        Manager(4, blok_size=3)
    with pytest.raises(TypeError, match="slot"):
        Manager(4).allocate([1], slot=3)


def test_prefix_caching_is_switched_by_a_bool_alone():
    with Manager(16, block_size=4) as m:
        for wrong in ("off", "0", 2, None):
            with pytest.raises(TypeError, match="give True or False"):
                m.set_prefix_caching(wrong)
        with m.allocate(range(9)) as r:
            r.commit(9)
        for on in (False, True):
            m.set_prefix_caching(on)
            assert m.probe(range(9)).num_cached == (8 if on else 0)


def test_namespaces_do_not_share_and_reset_forgets():
    with Manager(16, block_size=4) as m:
        with m.namespace(model=b"a") as a, m.namespace(model=b"a", tenant=b"") as b:
            assert a.id != b.id
            with m.allocate(range(9), namespace=a) as r:
                r.commit(9)
            assert m.probe(range(9), namespace=a).num_cached == 8
            assert m.probe(range(9), namespace=b.id).num_cached == 0 == m.probe(range(9)).num_cached
            m.reset_namespace(a)
            assert m.probe(range(9), namespace=a).num_cached == 0


def test_the_default_namespace_is_reset_alone():
    with Manager(16, block_size=4, event_capacity=64) as m, m.namespace(model=b"a") as a:
        assert m.namespaces() == [a.id]
        for namespace in (0, a):
            with m.allocate(range(9), namespace=namespace) as r:
                r.commit(9)
        m.reset_namespace(0)
        assert m.probe(range(9)).num_cached == 0 and m.probe(range(9), namespace=a).num_cached == 8
        assert [e.namespace_id for e in m.events() if e.kind == kvcache.EventKind.NAMESPACE_CLEARED] == [0]


def test_a_probe_says_whether_the_prompt_fits():
    with Manager(4, block_size=4, watermark_blocks=2) as m:
        assert m.probe(range(16)).fits  # the watermark does not count while nothing runs
        with m.allocate([1]):
            assert m.probe(range(4)).fits and not m.probe(range(8)).fits
            with m.create(range(8), slots=4) as waiting:
                assert m.probe_request(waiting).fits
                waiting.admit()
                with pytest.raises(kvcache.errors.BusyError):
                    m.probe_request(waiting.id)


def test_what_is_cached_is_listed_as_the_events_tell():
    with Manager(40, block_size=4, event_capacity=4) as m:
        assert list(m.prefixes()) == []
        with m.allocate(range(40)) as r:
            r.commit(40)
        reader = m.events()
        told = list(reader)
        assert len(told) == 4 and reader.lost == 6 == m.stats.events_dropped
        prefixes = m.prefixes()
        listed = sorted(prefixes, key=lambda e: e.token_offset)
        assert prefixes.event_cursor == reader.cursor == 10
        assert [e.tokens.tolist() for e in listed] == [list(range(i, i + 4)) for i in range(0, 40, 4)]
        assert [(e.node, e.digest, e.parent_digest, e.block) for e in listed[6:]] == [(e.node, e.digest, e.parent_digest, e.block) for e in told]
        assert all(e.kind == kvcache.EventKind.STORED for e in listed)


def test_one_pool_is_evicted():
    with Manager([8, 8], block_size=4, groups=[Group(), Group(window_tokens=4, pool=1)]) as m:
        with m.allocate(range(9)) as r:
            r.commit(9)
        assert m.evict(9, pool=0) == 2 and m.pool_info(1).cached > 0
        with pytest.raises(kvcache.errors.InvalidArgumentError):
            m.evict(1, pool=2)


def test_pins_keep_and_drop_and_evict_take():
    with Manager(4, block_size=4) as m:
        with m.allocate(range(9)) as r:
            r.commit(9)
        with pytest.raises(kvcache.NotFoundError):
            m.pin([99] * 9)
        with m.pin(range(8)) as pin:
            assert pin.num_pinned == 8 and m.pins() == [pin.id]
            assert m.evict(4) == 0
            assert m.block_info(0).state == kvcache.BlockState.PINNED
        assert m.evict(1) == 1 and m.drop(range(8)) == 1
        assert m.pool_info().free == 4
        m.acquire_blocks(1)  # held, nothing committed
        pool = m.pool_info()
        assert pool.reserved == 1
        assert pool.free + pool.cached + pool.live + pool.reserved + pool.filling + pool.fenced + pool.pinned == pool.num_blocks


def test_raw_blocks_are_published_and_found():
    with Manager(8, block_size=4) as m:
        blocks = m.acquire_blocks(2)
        m.publish_blocks(np.arange(8, dtype=np.int32), blocks)
        assert m.acquire_prefix(range(8)).tolist() == blocks.tolist()
        m.release_blocks(blocks)
        m.release_blocks(blocks)
        m.check()


def test_extra_keys_separate_equal_tokens():
    with Manager(8, block_size=4) as m:
        one, two = (ExtraKey(0, 4, bytes([i]) * 32) for i in (1, 2))
        with m.allocate(range(9), keys=[one]) as r:
            r.commit(9)
        assert m.probe(range(9), keys=[one]).num_cached == 8
        assert m.probe(range(9), keys=[two]).num_cached == 0
        with pytest.raises(ValueError, match="31"):
            m.probe(range(9), keys=[ExtraKey(0, 4, b"x" * 31)])


def test_groups_and_pools():
    with Manager([16, 8], 4, groups=[Group(), Group(window_tokens=8, pool=1)]) as m:
        assert m.properties.num_groups == 2 and m.properties.num_pools == 2
        with m.allocate(range(20)) as r:
            r.commit(20)
            assert r.block_table(0).min() >= 0
            window = r.block_table(1, fill_id=-7)
            assert window.tolist()[:3] == [-7] * 3 and window.min(initial=99, where=window >= 0) >= 16
        assert m.pool_info(1).first_block == 16


def test_running_out_of_positions_is_told():
    m = Manager(8, block_size=4, max_nodes=8, groups=[Group(window_tokens=5)])
    r = m.allocate(list(range(80)), slots=4)
    for committed in range(4, 44, 4):
        r.reserve(committed)
        r.commit(committed)
    assert m.lost_reuse(0).node_tokens == 12 * 4 and m.lost_reuse(0).admissions == 0
    assert kvcache.LostReason.NODES == 5


def test_tables_of_many_requests_in_one_call():
    with Manager(16, block_size=4) as m:
        requests = [m.allocate(range(i, i + 6)) for i in (0, 100)]
        out = np.empty((2, 3), np.int32)
        m.block_tables(np.array([r.id for r in requests], np.uint64), out)
        assert out.tolist() == [[0, 1, -1], [2, 3, -1]]
        with pytest.raises(kvcache.errors.BufferTooSmallError):
            requests[0].block_table(out=np.empty(1, np.int32))
        for r in requests:
            r.close()


def test_a_batch_is_admitted_whole_or_not_at_all():
    with Manager(3, 4) as m, m.create(range(4)) as a, m.create(range(100, 105)) as b, m.create(range(200, 208)) as large, m.create(range(300, 320)) as never:
        statuses = np.full(3, -1, np.int32)
        with pytest.raises(kvcache.NoSpaceError, match=r"requests\[2\]: ") as refused:
            m.admit_batch([a, large, b], statuses)
        assert refused.value.item == ("requests", 2)
        assert statuses.tolist() == [Status.SKIPPED, Status.SKIPPED, Status.NO_SPACE]
        with pytest.raises(kvcache.NeverFitsError) as refused:
            m.admit_batch([a, never])
        assert refused.value.item == ("requests", 1)
        with pytest.raises(kvcache.BusyError):
            m.admit_batch([a, a])
        for wrong, error in (([a, 5], TypeError), (5, TypeError), ([a, None], TypeError)):
            with pytest.raises(error):
                m.admit_batch(wrong)
        with pytest.raises(ValueError, match="statuses"):
            m.admit_batch([a, b], statuses)
        assert not any(r.info.admitted for r in (a, b, large, never))
        assert m.admit_batch((a, b)) == [0, 0] and m.admit_batch([]) == []
        a.commit(4)
        a.preempt(), b.preempt()
        a.append([1])
        assert m.admit_batch(iter([a])) == [4] and a.num_cached == 4


def test_a_batch_of_prompts_is_allocated_whole_or_not_at_all():
    with Manager(3, 4) as m:
        before = m.digest()
        with pytest.raises(kvcache.NoSpaceError) as refused:
            m.allocate_batch([range(4), range(100, 105), range(200, 201)])
        assert refused.value.item == ("requests", 2)
        with pytest.raises(kvcache.InvalidArgumentError):
            m.allocate_batch([range(4), [-5]])
        assert m.requests() == []
        batch = m.allocate_batch((range(4), range(100, 105)), user_data=7)
        assert [r.info.user_data for r in batch] == [7, 7] and all(r.info.admitted for r in batch)
        for r in batch:
            r.close()
        assert m.allocate_batch([]) == [] and before != m.digest()


def test_tables_of_requests_have_a_common_prefix():
    with Manager(40, 4) as m, m.allocate(range(30)) as a:
        a.commit(30)
        with m.allocate(range(20)) as b, m.create(range(20)) as waiting:
            assert m.common_prefix([a.id, b.id]) == m.common_prefix(np.array([b.id, a.id], np.uint64)) == 4
            assert m.common_prefix([a.id]) == 8 and m.common_prefix([]) == m.common_prefix([b.id, waiting.id]) == 0
            with pytest.raises(kvcache.NotFoundError):
                m.common_prefix([a.id, 99])
            with pytest.raises(kvcache.InvalidArgumentError):
                m.common_prefix([a.id], 1)


def test_a_closed_manager_refuses_by_name_and_forgotten_requests_free_at_the_next_admission():
    m = Manager(8)
    m.allocate([1, 2])  # forgotten
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    assert m.stats.live_requests == 1
    r = m.allocate([3, 4])
    assert m.stats.live_requests == 1
    m.close()
    m.close()
    for call in (r.admit, lambda: m.stats, lambda: m.allocate([1])):
        with pytest.raises(ValueError, match="the manager is closed"):
            call()


def test_what_was_forgotten_and_cannot_be_closed_disturbs_nobody():
    with Manager(8, block_size=4) as m, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        namespace = m.namespace(model=b"a")
        r = m.allocate([1, 2, 3], namespace=namespace)
        del namespace  # forgotten and still in use
        twice = m.allocate([4])
        m.request(twice.id).free()
        del twice
        gc.collect()
        m.allocate([5, 6]).close()
        r.close()
        assert m.stats.live_requests == 0


def test_events_chain_and_count_what_was_lost():
    with Manager(8, block_size=4, event_capacity=4) as m:
        with m.allocate(range(9)) as r:
            r.commit(9)
        reader = m.events()
        first, second = reader
        assert first.kind == kvcache.EventKind.STORED and second.parent_digest == first.digest
        assert second.tokens.tolist() == [4, 5, 6, 7] and second.parent_node == first.node
        assert list(reader) == []
        m.reset_all()
        for i in range(4):
            with m.allocate([50 + i] * 5) as r:
                r.commit(5)
        kinds = [event.kind for event in reader]
        assert len(kinds) == 4 and reader.lost == 1
        with pytest.raises(ValueError, match="capacity is 0; make room for 1 event"):
            kvcache.events.EventReader(m, batch=0).poll()
    with Manager(8) as m, pytest.raises(kvcache.UnsupportedError):
        list(m.events())


def test_each_parent_is_told_of_before():
    with Manager(50, groups=[Group(state=True)], event_capacity=100) as m, Manager(50, event_capacity=100) as n:
        r = m.allocate(range(200), slots=64)
        for end in (64, 128, 200):
            r.reserve(end)
            r.commit(end)
        n.publish_blocks(range(80), [-1, -1, -1, *n.acquire_blocks(2)])
        for manager in (m, n):
            there = set()
            for event in manager.events():
                assert event.token_offset == 0 or event.parent_digest in there
                there.add(event.digest) if event.kind == kvcache.EventKind.STORED else there.remove(event.digest)
            assert len(there) == (8 if manager is m else 5)


def test_events_by_columns_are_the_same_events():
    with Manager(8, block_size=4, event_capacity=64) as m:
        with m.allocate([*range(9)]) as r:
            r.commit(9)
        m.evict(8)
        m.reset_all()
        reader = m.events()
        records, tokens = reader.poll()
        events, first = list(m.events()), 0
        assert [event.kind.name for event in events] == ["STORED", "STORED", "REMOVED", "REMOVED", "ALL_CLEARED"]
        for record, event in zip(records, events):
            assert {name: getattr(event, name) for name in records.dtype.names} == dict(zip(records.dtype.names, record.item()))
            assert isinstance(event.node, int) and isinstance(event.digest, bytes) and len(event.digest) == 32
            assert tokens[first : first + event.num_tokens].tolist() == event.tokens.tolist()
            first += event.num_tokens
        assert first == len(tokens) and [len(part) for part in reader.poll()] == [0, 0] and reader.cursor == 5
