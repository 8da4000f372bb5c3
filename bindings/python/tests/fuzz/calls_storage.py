# SPDX-License-Identifier: Apache-2.0
"""Calls of Storage, and of streams that end while its work is on the way."""

import numpy as np

import kvcache
from world import BLOCK, BLOCKS, DIM, HEADS, TOKENS, call, need


def rows_of(w, s, written=False):
    n = w.rng.randrange(1, TOKENS)
    shape = w.rng.choice(((n,), (n,), (1, n), (2, n), (2, n), (0, n)))
    dtype = w.rng.choice((np.float32, np.float32, np.float16, np.uint16))
    k, v = w.floats(*shape, HEADS, DIM, dtype=dtype).astype(dtype), w.floats(*shape, HEADS, DIM, dtype=dtype).astype(dtype)
    slots = np.array(w.rng.sample(range(-1, BLOCKS * BLOCK), n), np.int64)
    return w.array(k, written), w.array(v, written), w.array(slots)


@call("Storage")
def storage(w):
    size = kvcache.storage_size(2, 1, 1, 8, dtype="float32", block_size=4)[1]
    memory = w.rng.choice((None, w.array(np.zeros(size + 64, np.uint8), True)))
    with kvcache.Storage(w.number(2), w.number(1), 1, 8, dtype=w.rng.choice(("float32", "int8")), block_size=4, memory=memory) as s:
        plane = s.view(kvcache.Plane.K) if s.num_blocks < 1000 else None
    del s, memory, plane


@call("Storage.close")
def close_storage(w):
    """While its work is on the way: the memory lives as long as that."""
    size = kvcache.storage_size(4, 1, HEADS, DIM, dtype="float32", block_size=BLOCK)[1]
    memory = np.zeros(size + 256, np.uint8)
    first = -memory.ctypes.data % 256
    s = kvcache.Storage(4, 1, HEADS, DIM, dtype="float32", block_size=BLOCK, memory=memory[first: first + size])
    del memory
    for _ in range(8):
        s.zero_blocks(np.arange(4, dtype=np.int32), stream=w.stream)
    if w.rng.random() < 0.5:
        s.close()
    del s
    w.later()


@call("Storage.fields")
@call("Storage.device")
def fields(w):
    storage = w.storage()
    need(all(getattr(storage, name) is not None for name in dir(storage) if not name.startswith("_")), "a field")
    repr(storage)


@call("Storage.dlpack")
def dlpack(w):
    tensor = np.from_dlpack(w.storages[0].dlpack(w.number(0), w.number(0)))
    tensor.sum()


@call("DLPack.__dlpack__")
def capsule(w):
    w.storage().dlpack(kvcache.Plane.K).__dlpack__(stream=None)


@call("DLPack.__dlpack_device__")
def capsule_device(w):
    w.storage().dlpack(kvcache.Plane.K).__dlpack_device__()


@call("Storage.store")
def store(w):
    s, stream = w.storage(), w.any_stream()
    k, v, slots = rows_of(w, s)
    table = kvcache.rope_table(w.floats(2, dtype=np.float64), TOKENS)
    options = {}
    if w.rng.random() < 0.3:
        rows = np.arange(len(slots) if isinstance(slots, np.ndarray) and type(slots) is np.ndarray and slots.ndim and len(slots) < 99 else 3, dtype=np.int64)
        options = dict(rope_table=w.array(table), rope_rows=w.rng.choice((None, w.array(rows))), rope_first_element=w.number(0))
    layer = w.number(0)
    if not stream:
        w.stream.synchronize()
    s.store(k, v, slots, layer, **options, stream=stream)
    if not stream and not options and s in w.storages[:2] and type(k) is np.ndarray and type(slots) is np.ndarray and len(set(slots[slots >= 0])) == sum(slots >= 0):
        got, _ = s.gather(slots, k.shape[0] if k.ndim == 4 else 1, layer)
        stored = ((k.astype(np.uint32) << 16).view(np.float32) if k.dtype == np.uint16 else k.astype(np.float32)).reshape(got.shape)
        stored[:, slots < 0] = 0
        need(np.array_equal(got, stored, equal_nan=True), "other keys than were stored")
    del k, v, slots, options
    if stream:
        w.later()


