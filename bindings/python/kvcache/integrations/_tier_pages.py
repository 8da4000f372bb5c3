# SPDX-License-Identifier: Apache-2.0
"""What the tiers for vLLM, LMCache and SGLang share: keys of pages, and jobs on a kvcache.tiers.Tier.

A key names content: SHA-256 over everything that tells one content from another. Items of a job point into the framework's memory: nothing is
copied in Python. A job that the tier refuses, because its queue is full, ends like one whose items have failed: engines go on without it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import select
import threading
import time
from typing import TYPE_CHECKING, Any, Iterable, Optional, Sequence

from .. import _native
from .._arrays import np
from .._tier_jobs import item_type, lease_of, shown_url
from ..constants import PageResult, TierKind, TierPriority
from ..errors import LimitError
from ..tiers import Tier

if TYPE_CHECKING:
    import numpy

    from ..records import TierStats

    Array = numpy.ndarray
    Ended = tuple[int, int, Array]

OK, MISS, PENDING, REFUSED = (int(result) for result in (PageResult.OK, PageResult.MISS, PageResult.PENDING, PageResult.FAILED))
_EXISTS, _GET, _PUT, _REMOVE = (int(kind) for kind in (TierKind.EXISTS, TierKind.GET, TierKind.PUT, TierKind.REMOVE))
_LOAD, _STORE = int(TierPriority.LOAD), int(TierPriority.STORE)
_log = logging.getLogger("kvcache.tiers")


def digest_of(kind: str, fields: dict[str, Any]) -> bytes:
    """32 bytes that differ if the kind or any field does. Fields are what JSON can hold; others count by their text."""
    text = json.dumps([kind, fields], sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(b"kvcache tier 1\0" + text.encode()).digest()


def keys_of(prefix: bytes, names: Iterable[bytes]) -> Array:
    """Keys [n, 32] of pages with these names, under a prefix of 32 bytes (digest_of)."""
    sha256 = hashlib.sha256
    joined = b"".join([sha256(prefix + name).digest() for name in names])
    return np.frombuffer(joined, np.uint8).reshape(-1, 32)


def key_of_hash(prefix: bytes, name: bytes) -> bytes:
    """Key of a page whose name is a hash of its content, and 4 bytes of a group.

    A hash of 32 bytes is taken as it is, XORed with the SHA-256 of prefix and group: equal hashes have equal keys only under the same prefix and
    group. Other names are hashed, as by keys_of()."""
    if len(name) != 36:
        return hashlib.sha256(prefix + name).digest()
    mask = hashlib.sha256(prefix + b"group" + name[32:]).digest()
    return bytes(a ^ b for a, b in zip(name[:32], mask))


def address_of(buffer: Any, written: bool = False) -> tuple[int, int]:
    """Address and bytes of an object with a C-contiguous buffer, which the caller keeps alive."""
    array = np.frombuffer(buffer, np.uint8)
    if written and not array.flags.writeable:
        raise ValueError("a buffer is read-only; pages are read into it")
    address: int = array.__array_interface__["data"][0]
    return address, array.nbytes


class Pages:
    """A tier, and who waits for which of its jobs. Thread-safe, but close() excludes other calls.

    It fills the items of a job by itself, from addresses: kvcache.tiers.Tier does more for its callers, at several times the cost. url, page_bytes,
    fingerprint: see there."""

    _ROOM = 64  # completions of one call

    def __init__(self, url: str, page_bytes: int, fingerprint: bytes):
        self._tier: Optional[Tier] = Tier(url, page_bytes, fingerprint)
        if not self._tier._has_threads:
            self._tier.close()
            raise ValueError(f"url is {shown_url(url)!r}: with threads=0 nobody does the work; leave threads out, or write threads=1 or more")
        self._t: Any = self._tier._t
        self.url, self.page_bytes = url, page_bytes
        self._lock = threading.Lock()
        self._state = threading.Condition(self._lock)  # of what wait() waits for
        self._jobs: dict[int, Any] = {}  # job: its items, and what they point to
        self._awaited: dict[int, Optional[Array]] = {}  # by wait(): results, if it has ended
        self._polled: list[Ended] = []  # that nobody waits for
        self._leader = False
        self._refusals = 0
        self._item = item_type()
        self._room = np.zeros((self._ROOM, 3), np.uint64)

    def exists(self, keys: Array, lease: float = 0.0) -> Optional[int]:
        """Asks which pages are there, and leases those for so many seconds. Returns the job, or None: refused."""
        return self._submit(_EXISTS, keys, _LOAD, None, 0, None, lease_of(max(0.0, lease)))

    def get(self, keys: Array, addresses: Array, sizes: Any, keep: Any = None) -> Optional[int]:
        """Reads pages to addresses, and keeps `keep` until the job has ended."""
        return self._submit(_GET, keys, _LOAD, addresses, sizes, keep)

    def put(self, keys: Array, addresses: Array, sizes: Any, keep: Any = None) -> Optional[int]:
        """Writes pages from addresses, and keeps `keep` until the job has ended."""
        return self._submit(_PUT, keys, _STORE, addresses, sizes, keep)

    def remove(self, keys: Array) -> Optional[int]:
        """Forgets pages."""
        return self._submit(_REMOVE, keys, _STORE, None, 0, None)

    def poll(self) -> Sequence[Ended]:
        """Takes jobs that have ended and that nobody waits for: (job, number of OK items, a PageResult for each item)."""
        if not self._jobs and not self._polled:
            return ()
        with self._lock:
            self._take()
            if not self._polled:
                return ()
            polled, self._polled = self._polled, []
        return polled

    def wait(self, job: Optional[int], count: int) -> Array:
        """Waits for one job and returns its results; without a job, `count` refusals. One of the threads that wait does so for all of them."""
        if job is None:
            return np.full(count, REFUSED, np.int32)
        with self._lock:
            results = self._awaited[job] = next((results for ended, _, results in self._polled if ended == job), None)
            self._polled = [ended for ended in self._polled if ended[0] != job]
            try:
                while results is None:
                    if self._leader:
                        self._state.wait()
                    else:
                        self._lead()
                    results = self._awaited[job]
                return results
            finally:
                del self._awaited[job]

    def fileno(self) -> int:
        """A descriptor that is readable while there are jobs to poll."""
        return _native.kvc_tier_event_fd(self._t)

    def drain(self) -> None:
        """Waits until no job waits or runs. Their results are there for poll()."""
        self._opened().drain()

    def stats(self) -> TierStats:
        return self._opened().stats()

    def refuse(self, error: Any) -> None:
        """Logs refusals 1, 2, 4, 8, ..."""
        self._refusals += 1
        if self._refusals & (self._refusals - 1) == 0:
            _log.warning("kvcache: %s refused %d jobs so far: %s", shown_url(self.url), self._refusals, error)

    def close(self) -> None:
        """Cancels what waits, waits for what runs, and closes the tier. May be called again."""
        tier, self._tier, self._t = self._tier, None, None
        if tier is not None:
            tier.close()
        self._jobs.clear()

    def _opened(self) -> Tier:
        if self._tier is None:
            raise ValueError(f"{shown_url(self.url)} is closed")
        return self._tier

    def _submit(self, kind: int, keys: Array, priority: int, addresses: Any, sizes: Any, keep: Any, lease_ns: int = 0) -> Optional[int]:
        items = np.zeros(len(keys), self._item)
        items["key"] = keys
        if addresses is not None:
            items["data"], items["bytes"] = addresses, sizes
        with self._lock:  # so that a thread that takes completions knows the job
            try:
                job = _native.kvc_tier_submit(self._t, items, kind, priority, time.monotonic_ns(), lease_ns, 0, 0)
            except LimitError as error:
                self.refuse(error)
                return None
            self._jobs[job] = items, keep
        return job

    def _take(self) -> None:
        """With the lock."""
        try:
            count = self._ROOM
            while count == self._ROOM:
                count = _native.kvc_tier_poll(self._t, self._room)
                self._hand_out(self._room[:count])
        except BaseException:  # an interrupt, perhaps right after the call: what the library has given is handed out all the same
            self._polled = [ended for ended in self._polled if ended[0] not in self._jobs]
            self._hand_out(self._room)
            self._state.notify_all()
            raise

    def _hand_out(self, rows: Array) -> None:
        """May be done again, with rows of before, which have no job any more."""
        for job, _, num_ok in rows.tolist():
            if job not in self._jobs:
                continue
            results = self._jobs[job][0]["result"]
            if job in self._awaited:
                self._awaited[job] = results
            else:
                self._polled.append((job, num_ok, results))
            del self._jobs[job]

    def _lead(self) -> None:
        """Waits for the tier, without the lock, and tells the others."""
        ready = select.poll()  # select() takes no descriptor from 1024 on
        ready.register(self.fileno(), select.POLLIN)
        self._leader = True
        self._state.release()
        try:
            ready.poll()
        finally:
            self._state.acquire()
            self._leader = False
            self._state.notify_all()
        self._take()
