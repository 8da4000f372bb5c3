# SPDX-License-Identifier: Apache-2.0
"""A manager's events on the wire, for routers that know those of vLLM and SGLang. kvcache/publisher.h and docs/EVENTS.md are the manual."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Optional

from . import _native
from ._arrays import np
from .checkpoints import take_manager
from .errors import BufferTooSmallError, NotFoundError
from .records import PublisherStats
from .request import namespace_id

if TYPE_CHECKING:
    from .manager import Manager
    from .request import Namespace

_HASHES = {"digest": _native.KVC_PUBLISHER_DIGEST, "vllm": _native.KVC_PUBLISHER_VLLM, "sglang": _native.KVC_PUBLISHER_SGLANG}


class Publisher:
    """Publishes the events of a manager in batches, in vLLM's schema.

        with kvcache.Publisher(manager, "zmq:tcp://*:5557?replay=tcp://*:5558", thread=True):
            ...                                                       # the engine runs

    The first batch says that everything is cleared, and lists what is cached; so does the first one after events were lost. Applied in order, the
    batches give what can be found in the manager. Any thread may call it.

    manager: with events: Manager(event_capacity=...). url: the transport, a plug-in such as zmq; None = none, read() gives the batches. topic: first
    frame of each message. medium: where the blocks are. hash: what blocks are called: "digest" (Event.digest), "vllm" (sha256_cbor) or "sglang".
    hash_seed: with "vllm", its PYTHONHASHSEED; "" = its default. thread: a thread of its own publishes every interval_ns (0 = 10 ms, at most 1 s);
    else poll() does. arrays: events are arrays, as before vLLM 0.26, not maps. bytes_hashes: hashes are 32 bytes, not integers. rank: data parallel
    rank; None = nil. name_groups: events name their group; without it only one group may be published. groups: their indices; () = all.
    max_blocks: of a batch; 0 = 1024. replay_batches, replay_bytes: batches to keep; 0 = 10,000, and 64 MiB. resync_interval_ns: a subscriber that asks
    for a batch that is gone starts a resync, but none sooner after the last one; 0 = 10 s, 2**64 - 1 = never.

    A Publisher keeps its manager alive. close() publishes what has happened until then. Raises InvalidArgumentError, UnsupportedError (no events, a
    plug-in that is no transport), NotFoundError (the plug-in), BusyError (an address in use), OutOfMemoryError."""

    def __init__(self, manager: Manager, url: Optional[str] = None, *, topic: str = "", medium: str = "GPU", hash: str = "digest", hash_seed: str = "",
                 thread: bool = False, arrays: bool = False, bytes_hashes: bool = False, rank: Optional[int] = 0, name_groups: bool = True,
                 groups: tuple[int, ...] = (), max_blocks: int = 0, interval_ns: int = 0, replay_batches: int = 0, replay_bytes: int = 0,
                 resync_interval_ns: int = 0):
        if hash not in _HASHES:
            raise ValueError(f"hash is {hash!r:.100}; it must be one of {', '.join(map(repr, _HASHES))}")
        flags = (_native.KVC_PUBLISHER_THREAD if thread else 0) | (_native.KVC_PUBLISHER_ARRAYS if arrays else 0)
        flags |= (_native.KVC_PUBLISHER_BYTES if bytes_hashes else 0) | (_native.KVC_PUBLISHER_NO_RANK if rank is None else 0)
        flags |= 0 if name_groups else _native.KVC_PUBLISHER_NO_GROUPS
        mask = 0
        for group in groups:
            if not 0 <= group < 64:
                raise ValueError(f"groups has {group!r:.100}; a group is 0 to 31")
            mask |= 1 << group
        m = take_manager(manager)
        self._pid = os.getpid()
        self._p: Any = _native.kvc_publisher_create(m, "" if url is None else url, topic, medium, hash_seed, mask, interval_ns, replay_bytes, resync_interval_ns, replay_batches,
                                                    max_blocks, 0 if rank is None else rank, _HASHES[hash], flags)
        self._m: Any = m  # which the publisher reads to its end

    def close(self) -> None:
        """Publishes what has happened until now, and ends the publisher. Later calls raise ValueError; closing again does nothing."""
        p, self._p = getattr(self, "_p", None), None
        if p is not None and self._pid != os.getpid():  # its thread is not in this process
            p.disown()
        del p
        self._m = None

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def poll(self) -> int:
        """Publishes the events that the manager has now, and answers requests for replay. Returns the number of batches."""
        return _native.kvc_publisher_poll(self._p)

    def resync(self) -> None:
        """Makes the next look publish that everything is cleared, and all that is cached, for subscribers that join late."""
        _native.kvc_publisher_resync(self._p)

    def read(self, sequence: int = 0) -> Optional[tuple[int, bytes]]:
        """Returns (number, batch) of the first batch that is kept and whose number is not below `sequence`; None if there is none yet. The batch is
        in MessagePack."""
        size = 1 << 16
        while True:
            room = np.empty(size, np.uint8)
            try:
                found, count = _native.kvc_publisher_read(self._p, sequence, room)
                return found, room[:count].tobytes()
            except BufferTooSmallError:
                size *= 4
            except NotFoundError:
                return None

    def name_namespace(self, namespace: Namespace | int, *, lora_name: str = "", lora_path: str = "", cache_salt: str = "") -> None:
        """Says what subscribers know of a namespace, before it has blocks. lora_name: its adapter. lora_path: with hash="vllm", where that was loaded
        from. cache_salt: of its requests. "" = absent."""
        _native.kvc_publisher_name_namespace(self._p, namespace_id(namespace), lora_name, lora_path, cache_salt)

    def stats(self) -> PublisherStats:
        """Counters since the publisher was created."""
        return PublisherStats.of(_native.kvc_publisher_read_stats, self._p)
