# SPDX-License-Identifier: Apache-2.0
"""KvCacheConnector below LMCache's own StorageManager and L2 adapter, made from LMCache's configuration. Needs LMCache, which runs without a GPU."""

import argparse
import asyncio
import json
import logging
import time

import pytest

pytest.importorskip("lmcache.v1.distributed.l2_adapters.native_plugin_l2_adapter", exc_type=ImportError, reason="LMCache is not installed: scripts/integrations tiers installs it")
import torch  # noqa: E402
from lmcache.v1.check.check_mode_test_l2_adapter import run_test_mode  # noqa: E402
from lmcache.v1.distributed.api import GroupedObjectKeys, MemoryLayoutDesc, ObjectKey, PrefetchTaskSpec  # noqa: E402
from lmcache.v1.distributed.config import EvictionConfig, L1ManagerConfig, L1MemoryManagerConfig, StorageManagerConfig  # noqa: E402
from lmcache.v1.distributed.l2_adapters.config import parse_args_to_l2_adapters_config  # noqa: E402
from lmcache.v1.distributed.storage_manager import StorageManager  # noqa: E402

import kvcache  # noqa: E402

LAYOUT = MemoryLayoutDesc(shapes=[torch.Size([2, 2, 16, 64])], dtypes=[torch.float32])
CHUNK = 2 * 2 * 16 * 64 * 4


def entry(url, page_bytes=CHUNK, **parameters):
    return json.dumps({"type": "native_plugin", "module_path": "kvcache.integrations.lmcache_tier", "class_name": "KvCacheConnector",
                       "adapter_params": {"url": url, "page_bytes": page_bytes, **parameters}, "max_capacity_gb": 1})


def keys_of(numbers, model="model", rank=0, salt=""):
    return [ObjectKey(chunk_hash=number.to_bytes(32, "big"), model_name=model, kv_rank=rank, cache_salt=salt) for number in numbers]


def content_of(key):
    return torch.rand(LAYOUT.shapes[0], generator=torch.Generator().manual_seed(hash((key.chunk_hash, key.model_name, key.kv_rank, key.cache_salt)) % 2**31))


class Manager:
    """LMCache's manager of its memory and the adapters below."""

    def __init__(self, *entries):
        adapters = parse_args_to_l2_adapters_config(argparse.Namespace(l2_adapter=list(entries)))
        self.manager = StorageManager(StorageManagerConfig(L1ManagerConfig(L1MemoryManagerConfig(8 << 20, use_lazy=False)), EvictionConfig("LRU"), adapters))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.manager.close()

    def adapter(self):
        return self.manager.l2_adapters()[0][1]

    def store(self, keys):
        reserved = self.manager.reserve_write(keys, LAYOUT)
        assert len(reserved) == len(keys)
        for key, memory in reserved.items():
            memory.tensor.copy_(content_of(key))
        self.manager.finish_write(keys)

    def used(self):
        return sum(used for used, _ in self.manager.get_l2_usages())

    def stored(self, count):
        """Waits until the adapter has so many chunks."""
        for _ in range(2000):
            if self.used() >= count * CHUNK:
                return True
            time.sleep(0.005)
        return False

    def load(self, keys):
        """Forgets LMCache's memory, and returns how many chunks of the prefix come back; each is compared."""
        self.manager.clear(force=True)
        handle = self.manager.submit_prefetch_task(PrefetchTaskSpec(key_groups=[GroupedObjectKeys(keys=keys, object_group_id=0, layout_desc=LAYOUT)]))
        assert self.manager.wait_prefetch_status(handle, 10)
        result = self.manager.query_prefetch_status(handle)
        hits = result.l2_hit_count
        with self.manager.read_prefetched_results(keys[:hits]) as objects:
            for key, memory in zip(keys, objects):
                assert torch.equal(memory.tensor, content_of(key)), key
        self.manager.finish_read_prefetched(keys[:hits])
        return hits


