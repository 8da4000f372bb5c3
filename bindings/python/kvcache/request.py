# SPDX-License-Identifier: Apache-2.0
"""Requests, pins and namespaces: objects that own an id of a manager. One thread at a time drives a request."""

from __future__ import annotations

import struct
import warnings
from typing import TYPE_CHECKING, Any, Iterable, NamedTuple, Optional, Protocol, Sequence, TypeVar, Union

from . import _native
from ._arrays import at_least_0, np, take, whole
from ._docs import described
from .errors import NotFoundError
from .records import RequestInfo

if TYPE_CHECKING:
    import collections

    import numpy

    Tokens = Union[Sequence[int], "numpy.ndarray", memoryview]


class Owner(Protocol):
    """What objects of this module need of their Manager: its native object, and a queue of (close function, id) that it frees."""

    _m: Any
    _dropped: collections.deque[Any]


@described
class ExtraKey(NamedTuple):
    """Identity of a span of tokens that their ids alone do not identify, such as the placeholder tokens of an image.

    first_token: position of the first token of the span.
    num_tokens: tokens of the span.
    digest: 32 bytes that identify what the tokens stand for, such as the SHA-256 of the image.
    """

    first_token: int
    num_tokens: int
    digest: bytes


def pack_keys(keys: Optional[Iterable[ExtraKey]]) -> Optional[bytes]:
    if not keys:
        return None
    parts: list[bytes] = []
    for i, key in enumerate(keys):
        try:
            first_token, num_tokens, digest = key
            digest = memoryview(digest).tobytes()
        except TypeError:
            raise TypeError(f"keys[{i}] is {key!r:.100}; it must be an ExtraKey(first_token, num_tokens, digest of 32 bytes)") from None
        if len(digest) != 32:
            raise ValueError(f"the digest of keys[{i}] has {len(digest)} bytes; it needs 32")
        parts += whole(first_token).to_bytes(8, "little"), whole(num_tokens).to_bytes(8, "little"), digest
    return b"".join(parts)


@described
class RequestOptions(NamedTuple):
    """Options of a new request of a Step: those of Manager.allocate().

    namespace: a Namespace or its id; 0 = the default one.
    lookahead: slots to reserve past the known tokens, for drafts.
    slots: tokens after the hit that get slots now, such as the first chunk of a prefill; 0 = all.
    external_tokens: tokens after the hit that a transfer will fill; they get slots besides.
    max_cached_tokens: upper bound of the hit, in tokens; 0 = none.
    drop_tail_blocks: blocks by which a hit is shortened, for draft heads that need hidden states.
    user_data: number that Request.info returns.
    flags: RequestFlags.
    wait_until_ns: until then the request is not admitted while another one computes its next tokens; 0 = it computes them too.
    keys: ExtraKey objects of the prompt.
    headroom: room for the tokens that the request will probably get: "none", "minimal", "balanced" or "aggressive". See Manager.allocate().
    cross_tokens: tokens of the request's encoder; 0 = none.
    cross_digest: digest of the encoder's input (32 bytes), by which requests share; empty = private.
    """

    namespace: Namespace | int = 0
    lookahead: int = 0
    slots: int = 0
    external_tokens: int = 0
    max_cached_tokens: int = 0
    drop_tail_blocks: int = 0
    user_data: int = 0
    flags: int = 0
    wait_until_ns: int = 0
    keys: Sequence[ExtraKey] = ()
    headroom: str = "none"
    cross_tokens: int = 0
    cross_digest: bytes = b""


_HEADROOM = {"none": _native.KVC_HEADROOM_NONE, "minimal": _native.KVC_HEADROOM_MINIMAL, "balanced": _native.KVC_HEADROOM_BALANCED,
             "aggressive": _native.KVC_HEADROOM_AGGRESSIVE}


def headroom_number(headroom: str) -> int:
    if not isinstance(headroom, str) or headroom not in _HEADROOM:
        raise ValueError(f"headroom is {headroom!r:.100}; it must be one of {', '.join(map(repr, _HEADROOM))}")
    return _HEADROOM[headroom]


def cross_words(digest: bytes) -> tuple[int, ...]:
    if not isinstance(digest, bytes):
        raise TypeError(f"cross_digest is {digest!r:.100}; it must be bytes")
    if len(digest) not in (0, 32):
        raise ValueError(f"cross_digest has {len(digest)} bytes; it needs 32, or none for a private request")
    return struct.unpack("<4Q", digest or bytes(32))


PRIORITY_DEMOTED = 2**32 - 1  # for Manager.set_prefix_priority: below 0, evicted before all else
ALL_NAMESPACES = 2**64 - 1  # of a curve, and in ALL_CLEARED events; no namespace has this id


def namespace_id(namespace: Namespace | int) -> int:
    if isinstance(namespace, int):
        return namespace
    if isinstance(namespace, Namespace):
        return namespace.id
    try:
        return whole(namespace)
    except TypeError:
        raise TypeError(f"namespace is {namespace!r:.100}; it must be a kvcache.Namespace or its id") from None


