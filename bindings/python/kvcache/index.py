# SPDX-License-Identifier: Apache-2.0
"""The index of a router: which worker has how much of a prompt cached. kvcache/index.h is the manual, docs/INDEX.md says how a router uses it.
All times are the caller's: nothing here reads a clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, NamedTuple, Optional

from . import _native
from ._arrays import as_bytes, grown, np
from ._docs import described
from ._tier_jobs import take_digest, take_keys
from .events import Event, _room
from .records import IndexApplied, IndexStats

if TYPE_CHECKING:
    import numpy

    from .request import Tokens

_ALL_MEDIA, _MAX_MEDIA = 2**32 - 1, _native.KVC_INDEX_MAX_MEDIA


@described
class Matches(NamedTuple):
    """What a prompt finds: a row for each worker that has its first block, in no particular order.

    workers: uint64 [n] numbers of the workers.
    blocks: uint32 [n, 1 + media] their blocks from the first one to the first gap: in any medium, then in each medium alone.
    """

    workers: numpy.ndarray
    blocks: numpy.ndarray


@described
class IndexWorker(NamedTuple):
    """A worker of an Index.

    name: as given.
    last_heard_ns: latest now_ns of its calls.
    num_blocks: blocks of each medium.
    next_sequence: first event that is missing, of each medium.
    is_stale: whether events are missing before the newest one, of each medium.
    """

    name: str
    last_heard_ns: int
    num_blocks: tuple[int, ...]
    next_sequence: tuple[int, ...]
    is_stale: tuple[bool, ...]


def namespace_root(model: Optional[bytes] = None, adapter: Optional[bytes] = None, tenant: Optional[bytes] = None) -> bytes:
    """Returns the identity of a namespace, 32 bytes, for Index.match_tokens() and prefix_digests(): as Manager.namespace(), without a manager."""
    root = np.empty(32, np.uint8)
    _native.kvc_index_root(model, adapter, tenant, root)
    return root.tobytes()


def prefix_digests(tokens: Tokens, block_size: int = 16, root: Optional[bytes] = None) -> numpy.ndarray:
    """Returns uint8 [full blocks, 32]: what Manager.position_digests() gives for a prompt without extra keys, without a manager. root: from
    namespace_root(); None = the default namespace."""
    own = None if root is None else np.frombuffer(take_digest("root", root), np.uint8)
    return grown(lambda room: _native.kvc_index_digests(own, tokens, block_size, room.reshape(-1)), np.uint8, 64, 32)


class Index:
    """Which worker has how much of a prompt cached. Any thread may use it; matches never wait for other calls.

    max_blocks: blocks at a time; a block counts once, however many workers have it; 0 = 2**20. Then blocks leave that nobody has matched for the
    longest time. max_workers: up to 1024; 0 = 256. num_media: kinds of memory of a worker, up to 8; 0 = 4. max_namespaces: with blocks, of all
    workers together; 0 = 16 * max_workers. group: the group whose events count. ttl_ns: expire() removes workers that are silent for longer; 0 =
    none. hide_stale: matches leave out workers of which events are missing."""

    def __init__(self, *, max_blocks: int = 0, max_workers: int = 0, num_media: int = 0, max_namespaces: int = 0, group: int = 0, ttl_ns: int = 0,
                 hide_stale: bool = False):
        config = _native.kvc_index_config()
        config.max_blocks, config.max_workers, config.num_media, config.max_namespaces = max_blocks, max_workers, num_media, max_namespaces
        config.group, config.ttl_ns, config.flags = group, ttl_ns, _native.KVC_INDEX_HIDE_STALE if hide_stale else 0
        self._i: Any = _native.kvc_index_create(config)
        self._max_workers, self._num_media = max_workers or 256, num_media or 4

    def add_worker(self, worker: int, name: Optional[str] = None, now_ns: int = 0) -> None:
        """Adds a worker, whose streams begin at sequence 0. name: at most 63 bytes. Raises BusyError if the index has it, LimitError."""
        _native.kvc_index_add_worker(self._i, worker, "" if name is None else name, now_ns)

    def remove_worker(self, worker: int) -> None:
        """Removes a worker and forgets what it has."""
        _native.kvc_index_remove_worker(self._i, worker)

    def touch_worker(self, worker: int, now_ns: int) -> None:
        """Says that a worker lives. apply() says it too."""
        _native.kvc_index_touch_worker(self._i, worker, now_ns)

    def expire(self, now_ns: int) -> int:
        """Removes the workers that were silent for more than ttl_ns before now_ns. Returns their number."""
        return _native.kvc_index_expire(self._i, now_ns)

    def apply(self, worker: int, events: numpy.ndarray | Iterable[Event], medium: int = 0, now_ns: int = 0) -> IndexApplied:
        """Applies events of one medium of a worker: the array of EventReader.poll(), or any number of Event."""
        if not isinstance(events, np.ndarray):
            try:
                given = tuple(events)
            except NotImplementedError:  # memory of another kind
                given = (None,)
            if not all(isinstance(event, Event) for event in given):
                raise TypeError("events are other objects than Event; give the array of EventReader.poll(), or objects of Event")
            events = _room(len(given))[0]
            for record, event in zip(events, given):
                for field in record.dtype.names:
                    record[field] = getattr(event, field)
        kind = _room(0)[0].dtype
        if events.dtype != kind:
            raise TypeError(f"events are an array of {events.dtype.name}; give the array of EventReader.poll(), or objects of Event")
        records = np.ascontiguousarray(events)
        if records.ctypes.data % 8 != 0:  # a view of bytes; C reads numbers of 8 bytes
            records = records.copy()
        return IndexApplied.of(_native.kvc_index_apply, self._i, worker, medium, as_bytes(records), now_ns)

    def begin_resync(self, worker: int, medium: Optional[int] = None) -> None:
        """Forgets what a worker has in a medium (None = in all). Then apply all events of Manager.prefixes(), and call end_resync()."""
        _native.kvc_index_begin_resync(self._i, worker, _ALL_MEDIA if medium is None else medium)

    def end_resync(self, worker: int, next_sequence: int, medium: Optional[int] = None) -> None:
        """Ends a resync. next_sequence: the event_cursor of Manager.prefixes(). Raises BusyError if none has begun."""
        _native.kvc_index_end_resync(self._i, worker, _ALL_MEDIA if medium is None else medium, next_sequence)

    def match(self, digests: Any) -> Matches:
        """Returns how many blocks of a prompt each worker has. digests: uint8 [blocks, 32] of Manager.position_digests() or prefix_digests(), or a
        list of bytes."""
        workers, blocks = self._rows()
        count = _native.kvc_index_match(self._i, take_keys("digests", digests).reshape(-1), workers, as_bytes(blocks))
        return Matches(workers[:count].copy(), blocks[:count].copy())

    def match_tokens(self, tokens: Tokens, block_size: int = 16, root: Optional[bytes] = None) -> Matches:
        """The same from the tokens of a prompt without extra keys. block_size: of the workers. root: from namespace_root(); None = the default
        namespace."""
        own = None if root is None else np.frombuffer(take_digest("root", root), np.uint8)
        workers, blocks = self._rows()
        count = _native.kvc_index_match_tokens(self._i, own, tokens, block_size, workers, as_bytes(blocks))
        return Matches(workers[:count].copy(), blocks[:count].copy())

    def workers(self) -> list[int]:
        """Returns the numbers of all workers."""
        room = np.empty(self._max_workers, np.uint64)
        ids: list[int] = room[: _native.kvc_index_list_workers(self._i, room)].tolist()
        return ids

    def worker(self, worker: int) -> IndexWorker:
        """Describes a worker. Raises NotFoundError."""
        name, numbers = np.zeros(64, np.uint8), np.empty(1 + 3 * _MAX_MEDIA, np.uint64)
        _native.kvc_index_worker_info(self._i, worker, name, numbers)
        heard, *rest = numbers.tolist()
        blocks, following, stale = (rest[i * _MAX_MEDIA: i * _MAX_MEDIA + self._num_media] for i in range(3))
        return IndexWorker(name.tobytes().rstrip(b"\0").decode(errors="replace"), heard, tuple(blocks), tuple(following), tuple(map(bool, stale)))

    @property
    def stats(self) -> IndexStats:
        """The counters."""
        return IndexStats.of(_native.kvc_index_read_stats, self._i)

    def dump(self) -> bytes:
        """Returns the workers, their streams and all blocks, for load()."""
        return grown(lambda room: _native.kvc_index_dump(self._i, room), np.uint8, 65536).tobytes()

    def load(self, dump: bytes) -> None:
        """Loads a dump into an index without workers, with the same num_media and group. Raises BusyError, InvalidArgumentError (no dump, or
        damaged), UnsupportedError (another version), LimitError (no room)."""
        _native.kvc_index_load(self._i, np.frombuffer(dump, np.uint8))

    def _rows(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        return np.empty(self._max_workers, np.uint64), np.empty((self._max_workers, 1 + self._num_media), np.uint32)
