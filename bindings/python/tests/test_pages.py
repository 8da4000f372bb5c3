# SPDX-License-Identifier: Apache-2.0
"""Pages: the same bytes whatever the layout of the storage, and keys that name the content."""

import numpy as np
import pytest

import kvcache

LAYERS, HEADS, DIM, BLOCK = 3, 4, 8, 4
rng = np.random.default_rng(3)


def storage(layers=LAYERS, heads=HEADS, **options):
    return kvcache.Storage(8, layers, heads, DIM, dtype="float16", block_size=BLOCK, **options)


def filled(s, k, v):
    s.store(k, v, np.arange(k.shape[1]))
    return s


def values(layers=LAYERS, heads=HEADS):
    return rng.standard_normal((layers, 8 * BLOCK, heads, DIM)).astype(np.float16)


def test_pages_do_not_depend_on_the_layout():
    k, v = values(), values()
    blocks = np.array([5, 0, 3], np.int32)
    made, infos = [], []
    for layout in (kvcache.Layout.LBHNC, kvcache.Layout.BLHNC, kvcache.Layout.LBNHC):
        with filled(storage(layout=layout), k, v) as s:
            infos.append(s.page_info(b"model", b"v1"))
            pages = np.zeros((3, infos[-1].page_bytes), np.uint8)
            s.pack_pages(blocks, pages)
            made.append(pages)
            with storage(layout=kvcache.Layout.BLHNC) as other:
                other.unpack_pages(np.array([1, 2, 7], np.int32), pages)
                got = other.gather(np.arange(BLOCK, 2 * BLOCK), dtype="float16")[0]
                assert np.array_equal(got, k[:, 5 * BLOCK : 6 * BLOCK])
    assert infos[0] == infos[1] == infos[2] and infos[0].page_bytes == infos[0].part_bytes == LAYERS * 2 * HEADS * BLOCK * DIM * 2
    assert np.array_equal(made[0], made[1]) and np.array_equal(made[0], made[2])


def test_parts_of_ranks_are_runs_of_one_page():
    k, v = values(), values()
    with filled(storage(), k, v) as whole:
        page = np.zeros((1, whole.page_info(b"m", b"w").page_bytes), np.uint8)
        whole.pack_pages(np.array([2], np.int32), page)
        fingerprint = whole.page_info(b"m", b"w").fingerprint
    for first_layer, first_head in ((0, 0), (0, 2), (1, 2)):
        place = dict(num_layers=LAYERS, num_heads=HEADS, first_layer=first_layer, first_head=first_head)
        with filled(storage(2, 2), k[first_layer : first_layer + 2, :, first_head : first_head + 2], v[first_layer : first_layer + 2, :, first_head : first_head + 2]) as s:
            info, runs = s.page_info(b"m", b"w", **place), s.page_runs(b"m", b"w", **place)
            assert info.fingerprint == fingerprint and info.page_bytes == page.size and info.part_bytes == int(runs[:, 1].sum()) < page.size
            part = np.zeros(info.part_bytes, np.uint8)
            s.pack_pages(np.array([2], np.int32), part)
            assert np.array_equal(part, np.concatenate([page[0, int(at) : int(at + size)] for at, size in runs]))


def test_a_tier_and_a_storage_meet():
    k, v = values(), values()
    tokens = np.arange(8 * BLOCK, dtype=np.int32)
    with kvcache.Manager(8, BLOCK) as m, filled(storage(), k, v) as s:
        info = s.page_info(b"model", b"weights", b"kernels 1")
        keys = kvcache.page_keys(m.position_digests(tokens), 0, info.fingerprint)
        assert keys.shape == (8, 32) and keys.dtype == np.uint8
        pages = np.zeros((8, info.page_bytes), np.uint8)
        s.pack_pages(np.arange(8, dtype=np.int32), pages)
        with kvcache.Tier("memory:?bytes=1MiB", info.page_bytes, info.fingerprint) as tier, storage() as other:
            assert tier.put(keys, pages).num_ok == 8
            back = np.zeros_like(pages)
            assert tier.get(keys, back).num_ok == 8
            other.unpack_pages(np.arange(8, dtype=np.int32), back)
            for a, b in zip(other.gather(np.arange(8 * BLOCK), dtype="float16"), (k, v)):
                assert np.array_equal(a, b)
            part = tier.get(keys, np.zeros((8, 64), np.uint8), runs=[(128, 64)])
            assert part.num_ok == 8 and s.page_runs(b"model", b"weights").tolist() == [[0, info.page_bytes]]


