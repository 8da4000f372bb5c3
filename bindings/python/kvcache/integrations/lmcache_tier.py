# SPDX-License-Identifier: Apache-2.0
"""A connector for LMCache's L2 adapter `native_plugin`, over a kvcache tier. It imports nothing of LMCache.

    {"type": "native_plugin", "module_path": "kvcache.integrations.lmcache_tier", "class_name": "KvCacheConnector",
     "adapter_params": {"url": "slab:/var/cache/kv.slab?bytes=1TiB", "page_bytes": 2097152, "weights": "2026-11-01"}, "max_capacity_gb": 1024}

LMCache calls submit_*() with texts as keys, waits for event_fd() to be readable, and takes the results with drain_completions(). Any thread may
call. The buffers of a job are kept, and used in place, until the job has ended.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from typing import Any, Optional, Sequence

from .._arrays import np
from ._tier_pages import MISS, OK, REFUSED, Pages, address_of, digest_of, keys_of

_log = logging.getLogger("lmcache.kvcache")  # LMCache's own handlers print it
_GET, _SET, _EXISTS, _DELETE = "get", "set", "exists", "delete"
Completion = tuple[int, bool, str, Optional[list[bool]]]


class KvCacheConnector:
    """url: of the tier (kvcache/tier.h). page_bytes: of the largest chunk, 2 x layers x KV heads x head size x bytes of an element x tokens of a
    chunk for plain attention. weights: version or digest of the weights, if they can change under one model name. lease: seconds for which a
    chunk stays after a lookup that hits; within them it is not deleted either, and LMCache tries again. The keys of LMCache name model, rank, group,
    content and salt; with `weights`, their SHA-256 is the key of the page."""

    def __init__(self, url: str, page_bytes: int, weights: str = "", lease: float = 5.0):
        if not isinstance(page_bytes, int) or page_bytes <= 0:
            raise ValueError(f"page_bytes is {page_bytes!r}; it must be the bytes of LMCache's largest chunk: set adapter_params.page_bytes")
        self._prefix = digest_of("LMCache", {"weights": weights})
        self._lease = float(lease)
        self._pages = Pages(url, page_bytes, digest_of("LMCache chunks", {}))
        self._lock = threading.Lock()
        self._next = 1
        self._jobs: dict[int, tuple[int, str, int]] = {}  # job of the tier: ours, kind, number of keys
        self._failed: list[Completion] = []  # of jobs that did not start
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)  # has a byte while _failed has an entry
        self._both = select.epoll()  # readable if the tier's descriptor or ours is
        self._both.register(self._pages.fileno(), select.EPOLLIN)
        self._both.register(self._woken, select.EPOLLIN)
        self._closed = False
        self._told = 0

    def event_fd(self) -> int:
        return self._both.fileno()

    def submit_batch_get(self, keys: Sequence[str], memviews: Sequence[Any]) -> int:
        return self._move(_GET, keys, memviews)

    def submit_batch_set(self, keys: Sequence[str], memviews: Sequence[Any]) -> int:
        return self._move(_SET, keys, memviews)

    def submit_batch_exists(self, keys: Sequence[str]) -> int:
        return self._begin(_EXISTS, keys, lambda made: self._pages.exists(made, self._lease))

    def submit_batch_delete(self, keys: Sequence[str]) -> int:
        return self._begin(_DELETE, keys, self._pages.remove)

    def drain_completions(self) -> list[Completion]:
        """Returns (id, all done, error, done by key) of jobs that have ended. A set has no results by key."""
        with self._lock:
            completions, self._failed = self._failed, []
            if self._closed:
                return completions
            if completions:
                os.read(self._woken, len(completions))
            for job, _, results in self._pages.poll():
                own, kind, _ = self._jobs.pop(job)
                completions.append(_completion(own, kind, results))
        return completions

    def close(self) -> None:
        """Waits for jobs that run, ends those that wait, and closes the tier. Their buffers are free on return. May be called again."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._both.close()
            self._pages.close()
            self._failed += [(own, False, "closed", None if kind == _SET else [False] * count) for own, kind, count in self._jobs.values()]
            self._jobs.clear()
            os.close(self._woken)
            os.close(self._wake)

    def _move(self, kind: str, keys: Sequence[str], memviews: Sequence[Any]) -> int:
        if len(keys) != len(memviews):
            raise ValueError(f"there are {len(keys)} keys and {len(memviews)} buffers: there must be as many")
        places = np.array([address_of(view, kind == _GET) for view in memviews], np.uint64).reshape(-1, 2)
        addresses, sizes = places[:, 0], places[:, 1]
        call = self._pages.get if kind == _GET else self._pages.put
        if len(sizes) and sizes.max() > self._pages.page_bytes:
            self._tell(int(sizes.max()))
            return self._begin(kind, keys, lambda made: None)
        return self._begin(kind, keys, lambda made: call(made, addresses, sizes, memviews))

    def _tell(self, size: int) -> None:
        self._told += 1
        if self._told & (self._told - 1) == 0:  # 1, 2, 4, 8, ...
            _log.error("kvcache: a chunk of LMCache has %d bytes and page_bytes is %d: nothing of it is stored or loaded; set page_bytes in "
                       "adapter_params to %d", size, self._pages.page_bytes, size)

    def _begin(self, kind: str, keys: Sequence[str], call: Any) -> int:
        made = keys_of(self._prefix, [key.encode() for key in keys])
        with self._lock:
            if self._closed:
                raise ValueError("the connector is closed")
            own, self._next = self._next, self._next + 1
            job = call(made) if len(keys) else None
            if job is not None:
                self._jobs[job] = (own, kind, len(keys))
            else:
                self._failed.append(_completion(own, kind, np.full(len(keys), REFUSED, np.int32)))
                os.write(self._wake, b"1")
        return own


def _completion(own: int, kind: str, results: Any) -> Completion:
    done = ((results == OK) | (results == MISS) if kind == _DELETE else results == OK).tolist()  # what is not there is deleted
    complete = all(done)
    if kind == _EXISTS:
        return own, True, "", done
    error = "" if complete else f"{len(done) - sum(done)} of {len(done)} chunks: results {sorted(set(results[results != OK].tolist()))} (KVC_PAGE_*)"
    return own, complete, error, None if kind == _SET else done