@pytest.fixture(params=["slab:{}/slab?bytes=8MiB", "dir:{}/pages?bytes=8MiB", "memory:?bytes=8MiB"], ids=["slab", "dir", "memory"])
def url(request, tmp_path):
    (tmp_path / "pages").mkdir(mode=0o700)
    return request.param.format(tmp_path)


def test_chunks_come_back_after_lmcache_forgot_them(url):
    with Manager(entry(url)) as lmcache:
        keys = keys_of(range(8))
        lmcache.store(keys)
        assert lmcache.stored(8)
        assert lmcache.load(keys) == 8
        assert lmcache.load(keys[:4] + keys_of([99]) + keys[5:]) == 4


def test_another_process_finds_what_was_stored(tmp_path):
    url, keys = f"slab:{tmp_path}/slab?bytes=8MiB", keys_of(range(8))
    with Manager(entry(url)) as lmcache:
        lmcache.store(keys)
        assert lmcache.stored(8)
    with Manager(entry(url)) as lmcache:
        assert lmcache.load(keys) == 8


def test_models_ranks_salts_and_weights_do_not_meet(tmp_path):
    (tmp_path / "pages").mkdir(mode=0o700)
    url = f"dir:{tmp_path}/pages?bytes=8MiB"
    kinds = [{}, {"model": "other"}, {"rank": 1}, {"salt": "tenant"}]
    with Manager(entry(url)) as lmcache:
        lmcache.store(keys_of([1]))
        assert lmcache.stored(1)
        assert [lmcache.load(keys_of([1], **kind)) for kind in kinds] == [1, 0, 0, 0]
    with Manager(entry(url, weights="2")) as lmcache:
        assert lmcache.load(keys_of([1])) == 0


def test_a_chunk_that_does_not_check_ends_the_prefix(tmp_path):
    keys = keys_of(range(6))
    with Manager(entry(f"slab:{tmp_path}/slab?bytes=8MiB")) as lmcache:
        lmcache.store(keys)
        assert lmcache.stored(6)
        data = bytearray((tmp_path / "slab").read_bytes())
        data[data.index(content_of(keys[3]).numpy().tobytes()) + 5] ^= 1
        with open(tmp_path / "slab", "r+b") as file:
            file.write(data)
        assert lmcache.load(keys) == 3


def test_deleted_chunks_are_gone_and_not_counted(url):
    with Manager(entry(url)) as lmcache:
        keys = keys_of(range(4))
        lmcache.store(keys)
        assert lmcache.stored(4)
        lmcache.adapter().delete(keys[:3])
        assert lmcache.used() == CHUNK
        assert lmcache.load(keys[:3]) == 0 and lmcache.load(keys[3:]) == 1


def test_a_chunk_larger_than_page_bytes_is_not_stored_and_the_log_says_why(url, caplog):
    with Manager(entry(url, page_bytes=CHUNK // 2)) as lmcache:
        logging.getLogger("lmcache").addHandler(caplog.handler)
        lmcache.store(keys_of(range(2)))
        for _ in range(2000):  # LMCache's own thread stores
            if "set page_bytes" in caplog.text:
                break
            time.sleep(0.005)
        assert lmcache.load(keys_of(range(2))) == 0
        logging.getLogger("lmcache").removeHandler(caplog.handler)
    assert f"set page_bytes in adapter_params to {CHUNK}" in caplog.text


def test_lmcaches_own_check_of_adapters_passes(url, capsys):
    asyncio.run(run_test_mode("model", l2_adapter=[entry(url, page_bytes=4096 * 4)], obj_size=4096, num_keys=7))
    said = capsys.readouterr().out
    for line in ("Validation: 7/7 correctly absent", "Batch store OK", "Validation: 7/7 found", "Validation (loaded): 7/7", "Validation (content): 7/7"):
        assert line in said, said


def test_wrong_parameters_stop_lmcache():
    for parameters, text in [({"url": "nothing:"}, "nothing"), ({"url": "memory:?bytes=8MiB", "page_bytes": 0}, "page_bytes is 0")]:
        with pytest.raises((ValueError, kvcache.KvCacheError), match=text):
            Manager(entry(**parameters))
