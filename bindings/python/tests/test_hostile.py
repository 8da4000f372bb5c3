# SPDX-License-Identifier: Apache-2.0
"""What has once led past the memory of an array, or into memory that was freed: now it is refused with the reason, or works. The fuzz (fuzz/)
looks for more of these kinds."""

import gc
import pathlib
import re
import weakref

import numpy as np
import pytest

import kvcache
from kvcache import _arrays, _native, streams

HEADS, DIM, BLOCK = 2, 16, 16


@pytest.fixture
def m():
    with kvcache.Manager(64, block_size=4) as manager:
        yield manager


@pytest.fixture
def s():
    with kvcache.Storage(8, 1, HEADS, DIM, block_size=BLOCK, dtype="float32") as storage:
        yield storage


class Act:
    """An integer that does something when it is asked for its value."""

    def __init__(self, act):
        self.act = act

    def __index__(self):
        self.act()
        return 1


def changing(change):
    tokens = [1] * 5000
    tokens[5] = Act(lambda: change(tokens))
    return tokens


CHANGES = [lambda tokens: tokens.clear(), lambda tokens: tokens.append(2), lambda tokens: tokens.__delitem__(slice(2, None))]


@pytest.mark.parametrize("change", CHANGES)
def test_a_list_that_changes_while_it_is_read_is_refused(m, change):
    with kvcache.Manager(4000, block_size=4) as large:
        before = large.digest()
        with pytest.raises(ValueError, match="changed the list from 5000 to"):
            large.allocate(changing(change))
        assert large.digest() == before
        with pytest.raises(ValueError, match="changed the list from 5000 to"):
            _native.kvc_pack_tokens(changing(change))
        with large.allocate([1, 2, 3]) as r:
            live = _native.Admitted(large._m, r.id, 3, 0, 4, 1)
            with pytest.raises(ValueError, match="changed the list from 5000 to"):
                live.commit(changing(change), 4900)
            with pytest.raises(ValueError, match="changed the list from 5000 to"):
                _native.kvc_manager_export_tables(large._m, changing(change), 0, -1, np.empty(4, np.int32))


def test_a_list_may_change_other_lists(m):
    other = [1, 2]
    with m.allocate([1, Act(other.clear), 3]) as r:
        assert r.info.num_tokens == 3 and not other


def test_what_a_conversion_raises_comes_out(m):
    def raises():
        raise KeyError("here")

    with pytest.raises(KeyError):
        m.evict(Act(raises))
    with pytest.raises(KeyError):
        m.allocate([Act(raises)])
    with pytest.raises(TypeError, match="max_blocks is .*must be an int"):
        m.evict("many")


def test_swaps_go_to_the_pages_themselves(s):
    s.store(np.ones((BLOCK, HEADS, DIM), np.float32), np.ones((BLOCK, HEADS, DIM), np.float32), np.arange(BLOCK))
    wide = np.zeros((2, 2 * s.block_bytes), np.uint8)
    copies = np.array([[0, 0]], np.int32)
    with kvcache.Stream() as stream:
        for queue in (None, stream):
            with pytest.raises(ValueError, match=r"pages is uint8 .* strides .*C-contiguous.*a new array"):
                s.swap_out(copies, wide[:, : s.block_bytes], stream=queue)
            with pytest.raises(ValueError, match="pages .*np.ascontiguousarray"):
                s.swap_in(copies, wide[:, : s.block_bytes], stream=queue)
            with pytest.raises(ValueError, match="pages is read-only"):
                s.swap_out(copies, np.frombuffer(bytes(wide.nbytes), np.uint8), stream=queue)
    with pytest.raises(TypeError, match="pages .*not of Python objects"):
        s.swap_out(copies, np.full(10000, "text", object))
    with pytest.raises(ValueError, match=r"copies is int32 \[2\]; it must be int32 \[copies, 2\]"):
        s.swap_out(copies[0], wide)
    with pytest.raises(TypeError, match=r"copies is int64 .*x.astype\(np.int32\)"):
        s.swap_out(copies.astype(np.int64), wide)


def attention(s, **options):
    q = np.ones((2, 4, DIM), np.float32)
    return s.attend(q, np.array([0, 2], np.uint64), np.array([20], np.uint64), np.arange(2, dtype=np.int32)[None], **options)


