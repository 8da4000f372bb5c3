# SPDX-License-Identifier: Apache-2.0
"""Tiers: stores of pages by key, in memory, on a disk or on a server. kvcache/tier.h and kvcache/page.h are the manual of their calls.

    with kvcache.Tier("memory:?bytes=1GiB", page_bytes=info.page_bytes, fingerprint=info.fingerprint) as tier:
        tier.put(keys, pages)                                     # keys: uint8 [n, 32], pages: uint8 [n, page_bytes]
        done = tier.get(keys, pages)
        found = done.results == kvcache.PageResult.OK
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from . import _native
from ._arrays import np, take_path, whole
from ._docs import described
from ._tier_jobs import Completion, Job, lease_of, make_items, nanoseconds, shown_url, take_digest, take_keys
from ._tier_waiting import FutureWaiter, Ready, Signal, Waiter, Watch
from .constants import PageResult, TierKind, TierPriority
from .errors import BusyError, KvCacheError, NotFoundError, UnsupportedError
from .records import PageFileInfo, TierCounts, TierStats

if TYPE_CHECKING:
    import asyncio

    import numpy

    Array = numpy.ndarray

__all__ = ["Completion", "PageInfo", "PageResult", "Tier", "TierCounts", "TierKind", "TierPriority", "TierStats", "open_plugin", "page_file_info", "page_file_parts", "page_key", "page_keys", "purge_page_file"]


@described
class PageInfo(NamedTuple):
    """Properties of the pages of a Storage.

    fingerprint: 32 bytes, for page_key() and Tier().
    page_bytes: bytes of a whole page.
    part_bytes: bytes of the storage's part of a page.
    """

    fingerprint: bytes
    page_bytes: int
    part_bytes: int


def page_keys(digests: Any, group: int, fingerprint: bytes) -> Array:
    """Returns the keys of pages, uint8 [n, 32]. digests: uint8 [n, 32] of prefix positions, from Manager.position_digests(), or a list of bytes.
    group: index of the group. fingerprint: from Storage.page_info()."""
    digests = take_keys("digests", digests)
    keys = np.empty((len(digests), 32), np.uint8)
    _native.kvc_page_key(digests.reshape(-1), group, take_digest("fingerprint", fingerprint), keys.reshape(-1))
    return keys


def page_key(digest: bytes, group: int, fingerprint: bytes) -> bytes:
    """Returns the key of one page: see page_keys()."""
    return page_keys([digest], group, fingerprint).tobytes()


def open_plugin(name: str, path: Optional[str] = None) -> None:
    """Opens a plug-in, before a Tier names it: from a file of your choice, or to see whether it is there. An open plug-in stays open. name:
    lower-case letters and digits, at most 15. path: its file, or the only folder to search; None = the folders of the variable KVC_PLUGIN_PATH,
    then the folder of the library. Raises NotFoundError, whose text lists what was searched, UnsupportedError (another version), BusyError (open
    from another path)."""
    _native.kvc_plugin_open(name, path)


def page_file_info(path: str | os.PathLike[str], validate: bool = False) -> PageFileInfo:
    """Returns what a file of a tier has: a slab, or a page of a folder. validate: read and check all pages too. While a tier has a slab open, what
    it is just writing may be counted as bad. Raises NotFoundError, UnsupportedError (neither a slab nor a page, or of a newer format),
    CorruptError (the file's own header does not check)."""
    return PageFileInfo.of(_native.kvc_page_file_read_info, take_path("path", path), bool(validate))


def page_file_parts(path: str | os.PathLike[str], validate: bool = False) -> list[PageFileInfo]:
    """Returns the same for each fingerprint that the pages of the file have, in ascending order of its bytes. bad_headers is 0: bad headers have none."""
    where, info = take_path("path", path), _native.kvc_page_file_info()
    out: list[PageFileInfo] = []
    while True:
        try:
            _native.kvc_page_file_read_part(where, len(out), bool(validate), info)
        except NotFoundError:
            if not out:
                page_file_info(where)  # no file, or no pages
            return out
        out.append(PageFileInfo.read(info))


def purge_page_file(path: str | os.PathLike[str], fingerprint: bytes) -> PageFileInfo:
    """Removes the pages of a fingerprint from a slab that no tier has open, and returns what has gone: num_pages and stored_bytes. The file keeps
    its size. Raises BusyError (a process uses the slab), NotFoundError, UnsupportedError (not a slab), CorruptError."""
    return PageFileInfo.of(_native.kvc_page_file_purge, take_path("path", path), take_digest("fingerprint", fingerprint))


class Tier:
    """A store of pages by key, behind a queue of jobs. Any thread may use it.

    url: "memory:?bytes=64GiB", "slab:/path/of/file?bytes=1TiB", "dir:/path/of/folder?bytes=1TiB", or "NAME:..." of a plug-in. Parameters: threads
    (0 = wait(), drain() and run_one() do the work), jobs (at one time), and those of kvcache/tier.h. page_bytes: of the largest page. fingerprint:
    32 bytes, of all pages: PageInfo.fingerprint; pages of another one are misses; not 32 zero bytes, but with sizes:. max_store_bytes: bytes of puts that wait; 0 = 1 GiB; puts
    beyond are refused.

    A job is a batch of pages. submit_get() and so on enqueue it and return its id at once. Its end is a Completion, which poll() returns to
    whoever comes first; wait(), get(), aget() and so on return it to their caller alone. Until then the buffers of a get are undefined, and those
    of a put must not change. The tier keeps buffers alive itself, so the caller may drop them.

    keys: uint8 [n, 32], as many bytes, or a list of bytes. buffers: one array [n, ...] with a contiguous row for each page, which is fastest, or a
    list with a buffer for each page; NumPy arrays, memoryviews, bytearrays, tensors of PyTorch in host memory. A page has the bytes of its buffer,
    and a get of a page of another size is a MISS. timeout: seconds; pages that are not begun within it end with TIMEOUT; None = no limit.
    priority: a TierPriority. now_ns: time of the caller, for leases; None = time.monotonic_ns(). user_data: any object, returned in the
    Completion.

    A Tier belongs to the process that opened it. close() cancels what waits, waits for what runs, and drops what was not polled; a Tier that is no
    longer used closes itself. Raises InvalidArgumentError (the URL), NotFoundError and UnsupportedError (a plug-in), BusyError (another process
    has the file), LimitError (the disk is full), OutOfMemoryError, DeviceError."""

    _BATCH = 64  # completions that are taken in one call

    def __init__(self, url: str, page_bytes: int, fingerprint: bytes = bytes(32), *, max_store_bytes: int = 0):
        self._pid = os.getpid()
        self._lock = threading.RLock()  # all below; calls of the library are made with it, except those that wait
        self._idle = threading.Condition(self._lock)
        self._jobs: dict[int, Job] = {}
        self._ended: dict[int, Completion] = {}  # that poll() has not returned
        self._next, self._users, self._closing, self._lent = 1, 0, False, False
        self._leader: Optional[Waiter] = None  # waits for the library on behalf of all threads
        self._wake: Optional[Signal] = None  # the leader
        self._ready: Optional[Ready] = None
        self._watches: dict[Any, Watch] = {}
        self._t: Any = _native.kvc_tier_create(url, take_digest("fingerprint", fingerprint), page_bytes, max_store_bytes)
        self._url, self._page_bytes = str(url), whole(page_bytes)
        try:
            _native.kvc_tier_run_one(self._t)
            self._has_threads = False
        except UnsupportedError:
            self._has_threads = True

    def close(self) -> None:
        """Cancels what waits, waits for what runs, and closes the tier. Later calls raise ValueError; closing again does nothing."""
        if getattr(self, "_t", None) is None:
            return
        if self._pid != os.getpid():  # the threads of the tier are not in this process
            self._t.disown()
            self._t = None
            return
        with self._lock:
            if self._t is None:  # another thread closes it
                return
            self._closing = True
            for job in self._jobs.values():
                self._cancel(job)
                if job.waiter is not None:
                    job.waiter.fail()
            if self._leader is not None and self._wake is not None:
                self._wake.set(True)
            self._idle.notify_all()
            while self._users:  # after an interrupt here, close() may be called again
                self._idle.wait()
            t, self._t = self._t, None
        if t is None:  # another thread was faster
            return
        del t  # waits for what runs
        with self._lock:
            jobs, self._jobs = self._jobs, {}  # whose buffers are dropped after that
            ended, self._ended = self._ended, {}
            for opened in (self._wake, self._ready):
                if opened is not None:
                    opened.close()
            self._wake = self._ready = None
        del jobs, ended

    __del__ = close

    def __enter__(self) -> Tier:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Tier cannot be pickled; it belongs to its process: open its URL in the other one")

    def __repr__(self) -> str:
        if getattr(self, "_t", None) is None:
            return "<kvcache.Tier, closed>"
        return f"<kvcache.Tier: {shown_url(self._url)!r}, pages of {self._page_bytes} bytes, {len(self._jobs)} jobs>"

    @property
    def url(self) -> str:
        """URL of the tier, as given."""
        return self._url

    @property
    def page_bytes(self) -> int:
        """Bytes of the largest page, as given."""
        return self._page_bytes

    # ---- jobs

    def submit_get(self, keys: Any, buffers: Any, *, timeout: Optional[float] = None, priority: TierPriority = TierPriority.LOAD, runs: Any = None,
                   generations: Any = None, page_bytes: Optional[int] = None, now_ns: Optional[int] = None, user_data: Any = None) -> int:
        """Enqueues reads of pages into writable buffers, and returns the id of the job. A result is OK only if key, fingerprint and checksum of
        what was read are right; otherwise the buffer is undefined.

        runs: uint64 [n, 2] of (offset, bytes), ascending, as Storage.page_runs(): only these bytes of each page, one behind the other; None = all.
        page_bytes: bytes of the whole page; None = those of the buffer, or with runs those of the tier. generations: uint64 [n], Completion.generations
        of a lease: EXPIRED if the page is another one now. Raises LimitError (the queue has no room); then nothing is enqueued."""
        return self._submit(None, TierKind.GET, keys, buffers, timeout, priority, 0, now_ns, user_data, runs, generations, page_bytes).number

    def submit_put(self, keys: Any, buffers: Any, *, timeout: Optional[float] = None, priority: TierPriority = TierPriority.STORE,
                   now_ns: Optional[int] = None, user_data: Any = None) -> int:
        """Enqueues writes of pages, and returns the id of the job. Raises LimitError (the queue, or max_store_bytes)."""
        return self._submit(None, TierKind.PUT, keys, buffers, timeout, priority, 0, now_ns, user_data).number

    def submit_exists(self, keys: Any, *, lease: float = 0.0, timeout: Optional[float] = None, priority: TierPriority = TierPriority.LOAD,
                      now_ns: Optional[int] = None, user_data: Any = None) -> int:
        """Enqueues the question which pages are there, and returns the id of the job. lease: seconds that the pages found should stay at least, as
        far as Completion.lease_until says."""
        return self._submit(None, TierKind.EXISTS, keys, None, timeout, priority, lease_of(lease), now_ns, user_data).number

    def submit_remove(self, keys: Any, *, timeout: Optional[float] = None, priority: TierPriority = TierPriority.STORE, now_ns: Optional[int] = None,
                      user_data: Any = None) -> int:
        """Enqueues the removal of pages, and returns the id of the job."""
        return self._submit(None, TierKind.REMOVE, keys, None, timeout, priority, 0, now_ns, user_data).number

    def poll(self) -> list[Completion]:
        """Takes the jobs that have ended, of any thread, oldest first, but not those that someone waits for at the moment, and ends pages whose time is
        over. Either poll, or wait() for each job that you submit: a job whose Completion was polled cannot be waited for."""
        self._check()
        with self._lock:
            self._open()
            taken = self._take()
            ended = list(self._ended.values())
            self._ended.clear()
            if self._ready is not None:
                self._ready.taken.set(False)
        del taken
        return ended

    def fileno(self) -> int:
        """A descriptor that is readable as long as poll() has something to return, for select() and loop.add_reader(); and for a moment when a job ends
        that someone waits for. It is the tier's: do not read or close it. Who waits for it calls poll() at the end of a timeout too."""
        self._check()
        with self._lock:
            self._open()
            if self._ready is None:
                self._ready = Ready(_native.kvc_tier_event_fd(self._t))
                self._ready.taken.set(bool(self._ended))
            return self._ready.epoll.fileno()

    def wait(self, job: int, timeout: Optional[float] = None) -> Completion:
        """Waits for one job, at most `timeout` seconds, and returns its Completion. Raises TimeoutError, and the job goes on; NotFoundError, if there
        is no such job, or its Completion was returned before; BusyError, if another thread waits for it."""
        self._check()
        timeout_ns = nanoseconds("timeout", timeout)
        until = time.monotonic() + timeout_ns * 1e-9 if timeout_ns else None
        number = whole(job)
        with self._lock:
            self._open()
            if number in self._ended:
                return self._pick(number)
            found = self._jobs.get(number)
            if found is None:
                raise NotFoundError(f"there is no job {number} of this tier, or its Completion was returned before")
            if found.waiter is not None:
                raise BusyError(f"job {number} is waited for by someone else")
            waiter = found.waiter = Waiter()
            return self._await(found, waiter, until)

    def cancel(self, job: int) -> bool:
        """Cancels the pages of a job that are not begun. The job still ends with a Completion. Returns False if there is no such job, or nothing of
        it waits."""
        self._check()
        number = whole(job)
        with self._lock:
            self._open()
            found = self._jobs.get(number)
            return found is not None and self._cancel(found)

    def drain(self) -> None:
        """Waits until no job waits or runs. What has ended is there to poll()."""
        self._call(_native.kvc_tier_drain)

    def run_one(self) -> bool:
        """With threads=0: does the next page, or batch of pages, in the calling thread. Returns False if nothing waits. Raises UnsupportedError if
        the tier has threads."""
        return bool(self._call(_native.kvc_tier_run_one))

    # ---- one call for a job

    def get(self, keys: Any, buffers: Any, *, timeout: Optional[float] = None, priority: TierPriority = TierPriority.LOAD, runs: Any = None,
            generations: Any = None, page_bytes: Optional[int] = None, now_ns: Optional[int] = None) -> Completion:
        """Reads pages, and waits for the end. Parameters as for submit_get()."""
        return self._wait_new(TierKind.GET, keys, buffers, timeout, priority, 0, now_ns, None, runs, generations, page_bytes)

    def put(self, keys: Any, buffers: Any, *, timeout: Optional[float] = None, priority: TierPriority = TierPriority.STORE,
            now_ns: Optional[int] = None) -> Completion:
        """Writes pages, and waits for the end. Parameters as for submit_put()."""
        return self._wait_new(TierKind.PUT, keys, buffers, timeout, priority, 0, now_ns)

    def exists(self, keys: Any, *, lease: float = 0.0, timeout: Optional[float] = None, priority: TierPriority = TierPriority.LOAD,
               now_ns: Optional[int] = None) -> Completion:
        """Asks which pages are there, and waits for the answer. Parameters as for submit_exists()."""
        return self._wait_new(TierKind.EXISTS, keys, None, timeout, priority, lease_of(lease), now_ns)

    def remove(self, keys: Any, *, timeout: Optional[float] = None, priority: TierPriority = TierPriority.STORE,
               now_ns: Optional[int] = None) -> Completion:
        """Forgets pages, and waits for the end. Parameters as for submit_remove()."""
        return self._wait_new(TierKind.REMOVE, keys, None, timeout, priority, 0, now_ns)

    async def aget(self, keys: Any, buffers: Any, *, timeout: Optional[float] = None, priority: TierPriority = TierPriority.LOAD, runs: Any = None,
                   generations: Any = None, page_bytes: Optional[int] = None, now_ns: Optional[int] = None) -> Completion:
        """get() for asyncio. Other tasks run meanwhile. If the task is cancelled, so are the pages that are not begun; the buffers are then used
        until the tier is done with them."""
        return await self._await_new(TierKind.GET, keys, buffers, timeout, priority, 0, now_ns, None, runs, generations, page_bytes)

    async def aput(self, keys: Any, buffers: Any, *, timeout: Optional[float] = None, priority: TierPriority = TierPriority.STORE,
                   now_ns: Optional[int] = None) -> Completion:
        """put() for asyncio."""
        return await self._await_new(TierKind.PUT, keys, buffers, timeout, priority, 0, now_ns)

    async def aexists(self, keys: Any, *, lease: float = 0.0, timeout: Optional[float] = None, priority: TierPriority = TierPriority.LOAD,
                      now_ns: Optional[int] = None) -> Completion:
        """exists() for asyncio."""
        return await self._await_new(TierKind.EXISTS, keys, None, timeout, priority, lease_of(lease), now_ns)

    async def aremove(self, keys: Any, *, timeout: Optional[float] = None, priority: TierPriority = TierPriority.STORE,
                      now_ns: Optional[int] = None) -> Completion:
        """remove() for asyncio."""
        return await self._await_new(TierKind.REMOVE, keys, None, timeout, priority, 0, now_ns)

    # ---- counters

    def stats(self) -> TierStats:
        """State, and counters since the tier was opened."""
        self._check()
        filled = _native.kvc_tier_stats()
        with self._lock:
            self._open(True)
            _native.kvc_tier_read_stats(self._t, filled)
        return TierStats.read(filled)

    def counts(self, kind: TierKind) -> TierCounts:
        """Counters of the jobs of one kind, a TierKind."""
        self._check()
        filled = _native.kvc_tier_counts()
        with self._lock:
            self._open(True)
            _native.kvc_tier_read_counts(self._t, kind, filled)
        return TierCounts.read(filled)

    # ---- inner workings. Those without a remark are called with the lock.

    def _check(self) -> None:
        """Without the lock, which may be held for ever in a forked process."""
        if self._pid != os.getpid():
            raise ValueError(f"the tier was opened in process {self._pid}, of which this is a fork: open it after the fork")

    def _open(self, lent: bool = False) -> Any:
        if self._closing or self._t is None:
            raise ValueError("the tier is closed")
        if self._lent and not lent:
            raise BusyError("the tier is an Offload's, which polls it; it has jobs of its own again when that is closed")
        return self._t

    def _lend(self) -> Any:
        """Without the lock. Gives the tier to an Offload, until _give_back()."""
        self._check()
        with self._lock:
            t = self._open()
            if self._jobs or self._ended or self._users:
                raise BusyError(f"the tier has {len(self._jobs) + len(self._ended)} jobs of its own: wait for them and poll() before an Offload has it")
            self._lent = True
            return t

    def _give_back(self) -> None:
        with self._lock:
            self._lent = False

    def _submit(self, waiter: Optional[Waiter], kind: TierKind, keys: Any, buffers: Any, timeout: Optional[float], priority: int, lease_ns: int,
                now_ns: Optional[int], user_data: Any = None, runs: Any = None, generations: Any = None, page_bytes: Optional[int] = None) -> Job:
        """Without the lock."""
        self._check()
        moves = kind in (TierKind.GET, TierKind.PUT)
        items, kept = make_items(keys, buffers, kind == TierKind.GET, moves, runs, generations, page_bytes, self._page_bytes)
        timeout_ns = nanoseconds("timeout", timeout)
        now = time.monotonic_ns() if now_ns is None else now_ns
        with self._lock:
            t = self._open()
            job = Job(self._next, items, kept, None, user_data, waiter)
            self._next += 1
            self._jobs[job.number] = job  # before the library has it: an interrupt may come right after the call
            try:
                job.native = _native.kvc_tier_submit(t, items, kind, priority, now, lease_ns, timeout_ns, job.number)
            except (KvCacheError, TypeError, ValueError, OverflowError):  # nothing was enqueued
                del self._jobs[job.number]
                raise
            finally:
                del t
            if timeout_ns:  # a little later than the library's
                job.deadline = time.monotonic() + timeout_ns * 1e-9 + 0.001
        return job

    def _cancel(self, job: Job) -> bool:
        try:
            if job.native is not None:
                _native.kvc_tier_cancel(self._t, job.native)
                return True
        except NotFoundError:
            pass
        return False

    def _take(self) -> list[Job]:
        """Takes what the library has ended, and gives it to those who wait. Returns the jobs, to be dropped without the lock: freeing a buffer may
        run code."""
        taken: list[Job] = []
        room = np.zeros((self._BATCH, 3), np.uint64)
        try:
            while True:
                count = _native.kvc_tier_poll(self._t, room)
                self._hand_out(room[:count], taken)
                if count < self._BATCH:
                    break
        except BaseException:  # an interrupt, perhaps right after the call: what the library has given is handed out all the same
            self._hand_out(room, taken)
            raise
        finally:
            if taken:
                self._idle.notify_all()
                if self._leader is not None and self._leader.completion is not None and self._wake is not None:
                    self._wake.set(True)
                if self._ready is not None:
                    self._ready.taken.set(bool(self._ended))
        return taken

    def _hand_out(self, rows: Any, taken: list[Job]) -> None:
        """May be done again, with rows of before, which have no job any more."""
        for _, number, num_ok in rows.tolist():
            job = self._jobs.get(number)
            if job is None:
                continue
            taken.append(job)
            completion = job.completion(num_ok)
            if job.waiter is None:
                self._ended[number] = completion
            else:
                job.waiter.deliver(completion)
            del self._jobs[number]

    def _pick(self, number: int) -> Completion:
        completion = self._ended.pop(number)
        if self._ready is not None:
            self._ready.taken.set(bool(self._ended))
        return completion

    def _await(self, job: Job, waiter: Waiter, until: Optional[float]) -> Completion:
        """Waits until the job has ended. If it does not, the job is without a waiter again."""
        taken: list[Job] = []
        self._users += 1
        try:
            while waiter.completion is None:
                self._open()
                if until is not None and time.monotonic() >= until:
                    taken += self._take()
                    if waiter.completion is not None:
                        break
                    raise TimeoutError(f"job {job.number} has not ended yet; it goes on")
                if self._has_threads:
                    self._sleep(waiter, min((time for time in (until, job.deadline) if time is not None), default=None))
                else:
                    _native.kvc_tier_run_one(self._t)
                if job.deadline is not None and time.monotonic() >= job.deadline:
                    job.deadline = None  # this take ends what is not begun; what runs may take longer
                taken += self._take()
            return waiter.completion
        except BaseException:
            job.waiter = None
            if waiter.completion is not None and not self._closing:
                self._ended[job.number] = waiter.completion
            raise
        finally:
            self._users -= 1
            self._idle.notify_all()

    def _sleep(self, waiter: Waiter, until: Optional[float]) -> None:
        """Sleeps until something may have ended. One of the waiting threads waits for the library, the others for it."""
        left = None if until is None else max(0.0, until - time.monotonic())
        if self._leader is not None:
            self._idle.wait(left)
            return
        if self._wake is None:
            self._wake = Signal()
        poller = select.poll()
        poller.register(_native.kvc_tier_event_fd(self._t), select.POLLIN)
        poller.register(self._wake.reader, select.POLLIN)
        self._leader = waiter
        self._lock.release()
        try:
            poller.poll(None if left is None else int(left * 1000) + 1)
        finally:
            self._lock.acquire()
            self._leader = None
            self._wake.set(False)
            self._idle.notify_all()

    def _call(self, function: Any) -> Any:
        """A call that may take long, without the lock. The tier lives until it returns."""
        self._check()
        with self._lock:
            self._open()
            self._users += 1
        try:
            return function(self._t)
        finally:
            with self._lock:
                self._users -= 1
                self._idle.notify_all()

    def _wait_new(self, *arguments: Any) -> Completion:
        """Without the lock. Submits a job and waits for it; on an interrupt the job is cancelled and forgotten."""
        waiter = Waiter()
        job = self._submit(waiter, *arguments)
        with self._lock:
            try:
                return self._await(job, waiter, None)
            except BaseException:
                self._ended.pop(job.number, None)
                job.waiter = Waiter()
                if not self._closing:
                    self._cancel(job)
                raise

    async def _await_new(self, *arguments: Any) -> Completion:
        """Without the lock."""
        import asyncio

        self._check()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Completion] = loop.create_future()
        with self._lock:
            self._open()
            watch = self._watches.get(loop)
            if watch is None or not watch.is_open():
                for other in list(self._watches.values()):
                    if not other.is_open():  # its loop was closed
                        other.close()
                watch = Watch(loop, _native.kvc_tier_event_fd(self._t), self._take_there, self._watches)
            watch.enter()
            try:
                job = self._submit(FutureWaiter(watch, future), *arguments)
            except BaseException:
                watch.leave()
                raise
        if not self._has_threads:
            self.drain()
            self._take_there()
        timer = None if job.deadline is None else loop.call_at(loop.time() + job.deadline - time.monotonic(), self._take_there)
        try:
            return await future
        except asyncio.CancelledError:
            with contextlib.suppress(ValueError):  # closed
                self.cancel(job.number)
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def _take_there(self) -> None:
        """Without the lock, in an event loop."""
        taken = None
        with self._lock:
            if not self._closing and not self._lent and self._t is not None:
                taken = self._take()
        del taken