@call("Storage.gather")
def gather(w):
    s, stream = w.storage(), w.any_stream()
    k, v, slots = rows_of(w, s, True)
    w.stream.synchronize()
    if w.rng.random() < 0.3:
        layers = w.number(1)
        s.gather(slots, layers, w.number(0), w.rng.choice(("float32", "float16", "int8", None)), stream=stream)
    else:
        s.gather(slots, first_layer=w.number(0), out=w.rng.choice(((k, v), (k, v), (k, None), (k,), k)), stream=stream)
        w.stream.synchronize()
        shape = np.shape(k)
        if type(k) is np.ndarray and len(shape) == 4 and type(slots) is np.ndarray and slots.dtype == np.int64 and k.dtype == np.float32 and shape[0] == 2:
            expected, _ = s.gather(slots)
            need((k[:, slots >= 0] == expected[:, slots >= 0]).all() or np.isnan(expected).any(), "other keys than without out")
    del k, v, slots
    if stream:
        w.later()


@call("Storage.measure")
def measure(w):
    s = w.storage()
    k, v, slots = rows_of(w, s)
    s.measure(k, v, slots, w.number(0))


def pairs(w, most):
    n = w.rng.randrange(1, 5)
    return np.stack([np.array([w.rng.randrange(most) for _ in range(n)], np.int32), np.array(w.rng.sample(range(most), n), np.int32)], 1)


@call("Storage.copy_tokens")
def copy_tokens(w):
    source, other = (kvcache.Storage(4, 1, 1, 8, block_size=size) for size in (8, 4))
    n = w.rng.randrange(3)
    copies = np.array([[w.rng.choice((0, 4)) if i == 5 else w.rng.randrange(4) for i in range(6)] for _ in range(n)], np.int32).reshape(n, 6)
    w.rng.choice((other, other, w.storage())).copy_tokens(source, w.array(copies))


def aligned_pages(s):
    memory = np.zeros(8 * s.block_bytes + 16, np.uint8)
    first = -memory.ctypes.data % 16
    return memory[first: first + 8 * s.block_bytes].reshape(8, -1)


@call("Storage.swap_out")
def swap_out(w):
    s, stream, copies = w.storages[0], w.any_stream(), pairs(w, 8)
    good = aligned_pages(s)
    pages = w.h.array(good) if w.rng.random() < 0.5 else good
    given = w.array(copies)
    w.stream.synchronize()
    s.store(np.full((BLOCK, HEADS, DIM), 3, np.float32), np.full((BLOCK, HEADS, DIM), 3, np.float32), copies[0, 0] * BLOCK + np.arange(BLOCK), stream=stream)
    s.swap_out(given, pages, w.rng.choice((0, w.number(s.block_bytes))), stream=stream)
    if w.rng.random() < 0.5:
        w.stream.synchronize()
        if given is copies and type(pages) is np.ndarray and pages.dtype == np.uint8 and pages.shape == good.shape:
            need(pages[copies[0, 1]].any(), "a page was not filled")
    del pages, good
    if stream:
        w.later()


@call("Storage.swap_in")
def swap_in(w):
    s, stream = w.storage(), w.any_stream()
    pages = w.array(aligned_pages(s))
    s.swap_in(w.array(pairs(w, 8)), pages, w.rng.choice((0, w.number(s.block_bytes))), stream=stream)
    del pages
    if stream:
        w.later()


def apart(w, rows):
    """The same rows as a part of a larger array, sometimes: NaN around them."""
    if w.rng.random() < 0.6:
        return rows
    gaps = [w.rng.randrange(3) for _ in rows.shape]
    wide = np.full([size + gap for size, gap in zip(rows.shape, gaps)], np.nan, rows.dtype)
    order = w.rng.choice(((0, 1, 2), (1, 0, 2)))
    wide = np.ascontiguousarray(wide.transpose(order)).transpose(np.argsort(order))
    part = wide[tuple(np.s_[gap: gap + size] for size, gap in zip(rows.shape, gaps))]
    part[:] = rows
    return part


