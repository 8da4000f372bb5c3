# SPDX-License-Identifier: Apache-2.0
"""Offload: cached blocks go to tiers, and come back before a request that needs them is admitted. kvcache/offload.h is the manual of its calls."""

from __future__ import annotations

import hashlib
import os
import select
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence, Union

from . import _native
from ._arrays import whole
from ._tier_jobs import shown_url
from .checkpoints import take_manager, take_storages
from .constants import OffloadPolicy, OffloadReason, OffloadState
from .errors import InvalidArgumentError, KvCacheError, LimitError, OutOfMemoryError
from .manager import Manager
from .records import OffloadInfo, OffloadStats, OffloadTierStats
from .request import Request
from .storage import Storage
from .tiers import Tier

if TYPE_CHECKING:
    from .streams import Stream

    _Storages = Union[Storage, Sequence[Storage], None]

_PIECE_SECONDS = 0.05  # of a flush, in which no other call runs
_LAST_SECONDS = 10.0  # of the last flush of a Manager

__all__ = ["Offload", "OffloadInfo", "OffloadPolicy", "OffloadReason", "OffloadState", "OffloadStats", "OffloadTierStats"]


class Offload:
    """Copies cached blocks of a manager to tiers, and brings them back.

        offload.lookup(request)                                       # of a new or preempted request
        offload.poll()                                                # in the engine's loop
        if offload.query(request).state in (OffloadState.NONE, OffloadState.READY):
            request.admit()

    A program without such a loop calls admit(), and flush() at its end. No other call waits. Any thread may call it; one call is made at a time. A page that fails, is missing or does not check shortens the prefix that is
    loaded; the rest is computed as ever.

    manager: has groups with full attention, windows or chunks alone, and events: Manager(event_capacity=...). storages: the Storage of each group,
    all of one device; None = there are no bytes, and page_bytes has the bytes of a page of each group, for simulations. tiers: Tier objects, or
    URLs such as "slab:/var/cache/kv?bytes=64GiB" of tiers that are opened for these pages and closed with the offload; fastest first, at most 8.
    The offload polls them; until it is closed nobody else may. model, weights, numerics: what computed the blocks: see
    Storage.page_info().

    policy: an OffloadPolicy; 0 = blocks of store_request() alone. promote: what was loaded from one tier is stored in the others too. num_pages:
    staging pages in host memory; 0 = 64; loads keep a quarter of them. max_lookups: requests at one time; 0 = 16. max_lookup_blocks: blocks of a
    prompt beyond its hit that are looked up; 0 = 1024. clean_blocks: with BEFORE_EVICTION, blocks of each pool at each poll; 0 = 64. timeout_ns: of
    each job of a tier; 0 = 10 s. hold_ns: how long loaded blocks wait for the admission; 0 = 1 s. compute_ns_per_token: time that the engine takes
    to compute a token of a prompt: a load that is expected to take longer is not begun; 0 = everything is loaded. min_load_tokens: a load of fewer
    tokens is not begun. retry_ns: how long a tier that fails three times in a row is left alone (tier_stats() has `outages` and `available`); 0 = 1 s.

    now_ns: time of the caller, which never goes back; None = time.monotonic_ns().

    An Offload keeps manager, storages and tiers alive, whichever of them is closed first. close() waits for jobs that tiers have begun, and gives back
    all blocks; blocks that wait to be stored are not: call flush() before. Raises InvalidArgumentError, UnsupportedError (groups, no events, storages of two devices), BusyError (a tier has jobs, or an Offload has it),
    LimitError, OutOfMemoryError, DeviceError."""

    def __init__(self, manager: Manager, storages: _Storages, tiers: Tier | str | Sequence[Tier | str], model: bytes, weights: bytes, numerics: bytes = b"", *,
                 policy: OffloadPolicy | int = 0, promote: bool = True, page_bytes: int | Sequence[int] = (), num_pages: int = 0,
                 max_lookups: int = 0, max_lookup_blocks: int = 0, clean_blocks: int = 0, timeout_ns: int = 0, hold_ns: int = 0,
                 compute_ns_per_token: float = 0.0, min_load_tokens: int = 0, retry_ns: int = 0):
        self._pid, self._lock = os.getpid(), threading.RLock()
        m = take_manager(manager)
        num_groups = manager.properties.num_groups
        taken = () if storages is None else take_storages(storages)
        sizes = (whole(page_bytes),) if hasattr(page_bytes, "__index__") else tuple(page_bytes)
        if storages is not None and (len(taken) != num_groups or None in taken):
            raise ValueError(f"storages has {len(taken) - taken.count(None)} storages; it must have one for each of the {num_groups} groups")
        if storages is None and len(sizes) != num_groups:
            raise ValueError(f"page_bytes has {len(sizes)} entries; without storages it must have one for each of the {num_groups} groups")
        chain = (tiers,) if isinstance(tiers, (Tier, str)) else tuple(tiers)
        for i, tier in enumerate(chain):
            if not isinstance(tier, (Tier, str)):
                raise TypeError(f"tiers[{i}] is {type(tier).__name__}; it must be a kvcache.Tier or a URL")
        if not 1 <= len(chain) <= 8:
            raise ValueError(f"tiers has {len(chain)} entries; it must have 1 to 8")
        self._tiers: tuple[Tier, ...] = ()
        self._own: tuple[Tier, ...] = ()  # of them, opened here
        self._users, self._closing = 0, False  # schedulers; whether it ends with the last of them
        given: list[Any] = []
        native: tuple[Any, ...] = ()
        def create(tiers: tuple[Any, ...]) -> Any:
            return _native.kvc_offload_create(
                m, native, sizes, tiers, model, weights, numerics, 0, 0, 0, 0, policy, 0 if promote else _native.KVC_OFFLOAD_NO_PROMOTE,
                num_pages, max_lookups, max_lookup_blocks, clean_blocks, timeout_ns, hold_ns, compute_ns_per_token, min_load_tokens, retry_ns)

        try:
            native = tuple(storage._s for storage in taken if storage is not None)
            try:
                create(())  # all but the tiers is checked before one is opened: a slab reserves its bytes
            except InvalidArgumentError as error:
                if "num_tiers is 0" not in str(error):
                    raise
            for place in chain:
                tier = place if isinstance(place, Tier) else self._open_tier(place, taken, sizes, model, weights, numerics)
                given.append(tier._lend())
                self._tiers += (tier,)
            # What the offload uses: alive until after it.
            self._kept: Any = (m, native, [storage._memory for storage in taken if storage is not None], tuple(given))
            self._o: Any = create(tuple(given))
            self._fd = _native.kvc_offload_event_fd(self._o)
        except BaseException:
            self._end()
            given.clear()
            native = ()
            raise

    def _open_tier(self, url: str, storages: Sequence[Any], sizes: tuple[int, ...], model: bytes, weights: bytes, numerics: bytes) -> Tier:
        infos = [storage.page_info(model, weights, numerics) for storage in storages]
        fingerprints = b"".join(info.fingerprint for info in infos) or hashlib.sha256(b"sizes alone").digest()
        fingerprint = fingerprints if len(fingerprints) == 32 else hashlib.sha256(fingerprints).digest()
        tier = Tier(url, max([info.page_bytes for info in infos] or sizes), fingerprint)
        self._own += (tier,)
        return tier

    def close(self) -> None:
        """Ends all work, and gives the tiers back; if a Scheduler uses it, when that is closed. Later calls raise ValueError; closing again does nothing."""
        if getattr(self, "_o", None) is None:
            return
        if self._pid != os.getpid():  # the threads of the tiers are not in this process
            self._o.disown()
            for tier in self._kept[3]:
                tier.disown()
            self._o = None
            return
        with self._lock:
            self._closing = True
            if not self._users:
                self._end()

    def _lend(self, manager: Any) -> None:
        """A scheduler of this manager uses it until _take_back()."""
        self._check()
        with self._lock:
            self._open()
            if self._kept[0] is not manager:
                raise ValueError("the offload has another manager than the scheduler")
            self._users += 1

    def _take_back(self) -> None:
        with self._lock:
            self._users -= 1
            if self._closing and not self._users:
                self._end()

    def _end(self) -> None:
        self._o = None  # waits for what the tiers do
        self._kept = None
        for tier in self._tiers:
            tier._give_back()
        for tier in self._own:
            tier.close()
        self._tiers = self._own = ()

    __del__ = close

    def __enter__(self) -> Offload:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("an Offload cannot be pickled; it belongs to its process")

    def __repr__(self) -> str:
        if getattr(self, "_o", None) is None or self._closing:
            return "<kvcache.Offload, closed>"
        return f"<kvcache.Offload to {', '.join(shown_url(tier.url) for tier in self._tiers)}>"

    def _open(self) -> Any:
        """With the lock. No variable may hold what it returns: a traceback would, beyond close()."""
        if self._o is None or self._closing:
            raise ValueError("the offload is closed")
        return self._o

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise ValueError(f"the offload was made in process {self._pid}, of which this is a fork: make it after the fork")

    def fileno(self) -> int:
        """A descriptor that is readable when a tier has done something: then poll(). For select() and loop.add_reader(). It is the offload's."""
        self._check()
        with self._lock:
            self._open()
            return self._fd

    def poll(self, now_ns: Optional[int] = None, *, stream: Optional[Stream] = None) -> None:
        """Moves everything on: takes what tiers have done, stores blocks, loads pages. stream: of the kernels that read and write blocks; copies to
        and from blocks are enqueued there. None = the caller's work on the storages is done; copies are made at once."""
        self._check()
        self._enqueue(stream, lambda handle: _native.kvc_offload_poll(self._open(), _time(now_ns), handle))

    def _flush(self, now_ns: int, most: int, stream: Optional[Stream]) -> int:
        left: int = self._enqueue(stream, lambda handle: _native.kvc_offload_flush(self._open(), now_ns, most, handle))
        return left

    def _enqueue(self, stream: Optional[Stream], call: Callable[[Any], Any]) -> Any:
        """Calls with the stream's handle. The stream keeps the memory of the blocks from then on."""
        with self._lock:
            if stream is None:
                return call(None)
            handle, memory = stream._open(), self._kept[1:3] if self._kept else None
            try:
                return call(handle)
            except (KvCacheError, TypeError, ValueError, OverflowError):
                memory = None
                raise
            finally:  # an interrupt may come right after the call
                if memory is not None:
                    stream._keep(memory)

    def lookup(self, request: Request | int, now_ns: Optional[int] = None, *, max_tokens: int = 0) -> None:
        """Begins to look for the tokens of a waiting request beyond its hit, and to load them. Does nothing if that is under way. Ends by itself when
        the request is admitted or freed. max_tokens: to load, in whole blocks; 0 = no bound but max_lookup_blocks. Raises NotFoundError, BusyError (it is admitted), LimitError (max_lookups), OutOfMemoryError: then admit
        the request as ever."""
        self._check()
        with self._lock:
            _native.kvc_offload_load(self._open(), _number(request), max_tokens, _time(now_ns))

    def query(self, request: Request | int) -> OffloadInfo:
        """Returns how far the lookup of a request is."""
        self._check()
        info = _native.kvc_offload_info()
        with self._lock:
            _native.kvc_offload_query(self._open(), _number(request), info)
        return OffloadInfo.read(info)

    def cancel(self, request: Request | int) -> None:
        """Ends a lookup, if there is one, and gives back its blocks."""
        self._check()
        with self._lock:
            _native.kvc_offload_cancel(self._open(), _number(request))

    def admit(self, request: Request, timeout: Optional[float] = None, *, now_ns: Optional[int] = None, stream: Optional[Stream] = None, max_tokens: int = 0) -> OffloadInfo:
        """Looks a waiting request up, waits until what the tiers have is loaded, admits it, and returns what was found: for programs without a loop
        that polls. timeout: seconds that a load may take; then the request is admitted without it; None = no limit. now_ns, stream: as in poll().
        max_tokens: as in lookup(). Raises what Request.admit() raises; then the request is still waiting. In both cases the lookup has ended."""
        if not isinstance(request, Request):
            raise TypeError(f"request is {type(request).__name__}; it must be a kvcache.Request")
        end = _end_of(timeout)
        try:
            try:
                self.lookup(request, now_ns, max_tokens=max_tokens)
            except (LimitError, OutOfMemoryError):
                pass  # it is admitted as ever
            while True:
                self.poll(now_ns, stream=stream)
                info = self.query(request)
                if info.state in (OffloadState.NONE, OffloadState.READY) or not self._wait(end):
                    break
            request.admit()
        finally:  # the request holds what it has hit; nobody may poll again
            with self._lock:
                if self._o is not None and not self._closing:
                    _native.kvc_offload_cancel(self._o, request.id)
        return info

    def flush(self, timeout: Optional[float] = None, *, now_ns: Optional[int] = None, stream: Optional[Stream] = None) -> bool:
        """Polls until all blocks that wait to be stored are in the tiers, or were dropped: tier_stats() counts these. timeout: seconds; None = no
        limit. now_ns, stream: as in poll(). Returns False if something is left: the timeout ended first, or the content of blocks is still to
        come."""
        end = _end_of(timeout)
        while True:
            self._check()
            begun = time.monotonic_ns()
            most = int(min(max(end - begun / 1e9, 0), _PIECE_SECONDS) * 1e9)  # signals, and other threads, get their turn
            left = self._flush(begun if now_ns is None else now_ns, most, stream)
            if left == 0:
                return True
            if time.monotonic_ns() - begun < most or time.monotonic() >= end:
                return False

    def _finish(self) -> None:
        """Of a Manager that made it: stores what waits, and ends."""
        try:
            if getattr(self, "_o", None) is not None and not self._closing and self._pid == os.getpid():
                self.flush(_LAST_SECONDS)
        finally:  # an interrupt ends the wait
            self.close()

    def _wait(self, end: float) -> bool:
        """Until a tier has done something, but a moment only: copies of a device make nothing readable. False: it is late."""
        left = end - time.monotonic()
        if left > 0:
            poll = select.poll()  # select() knows no descriptor above 1023
            poll.register(self.fileno(), select.POLLIN)
            poll.poll(1)
        return left > 0

    def store_request(self, request: Request | int) -> int:
        """Stores the published blocks of an admitted request, whatever the policy says, and returns how many it has. Call it before you preempt the
        request: a lookup brings them back."""
        self._check()
        with self._lock:
            return _native.kvc_offload_store_request(self._open(), _number(request))

    def stats(self) -> OffloadStats:
        """State, and counters since the offload was made."""
        self._check()
        filled = _native.kvc_offload_stats()
        with self._lock:
            _native.kvc_offload_read_stats(self._open(), filled)
        return OffloadStats.read(filled)

    def tier_stats(self, tier: int = 0) -> OffloadTierStats:
        """Counters of one tier. tier: its index."""
        self._check()
        filled = _native.kvc_offload_tier_stats()
        with self._lock:
            _native.kvc_offload_read_tier_stats(self._open(), tier, filled)
        return OffloadTierStats.read(filled)


def _write_through(manager: Manager, storages: _Storages, tiers: Tier | str | Sequence[Tier | str], model: bytes, weights: bytes, numerics: bytes) -> Offload:
    return Offload(manager, storages, tiers, model, weights, numerics, policy=OffloadPolicy.WRITE_THROUGH)


Manager._write_through = staticmethod(_write_through)


def _end_of(timeout: Optional[float]) -> float:
    if timeout is None:
        return float("inf")
    if not timeout >= 0:
        raise ValueError(f"timeout is {timeout!r}; it must be 0 or more seconds, or None")
    return time.monotonic() + timeout


def _number(request: Any) -> int:
    return request.id if isinstance(request, Request) else request


def _time(now_ns: Optional[int]) -> int:
    return time.monotonic_ns() if now_ns is None else now_ns
