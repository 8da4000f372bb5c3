# SPDX-License-Identifier: Apache-2.0
"""Events: changes of what can be found, for routers and other caches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, Optional

from . import _native
from ._arrays import np
from .constants import EventKind
from .request import Owner

if TYPE_CHECKING:
    import numpy

_NUMBERS = [
    ("sequence", "<u8"), ("time_ns", "<u8"), ("epoch", "<u8"), ("namespace_id", "<u8"), ("node", "<u8"), ("parent_node", "<u8"),
    ("token_offset", "<u8"), ("kind", "<u4"), ("group", "<u4"), ("num_tokens", "<u4"), ("block", "<i4"),
]
_DIGESTS = [("digest", "V32"), ("parent_digest", "V32"), ("extra_digest", "V32")]


def _room(batch: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    return np.zeros(batch, np.dtype([*_NUMBERS, *_DIGESTS])), np.empty(batch * 1024, np.int32)  # of the largest blocks


def _events(records: numpy.ndarray, tokens: numpy.ndarray) -> Iterator[Event]:
    first = 0
    for record in records:
        last = first + int(record["num_tokens"])
        yield Event(record, tokens[first:last].copy())
        first = last


class Event:
    """A change of what can be found: a block of a prefix was published or dropped, or a namespace was cleared."""

    __slots__ = {
        "sequence": "Number of the event in its manager: 0, 1, 2, ...",
        "time_ns": "Wall clock of the call, nanoseconds since 1970.",
        "epoch": "Epoch of the namespace, which grows with each reset.",
        "namespace_id": "Id of the namespace; 0 = the default one. ALL_CLEARED: ALL_NAMESPACES.",
        "node": "Number of the prefix position, never used again; 0 if all is cleared.",
        "parent_node": "Number of the position before it; 0 = there is none.",
        "token_offset": "Position of the first of `tokens` in the prompt.",
        "kind": "EventKind: STORED, REMOVED, NAMESPACE_CLEARED or ALL_CLEARED.",
        "group": "Index of the group in which the block was stored or removed.",
        "num_tokens": "Number of `tokens`: block_size; 0 if all is cleared.",
        "block": "Block id; for REMOVED the block that held it; -1 if all is cleared, and for a position without a block that leads to others.",
        "digest": "32 bytes: identity of all tokens up to the end of the block.",
        "parent_digest": "The digest of the position before it.",
        "extra_digest": "32 bytes: SHA-256 over the extra keys in the block; zeros if there are none.",
        "tokens": "int32 [num_tokens]: the tokens of the block.",
    }
    sequence: int
    time_ns: int
    epoch: int
    namespace_id: int
    node: int
    parent_node: int
    token_offset: int
    kind: EventKind
    group: int
    num_tokens: int
    block: int
    digest: bytes
    parent_digest: bytes
    extra_digest: bytes
    tokens: numpy.ndarray

    def __init__(self, record: Any, tokens: numpy.ndarray):
        for name, value in zip(record.dtype.names, record.item()):
            setattr(self, name, value)
        self.kind = EventKind(self.kind)
        self.tokens = tokens

    def __repr__(self) -> str:
        return f"<kvcache.Event {self.sequence} {self.kind.name} block {self.block} tokens {self.token_offset}+{self.num_tokens}>"


class Prefixes:
    """Iterates once over what can be found: an Event of the kind STORED for each prefix position and group, in no particular order. Other
    calls may change the state meanwhile: iterate to the end, then apply the events from `event_cursor` on. That is the present state."""

    def __init__(self, manager: Owner, batch: int = 256):
        self._manager = manager
        self._batch = batch
        self._event_cursor: Optional[int] = None

    @property
    def event_cursor(self) -> int:
        """Where Manager.events() goes on from. Raises ValueError before the iteration has begun, as the cursor is of that moment."""
        if self._event_cursor is None:
            raise ValueError("event_cursor is not known before the iteration has begun; iterate first, then pass it to Manager.events()")
        return self._event_cursor

    def __iter__(self) -> Iterator[Event]:
        events, tokens = _room(self._batch)
        cursor = None
        while cursor != 0:
            begin = cursor is None
            cursor, event_cursor, count = _native.kvc_manager_list_prefixes(self._manager._m, cursor or 0, events, tokens)
            if begin:
                self._event_cursor = event_cursor
            yield from _events(events[:count].copy(), tokens)


class EventReader:
    """Iterates over the events from `cursor` to the last one so far. Iterate again to read the events since then. Any number of
    readers may read the same events. `lost` counts events that were overwritten before they were read; when it grows, read the
    state anew: Manager.prefixes()."""

    def __init__(self, manager: Owner, cursor: int = 0, batch: int = 256):
        self._manager = manager
        self._events, self._tokens = _room(batch)
        self.cursor = cursor
        self.lost = 0

    def poll(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Returns the next events as columns, some hundreds at a time; none after the last one so far. A structured array [n] with the fields
        of an Event, and the tokens of all of them in order, int32 [sum of num_tokens]. For many events this is faster than iterating."""
        asked = self.cursor
        self.cursor, count = _native.kvc_manager_poll_events(self._manager._m, asked, self._events, self._tokens)
        events = self._events[:count].copy()
        self.lost += self.cursor - asked - count
        return events, self._tokens[: int(events["num_tokens"].sum())].copy()

    def __iter__(self) -> Iterator[Event]:
        while True:
            events, tokens = self.poll()
            if not len(events):
                return
            yield from _events(events, tokens)
