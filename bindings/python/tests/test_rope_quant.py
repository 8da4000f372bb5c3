# SPDX-License-Identifier: Apache-2.0
"""Rotary embedding and quantization of plain arrays, beside NumPy."""

import numpy as np
import pytest

import kvcache

rng = np.random.default_rng(2)


def test_rope_turns_pairs_by_position_times_frequency():
    model = kvcache.Model(num_layers=2, num_kv_heads=2, head_dim=16, max_context=4096, rope_theta=10000.0)
    frequencies, factor = model.rope()
    assert factor == 1.0
    np.testing.assert_allclose(frequencies, 10000.0 ** (-np.arange(8) / 8), rtol=1e-12)
    positions = np.array([0, 5, 70000, -3], np.int64)
    table = kvcache.rope_table(frequencies, positions, 0.5)
    np.testing.assert_allclose(table[:, 0], 0.5 * np.cos(positions[:, None] * frequencies), atol=1e-6)
    np.testing.assert_allclose(table[:, 1], 0.5 * np.sin(positions[:, None] * frequencies), atol=1e-6)
    x = rng.standard_normal((4, 2, 16), np.float32)
    rotated = kvcache.apply_rope(x.copy(), table)
    cos, sin = table[:, None, 0], table[:, None, 1]
    np.testing.assert_allclose(rotated[..., :8], x[..., :8] * cos - x[..., 8:] * sin, atol=1e-5)
    np.testing.assert_allclose(rotated[..., 8:], x[..., 8:] * cos + x[..., :8] * sin, atol=1e-5)
    rows = np.array([3, 3, 0, 1])
    np.testing.assert_array_equal(kvcache.apply_rope(x.copy(), table, rows), kvcache.apply_rope(x.copy(), table[rows]))
    halves = kvcache.apply_rope(x.astype(np.float16), table)
    assert halves.dtype == np.float16 and np.abs(halves.astype(np.float32) - rotated).max() < 1e-2