@pytest.mark.parametrize("offset", [1, 2**31, 2**62, 2**63, 2**64 - 1, -1])
def test_offsets_of_masks_are_compared_without_overflow(s, offset):
    mask = np.full(5, 255, np.uint8)  # 40 bits: what the request needs
    good = attention(s, mask=mask, mask_offsets=np.zeros(1, np.uint64))
    assert np.array_equal(good, attention(s, mask=mask, mask_offsets=[0]))
    with pytest.raises(ValueError, match=r"mask has 40 bits; request 0 has its bits from mask_offsets\[0\]"):
        attention(s, mask=mask, mask_offsets=np.array([offset], np.uint64 if offset >= 0 else np.int64))
    with pytest.raises(ValueError):
        attention(s, mask=mask, mask_offsets=np.zeros(1, np.uint64), mask_starts=np.array([2**63], np.uint64))
    with pytest.raises(ValueError, match=r"mask_offsets is uint64 \[2\]; it must be .*\[requests = 1\]"):
        attention(s, mask=mask, mask_offsets=np.zeros(2, np.uint64))
    for name in ("kv_lens", "q_offsets"):
        arrays = {"q_offsets": [0, 2], "kv_lens": [20], name: {"kv_lens": [offset], "q_offsets": [offset, 2]}[name]}
        arrays = {key: np.array(value, np.int64 if min(value) < 0 else np.uint64) for key, value in arrays.items()}
        if name == "kv_lens" and offset == 1:
            continue
        with pytest.raises(ValueError):
            s.attend(np.ones((2, 4, DIM), np.float32), block_tables=np.arange(2, dtype=np.int32)[None], **arrays)


def test_sizes_are_those_of_one_dimension():
    with pytest.raises(ValueError, match=r"parents is int32 \[100, 2\]; it must be int32 \[nodes\]"):
        kvcache.tree_mask(np.full((100, 2), -1, np.int32))
    with pytest.raises(ValueError, match=r"frequencies is float64 \[4, 8\]; it must be float64 \[pairs\]"):
        kvcache.rope_table(np.ones((4, 8)), 3)
    with pytest.raises(ValueError, match=r"positions is int64 \[4, 8\]; it must be int64 \[positions\]"):
        kvcache.rope_table(np.ones(4), np.ones((4, 8), np.int64))
    with kvcache.Manager(8) as m, pytest.raises(ValueError, match="tokens has 2 dimensions; it must have 1"):
        m.allocate(np.zeros((2, 2), np.int32))


def test_numbers_are_converted_only_if_none_changes():
    table = kvcache.rope_table(np.ones(4), np.arange(5))
    for positions in (5, np.int64(5), range(5), [0, 1, 2, 3, 4], np.arange(5, dtype=np.uint8), np.arange(10, dtype=np.int32)[:5]):
        assert np.array_equal(kvcache.rope_table(np.ones(4, np.float32), positions), table)
    for positions, text in ((np.arange(5.0), "float64"), (np.array([1, 2**63], np.uint64), "positions has values"), ([1.5], "float64"), ("ab", "str"), ({1}, "set"), ([None], "object")):
        with pytest.raises((TypeError, ValueError), match=text):
            kvcache.rope_table(np.ones(4), positions)


def test_results_go_only_into_arrays_of_their_type(s):
    blocks = np.array([0], np.int32)
    with pytest.raises(TypeError, match=r"out is uint8 .*float16.*np.empty\(shape, np.float16\)"):
        s.key_bounds(blocks, out=np.zeros((8, HEADS, 2, DIM), np.uint8))
    k = np.zeros((3, HEADS, DIM), ">f4")
    with pytest.raises(TypeError, match="k is float32 in another byte order"):
        s.store(k, k, np.arange(3))
    with pytest.raises(ValueError, match="at least 1 layer"):
        s.measure(np.zeros((0, 3, HEADS, DIM), np.float32), np.zeros((0, 3, HEADS, DIM), np.float32), np.arange(3))
    with pytest.raises(TypeError, match="out is ndarray; it must be two arrays"):
        s.gather(np.arange(3), out=np.zeros((2, 1, 3, HEADS, DIM), np.float32))
    unaligned = np.frombuffer(bytearray(3 * 8 + 1), np.uint8)[1:].view(np.int64)
    with pytest.raises(ValueError, match="slots .*not aligned.*x.copy"):
        s.gather(unaligned)


def test_slots_and_ids_come_as_sequences_too(s):
    k = np.arange(3 * HEADS * DIM, dtype=np.float32).reshape(3, HEADS, DIM)
    s.store(k, k, [1, 2, 5])
    assert np.array_equal(s.gather((1, 2, 5))[0][0], k)
    with pytest.raises(TypeError, match=r"slots is float64 \[3\]; it must be int64 \[tokens\]"):
        s.gather([1.0, 2.0, 5.0])


