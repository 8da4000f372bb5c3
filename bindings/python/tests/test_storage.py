# SPDX-License-Identifier: Apache-2.0
"""Bytes in and out, and attention against NumPy."""

import gc
import os
import pathlib

import numpy as np
import pytest

import kvcache
from kvcache import Launch, Manager, Plane, Storage

SEED = int(os.environ.get("KVC_TEST_SEED", "1"))


def to_bfloat16(x):
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16(x):
    return (x.astype(np.uint32) << 16).view(np.float32)


def attention(q, k, v):
    """Causal attention of the last tokens, in float64: q [n, hq, d], k and v [t, h, d]."""
    n, t, share = len(q), len(k), q.shape[1] // k.shape[1]
    k, v = (np.repeat(x.astype(np.float64), share, axis=1) for x in (k, v))
    logits = np.einsum("nhd,thd->hnt", q.astype(np.float64), k) / np.sqrt(q.shape[2])
    logits[:, np.arange(t) > (np.arange(n) + t - n)[:, None]] = -np.inf
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return np.einsum("hnt,thd->nhd", weights / weights.sum(-1, keepdims=True), v)


@pytest.mark.parametrize("layout", list(kvcache.Layout))
def test_what_is_stored_comes_back(layout):
    rng = np.random.default_rng(SEED)
    with Storage(8, 2, 3, 20, dtype="float32", block_size=4, layout=layout) as s:
        k, v = rng.standard_normal((2, 2, 9, 3, 20), np.float32)
        slots = rng.permutation(32)[:9]
        s.store(k, v, slots)
        got_k, got_v = s.gather(slots)
        assert (got_k == k).all() and (got_v == v).all()
        view = s.view(Plane.V, 1)
        assert view.shape == (8, 3, 4, 20)
        assert (view[slots // 4, :, slots % 4] == v[1]).all()
        s.copy_blocks(np.array([[slots[0] // 4, 7]], np.int32))
        assert (view[7] == view[slots[0] // 4]).all()
        s.zero_blocks([7])
        assert (view[7] == 0).all()
        assert s.runs(0)[:, 1].sum() == s.block_bytes


def test_attention_over_a_manager_s_tables_equals_numpy():
    rng = np.random.default_rng(SEED)
    with Manager(16, 4) as m, Storage(16, 1, 2, 32, dtype="float32", block_size=4) as s:
        requests = [m.allocate(range(100 * i, 100 * i + n)) for i, n in enumerate((11, 6))]
        data = []
        for r in requests:
            n = r.info.num_tokens
            k, v = rng.standard_normal((2, n, 2, 32), np.float32)
            s.store(k, v, r.slots(0, n))
            data.append((k, v))
        tables = m.block_tables(np.array([r.id for r in requests], np.uint64), np.empty((2, 4), np.int32))
        q = rng.standard_normal((3 + 1, 8, 32), np.float32)
        lse = np.empty((4, 8), np.float32)
        out = s.attend(q, np.array([0, 3, 4], np.uint64), np.array([11, 6], np.uint64), tables, lse=lse)
        expected = np.concatenate([attention(q[:3], *data[0]), attention(q[3:], *data[1])])
        assert np.abs(out - expected).max() < 1e-5 and np.isfinite(lse).all()
        for r in requests:
            r.close()


def test_parts_of_a_context_merge_and_blocks_are_selected():
    rng = np.random.default_rng(SEED)
    with Storage(8, 1, 2, 32, dtype="float32", block_size=4) as s:
        k, v = rng.standard_normal((2, 32, 2, 32), np.float32)
        s.store(k, v, np.arange(32))
        q = rng.standard_normal((1, 4, 32), np.float32)
        offsets, table = np.array([0, 1], np.uint64), np.arange(8, dtype=np.int32)[None]
        dense = s.attend(q, offsets, np.array([32], np.uint64), table)
        assert np.abs(dense - attention(q, k, v)).max() < 1e-5
        parts, lses = [], np.empty((2, 1, 4), np.float32)
        for i in range(2):
            half = np.ascontiguousarray(table[:, 4 * i: 4 * i + 4])
            parts.append(s.attend(q, offsets, np.array([16], np.uint64), half, lse=lses[i]))
        merged, _ = kvcache.merge_attention(np.stack(parts), lses)
        assert np.abs(merged - dense).max() < 1e-5
        bounds = s.key_bounds(np.arange(8, dtype=np.int32))
        assert (bounds[:, :, 0].astype(np.float32) >= k.reshape(8, 4, 2, 32).max(1)).all()
        arguments = q, offsets, np.array([32], np.uint64), table
        everything = s.select_blocks(*arguments, bounds, 8)
        assert (everything == 255).all() and (s.attend(*arguments, block_mask=everything) == dense).all()
        some = s.select_blocks(*arguments, bounds, 3, sink_blocks=1)
        assert np.unpackbits(some, axis=2).sum(2).tolist() == [[3, 3]] and (some & 1).all()
        assert np.abs(s.attend(*arguments, block_mask=some) - dense).max() > 1e-4
        assert (s.select_blocks(*arguments, bounds, ratio=3 / 8, sink_blocks=1) == some).all()
        for everything in (s.select_blocks(*arguments, bounds, ratio=1), s.select_blocks(*arguments, bounds, threshold=np.inf)):
            assert (everything == 255).all()
        numbers = [int(np.unpackbits(s.select_blocks(*arguments, bounds, threshold=t)).sum()) for t in (1e-6, 0.5, 2.0, 1e6)]
        assert numbers == sorted(numbers) and numbers[0] < 16 and numbers[-1] == 16
        for wrong, text in ({}, "set exactly one"), ({"ratio": 0.5, "top_k": 2}, "set exactly one"), ({"ratio": 1.5}, "ratio is 1.5; give"), \
                ({"ratio": np.nan}, "ratio is nan"), ({"threshold": -2}, "threshold is -2; give"):
            with pytest.raises(ValueError, match=text):
                s.select_blocks(*arguments, bounds, **wrong)
        assert s.explain(*arguments, block_mask=some).sparse == 1 and s.explain(*arguments).num_workers == 1
        with pytest.raises(ValueError, match="9 blocks"):
            s.attend(q, offsets, np.array([33], np.uint64), np.zeros((1, 9), np.int32), block_mask=everything)


def test_a_tree_of_drafts_sees_its_ancestors_alone():
    rng = np.random.default_rng(SEED)
    with Storage(4, 1, 1, 16, dtype="float32", block_size=4) as s:
        k, v = rng.standard_normal((2, 9, 1, 16), np.float32)
        s.store(k, v, np.arange(9))
        mask, depths = kvcache.tree_mask(np.array([-1, 0, 0], np.int32))
        assert depths.tolist() == [0, 1, 1]
        q = rng.standard_normal((3, 1, 16), np.float32)
        zero = np.zeros(1, np.uint64)
        out = s.attend(q, np.array([0, 3], np.uint64), np.array([9], np.uint64), np.arange(3, dtype=np.int32)[None], mask=mask, mask_offsets=zero,
                       mask_starts=zero + 6)
        sees = [[*range(7)], [*range(8)], [*range(7), 8]]
        for i in range(3):
            assert np.abs(out[i] - attention(q[i: i + 1], k[sees[i]], v[sees[i]])[0]).max() < 1e-5


def test_the_error_of_quantization_is_measured():
    rng = np.random.default_rng(SEED)
    x = rng.standard_normal((32, 2, 64), np.float32)
    slots = np.arange(32)
    with Storage(8, 1, 2, 64, dtype="int8", block_size=4) as int8, Storage(8, 1, 2, 64, dtype="float32", block_size=4) as exact:
        for s in (int8, exact):
            s.store(x, x, slots)
        keys, values = int8.measure(x, x, slots)
        assert keys.snr_db > 38 and keys.elements == x.size and values.mse > 0
        assert keys.mse == pytest.approx(np.mean((int8.gather(slots)[0][0].astype(np.float64) - x) ** 2), rel=1e-6)
        assert exact.measure(x, x, slots)[0].max_error == 0
    flags = kvcache.StorageFlags.CHANNEL_KEYS
    with Storage(8, 1, 2, 64, dtype="int4", block_size=4, flags=flags, residual_blocks=3) as s:
        s.store(x[:3], x[:3], slots[:3])
        with pytest.raises(kvcache.KvCacheError):
            s.runs(0)
        s.quantize_blocks([0])
        assert s.runs(0)[:, 1].sum() == s.block_bytes and s.residual_blocks == 3


def test_bfloat16_is_bits():
    with Storage(2, 1, 1, 8, block_size=4) as s:
        x = to_bfloat16(np.random.default_rng(SEED).standard_normal((4, 1, 8)))
        s.store(x, x, np.arange(4))
        assert (s.gather(np.arange(4), dtype=np.uint16)[0][0] == x).all()
        assert (s.gather(np.arange(4))[1][0] == from_bfloat16(x)).all()


def test_wrong_shapes_and_types_are_refused():
    with Storage(2, 2, 1, 8, dtype="float32", block_size=4) as s:
        good = np.zeros((4, 1, 8), np.float32)
        for k, v, slots, error in ((good[:3], good, np.arange(4), ValueError), (good, good[:, :, :4], np.arange(4), ValueError),
                                   (good.astype(np.float64), good, np.arange(4), TypeError), (good, good.astype(np.float16), np.arange(4), TypeError),
                                   (good, good, np.arange(4) + 8, ValueError), (good, good, np.arange(4, dtype=np.int32), TypeError)):
            with pytest.raises(error):
                s.store(k, v, slots)
        offsets, lens, tables = np.array([0, 4], np.uint64), np.array([4], np.uint64), np.zeros((1, 1), np.int32)
        s.store(good, good, np.arange(4))
        s.attend(good, offsets, lens, tables)
        for q, change in ((good[:3], {}), (good, {"lse": np.empty((4, 2), np.float32)}), (good, {"out": good.astype(np.float16)}),
                          (good, {"layer": 2}), (good, {"mask": np.zeros(1, np.uint8), "mask_offsets": np.zeros(1, np.uint64)})):
            with pytest.raises((ValueError, TypeError)):
                s.attend(q, offsets, lens, tables, **change)


def test_views_outlive_the_storage():
    gc.collect()
    live = kvcache._native.kvc_live_objects()
    s = Storage(2, 1, 1, 8, dtype="float16", block_size=4)
    view = s.view(Plane.K)
    s.close()
    del s
    gc.collect()
    view[:] = 3
    assert view.sum() == 3 * view.size and kvcache._native.kvc_live_objects() == live + 1
    del view
    gc.collect()
    assert kvcache._native.kvc_live_objects() == live


@pytest.mark.parametrize("layout", list(kvcache.Layout))
def test_blocks_go_to_pages_and_come_back(layout):
    rng = np.random.default_rng(SEED)
    with Storage(8, 2, 3, 20, dtype="int8", block_size=4, layout=layout) as s, kvcache.Stream() as stream:
        slots = np.arange(32)
        s.store(*rng.standard_normal((2, 2, 32, 3, 20), np.float32), slots)
        k, _ = s.gather(slots)
        pages = np.full((3, s.block_bytes + 32), 7, np.uint8)
        s.swap_out(np.array([[5, 2], [1, 0]], np.int32), pages, pages.shape[1])
        assert (pages[1] == 7).all() and (pages[:, s.block_bytes:] == 7).all()
        s.zero_blocks(np.array([1, 5], np.int32))
        s.swap_in(np.array([[0, 5], [2, 0]], np.int32), pages, pages.shape[1], stream=stream)
        stream.synchronize()
        back, _ = s.gather(slots)
        assert (back[:, 20:24] == k[:, 4:8]).all() and (back[:, :4] == k[:, 20:24]).all() and (back[:, 4:8] == 0).all()
        packed = np.empty((2, s.block_bytes), np.uint8)
        s.swap_out(np.array([[0, 1]], np.int32), packed)
        assert (packed[1] == pages[2, : s.block_bytes]).all()
        for bad in ([[0, 3]], [[8, 0]], [[0, 0], [1, 0]]):
            with pytest.raises(ValueError):
                s.swap_out(np.array(bad, np.int32), pages, pages.shape[1])
        with pytest.raises(TypeError):
            s.swap_out(np.array([[0, 0]]), pages, pages.shape[1])


def test_bits_of_bfloat16_in_the_wrong_type_are_to_be_viewed():
    with Storage(4, 1, 2, 32, dtype="bfloat16", block_size=4) as s:
        k = np.zeros((3, 2, 32), np.int16)  # as floats, 1.0 would be 16256.0
        with pytest.raises(TypeError, match=r"x\.view\(np\.uint16\)"):
            s.store(k, k, np.arange(3))


def test_requests_that_share_a_prefix_say_so():
    rng = np.random.default_rng(SEED)
    with Storage(4, 1, 2, 32, dtype="float32", block_size=4) as s:
        s.store(*rng.standard_normal((2, 16, 2, 32), np.float32), np.arange(16))
        q, tables = rng.standard_normal((2, 4, 32), np.float32), np.array([[3, 0], [3, 1]], np.int32)
        arrays = q, np.array([0, 1, 2], np.uint64), np.array([8, 7], np.uint64), tables
        assert (s.attend(*arrays, shared_tokens=4) == s.attend(*arrays)).all()
        assert s.explain(*arrays, shared_tokens=4).shared_tokens == 0  # the CPU reads them for each request
        with pytest.raises(ValueError):
            s.attend(*arrays, shared_tokens=5)


def apart(rng, dtype):
    """Pairs of arrays of 3 queries, 4 heads and 32 elements, side by side and as parts of larger ones: of a fused projection, with gaps between
    heads, heads first, and one head or one query among others."""
    for shape, axes, part in (((3, 8, 32), (0, 1, 2), np.s_[:, 2:6]), ((3, 4, 35), (0, 1, 2), np.s_[:, :, 3:]), ((4, 3, 32), (1, 0, 2), np.s_[:]),
                              ((6, 9, 33), (0, 1, 2), np.s_[::2, 1::2, 1:]), ((9, 8, 64), (0, 1, 2), np.s_[3:6, 1:5, :32])):
        whole = rng.standard_normal(shape, np.float32).astype(dtype)
        rows = whole.transpose(axes)[part]
        assert rows.shape == (3, 4, 32) and not rows.flags.c_contiguous
        yield whole, rows


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_queries_and_results_may_be_parts_of_larger_arrays(dtype):
    rng = np.random.default_rng(SEED)
    with Storage(4, 1, 2, 32, dtype="float32", block_size=4) as s, kvcache.Stream() as stream:
        s.store(*rng.standard_normal((2, 16, 2, 32), np.float32), np.arange(16))
        arrays = np.array([0, 1, 3], np.uint64), np.array([8, 7], np.uint64), np.array([[3, 0], [2, 1]], np.int32)
        bounds = s.key_bounds(np.arange(4, dtype=np.int32))
        for _, q in apart(rng, dtype):
            expected = s.attend(np.ascontiguousarray(q), *arrays)
            assert expected.flags.c_contiguous and (s.attend(q, *arrays) == expected).all()
            assert (s.attend(memoryview(q), *arrays) == expected).all()
            memory, strides = kvcache._arrays.row_strides(q)
            assert np.shares_memory(memory, q) and tuple(strides) == (q.strides[0] // q.itemsize, q.strides[1] // q.itemsize)
            assert (s.select_blocks(q, *arrays, bounds, 1) == s.select_blocks(np.ascontiguousarray(q), *arrays, bounds, 1)).all()
            assert s.explain(q, *arrays) == s.explain(np.ascontiguousarray(q), *arrays)
            for queue in (None, stream):
                for whole, out in apart(rng, dtype):
                    before, kept = whole.copy(), out.copy()
                    assert s.attend(q, *arrays, out=out, stream=queue) is out
                    stream.synchronize()
                    assert (out == expected).all()
                    out[:] = kept
                    assert (whole == before).all()  # nothing beside the results is written


def test_keys_and_values_may_be_parts_of_larger_arrays():
    rng = np.random.default_rng(SEED)
    flags, table = kvcache.StorageFlags(0), kvcache.rope_table(np.ones(16), 3)
    with Storage(4, 2, 4, 32, dtype="float32", block_size=4, flags=flags) as s, Storage(4, 2, 4, 32, dtype="float32", block_size=4) as plain:
        for _, k in apart(rng, np.float32):
            for _, v in apart(rng, np.float32):
                slots = rng.permutation(16)[:3]
                s.store(k, v, slots, 1)
                plain.store(np.ascontiguousarray(k), np.ascontiguousarray(v), slots, 1)
                both = np.stack([k, v, k])[::2], np.stack([v, k, v])[:2]  # with a dimension of layers
                s.store(both[0], both[1][:, :, ::1], slots)
                plain.store(np.ascontiguousarray(both[0]), np.ascontiguousarray(both[1]), slots)
                assert all((x == y).all() for x, y in zip(s.gather(slots), plain.gather(slots)))
                whole = rng.standard_normal((2, 2, 3, 8, 40), np.float32)
                before, wanted = whole.copy(), plain.gather(slots)
                out = whole[0, :, :, 2:6, :32], whole[1, :, :, ::2, 8:]
                s.gather(slots, out=out)
                assert all((x == y).all() for x, y in zip(out, wanted))
                before[0, :, :, 2:6, :32], before[1, :, :, ::2, 8:] = wanted
                assert (whole == before).all() and s.measure(*out, slots)[0].max_error == 0
            rotated = k.copy()
            kvcache.apply_rope(rotated, table)
            assert kvcache.apply_rope(k, table) is k and (k == rotated).all()


def test_rows_that_the_library_cannot_reach_are_refused():
    q, long = np.ones((3, 4, 32), np.float32), np.ones((3, 4, 64), np.float32)
    with Storage(4, 1, 2, 32, dtype="float32", block_size=4) as s:
        arrays = np.array([0, 3], np.uint64), np.array([8], np.uint64), np.zeros((1, 2), np.int32)
        s.attend(q, *arrays)
        for bad in (long[:, :, ::2], q[::-1], q[:, ::-1], q[:, :, ::-1], np.broadcast_to(q[:1], q.shape), np.broadcast_to(q[:, :1], q.shape),
                    np.asfortranarray(q)):
            with pytest.raises(ValueError, match=r"q is .*has strides .*rows contiguous.*np.ascontiguousarray"):
                s.attend(bad, *arrays)
            if bad.flags.writeable:
                with pytest.raises(ValueError, match=r"out is .*has strides .*rows contiguous.*a new array"):
                    s.attend(q, *arrays, out=bad)
        odd = np.frombuffer(bytearray(4 * 3 * 4 * 33), np.float32).reshape(-1)
        odd = np.lib.stride_tricks.as_strided(odd, (3, 4, 32), (4 * 4 * 32 + 2, 4 * 32, 4))
        with pytest.raises(ValueError, match="q is "):
            s.attend(odd, *arrays)
        overlapping = np.lib.stride_tricks.as_strided(np.ones(1000, np.float32), (3, 4, 32), (512 - 4, 128, 4))
        s.attend(overlapping, *arrays)
        with pytest.raises(ValueError, match="out_token_stride is 127; 4 rows that are 32 apart need 128"):
            s.attend(q, *arrays, out=overlapping)


def test_sink_logits_take_their_share_of_attention():
    rng = np.random.default_rng(SEED)
    with Storage(4, 1, 2, 32, dtype="float32", block_size=4) as s, kvcache.Stream() as stream:
        s.store(*rng.standard_normal((2, 16, 2, 32), np.float32), np.arange(16))
        q, arrays = rng.standard_normal((2, 4, 32), np.float32), (np.array([0, 1, 2], np.uint64), np.array([8, 7], np.uint64), np.array([[3, 0], [2, 1]], np.int32))
        lse, with_sinks = np.empty((2, 2, 4), np.float32)
        plain = s.attend(q, *arrays, lse=lse)
        sinks = np.array([1.5, -np.inf, 4, -2], np.float32)
        out = s.attend(q, *arrays, lse=with_sinks, sink_logits=sinks)
        share = 1 / (1 + np.exp(sinks - lse))
        assert np.abs(out - plain * share[:, :, None]).max() < 1e-5 and np.abs(with_sinks - np.logaddexp(lse, sinks)).max() < 1e-5
        late = s.attend(q, *arrays, sink_logits=sinks, stream=stream)
        stream.synchronize()
        assert (late == out).all() and (out[:, 1] == plain[:, 1]).all()
        for bad, error, text in ((np.zeros(3, np.float32), ValueError, r"sink_logits is float32 \[3\]; it must be float32 \[q_heads = 4\]"),
                                 (np.zeros(4), TypeError, "sink_logits is float64"), (sinks * np.nan, ValueError, r"sink_logits\[0\] is "),
                                 (-sinks, ValueError, r"sink_logits\[1\] is inf")):
            with pytest.raises(error, match=text):
                s.attend(q, *arrays, sink_logits=bad)


def test_a_workspace_of_the_caller():
    rng = np.random.default_rng(SEED)
    with Storage(4, 1, 2, 32, dtype="float32", block_size=4) as s:
        s.store(*rng.standard_normal((2, 16, 2, 32), np.float32), np.arange(16))
        arrays = rng.standard_normal((1, 4, 32), np.float32), np.array([0, 1], np.uint64), np.array([8], np.uint64), np.array([[3, 0]], np.int32)
        info = s.explain(*arrays)
        assert info.workspace_bytes == info.selection_bytes == 0  # of the CPU
        workspace = np.full(info.workspace_bytes + 3, 7, np.uint8)
        assert (s.attend(*arrays, launch=Launch(workspace=workspace)) == s.attend(*arrays)).all() and (workspace == 7).all()
        with pytest.raises(TypeError, match="workspace is float32"):
            s.attend(*arrays, launch=Launch(workspace=np.zeros(8, np.float32)))
        workspace.flags.writeable = False
        with pytest.raises(ValueError, match="workspace is read-only"):
            s.attend(*arrays, launch=Launch(workspace=workspace))


EMULATED = pathlib.Path(os.environ.get("KVC_COMMAND", "")).parent.parent / "backends/libkvcache_emulated.so"


def test_layers_share_a_plan():
    if EMULATED.exists():
        kvcache.open_backend("emulated", str(EMULATED))
    rng = np.random.default_rng(SEED)
    rows, q = rng.standard_normal((2, 2, 16, 2, 32), np.float32), rng.standard_normal((2, 4, 32), np.float32)
    arrays = q, np.array([0, 1, 2], np.uint64), np.array([8, 7], np.uint64), np.array([[3, 0], [2, 1]], np.int32)
    for device in ("cpu", *(["emulated:0"] if EMULATED.exists() else [])):
        with Storage(4, 2, 2, 32, dtype="float32", block_size=4, device=device) as s:
            s.store(*rows, np.arange(16))
            wanted = s.explain(*arrays).plan_bytes
            assert (wanted == 0) == (device == "cpu")
            memory = np.zeros(wanted + 16, np.uint8)
            plan = memory[-memory.ctypes.data % 16:][:wanted]
            own = [s.attend(*arrays, layer) for layer in (0, 1)]
            assert (s.attend(*arrays, 0, launch=Launch(plan)) == own[0]).all()
            assert (s.attend(*arrays, 1, launch=Launch(plan, planned=True)) == own[1]).all()
            if wanted:
                with pytest.raises(ValueError, match=f"needs {wanted}"):
                    s.attend(*arrays, launch=Launch(plan[:-16]))
                with pytest.raises(ValueError, match="^Launch.planned without Launch.plan; give"):
                    s.attend(*arrays, launch=Launch(planned=True))


def test_dlpack_names_the_device():
    with Storage(2, 1, 1, 8) as s:
        assert s.dlpack(Plane.K).__dlpack_device__() == (1, 0)
    if not EMULATED.exists():
        pytest.skip("the emulated backend is not built")
    kvcache.open_backend("emulated", str(EMULATED))
    for number in (0, 1):
        with Storage(2, 1, 1, 8, device=f"emulated:{number}") as s:
            assert s.dlpack(Plane.K).__dlpack_device__() == (12, number)
            with pytest.raises(kvcache.NotFoundError):
                s.dlpack(Plane.K_SCALE).__dlpack_device__()


def test_dlpack_shares_the_memory_and_keeps_it():
    s = Storage(2, 1, 1, 8, dtype="float32", block_size=4)
    s.view(Plane.K)[:] = 5
    shared = np.from_dlpack(s.dlpack(Plane.K))
    for _ in range(1000):
        s.dlpack(Plane.K).__dlpack__()  # nobody takes it
    s.view(Plane.K)[0, 0, 0, 0] = 6
    s.close()
    del s
    gc.collect()
    assert shared.shape == (2, 1, 4, 8) and shared.sum() == 5 * 64 + 1


def test_sizes_are_known_before():
    block, slab = kvcache.storage_size(100, 32, 8, 128, dtype="int8")
    with Storage(100, 32, 8, 128, dtype="int8") as s:
        assert (s.block_bytes, s.slab_bytes) == (block, slab)


def test_trim_gives_back_scratch_memory():
    with Storage(4, 1, 2, 8, dtype="float32") as s:
        assert s.trim() == (0, 0)
        q = np.ones((1, 2, 8), np.float32)
        out = s.attend(q, np.array([0, 1], np.uint64), np.array([4], np.uint64), np.zeros((1, 1), np.int32))
        device_bytes, host_bytes = s.trim()
        assert device_bytes == 0 and host_bytes > 0 and s.trim() == (0, 0)
        assert np.array_equal(s.attend(q, np.array([0, 1], np.uint64), np.array([4], np.uint64), np.zeros((1, 1), np.int32)), out)
    with pytest.raises(ValueError, match="closed"):
        s.trim()
