# SPDX-License-Identifier: Apache-2.0
"""The block manager and what lives in it. Meaning, units and threading are those of kvcache.h.

Any thread may call a Manager; one Request is driven by one thread at a time. Calls that hash, match or compute release
the interpreter lock. Arrays of tokens are int32 (NumPy, array.array, memoryview: used in place) or plain sequences
(copied). Failures raise kvcache.KvCacheError, and then nothing has changed.
"""

from __future__ import annotations

import collections
import warnings
from typing import TYPE_CHECKING, Any, Iterable, NamedTuple, Optional, Sequence, Union

from . import _native
from ._arrays import contiguous, np
from .constants import BlockState, RequestFlags
from .errors import BufferTooSmallError
from .records import record

if TYPE_CHECKING:
    import numpy

    Tokens = Union[Sequence[int], "numpy.ndarray", memoryview]


class Group(NamedTuple):
    """A group of layers with one block table per request. window_tokens = 0: full attention; else a sliding window that
    reads that many tokens, the query's own included, and the first num_sink_tokens."""

    window_tokens: int = 0
    num_sink_tokens: int = 0
    retention_tokens: int = 0
    pool: int = 0


class ExtraKey(NamedTuple):
    """Identity of a span of tokens whose ids alone do not identify it (an image). digest: 32 bytes."""

    first_token: int
    num_tokens: int
    digest: bytes


Stats = record("Stats", _native.kvc_stats, "Counters since creation and gauges: kvc_stats.")
RequestInfo = record("RequestInfo", _native.kvc_request_info, "State of a request: kvc_request_info.")
ProbeInfo = record("ProbeInfo", _native.kvc_probe_info, "What would hit, and whether it fits: kvc_probe_info.")
PoolInfo = record("PoolInfo", _native.kvc_pool_info, "Counts of a pool; the states sum to num_blocks: kvc_pool_info.")
BlockInfo = record("BlockInfo", _native.kvc_block_info, "State of one block: kvc_block_info.")
Properties = record("Properties", _native.kvc_properties, "What a manager was made with: kvc_properties.")


def _pack_keys(keys: Optional[Iterable[ExtraKey]]) -> Optional[bytes]:
    if not keys:
        return None
    packed = b""
    for first_token, num_tokens, digest in keys:
        if len(digest) != 32:
            raise ValueError(f"the digest of an extra key has {len(digest)} bytes; it needs 32")
        packed += first_token.to_bytes(8, "little") + num_tokens.to_bytes(8, "little") + digest
    return packed


def _request_config(options: "dict[str, int]") -> Any:
    if not options:
        return None
    config = _native.kvc_request_config()
    for name, value in options.items():
        if name == "namespace":
            name, value = "namespace_id", getattr(value, "id", value)
        if not hasattr(config, name):
            raise TypeError(f"{name!r} is no option of a request; see kvc_request_config")
        setattr(config, name, value)
    return config