def test_rope_of_a_part_of_a_row_interleaved():
    table = kvcache.rope_table(np.array([1.0, 0.1]), 3)
    x = rng.standard_normal((3, 1, 10), np.float32)
    rotated = kvcache.apply_rope(x.copy(), table, first_element=6, interleaved=True)
    np.testing.assert_array_equal(rotated[..., :6], x[..., :6])
    angle = np.arange(3)[:, None] * np.array([1.0, 0.1])
    np.testing.assert_allclose(rotated[:, 0, 6::2], x[:, 0, 6::2] * np.cos(angle) - x[:, 0, 7::2] * np.sin(angle), atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("interleaved", [False, True])
def test_store_turns_keys_as_apply_rope_does(dtype, interleaved):
    slots = np.array([9, -1, 3, 4, 12])
    k, v = rng.standard_normal((2, 2, 5, 2, 16), np.float32)
    rows = np.array([6, 0, 2, 2, 5])
    table = kvcache.rope_table(0.3 ** np.arange(4), 7)
    with kvcache.Storage(4, 2, 2, 16, block_size=4, dtype=dtype) as rotating, kvcache.Storage(4, 2, 2, 16, block_size=4, dtype=dtype) as plain, \
            kvcache.Stream() as stream:
        for given, by_row in ((rows, table[rows]), (None, table[:5])):
            rotated = np.stack([kvcache.apply_rope(layer.copy(), np.ascontiguousarray(by_row), first_element=6, interleaved=interleaved) for layer in k])
            plain.store(rotated, v, slots)
            for queue in (None, stream):
                rotating.zero_blocks(np.arange(4, dtype=np.int32))
                before = k.copy()
                rotating.store(k, v, slots, rope_table=table, rope_rows=given, rope_first_element=6, rope_interleaved=interleaved, stream=queue)
                stream.synchronize()
                np.testing.assert_array_equal(k, before)
                for mine, wanted in zip(rotating.gather(slots), plain.gather(slots)):
                    np.testing.assert_array_equal(mine, wanted)


def test_store_refuses_a_table_that_does_not_fit():
    table = kvcache.rope_table(np.ones(4), 2)
    k = rng.standard_normal((2, 1, 8), np.float32)
    with kvcache.Storage(2, 1, 1, 8, block_size=4, dtype="float32") as s:
        for error, options in (
                (kvcache.errors.InvalidArgumentError, {"rope_table": table[:1]}), (kvcache.errors.InvalidArgumentError, {"rope_table": table[:0]}),
                (kvcache.errors.InvalidArgumentError, {"rope_table": table, "rope_rows": [0, 2]}),
                (kvcache.errors.InvalidArgumentError, {"rope_table": table, "rope_first_element": 2}),
                (TypeError, {"rope_table": table.astype(np.float64)}), (ValueError, {"rope_table": table, "rope_rows": [0]}),
                (ValueError, {"rope_table": table[0]}), (ValueError, {"rope_rows": [0, 1]})):
            with pytest.raises(error):
                s.store(k, k, np.arange(2), **options)
        assert not np.any(s.gather(np.arange(2))[0])


def test_rope_refuses_what_does_not_fit():
    table = kvcache.rope_table(np.ones(4), 2)
    with pytest.raises(kvcache.errors.InvalidArgumentError):
        kvcache.apply_rope(np.zeros((3, 1, 8), np.float32), table)  # three tokens, two rows
    with pytest.raises(kvcache.errors.InvalidArgumentError):
        kvcache.apply_rope(np.zeros((1, 1, 8), np.float32), table, np.array([2]))
    with pytest.raises(kvcache.errors.InvalidArgumentError):
        kvcache.apply_rope(np.zeros((1, 1, 6), np.float32), table)
    with pytest.raises(TypeError):
        kvcache.apply_rope(np.zeros((1, 1, 8), np.int32), table)
    with pytest.raises(ValueError, match="rows"):
        kvcache.apply_rope(np.zeros((2, 1, 8), np.float32), table, np.array([0]))
    longrope = kvcache.find_model("phi-3-mini-128k")
    with pytest.raises(kvcache.UnsupportedError):
        longrope.rope()
    with pytest.raises(ValueError, match="factors"):
        longrope.rope(factors=np.ones(3))
    assert len(longrope.rope(factors=np.ones((longrope.rope_dim or longrope.head_dim) // 2))[0]) == (longrope.rope_dim or longrope.head_dim) // 2


@pytest.mark.parametrize("dtype, error", [("int8", 0.01), ("int4", 0.16), ("float8_e4m3", 0.07), ("float8_e5m2", 0.13)])
@pytest.mark.parametrize("options", [{}, {"group": 8}, {"channels": True}, {"asymmetric": True}, {"group": 8, "asymmetric": True}])
def test_what_is_quantized_comes_back_and_is_stable(dtype, error, options):
    if options.get("asymmetric") and dtype.startswith("float"):
        with pytest.raises(kvcache.KvCacheError):
            kvcache.quantize(np.zeros((1, 8), np.float32), dtype, **options)
        return
    x = rng.standard_normal((6, 21), np.float32)
    codes, scales = kvcache.quantize(x, dtype, **options)
    assert codes.shape == (6, 11 if dtype == "int4" else 21)
    back = kvcache.dequantize(codes, scales, 21, dtype, **options)
    assert np.abs(back - x).max() <= error * np.abs(x).max() * 1.05
    again, _ = kvcache.quantize(back, dtype, **options)
    np.testing.assert_array_equal(again, codes)


def test_a_given_scale_needs_no_scales():
    x = np.array([[1.0, -2.0, 300.0]], np.float32)
    codes, scales = kvcache.quantize(x, "int8", scale=0.5)
    assert scales is None and codes.view(np.int8).tolist() == [[2, -4, 127]]
    assert kvcache.dequantize(codes, None, 3, "int8", scale=0.5).tolist() == [[1.0, -2.0, 63.5]]


def test_quantization_refuses_what_does_not_fit():
    x = np.zeros((2, 8), np.float32)
    codes, scales = kvcache.quantize(x, "int8")
    for call in (lambda: kvcache.quantize(x.astype(np.float64), "int8"), lambda: kvcache.quantize(x[0], "int8"), lambda: kvcache.quantize(x.T, "int8"),
                 lambda: kvcache.dequantize(codes, scales, 9, "int8"), lambda: kvcache.dequantize(codes, scales[:1], 8, "int8"),
                 lambda: kvcache.dequantize(codes, None, 8, "int8"), lambda: kvcache.dequantize(codes.view(np.int8), scales, 8, "int8"),
                 lambda: kvcache.quantize(x, "float32")):
        with pytest.raises((TypeError, ValueError)):
            call()
