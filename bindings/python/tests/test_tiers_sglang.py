# SPDX-License-Identifier: Apache-2.0
"""KvCacheStorage made by SGLang's StorageBackendFactory, with SGLang's host pools and the functions of its HiCacheController. Needs SGLang."""

import os
import threading

import pytest

pytest.importorskip("sglang.srt.managers.cache_controller", exc_type=ImportError, reason="SGLang is not installed: scripts/integrations tiers installs it")
import torch  # noqa: E402
from sglang.srt.mem_cache.hicache_storage import PoolHitPolicy, PoolName, PoolTransfer  # noqa: E402
from sglang_host import PAGE, TOKENS, Host, config_of, hashes_of, host_pool  # noqa: E402

from kvcache.integrations.sglang_tier import KvCacheStorage  # noqa: E402


@pytest.fixture(params=["slab:{}/slab?bytes=8MiB", "slab:{}/slab?bytes=8MiB&direct=1", "dir:{}/pages?bytes=8MiB", "memory:?bytes=8MiB"],
                ids=["slab", "direct", "dir", "memory"])
def url(request, tmp_path):
    (tmp_path / "pages").mkdir(mode=0o700)
    return request.param.format(tmp_path)


@pytest.fixture
def shared(tmp_path):
    (tmp_path / "pages").mkdir(mode=0o700)
    return f"dir:{tmp_path}/pages?bytes=8MiB"


@pytest.mark.parametrize("layout", ["page_first", "page_first_direct", "page_head", "layer_first"])
@pytest.mark.parametrize("in_place", [1, 0], ids=["v1", "v0"])
def test_pages_of_each_layout_come_back(url, layout, in_place):
    with Host(url, layout, in_place) as host:
        hashes, pages = hashes_of(range(5)), host.fill(1)
        assert host.storage.batch_exists(hashes) == 0
        assert host.back_up(hashes) == 5 * TOKENS
        assert host.storage.batch_exists(hashes + hashes_of([99])) == 5
        host.pool.kv_buffer.zero_()
        assert host.prefetch(hashes, first=2) == 5
        assert all(torch.equal(found, page) for found, page in zip(host.pages()[2:7], pages))
        assert not host.pages()[0].any() and not host.pages()[7].any(), "other pages are not touched"


def test_the_prefix_ends_at_the_first_page_that_is_missing(url):
    with Host(url) as host:
        host.fill(1)
        host.back_up(hashes_of([0, 1, 2]))
        assert host.storage.batch_exists(hashes_of([0, 1, 7, 2])) == 2
        assert host.prefetch(hashes_of([0, 1, 7, 2])) == 2
        assert host.storage.batch_get_v1(hashes_of([0, 7, 2]), torch.arange(3 * TOKENS)) == [True, False, True]
        assert host.storage.exists(hashes_of([2])[0]) and not host.storage.exists(hashes_of([7])[0])
        assert host.storage.batch_exists([]) == 0