class _Owned:
    """An id inside a manager that is given back by close(), by leaving a `with` block, or, late, when it is forgotten:
    then it waits for the manager's next admission, so that garbage collection never changes state in between."""

    __slots__ = ("_manager", "_owned", "id", "__weakref__")
    _close: Any = None

    def __init__(self, manager: "Manager", id: int, owned: bool = True):
        self._manager = manager
        self._owned = owned
        self.id = id

    def close(self) -> None:
        """Gives it back. Doing so again does nothing."""
        if self._owned:
            type(self)._close(self._manager._m, self.id)
            self._owned = False

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_owned", False) and self._manager._m is not None:
            self._manager._dropped.append((type(self)._close, self.id))
            warnings.warn(f"{type(self).__name__} {self.id:#x} was never closed", ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"<kvcache.{type(self).__name__} {self.id:#x}>"


class Pin(_Owned):
    """A prefix kept from eviction until closed. num_pinned: its tokens."""

    __slots__ = ("num_pinned",)
    _close = staticmethod(_native.kvc_manager_unpin_prefix)

    def __init__(self, manager: "Manager", id: int, num_pinned: int):
        super().__init__(manager, id)
        self.num_pinned = num_pinned


class Namespace(_Owned):
    """One open of a namespace: requests of different namespaces never share."""

    __slots__ = ()
    _close = staticmethod(_native.kvc_manager_close_namespace)


class Request(_Owned):
    """A token sequence and its blocks. `id` is what arrays of a Step take. Leaving a `with` block frees it."""

    __slots__ = ("num_cached",)
    _close = staticmethod(_native.kvc_manager_free_request)

    def __init__(self, manager: "Manager", id: int, num_cached: int = 0, owned: bool = True):
        super().__init__(manager, id, owned)
        self.num_cached = num_cached  # tokens of the hit at the last admission by this object

    def admit(self) -> int:
        """Finds the longest cached prefix and takes blocks for the rest, all or nothing. Returns the tokens of the hit: a
        multiple of block_size, below the number of tokens. Raises NoSpaceError, AgainError, BusyError (admitted already)."""
        self.num_cached = _native.kvc_manager_admit_request(self._manager._m, self.id)
        return self.num_cached

    def append(self, tokens: "Tokens | int") -> None:
        """Appends known tokens (int32 [n], or one int); an admitted request gets slots for them. Raises NoSpaceError."""
        _native.kvc_manager_append_tokens(self._manager._m, self.id, tokens)

    def reserve(self, capacity: int) -> None:
        """Gives slots up to `capacity` tokens in all, whose ids may come later. Raises NoSpaceError."""
        _native.kvc_manager_reserve_tokens(self._manager._m, self.id, capacity)

    def commit(self, num_committed: int) -> None:
        """The KV of the first num_committed tokens (absolute) is written: full blocks become findable."""
        _native.kvc_manager_commit_tokens(self._manager._m, self.id, num_committed)

    def truncate(self, num_tokens: int) -> None:
        """Keeps the first num_tokens tokens (absolute) and gives the rest back."""
        _native.kvc_manager_truncate_request(self._manager._m, self.id, num_tokens)

    def preempt(self) -> None:
        """Takes all blocks and makes it wait; tokens are kept, and what it published can be hit again by admit()."""
        _native.kvc_manager_preempt_request(self._manager._m, self.id)

    def free(self) -> None:
        """Ends the request; its published blocks stay cached. Freeing again raises NotFoundError, unlike close()."""
        _native.kvc_manager_free_request(self._manager._m, self.id)
        self._owned = False

    def forget(self) -> None:
        """A Step has freed it: nothing is left to close."""
        self._owned = False

    def fork(self) -> "Request":
        """A request with the committed tokens of this one, sharing all their blocks."""
        return Request(self._manager, _native.kvc_manager_fork_request(self._manager._m, self.id))

    @property
    def info(self) -> Any:
        """RequestInfo: num_tokens, num_committed, capacity, num_blocks, ..."""
        struct = _native.kvc_request_info()
        _native.kvc_manager_request_info(self._manager._m, self.id, struct)
        return RequestInfo.read(struct)

    def block_table(self, group: int = 0, fill_id: int = -1, out: "Optional[numpy.ndarray]" = None) -> "numpy.ndarray":
        """The block ids of a group: int32 [blocks of the table], or the whole of `out`, with fill_id where there is no block.
        Raises BufferTooSmallError if `out` is too short."""
        if out is None:
            properties = _native.kvc_properties()
            _native.kvc_manager_properties(self._manager._m, properties)
            info = _native.kvc_request_info()
            _native.kvc_manager_request_info(self._manager._m, self.id, info)
            out = np.empty(-(-info.capacity // properties.block_size), np.int32)
        _native.kvc_manager_export_tables(self._manager._m, (self.id,), group, fill_id, out)
        return out

    def slots(self, first_token: int, num_tokens: int, group: int = 0) -> "numpy.ndarray":
        """The slots (block * block_size + offset) of tokens [first_token, first_token + num_tokens): int64; -1 where a
        window has passed."""
        out = np.empty(num_tokens, np.int64)
        _native.kvc_manager_export_slots(self._manager._m, self.id, group, first_token, out)
        return out


class Manager:
    """The block manager: which block holds which tokens, what is shared, what is evicted.

    num_blocks: blocks of the only pool, or one number per pool. block_size: tokens per block. groups: Group objects
    (default: one with full attention). null_block: id 0 is the engine's. Other options are fields of kvc_manager_config:
    max_nodes, max_requests, max_request_tokens, event_capacity, seed, watermark_blocks, vocab_size.
    Closing frees everything as soon as the last call in another thread, the last Step and its arrays are gone."""

    def __init__(self, num_blocks: "int | Sequence[int]", block_size: int = 16, *, groups: "Sequence[Group]" = (), null_block: bool = False,
                 prefix_cache: bool = True, **options: int):
        config = _native.kvc_manager_config()
        config.block_size = block_size
        config.flags = (_native.KVC_MANAGER_NULL_BLOCK if null_block else 0) | (0 if prefix_cache else _native.KVC_MANAGER_NO_PREFIX_CACHE)
        for name, value in options.items():
            if name in ("groups", "pools", "flags", "policy") or not hasattr(config, name):
                raise TypeError(f"{name!r} is no option of a Manager; see kvc_manager_config")
            setattr(config, name, value)
        pools, group_array = None, None
        if isinstance(num_blocks, int):
            config.num_blocks = num_blocks
        else:
            pools = _native.new_kvc_pool_configs(len(num_blocks))
            config.pools, config.num_pools = pools, len(num_blocks)
            for i, blocks in enumerate(num_blocks):
                pool = _native.kvc_pool_config()
                pool.num_blocks = blocks
                _native.kvc_pool_configs_setitem(pools, i, pool)
        if groups:
            group_array = _native.new_kvc_group_configs(len(groups))
            config.groups, config.num_groups = group_array, len(groups)
            for i, group in enumerate(groups):
                _native.kvc_group_configs_setitem(group_array, i, _group_config(group))
        try:
            self._m: Any = _native.kvc_manager_create(config)
        finally:
            if pools:
                _native.delete_kvc_pool_configs(pools)
            if group_array:
                _native.delete_kvc_group_configs(group_array)
        self._dropped: "collections.deque[Any]" = collections.deque()

    def close(self) -> None:
        """Ends all use; later calls raise ValueError. Doing so again does nothing."""
        self._m = None

    def __enter__(self) -> "Manager":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def _free_dropped(self) -> None:
        while self._dropped:
            close, id = self._dropped.popleft()
            close(self._m, id)

    # ---- requests

    def allocate(self, tokens: "Tokens", keys: Optional[Iterable[ExtraKey]] = None, **options: Any) -> Request:
        """Creates and admits a request: its longest cached prefix is found and blocks are taken for the rest, all or nothing.
        request.num_cached tokens need no compute.

        tokens: int32 [n]. keys: extra keys. options: namespace (Namespace or id), lookahead, slots, external_tokens,
        max_cached_tokens, drop_tail_blocks, user_data, flags (RequestFlags).
        Raises NoSpaceError, AgainError, InvalidArgumentError, LimitError; then there is no request."""
        self._free_dropped()
        return Request(self, *_native.kvc_manager_allocate_request(self._m, tokens, _pack_keys(keys), _request_config(options)))

    def create(self, tokens: "Tokens", keys: Optional[Iterable[ExtraKey]] = None, **options: Any) -> Request:
        """Creates a waiting request: tokens are copied and hashed, no block is taken. Parameters as allocate()."""
        self._free_dropped()
        return Request(self, _native.kvc_manager_create_request(self._m, tokens, _pack_keys(keys), _request_config(options)))

    def request(self, id: int) -> Request:
        """A Request for an id, such as one of Step.admitted; it is freed by free() only."""
        return Request(self, int(id), owned=False)

    def requests(self) -> "list[int]":
        """Ids of all requests."""
        return self._grown(lambda room: _native.kvc_manager_list_requests(self._m, room), np.uint64).tolist()

    def block_tables(self, requests: "numpy.ndarray", out: "numpy.ndarray", group: int = 0, fill_id: int = -1) -> "numpy.ndarray":
        """Writes whole block tables. requests: uint64 [n] admitted ones. out: int32 [n, entries], returned."""
        contiguous(out, (len(requests), *out.shape[1:]), "out")
        _native.kvc_manager_export_tables(self._m, requests, group, fill_id, out)
        return out

    def take_copies(self) -> "numpy.ndarray":
        """Takes the copies that single calls have asked for: int32 [n, 2] of (source, destination), to execute in order
        before anything is written."""
        return self._grown(lambda room: _native.kvc_manager_take_copies(self._m, room), np.int64).view(np.int32).reshape(-1, 2)

    def _grown(self, call: Any, dtype: Any, size: int = 64) -> Any:
        while True:
            room = np.empty(size, dtype)
            try:
                return room[: call(room)]
            except BufferTooSmallError:
                size *= 4

    # ---- prefixes

    def namespace(self, model: Optional[bytes] = None, adapter: Optional[bytes] = None, tenant: Optional[bytes] = None) -> Namespace:
        """Opens the namespace with this identity. None = absent; b"" is present and empty, which is different."""
        return Namespace(self, _native.kvc_manager_open_namespace(self._m, model, adapter, tenant))

    def reset(self, namespace: "Namespace | int" = 0) -> None:
        """Forgets everything cached in a namespace (0 = all) in constant time; running requests finish."""
        _native.kvc_manager_reset(self._m, getattr(namespace, "id", namespace))

    def probe(self, tokens: "Tokens", keys: Optional[Iterable[ExtraKey]] = None, namespace: "Namespace | int" = 0) -> Any:
        """Would these tokens fit, and how much is cached? ProbeInfo; changes nothing."""
        struct = _native.kvc_probe_info()
        _native.kvc_manager_probe(self._m, getattr(namespace, "id", namespace), tokens, _pack_keys(keys), struct)
        return ProbeInfo.read(struct)

    def pin(self, tokens: "Tokens", keys: Optional[Iterable[ExtraKey]] = None, namespace: "Namespace | int" = 0) -> Pin:
        """Keeps the cached part of a prefix from eviction. Raises NotFoundError if not even one block is cached."""
        return Pin(self, *_native.kvc_manager_pin_prefix(self._m, getattr(namespace, "id", namespace), tokens, _pack_keys(keys)))

    def drop(self, tokens: "Tokens", keys: Optional[Iterable[ExtraKey]] = None, namespace: "Namespace | int" = 0) -> int:
        """Drops every cached block of these tokens that nobody holds; returns their number."""
        return _native.kvc_manager_drop_prefix(self._m, getattr(namespace, "id", namespace), tokens, _pack_keys(keys))

    def evict(self, max_blocks: int) -> int:
        """Evicts up to max_blocks cached blocks in policy order; returns their number."""
        return _native.kvc_manager_evict_blocks(self._m, max_blocks)

    # ---- raw blocks, for engines that keep their own tables

    def acquire_blocks(self, num_blocks: int, group: int = 0) -> "numpy.ndarray":
        """Takes blocks with one raw hold each, all or nothing: int32 [num_blocks]. Raises NoSpaceError, AgainError."""
        out = np.empty(num_blocks, np.int32)
        _native.kvc_manager_acquire_blocks(self._m, group, out)
        return out

    def acquire_prefix(self, tokens: "Tokens", keys: Optional[Iterable[ExtraKey]] = None, namespace: "Namespace | int" = 0,
                       group: int = 0) -> "numpy.ndarray":
        """Takes a raw hold on the cached blocks of a prefix: int32 [positions]; -1 where a window needs none."""
        packed, id = _pack_keys(keys), getattr(namespace, "id", namespace)
        return self._grown(lambda room: _native.kvc_manager_acquire_prefix(self._m, id, group, tokens, packed, room), np.int32)

    def publish_blocks(self, tokens: "Tokens", blocks: "Tokens", keys: Optional[Iterable[ExtraKey]] = None, namespace: "Namespace | int" = 0,
                       group: int = 0) -> None:
        """Publishes raw-held blocks as the KV of the first len(blocks) * block_size tokens, which must be written."""
        _native.kvc_manager_publish_blocks(self._m, getattr(namespace, "id", namespace), group, tokens, _pack_keys(keys), blocks)

    def release_blocks(self, blocks: "Tokens") -> None:
        """Gives back one raw hold per entry, all or nothing. Raises NotHeldError."""
        _native.kvc_manager_release_blocks(self._m, blocks)

    # ---- what it is and how it does

    @property
    def stats(self) -> Any:
        """Stats as of the last finished call; never waits for the manager's lock."""
        struct = _native.kvc_stats()
        _native.kvc_manager_stats(self._m, struct)
        return Stats.read(struct)

    @property
    def usage(self) -> float:
        """Part of the blocks that is held (neither free nor merely cached), 0 .. 1."""
        stats = _native.kvc_stats()
        _native.kvc_manager_stats(self._m, stats)
        return 1 - (stats.blocks_free + stats.blocks_cached) / stats.blocks_total

    @property
    def properties(self) -> Any:
        """Properties: what the manager was made with, defaults filled in."""
        struct = _native.kvc_properties()
        _native.kvc_manager_properties(self._m, struct)
        return Properties.read(struct)

    def pool_info(self, pool: int = 0) -> Any:
        """PoolInfo of a pool."""
        struct = _native.kvc_pool_info()
        _native.kvc_manager_pool_info(self._m, pool, struct)
        return PoolInfo.read(struct)

    def block_info(self, block: int) -> Any:
        """BlockInfo of a block; its `state` is a BlockState."""
        struct = _native.kvc_block_info()
        _native.kvc_manager_block_info(self._m, block, struct)
        return BlockInfo.read(struct)._replace(state=BlockState(struct.state))

    def digest(self) -> int:
        """A hash of the state: equal call sequences give equal digests anywhere."""
        return _native.kvc_manager_digest(self._m)

    def check(self) -> None:
        """Checks every invariant; raises CorruptError."""
        _native.kvc_manager_check(self._m)

    def retire_step(self, step_id: int) -> None:
        """The kernels of all steps up to step_id have finished: their fences fall."""
        _native.kvc_manager_retire_step(self._m, step_id)

    def events(self, cursor: int = 0) -> "Any":
        """An iterator over events from `cursor` on, to the present end; see EventReader. Needs event_capacity."""
        from .events import EventReader

        return EventReader(self, cursor)


def _group_config(group: Group) -> Any:
    config = _native.kvc_group_config()
    config.kind = _native.KVC_GROUP_SLIDING_WINDOW if group.window_tokens else _native.KVC_GROUP_FULL
    config.window_tokens, config.num_sink_tokens = group.window_tokens, group.num_sink_tokens
    config.retention_tokens, config.pool = group.retention_tokens, group.pool
    return config


__all__ = ["ExtraKey", "Group", "Manager", "Namespace", "Pin", "Request", "RequestFlags"]
