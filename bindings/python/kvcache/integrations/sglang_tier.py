# SPDX-License-Identifier: Apache-2.0
"""SGLang's HiCacheStorage over a kvcache tier: the backend `dynamic`, with the interfaces v0 (tensors), v1 and v2 (pages of host pools in place).

    --hicache-storage-backend dynamic --hicache-mem-layout page_first --hicache-storage-backend-extra-config '{"backend_name": "kvcache",
      "module_path": "kvcache.integrations.sglang_tier", "class_name": "KvCacheStorage", "interface_v1": 1,
      "url": "slab:/var/cache/kv-{rank}.slab?bytes=1TiB", "weights": "2026-11-01"}'

SGLang calls it in threads of its own, which wait here without Python's lock. What does not check is False; wrong arguments raise.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from contextlib import contextmanager
from typing import Any, Iterator, Optional, Sequence

from .._arrays import np
from ._sglang_pools import Pool
from ._tier_pages import OK, Pages, digest_of

try:
    from sglang.srt.mem_cache import hicache_storage as _theirs
    from sglang.srt.mem_cache.hicache_storage import HiCacheStorage
except ImportError as error:
    raise ImportError(f"this SGLang has no HiCacheStorage ({error}): KvCacheStorage was tested with SGLang 0.5.23") from error

_KV = "kv"
_OWNED = ("slab:", "memory:")  # of one process


class KvCacheStorage(HiCacheStorage):
    """Read from extra_config: url of the tier (kvcache/tier.h), in which {rank} stands for the ranks of the process; weights: version or digest
    of the weights, if they can change under one model name; page_bytes: of the largest page, if pools are registered after the first use."""

    def __init__(self, storage_config: Any, kwargs: Any = None):
        extra = dict(getattr(storage_config, "extra_config", None) or {})
        self._config, self._weights = storage_config, str(extra.get("weights", ""))
        self._in_place = bool(extra.get("interface_v1", 0))
        self._page_bytes = int(extra.get("page_bytes", 0))
        self._url = _url_of(extra.get("url"), storage_config)
        self._pools: dict[str, Pool] = {}
        self._pages: Optional[Pages] = None
        self._users = 0
        self._change = threading.Condition()

    # Pools. The tier is opened when their sizes are known.

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        self.mem_pool_host = mem_pool_host
        if getattr(mem_pool_host, "kv_buffer", self) is not None:  # a logical anchor has no bytes: its pools come by v2
            self._register(_KV, mem_pool_host)

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        super().register_mem_host_pool_v2(host_pool, host_pool_name)
        self._register(_name(host_pool_name), host_pool)

    def on_host_pools_registered(self) -> None:
        with self._used():
            pass

    # v0: tensors

    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        return self.batch_get([key], [target_location])[0]

    def batch_get(self, keys: Sequence[str], target_locations: Any = None, target_sizes: Any = None) -> list[Any]:
        if target_locations is None or len(target_locations) != len(keys):
            raise ValueError(f"there are {len(keys)} keys: target_locations must have a tensor for each")
        done = self._flat("get", _KV, keys, target_locations)
        return [tensor if ok else None for tensor, ok in zip(target_locations, done)]

    def set(self, key: str, value: Any = None, target_location: Any = None, target_sizes: Any = None) -> bool:
        return self.batch_set([key], [target_location if value is None else value])

    def batch_set(self, keys: Sequence[str], values: Any = None, target_locations: Any = None, target_sizes: Any = None) -> bool:
        values = target_locations if values is None else values
        if values is None or len(values) != len(keys):
            raise ValueError(f"there are {len(keys)} keys: values must have a tensor for each")
        return all(self._flat("put", _KV, keys, [value.contiguous() for value in values]))

    def exists(self, key: str) -> bool:
        return self.batch_exists([key]) == 1

    def batch_exists(self, keys: Sequence[str], extra_info: Any = None) -> int:
        """Length of the prefix of keys that are there."""
        return _prefix(self._there(_KV, keys))

    # v1: pages of the host pool

    def batch_get_v1(self, keys: Sequence[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        return self._move("get", _KV, keys, host_indices)

    def batch_set_v1(self, keys: Sequence[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        return self._move("put", _KV, keys, host_indices)

    # v2: pages of several pools

    def batch_get_v2(self, transfers: Sequence[Any], extra_info: Any = None) -> dict[Any, list[bool]]:
        return {transfer.name: self._move("get", _name(transfer.name), transfer.keys or [], transfer.host_indices) for transfer in transfers}

    def batch_set_v2(self, transfers: Sequence[Any], extra_info: Any = None) -> dict[Any, list[bool]]:
        return {transfer.name: self._move("put", _name(transfer.name), transfer.keys or [], transfer.host_indices) for transfer in transfers}

    def batch_exists_v2(self, keys: Sequence[str], pool_transfers: Any = None, extra_info: Any = None) -> Any:
        """The longest prefix of which each pool has what its policy demands, and all prefixes for which that is so."""
        pages = _prefix(self._there(_KV, keys))
        hits: dict[Any, int] = {_KV: pages} if pages else {}
        lengths = set(range(1, pages + 1))
        for transfer in pool_transfers or ():
            if not lengths:
                break
            there = self._there(_name(transfer.name), keys[:pages])
            policy = getattr(transfer.hit_policy, "value", transfer.hit_policy)
            if policy == "all_pages":
                fit = set(range(1, _prefix(there) + 1))
            elif policy == "trailing_pages":
                trailing = max(1, len(transfer.keys or ()))
                fit = {length for length in range(1, pages + 1) if all(there[max(0, length - trailing):length])}
            else:
                raise ValueError(f"hit_policy of pool {transfer.name} is {transfer.hit_policy}: KvCacheStorage knows all_pages and trailing_pages")
            if fit:
                hits[transfer.name] = max(fit)
            lengths &= fit
        values = {"kv_hit_pages": max(lengths, default=0), "extra_pool_hit_pages": hits, "restorable_prefix_pages": sorted(lengths)}
        fields = {field.name for field in dataclasses.fields(_theirs.PoolTransferResult)}
        return _theirs.PoolTransferResult(**{name: value for name, value in values.items() if name in fields})

    # Whole

    def clear(self) -> bool:
        """Forgets all pages of a memory tier or slab. A folder or server may have other users: False, and nothing is changed."""
        if not self._url.startswith(_OWNED):
            return False
        with self._change:
            self._change.wait_for(lambda: self._users == 0)
            if self._pages is not None:
                self._pages.close()
                self._pages = None
            path = self._url.partition(":")[2].partition("?")[0]
            if self._url.startswith("slab:") and os.path.exists(path):
                os.remove(path)
        return True

    def close(self) -> None:
        with self._change:
            self._change.wait_for(lambda: self._users == 0)
            if self._pages is not None:
                self._pages.close()
                self._pages = None

    def _register(self, name: str, host_pool: Any) -> None:
        pool = Pool(name, host_pool, self._config, self._weights, self._in_place or name != _KV)
        largest = int(pool.sizes.max())
        with self._change:
            if self._pages is not None and largest > self._pages.page_bytes:
                raise ValueError(f"pool {name} has pages of {largest} bytes and the tier is open for {self._pages.page_bytes}: set page_bytes in the "
                                 f"extra config to {largest}")
            self._pools[name] = pool
            self._page_bytes = max(self._page_bytes, largest)

    @contextmanager
    def _used(self) -> Iterator[Pages]:
        with self._change:
            if self._pages is None:
                if self._page_bytes == 0:
                    raise ValueError("no host pool is registered: call register_mem_pool_host first, or set page_bytes in the extra config")
                self._pages = Pages(self._url, self._page_bytes, digest_of("SGLang pages", {}))
            pages = self._pages
            self._users += 1
        try:
            yield pages
        finally:
            with self._change:
                self._users -= 1
                self._change.notify_all()

    def _pool(self, name: str) -> Pool:
        pool = self._pools.get(name)
        if pool is None:
            raise ValueError(f"pool {name} is not registered: there are {sorted(self._pools)}")
        return pool

    def _there(self, name: str, keys: Sequence[str]) -> list[bool]:
        if not keys:
            return []
        pool = self._pool(name)
        made = pool.keys(keys)
        with self._used() as pages:
            return pool.whole(pages.wait(pages.exists(made), len(made)) == OK)

    def _move(self, call: str, name: str, keys: Sequence[str], indices: Any) -> list[bool]:
        pool = self._pool(name)
        if indices is None or len(indices) != len(keys) * pool.tokens:
            raise ValueError(f"pool {name} has {0 if indices is None else len(indices)} indices for {len(keys)} pages of {pool.tokens} tokens")
        if not keys:
            return []
        if pool.in_place:
            return self._run(call, pool, keys, *pool.places(indices, len(keys)))
        if call == "put":
            return self._flat("put", name, keys, [pool.host_pool.get_data_page(start, flat=True).contiguous() for start in pool.starts(indices)])
        tensors = [pool.flat_page() for _ in keys]
        done = self._flat("get", name, keys, tensors)
        for start, tensor, ok in zip(pool.starts(indices), tensors, done):
            if ok:
                pool.host_pool.set_from_flat_data_page(start, tensor)
        return done

    def _flat(self, call: str, name: str, keys: Sequence[str], tensors: Sequence[Any]) -> list[bool]:
        pool = self._pool(name)
        if pool.in_place:
            raise ValueError(f"pages of pool {name} are used in place (interface_v1): call batch_get_v1 and batch_set_v1, or set interface_v1 to 0")
        for tensor in tensors:
            if tensor is None or not tensor.is_contiguous() or tensor.device.type != "cpu" or tensor.nbytes != pool.sizes[0]:
                raise ValueError(f"a page of pool {name} must be a contiguous tensor of the CPU with {pool.sizes[0]} bytes")
        addresses = np.array([tensor.data_ptr() for tensor in tensors], np.uint64)
        return self._run(call, pool, keys, addresses, np.full(len(keys), pool.sizes[0], np.uint64), tensors)

    def _run(self, call: str, pool: Pool, keys: Sequence[str], addresses: Any, sizes: Any, keep: Any = None) -> list[bool]:
        if not len(keys):
            return []
        made = pool.keys(keys)
        with self._used() as pages:
            job = (pages.get if call == "get" else pages.put)(made, addresses, sizes, keep)
            return pool.whole(pages.wait(job, len(made)) == OK)


def _url_of(url: Any, config: Any) -> str:
    if not isinstance(url, str) or not url:
        raise ValueError("KvCacheStorage needs a url in the extra config, such as slab:/path/of/file-{rank}?bytes=64GiB")
    sizes = [int(getattr(config, name, 1) or 1) for name in ("tp_size", "pp_size", "attn_cp_size")]
    ranks = [int(getattr(config, name, 0) or 0) for name in ("dp_rank", "pp_rank", "attn_cp_rank", "tp_rank")]
    if url.startswith(_OWNED) and max(sizes) > 1:
        if getattr(config, "is_mla_model", False):
            raise ValueError(f"url is {url!r}: ranks of this model (MLA) share pages that one of them writes; a memory tier or slab has one process: use dir: or a server")
        if url.startswith("slab:") and "{rank}" not in url:
            raise ValueError(f"url is {url!r}: there are several ranks and a slab has one process: write {{rank}} in its path")
    return url.replace("{rank}", "-".join(map(str, ranks)))


def _name(pool: Any) -> str:
    return str(getattr(pool, "value", pool))


def _prefix(there: Sequence[bool]) -> int:
    return there.index(False) if False in there else len(there)