def test_the_memory_of_a_storage_lives_until_its_streams_are_done():
    size = kvcache.storage_size(8, 1, HEADS, DIM, dtype="float32", block_size=BLOCK)[1]
    memory = np.zeros(size + 4096, np.uint8)
    first = -memory.ctypes.data % 4096
    stream = kvcache.Stream()
    storage = kvcache.Storage(8, 1, HEADS, DIM, dtype="float32", block_size=BLOCK, memory=memory[first: first + size])
    watched = weakref.ref(memory)
    del memory
    storage.zero_blocks([1, 2], stream=stream)
    del storage
    gc.collect()
    assert watched() is not None
    stream.synchronize()
    assert watched() is None


def test_who_waits_does_not_let_go_what_others_enqueue_meanwhile(monkeypatch):
    stream = kvcache.Stream()
    for _ in range(5):
        stream._keep(np.zeros(1))
    late = np.zeros(1)
    watched = weakref.ref(late)

    def meanwhile(handle):
        for _ in range(stream._BATCH - 5):  # a batch, with those that are waited for
            stream._keep(np.zeros(1))
        stream._keep(late)

    monkeypatch.setattr(streams._native, "kvc_stream_synchronize", meanwhile)
    stream.synchronize()
    monkeypatch.undo()
    del late, meanwhile
    assert watched() is not None
    stream.synchronize()
    assert watched() is None


def test_counts_of_a_step_do_not_lead_past_its_arrays(m):
    with m.allocate([1, 2]) as r, kvcache.Step(m, 1, 4, 4, max_admissions=1, max_prompt_tokens=4) as step:
        step.requests[0], step.committed[0], step.num_requests = r.id, 2, 1
        step.extend_offsets[:] = 0
        step.run()
        step.num_frees = 2**62
        assert step.num_failed <= step.status.size

        class Options(list):
            def __iter__(self):
                return iter([None] * 10000)

        step.num_frees, step.num_admissions, step.admit_offsets[:] = 0, 1, [0, 2]
        with pytest.raises(ValueError, match="10000 entries for 1"):
            step.run(Options([None]))


def test_pools_and_groups_are_counted_once():
    class Pools(list):
        def __len__(self):
            return 1

    with kvcache.Manager(Pools([4, 4]), groups=iter([kvcache.Group(), kvcache.Group(8, pool=1)])) as m:
        assert m.properties.num_pools == 2 and m.properties.num_groups == 2


def test_digests_have_32_bytes_not_32_items(m):
    for digest, error in ((np.zeros(32, np.int32), ValueError), (np.zeros(8, np.int32), None), ("x" * 32, TypeError), (32, TypeError), (bytes(31), ValueError)):
        keys = [kvcache.ExtraKey(0, 4, digest)]
        if error is None:
            m.probe(range(8), keys)
        else:
            with pytest.raises(error):
                m.probe(range(8), keys)


def test_what_schedulers_hold_checks_its_numbers(m):
    with m.allocate(range(6)) as r:
        for block_size, groups in ((0, 1), (-4, 1), (4, 0), (4, 2), (8, 1), (2**62, 1)):
            with pytest.raises(ValueError, match="the manager has 4 and 1"):
                _native.Admitted(m._m, r.id, 6, 0, block_size, groups)
        live = _native.Admitted(m._m, r.id, 6, 0, 4, 1)
        with pytest.raises(kvcache.KvCacheError):
            live.grow(2**63 - 1)
        assert live.grow(-2**63) == [[]] and live.num_blocks == 2
        with pytest.raises(ValueError, match="tokens are to be committed"):
            live.commit([1] * 6, 2**62)


def test_a_request_may_end_while_its_scheduler_is_asked(m):
    class Allocator(_native.SlotAllocator):
        def _allocate_slots(self, *unused, **more):
            return "general"

    class Wanted:
        request_id = "r"

        @property
        def num_computed_tokens(self):
            live.clear()
            gc.collect()
            [bytearray(120) for _ in range(1000)]
            return 6

        all_token_ids = [1] * 8

    with m.allocate(range(6)) as r:
        live = {"r": _native.Admitted(m._m, r.id, 6, 0, 4, 1)}
        assert Allocator(live, "empty", tuple, 64, (), True, True).allocate_slots(Wanted(), 2) == "empty"
        live["r"] = _native.Admitted(m._m, r.id, 8, 8, 4, 1)
        assert Allocator(live, "empty", tuple, 64, (), True, True).allocate_slots(Wanted(), 2**62, num_lookahead_tokens=2**62) == "general"