def attention_of(w, hostile=True):
    """q, q_offsets, kv_lens, block_tables and options, right as a whole."""
    rng = w.rng
    take = w.array if hostile else lambda good, written=False: good
    n = rng.randrange(1, 4)
    lens = np.array([rng.randrange(1, 17) for _ in range(n)], np.uint64)
    queries = [rng.randrange(1, int(x) + 1) for x in lens]
    offsets = np.cumsum([0, *queries]).astype(np.uint64)
    q = apart(w, w.floats(int(offsets[-1]), 4, DIM, dtype=rng.choice((np.float32, np.float16))))
    tables = np.array([rng.randrange(BLOCKS) for _ in range(n * 4)], np.int32).reshape(n, 4)
    options = {}
    if rng.random() < 0.5:
        bits = [a * int(b) for a, b in zip(queries, lens)]
        options.update(mask=take(np.full(-(-sum(bits) // 8), 255, np.uint8)), mask_offsets=take(np.cumsum([0, *bits[:-1]]).astype(np.uint64)))
        if rng.random() < 0.3:
            options["mask_starts"] = take(np.zeros(n, np.uint64))
    for name, good in (("q_starts", lens - np.array(queries, np.uint64)), ("alibi_slopes", w.floats(4)), ("sink_logits", w.floats(4)),
                       ("block_mask", np.full((n, HEADS, 1), 255, np.uint8))):
        if rng.random() < 0.15:
            options[name] = take(good)
    for name, good in (("window", 4), ("sinks", 1), ("shared_tokens", 0)):
        if rng.random() < 0.1:
            options[name] = w.number(good)
    for name in ("scale", "soft_cap"):
        if rng.random() < 0.1:
            options[name] = w.h.real(1.0)
    if rng.random() < 0.1:
        options["causal"] = False
    if rng.random() < 0.25:
        plan, workspace = (take(np.zeros(64, np.uint8), True) if rng.random() < 0.5 else None for _ in range(2))
        options["launch"] = rng.choice((kvcache.Launch(plan=plan, workspace=workspace), kvcache.Launch(plan=plan, planned=True), (plan, False, workspace), 3))
    return q, [take(q), take(offsets), take(lens), take(tables)], options


@call("Storage.attend")
def attend(w):
    s, stream = w.storage(), w.any_stream()
    q, arguments, options = attention_of(w)
    own = apart(w, np.full(q.shape, 77, q.dtype))
    if w.rng.random() < 0.5:
        options["out"] = w.array(own, True)
    if w.rng.random() < 0.3:
        options["lse"] = w.array(np.zeros(q.shape[:2], np.float32), True)
    layer = w.number(0)
    if not stream:
        w.stream.synchronize()
    out = s.attend(*arguments, layer, **options, stream=stream)
    if "out" in options and w.rng.random() < 0.5:
        w.stream.synchronize()
        given = options.pop("out")
        need(out is given or given is None, "out is not what comes back")
        options.pop("lse", None)
        if type(arguments[0]) is np.ndarray and arguments[0].dtype == q.dtype:
            arguments[0] = np.array(arguments[0], order="C")
        again = s.attend(*arguments, layer, **options)
        if not isinstance(arguments[2], list) and type(given) is np.ndarray:
            need(np.array_equal(given, again, equal_nan=True), "other results than of arrays of their own")
            if given is own and own.base is not None:
                own[...] = np.nan
                need(np.isnan(own.base).all(), "what lies between the rows of out was written")
            del given, again
    del out, arguments, options, q, own
    if stream:
        w.later()


@call("Storage.explain")
def explain(w):
    _, arguments, options = attention_of(w)
    w.storage().explain(*arguments, w.number(0), **options)


@call("Storage.key_bounds")
def key_bounds(w):
    s, stream = w.storages[0], w.any_stream()
    out = w.rng.choice((None, w.array(np.zeros((BLOCKS, HEADS, 2, DIM), np.float16), True)))
    s.key_bounds(w.blocks(), w.number(0), out, stream=stream)
    del out
    if stream:
        w.later()


@call("Storage.select_blocks")
def select_blocks(w):
    s, stream = w.storages[0], w.any_stream()
    _, arguments, options = attention_of(w)
    options.pop("block_mask", None)
    bounds = w.array(np.zeros((BLOCKS, HEADS, 2, DIM), np.float16))
    how = w.rng.choice(({"top_k": w.number(2)}, {"ratio": w.h.real(0.5)}, {"threshold": w.h.real(2.0)}, {"top_k": w.number(2), "ratio": w.h.real(0.5)}))
    s.select_blocks(*arguments, bounds, **how, sink_blocks=w.number(1), recent_blocks=w.number(1), **options, stream=stream)
    del bounds, arguments, options
    if stream:
        w.later()


@call("Stream.close")
def close_stream(w):
    """While its work is on the way."""
    s = kvcache.Stream()
    k = np.ones((BLOCK, HEADS, DIM), np.float32)
    w.storages[0].store(k, k, np.arange(BLOCK), stream=s)
    pages = aligned_pages(w.storages[0])
    w.storages[0].swap_out(np.array([[0, 0]], np.int32), pages, stream=s)
    del k, pages
    w.junk += [np.zeros(4096, np.uint8)]
    s.close(), s.close()


@call("Storage.move_tokens")
def move_tokens(w):
    moves = [[0, w.rng.randrange(3), w.rng.randrange(3), w.rng.randrange(3), w.rng.randrange(3), w.rng.randrange(4)] for _ in range(w.rng.randrange(3))]
    w.storage().move_tokens(w.array(np.array(moves, np.int32).reshape(-1, 6)))