def test_a_page_of_which_a_piece_does_not_check_is_missing(tmp_path):
    with Host(f"slab:{tmp_path}/slab?bytes=8MiB") as host:
        values = host.fill(1)[1][PAGE // 8:]  # of page 1; its keys stay
        host.back_up(hashes_of(range(3)))
        data = bytearray((tmp_path / "slab").read_bytes())
        data[data.index(values.numpy().tobytes()) + 3] ^= 4
        with open(tmp_path / "slab", "r+b") as file:
            file.write(data)
        assert host.storage.batch_get_v1(hashes_of(range(3)), torch.arange(3 * TOKENS)) == [True, False, True]


def test_another_process_finds_what_was_stored(tmp_path):
    url = f"slab:{tmp_path}/slab?bytes=8MiB"
    with Host(url) as host:
        pages = host.fill(3)
        host.back_up(hashes_of(range(8)))
    with Host(url) as host:
        assert host.prefetch(hashes_of(range(8))) == 8
        assert all(torch.equal(found, page) for found, page in zip(host.pages(), pages))


def test_models_ranks_shapes_layouts_and_weights_do_not_meet(shared):
    variants = [{}, {"model": "other"}, {"tp": (0, 2)}, {"tp": (1, 2)}, {"weights": "2"}, {"layout": "page_first_direct"}, {"dtype": torch.int32},
                {"heads": 2}, {"in_place": 0}]
    for variant in variants:
        with Host(shared, **variant) as host:
            assert host.storage.batch_exists(hashes_of(range(2))) == 0, variant
            host.fill(1)
            host.back_up(hashes_of(range(2)))
            assert host.storage.batch_exists(hashes_of(range(2))) == 2, variant


def test_ranks_of_mla_share_pages(shared):
    with Host(shared, mla=True, tp=(0, 2)) as first, Host(shared, mla=True, tp=(1, 2)) as second:
        pages = first.fill(1)
        first.back_up(hashes_of(range(4)))
        assert second.prefetch(hashes_of(range(4))) == 4 and torch.equal(second.pages()[3], pages[3])


def test_pools_of_a_hybrid_are_found_by_their_policies(url):
    with Host(url) as host:
        extra = host_pool(pages=8, heads=2)
        host.storage.register_mem_host_pool_v2(extra, PoolName.MAMBA)
        host.storage.register_mem_host_pool_v2(host.pool, PoolName.KV)
        host.fill(1)
        torch.manual_seed(2)
        extra.kv_buffer.copy_(torch.rand(extra.kv_buffer.shape))
        hashes = hashes_of(range(6))
        host.back_up(hashes)
        kept = [hashes[i] for i in (0, 1, 3, 4)]
        indices = torch.cat([torch.arange(i * TOKENS, (i + 1) * TOKENS) for i in (0, 1, 3, 4)])
        assert host.storage.batch_set_v2([PoolTransfer(PoolName.MAMBA, host_indices=indices, keys=kept)]) == {PoolName.MAMBA: [True] * 4}

        def found(policy, keys=None):
            return host.storage.batch_exists_v2(hashes, [PoolTransfer(PoolName.MAMBA, keys=keys, hit_policy=policy)])

        whole = found(PoolHitPolicy.ALL_PAGES)
        assert (whole.kv_hit_pages, whole.extra_pool_hit_pages) == (2, {"kv": 6, PoolName.MAMBA: 2}) and whole.restorable_prefix_pages == [1, 2]
        tail = found(PoolHitPolicy.TRAILING_PAGES, ["tail"])
        assert (tail.kv_hit_pages, tail.restorable_prefix_pages) == (5, [1, 2, 4, 5])
        pair = found(PoolHitPolicy.TRAILING_PAGES, ["tail", "tail"])
        assert (pair.kv_hit_pages, pair.restorable_prefix_pages) == (5, [1, 2, 5])
        with pytest.raises(ValueError, match="all_pages and trailing_pages"):
            found(PoolHitPolicy.BLOCK_GROUPS)
        before = extra.kv_buffer.clone()
        extra.kv_buffer.zero_()
        assert host.storage.batch_get_v2([PoolTransfer(PoolName.MAMBA, host_indices=indices, keys=kept)]) == {PoolName.MAMBA: [True] * 4}
        assert torch.equal(extra.kv_buffer[:, indices], before[:, indices])


def test_threads_wait_for_their_own_pages(url):
    with Host(url, pages=32) as host:
        pages, wrong = host.fill(5), []

        def work(begin):
            hashes = hashes_of(range(begin, begin + 8))
            indices = torch.arange(begin * TOKENS, (begin + 8) * TOKENS)
            for _ in range(30):
                if host.storage.batch_set_v1(hashes, indices) != [True] * 8 or host.storage.batch_exists(hashes) != 8:
                    wrong.append(begin)
                if host.storage.batch_get_v1(hashes, indices) != [True] * 8:
                    wrong.append(begin)

        threads = [threading.Thread(target=work, args=(begin,)) for begin in (0, 8, 16, 24)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        assert not wrong and all(torch.equal(found, page) for found, page in zip(host.pages(), pages))


def test_clear_forgets_what_one_process_owns(url):
    with Host(url) as host:
        host.fill(1)
        host.back_up(hashes_of(range(3)))
        owned = not url.startswith("dir:")
        assert host.storage.clear() is owned
        assert host.storage.batch_exists(hashes_of(range(3))) == (0 if owned else 3)
        host.back_up(hashes_of(range(3)))
        assert host.storage.batch_exists(hashes_of(range(3))) == 3


def test_wrong_arguments_raise(url):
    with Host(url) as host:
        for call, text in [(lambda: host.storage.batch_get_v1(hashes_of([1]), torch.arange(3)), "3 indices for 1 pages"),
                           (lambda: host.storage.batch_set_v1(hashes_of([1]), None), "0 indices"),
                           (lambda: host.storage.get("1", torch.zeros(4)), "used in place"),
                           (lambda: host.storage.batch_get(["1"], None), "target_locations"),
                           (lambda: host.storage.batch_get_v2([PoolTransfer(PoolName.SWA, keys=["1"])]), "pool swa is not registered")]:
            with pytest.raises(ValueError, match=text):
                call()
    with Host(url.replace("slab?", "other?"), in_place=0) as host:
        for tensor in (None, torch.zeros(4), torch.zeros(PAGE // 2, dtype=torch.float32)[::2]):
            with pytest.raises(ValueError, match="contiguous tensor of the CPU"):
                host.storage.get("1", tensor)


@pytest.mark.parametrize("options, text", [({"url": ""}, "needs a url"), ({"url": "slab:/x", "tp": (0, 2)}, "write {rank}"),
                                           ({"url": "slab:/x-{rank}", "tp": (0, 2), "mla": True}, "share pages")])
def test_a_wrong_configuration_says_what_to_write(options, text):
    with pytest.raises(ValueError, match=text):
        KvCacheStorage(config_of(**options), {})


def test_ranks_have_a_slab_each(tmp_path):
    url = f"slab:{tmp_path}/slab-{{rank}}?bytes=8MiB"
    with Host(url, tp=(0, 2)), Host(url, tp=(1, 2)):
        assert sorted(os.listdir(tmp_path)) == ["slab-0-0-0-0", "slab-0-0-0-1"]