def test_a_request_may_end_while_its_tokens_are_published(m):
    class Wanted:
        request_id = "r"

        @property
        def all_token_ids(self):
            live.clear()
            gc.collect()
            [bytearray(120) for _ in range(1000)]
            return [1] * 8

    with m.allocate(range(6)) as r:
        live = {"r": _native.Admitted(m._m, r.id, 6, 0, 4, 1)}
        allocator = _native.SlotAllocator(live, "empty", tuple, 64, (), True, True)
        for count in -2**63, -1, 0, 3:
            assert allocator.cache_blocks(Wanted(), count) is None and live
        assert allocator.cache_blocks(num_computed_tokens=2**63 - 1, request=Wanted()) is None and not live
        assert r.info.num_committed == 8 and allocator.cache_blocks(Wanted(), 4) is None
        for wrong in ((), (Wanted(),), (Wanted(), 1, 2)):
            with pytest.raises(TypeError, match="takes request and num_computed_tokens"):
                allocator.cache_blocks(*wrong)
        with pytest.raises(TypeError, match="takes request and num_computed_tokens"):
            allocator.cache_blocks(Wanted(), tokens=1)


def test_the_order_of_tables_names_each_group_once(m):
    with m.allocate(range(6)) as r:
        for order, num_cross in ((b"", 0), (b"\1", 0), (b"\0\0", 0), (b"\0", 2), (b"\0", -1)):
            with pytest.raises(ValueError, match="order"):
                _native.Admitted(m._m, r.id, 6, 0, 4, 1, order, num_cross)
        with pytest.raises(TypeError):
            _native.Admitted(m._m, r.id, 6, 0, 4, 1, "0")
        admitted = _native.Admitted(m._m, r.id, 6, 0, 4, 1, b"\0")
        assert admitted.ids() == [r.block_table().tolist()]
        for first, last in ((0, -(2**60)), (-(2**60), -(2**60) - 4), (2**60, 2**61), (2**60, 0)):
            assert admitted.ids(first, last) == [[]]


def test_the_librarys_tokens_begin_inside_those_of_the_request(m):
    with m.allocate([2, 3]) as r:
        for ahead in (-1, 2**31, 2**62):
            with pytest.raises(ValueError, match="ahead"):
                _native.Admitted(m._m, r.id, 2, 0, 4, 1, b"\0", 0, ahead)
        live = _native.Admitted(m._m, r.id, 2, 0, 4, 1, b"\0", 0, ahead=1)
        live.grow(8)
        for tokens, count in (([1, 2, 3, 4], 4), ([], 3), ([1, 2, 3, 4], 2**62)):
            with pytest.raises(ValueError, match="to be committed, the request has"):
                live.commit(tokens, count)
        live.commit([1, 2, 3, 4, 5], 4)
        assert (live.ahead, live.known, live.committed) == (1, 4, 4)
        assert m.probe([2, 3, 4, 5, 6]).num_cached == 4 and m.probe([1, 2, 3, 4, 5]).num_cached == 0


def test_the_edges_of_a_scheduler_are_pairs_of_numbers_of_tokens(m):
    for edges, error in (([(0, 0)], ValueError), ([(3, 4), (-1, 4)], ValueError), ([(2**61, 4)], ValueError), ([(0, 2**62)], ValueError),
                         ([(2**63, 4)], OverflowError), ([("3", 4)], TypeError), ([4], TypeError), ([(3,)], TypeError), ([(3, 4, 5)], TypeError), (4, TypeError)):
        with pytest.raises(error):
            _native.SlotAllocator({}, "empty", tuple, 64, edges, True, True)


def test_each_rule_is_that_of_an_argument():
    """The table has no rule that nothing uses, and no call uses another one."""
    text = "".join(path.read_text(encoding="utf-8") for path in pathlib.Path(kvcache.__file__).parent.glob("*.py"))
    used = set(re.findall(r'(?:take|take_keys|optional)\(\s*"([\w.]+)"', text)) | set(re.findall(r'take_table\("(\w+)", \w+, "(\w+)"', text)[0])
    used |= {name for pair in re.findall(r'take_table\("(\w+)", \w+, "(\w+)"', text) for name in pair}
    assert used == set(_arrays.TABLE)