def test_keys_depend_on_all_that_changes_the_content():
    tokens = list(range(1000))
    with kvcache.Manager(8, BLOCK, event_capacity=64) as m, storage() as s:
        fingerprint = s.page_info(b"a", b"b").fingerprint
        digests = m.position_digests(tokens)
        assert digests.shape == (250, 32) and len({bytes(digest) for digest in digests}) == 250
        assert np.array_equal(m.position_digests(tokens[:401]), digests[:100])
        assert np.array_equal(m.position_digests(np.arange(5000, dtype=np.int32))[:250], digests)
        assert not np.array_equal(m.position_digests(tokens, namespace=m.namespace(model=b"x")), digests)
        assert not np.array_equal(m.position_digests(tokens, [kvcache.ExtraKey(0, 4, b"i" * 32)]), digests)
        assert m.position_digests([1, 2, 3]).shape == (0, 32)
        with m.allocate(tokens[:8]) as request:
            request.commit(8)
            assert [event.digest for event in m.events() if event.kind == kvcache.EventKind.STORED] == [bytes(digest) for digest in digests[:2]]
        keys = {bytes(key) for group in (0, 1) for print_ in (fingerprint, s.page_info(b"a", b"c").fingerprint) for key in kvcache.page_keys(digests, group, print_)}
        assert len(keys) == 1000
        assert kvcache.page_key(bytes(digests[3]), 1, fingerprint) == bytes(kvcache.page_keys(list(digests[:4]), 1, fingerprint)[3])
        assert len({s.page_info(*names).fingerprint for names in ((b"a", b"b"), (b"ab", b""[:0] + b"x"), (b"a", b"b", b"c"))}) == 3


def test_wrong_pages_are_refused():
    with storage() as s, kvcache.Manager(4) as m:
        size = s.page_info(b"m", b"w").part_bytes
        for call, text in ((lambda: s.page_info(b"", b"w"), "model"), (lambda: s.page_info(b"m", b""), "weights"),
                           (lambda: s.page_info(b"m", b"w", first_layer=1), "first_layer is 1"), (lambda: s.page_runs(b"m", b"w", num_heads=2), "head"),
                           (lambda: s.pack_pages(np.array([8], np.int32), np.zeros(size, np.uint8)), "8"),
                           (lambda: s.pack_pages(np.array([1], np.int32), np.zeros(size - 1, np.uint8)), "pages_size|pages has"),
                           (lambda: s.unpack_pages(np.array([1], np.int32), np.zeros((1, size - 1), np.uint8)), "stride"),
                           (lambda: m.position_digests([1], namespace=99), "namespace")):
            with pytest.raises(kvcache.KvCacheError, match=text):
                call()
        with pytest.raises(ValueError, match="read-only"):
            s.pack_pages(np.array([1], np.int32), bytes(size))
        with pytest.raises(TypeError, match="model is str"):
            s.page_info("m", b"w")
        for call, text in ((lambda: kvcache.page_key(b"x", 0, bytes(32)), r"digests\[0\] has 1 bytes"), (lambda: kvcache.page_keys(bytes(33), 0, bytes(32)), r"digests is uint8 \[33\]"),
                           (lambda: kvcache.page_keys(bytes(32), 0, bytes(31)), "fingerprint has 31 bytes")):
            with pytest.raises(ValueError, match=text):
                call()
        with kvcache.Storage(8, 1, 1, 32, dtype="int4", block_size=16, flags=kvcache.StorageFlags.CHANNEL_KEYS) as channels, pytest.raises(kvcache.UnsupportedError):
            channels.page_info(b"m", b"w")
