# SPDX-License-Identifier: Apache-2.0
"""Work that is enqueued gives what the same calls give at once, and lives as long as it needs."""

import gc
import weakref

import numpy as np
import pytest

import kvcache

rng = np.random.default_rng(1)
TOKENS, HEADS, DIM = 96, 2, 32


def storage(**options):
    return kvcache.Storage(16, 1, HEADS, DIM, dtype="float32", block_size=16, **options)


def rows():
    return rng.standard_normal((TOKENS, HEADS, DIM), np.float32)


def test_a_chain_in_a_stream_is_done_in_order():
    k, v, slots = rows(), rows(), np.arange(TOKENS)
    table, offsets, lens = np.arange(16, dtype=np.int32)[None], np.array([0, 1], np.uint64), np.array([TOKENS], np.uint64)
    q = rng.standard_normal((1, 4, DIM), np.float32)
    with storage() as expected, storage() as s, kvcache.Stream() as stream:
        expected.store(k, v, slots)
        expected.copy_blocks(np.array([[0, 7]], np.int32))
        expected.zero_blocks(np.array([1], np.int32))
        s.store(k, v, slots, stream=stream)
        s.copy_blocks(np.array([[0, 7]], np.int32), stream=stream)
        s.zero_blocks(np.array([1], np.int32), stream=stream)
        out = s.attend(q, offsets, lens, table, stream=stream)
        bounds = s.key_bounds(np.arange(4, dtype=np.int32), stream=stream)
        got = s.gather(slots, stream=stream)
        s.quantize_blocks(np.array([0], np.int32), stream=stream)
        stream.synchronize()
        assert np.array_equal(out, expected.attend(q, offsets, lens, table))
        assert np.array_equal(bounds, expected.key_bounds(np.arange(4, dtype=np.int32)))
        mask = s.select_blocks(q, offsets, lens, table, bounds, 2, stream=stream)
        stream.synchronize()
        assert np.array_equal(mask, expected.select_blocks(q, offsets, lens, table, bounds, 2))
        for a, b in zip(got, expected.gather(slots)):
            assert np.array_equal(a, b)


def test_arrays_live_until_the_work_is_done_and_no_longer():
    s, stream = storage(), kvcache.Stream()
    k = rows()
    watched = weakref.ref(k)
    s.store(k, k, np.arange(TOKENS), stream=stream)
    del k
    assert watched() is not None
    stream.synchronize()
    assert watched() is None
    event = kvcache.StreamEvent()
    many = [weakref.ref(stream)]
    for _ in range(100):  # nobody synchronizes, but what is done is let go
        k = rows()
        many.append(weakref.ref(k))
        s.store(k, k, np.arange(TOKENS), stream=stream)
        event.record(stream)
        event.synchronize()
    del k
    assert sum(array() is not None for array in many[1:]) < 2 * stream._BATCH + 2
    del stream
    gc.collect()
    assert all(array() is None for array in many)


def test_streams_wait_for_events():
    with storage() as s, kvcache.Stream() as first, kvcache.Stream() as second:
        event = kvcache.StreamEvent()
        assert event.done  # never recorded
        k = rows()
        for _ in range(20):
            s.store(k, k, np.arange(TOKENS), stream=first)
        event.record(first)
        second.wait(event)
        got, _ = s.gather(np.arange(TOKENS), stream=second)
        second.synchronize()
        assert event.done and np.array_equal(got[0], k)


def test_errors_come_at_the_call():
    with storage() as s, kvcache.Stream() as stream:
        with pytest.raises(kvcache.errors.InvalidArgumentError):
            s.zero_blocks(np.array([16], np.int32), stream=stream)
        assert not stream._kept
        stream.close(), stream.close()
        with pytest.raises(ValueError, match="closed"):
            s.zero_blocks(np.array([0], np.int32), stream=stream)
        with pytest.raises(ValueError, match="closed"):
            stream.synchronize()
    with pytest.raises(kvcache.NotFoundError, match="cpu"):
        kvcache.Stream("gpu9")


def test_a_storage_may_be_closed_while_its_work_is_enqueued():
    stream = kvcache.Stream()
    for _ in range(5):
        s = storage()
        for _ in range(10):
            s.store(rows(), rows(), np.arange(TOKENS), stream=stream)
        s.close()
    stream.close()


def test_the_device_says_what_it_is():
    info = kvcache.device_info()
    assert info.memory_bytes > 0 and info.num_processors > 0
    named = kvcache.device_info("cpu")  # what is free may change between two calls
    assert named._replace(free_bytes=info.free_bytes) == info
    with pytest.raises(kvcache.NotFoundError):
        kvcache.device_info("none")


def test_backends_are_opened_by_name():
    assert kvcache.open_backend("cpu").num_devices >= 1
    with pytest.raises((kvcache.NotFoundError, kvcache.UnsupportedError)):
        kvcache.open_backend("cuda", "/nowhere")
    with pytest.raises(kvcache.KvCacheError):
        kvcache.open_backend("abacus")
    with kvcache.Stream() as stream, pytest.raises(kvcache.UnsupportedError):
        stream.handle
    with pytest.raises(kvcache.UnsupportedError):
        kvcache.Stream("cpu", handle=64)


def aligned(size, alignment=64):
    whole = np.full(size + alignment, 1, np.uint8)
    first = -whole.ctypes.data % alignment
    return whole[first : first + size]


def test_external_memory_is_used_in_place_and_lives_as_long_as_it_is_needed():
    _, size = kvcache.storage_size(16, 1, HEADS, DIM, dtype="float32", block_size=16)
    memory = aligned(size)
    s = storage(memory=memory)
    assert s.memory_kind == kvcache._native.KVC_MEMORY_EXTERNAL
    k = rows()
    s.store(k, k, np.arange(TOKENS))
    assert memory.view(np.float32).size == size // 4 and (np.sort(memory.view(np.float32))[-5:] > 0).all()
    plane, capsule = s.view(kvcache.Plane.K), s.dlpack(kvcache.Plane.K)
    watched = weakref.ref(memory)
    del memory
    tensor = np.from_dlpack(capsule)
    s.close()
    del s, capsule
    assert np.array_equal(plane[0, :, :, :], k[:16].transpose(1, 0, 2)) and np.array_equal(tensor[0], plane[0])
    del plane
    gc.collect()
    assert watched() is not None
    del tensor
    gc.collect()
    assert watched() is None


def test_external_memory_must_fit():
    _, size = kvcache.storage_size(16, 1, HEADS, DIM, dtype="float32", block_size=16)
    with pytest.raises(kvcache.errors.InvalidArgumentError):
        storage(memory=aligned(size)[:-1])
    with pytest.raises(kvcache.errors.InvalidArgumentError):
        storage(memory=aligned(size + 64)[4:])
    with pytest.raises((BufferError, TypeError, ValueError)):
        storage(memory=bytes(size))