def request_config(lookahead: int, slots: int, external_tokens: int, max_cached_tokens: int, drop_tail_blocks: int, user_data: int,
                   flags: int, wait_until_ns: int = 0, headroom: str = "none", cross_tokens: int = 0,
                   cross_digest: bytes = b"") -> Optional[_native.kvc_request_config]:
    """Returns the options of a request for the native layer; None = all defaults."""
    number = headroom_number(headroom)
    digest = cross_words(cross_digest)
    if (lookahead, slots, external_tokens, max_cached_tokens, drop_tail_blocks, user_data, flags, wait_until_ns, number, cross_tokens, *digest) == (0,) * 14:
        return None
    config = _native.kvc_request_config()
    config.lookahead, config.slots, config.external_tokens = lookahead, slots, external_tokens
    config.max_cached_tokens, config.drop_tail_blocks, config.user_data, config.flags = max_cached_tokens, drop_tail_blocks, user_data, flags
    config.wait_until_ns = wait_until_ns
    config.headroom = number
    config.cross_tokens = cross_tokens
    config.set_cross_digest(*digest)
    return config


_Self = TypeVar("_Self", bound="_Owned")


class _Owned:
    """An id of a manager. close() and leaving a `with` block give it back. If the object is garbage collected instead, the id
    waits for the manager's next admission, so that garbage collection never changes the manager's state."""

    __slots__ = {"_manager": None, "_owned": None, "id": "Number of the object in its manager, as the arrays of a Step take it.", "__weakref__": None}
    _close: Any = None

    def __init__(self, manager: Owner, id: int, owned: bool = True):
        self._manager = manager
        self._owned = owned
        self.id = id

    def close(self) -> None:
        """Gives the id back. Closing again does nothing."""
        if self._owned:
            type(self)._close(self._manager._m, self.id)
            self._owned = False

    def forget(self) -> None:
        """States that somebody else gives the id back, such as a Step that frees the request. close() then does nothing."""
        self._owned = False

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_owned", False) and self._manager._m is not None:
            self._manager._dropped.append((type(self)._close, self.id))
            warnings.warn(f"{type(self).__name__} {self.id:#x} was never closed", ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"<kvcache.{type(self).__name__} {self.id:#x}{', its manager is closed' if self._manager._m is None else self._state()}>"

    def _state(self) -> str:
        return "" if self._owned else ", closed"


class Pin(_Owned):
    """Protects a prefix from eviction until it is closed. num_pinned: tokens of the prefix."""

    __slots__ = {"num_pinned": "Tokens of the prefix that the pin protects."}
    _close = staticmethod(_native.kvc_manager_unpin_prefix)

    def __init__(self, manager: Owner, id: int, num_pinned: int):
        super().__init__(manager, id)
        self.num_pinned = num_pinned

    def _state(self) -> str:
        return f": {self.num_pinned} tokens" if self._owned else ", closed"


class Namespace(_Owned):
    """An open namespace. Requests of different namespaces never share blocks."""

    __slots__ = ()
    _close = staticmethod(_native.kvc_manager_close_namespace)


class Request(_Owned):
    """A sequence of tokens and its blocks. The arrays of a Step take its `id`. len() is the number of its known tokens. Leaving a `with` block
    frees the request, unless it comes from Manager.request()."""

    __slots__ = {"num_cached": "Tokens of the hit at the last admission: their KV exists, the model computes the rest."}
    _close = staticmethod(_native.kvc_manager_free_request)

    def __init__(self, manager: Owner, id: int, num_cached: int = 0, owned: bool = True):
        super().__init__(manager, id, owned)
        self.num_cached = num_cached

    def admit(self) -> int:
        """Admits a waiting request: finds its longest cached prefix and takes blocks for the rest, all or nothing. Returns the tokens
        of the hit: a multiple of block_size, below the number of tokens. Raises NoSpaceError, NeverFitsError, BusyError (admitted already). A
        preempted request may be too long for its window groups at once: then admit it in steps, with Step.admit_slots."""
        self.num_cached = _native.kvc_manager_admit_request(self._manager._m, self.id)
        return self.num_cached

    def append(self, tokens: Tokens | int) -> None:
        """Appends known tokens (int32 [n], or one int). An admitted request gets slots for them. Raises NoSpaceError, AgainError."""
        _native.kvc_manager_append_tokens(self._manager._m, self.id, tokens)

    def add_keys(self, keys: Iterable[ExtraKey]) -> None:
        """Adds extra keys: what tokens stand for that the request gets later, such as an image in the next input of a session. Call it before the tokens
        are committed. Keys that the request has already are left out, so all may be given. Raises InvalidArgumentError for tokens that are committed,
        LimitError for more than 16 keys over one token."""
        _native.kvc_manager_add_keys(self._manager._m, self.id, pack_keys(keys))

    def reserve(self, capacity: int) -> None:
        """Gives the request slots for `capacity` tokens in all; their ids may come later. Raises NoSpaceError, AgainError."""
        _native.kvc_manager_reserve_tokens(self._manager._m, self.id, capacity)

    def commit(self, num_committed: int) -> None:
        """States that the KV of the first num_committed tokens (an absolute count) is written. Full blocks are published."""
        _native.kvc_manager_commit_tokens(self._manager._m, self.id, num_committed)

    def commit_ahead(self, num_committed: int, num_computed: int) -> None:
        """Commits tokens that steps in flight still write: full blocks are published now, and what left a window, a chunk or a state is returned only
        as if num_computed tokens were committed, because these steps read the rest. The next commit returns it.

        For an engine whose steps run in the order in which it schedules them, on one stream. All else that reads blocks must run after these steps:
        offloads (on that stream, or when the steps are over), checkpoints, rebuilds, pages, external holders, readers of events. If a step fails, call
        Manager.unpublish_blocks() at once for the blocks that it should have written; then preempt or free the requests that hold them.

        Raises InvalidArgumentError if more tokens are computed than committed, UnsupportedError in a manager with fills, whose steps publish what they
        write."""
        _native.kvc_manager_commit_ahead(self._manager._m, self.id, num_committed, num_computed)

    def truncate(self, num_tokens: int) -> None:
        """Keeps the first num_tokens tokens (an absolute count) and returns the blocks of the rest."""
        _native.kvc_manager_truncate_request(self._manager._m, self.id, num_tokens)

    def set_priority(self, priority: int, first_token: int = 0, num_tokens: Optional[int] = None, until_ns: int = 0) -> None:
        """Hints a range of tokens, those that will be generated included: priority 0 (evicted first) to 100, 35 without a hint. num_tokens:
        None = to the end. until_ns: when the hint ends, in the time of Manager.set_time(); 0 = never. Needs Manager(hints=True). Raises
        LimitError if the request has 8 ranges."""
        _native.kvc_manager_set_priority(self._manager._m, self.id, first_token, 2**64 - 1 if num_tokens is None else num_tokens, priority, until_ns)

    def end_session(self, shared_tokens: int = 0) -> None:
        """Says that nobody will continue this request: when it is freed, what nobody else uses of it is evicted before all else, except its
        first shared_tokens tokens. Needs Manager(hints=True)."""
        _native.kvc_manager_end_session(self._manager._m, self.id, shared_tokens)

    def preempt(self) -> None:
        """Returns all blocks; the request then waits and keeps its tokens. admit() can hit what it published."""
        _native.kvc_manager_preempt_request(self._manager._m, self.id)

    def free(self) -> None:
        """Frees the request. Its published blocks stay cached. Freeing again raises NotFoundError, unlike close()."""
        _native.kvc_manager_free_request(self._manager._m, self.id)
        self._owned = False

    def fork(self) -> Request:
        """Creates a request with the committed tokens of this one; they share all blocks. Raises BusyError while it waits, and while its encoder is not written."""
        return Request(self._manager, _native.kvc_manager_fork_request(self._manager._m, self.id))

    @property
    def num_tokens(self) -> int:
        """Number of known tokens, as len() gives it."""
        struct = _native.kvc_request_info()
        _native.kvc_manager_request_info(self._manager._m, self.id, struct)
        return struct.num_tokens

    def __len__(self) -> int:
        return self.num_tokens

    def __bool__(self) -> bool:  # not by len(): a request without tokens is a request
        return True

    def _state(self) -> str:
        try:
            info = self.info
        except (NotFoundError, ValueError):  # ValueError: another thread has closed the manager
            return ", freed"
        blocks = f"{info.num_committed} committed, {info.num_blocks} blocks" if info.admitted else "waiting"
        return f": {info.num_tokens} tokens, {blocks}"

    @property
    def info(self) -> RequestInfo:
        """RequestInfo: num_tokens, num_committed, capacity, num_blocks, ..."""
        return RequestInfo.of(_native.kvc_manager_request_info, self._manager._m, self.id)

    def block_table(self, group: int = 0, fill_id: int = -1, out: Optional[numpy.ndarray] = None) -> numpy.ndarray:
        """Returns the block ids of a group: int32 [blocks of the table]. With `out`, writes all of its entries and returns it. An entry
        without a block is fill_id. Raises BufferTooSmallError if `out` is too short."""
        if out is not None:
            take("block_table.out", out, written=True)
        else:
            properties = _native.kvc_properties()
            _native.kvc_manager_properties(self._manager._m, properties)
            info = _native.kvc_request_info()
            _native.kvc_manager_request_info(self._manager._m, self.id, info)
            cross = group + properties.num_cross_groups >= properties.num_groups
            out = np.empty(-(-(info.admitted * info.cross_tokens if cross else info.capacity) // properties.block_size), np.int32)
        _native.kvc_manager_export_tables(self._manager._m, (self.id,), group, fill_id, out)
        return out

    def slots(self, first_token: int, num_tokens: int, group: int = 0) -> numpy.ndarray:
        """Returns the slots (block id * block_size + offset) of tokens first_token .. first_token + num_tokens - 1: int64 [num_tokens],
        -1 for tokens that left the window."""
        at_least_0("num_tokens", num_tokens)
        out = np.empty(num_tokens, np.int64)
        _native.kvc_manager_export_slots(self._manager._m, self.id, group, first_token, out)
        return out
