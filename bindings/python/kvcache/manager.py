# SPDX-License-Identifier: Apache-2.0
"""The block manager. Meaning, units and threading are those of kvcache.h.

Any thread may call a Manager. Calls that hash, match or compute release the interpreter lock. Arrays of tokens are int32 (NumPy,
array.array, memoryview: used in place) or plain sequences (copied). Failures raise kvcache.KvCacheError, and then nothing has changed.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any, Callable, Iterable, NamedTuple, Optional, Sequence

from . import _native
from ._arrays import np, take
from .errors import BufferTooSmallError, KvCacheError
from .records import BlockInfo, PoolInfo, ProbeInfo, Properties, Stats
from .request import ExtraKey, Namespace, Pin, Request, namespace_id, pack_keys, request_config

if TYPE_CHECKING:
    import numpy
    import numpy.typing

    from ._arrays import Sizes
    from .events import EventReader
    from .request import Tokens


class Group(NamedTuple):
    """A group of layers with one block table per request. window_tokens = 0: full attention; else a sliding window that
    reads that many tokens, the query's own included, and the first num_sink_tokens."""

    window_tokens: int = 0
    num_sink_tokens: int = 0
    retention_tokens: int = 0
    pool: int = 0


_ZERO = {"never": 0, "foreign": _native.KVC_MANAGER_ZERO_FOREIGN, "always": _native.KVC_MANAGER_ZERO_ALWAYS}


class Manager:
    """The block manager: which block holds which tokens, what is shared, what is evicted.

    num_blocks: blocks of the only pool, or one number per pool. block_size: tokens per block. groups: Group objects
    (default: one with full attention). null_block: id 0 is the engine's. zero: which blocks take_zero_blocks() tells to clear, "never", "foreign"
    (those that change namespace) or "always". Other options are fields of kvc_manager_config:
    max_nodes, max_requests, max_request_tokens, event_capacity, seed, watermark_blocks, vocab_size.
    Closing frees everything as soon as the last call in another thread, the last Step and its arrays are gone."""

    def __init__(self, num_blocks: "int | Sequence[int]", block_size: int = 16, *, groups: "Sequence[Group]" = (), null_block: bool = False,
                 prefix_cache: bool = True, zero: str = "never", **options: int):
        config = _native.kvc_manager_config()
        config.block_size = block_size
        config.flags = _ZERO[zero] | (_native.KVC_MANAGER_NULL_BLOCK if null_block else 0) | (0 if prefix_cache else _native.KVC_MANAGER_NO_PREFIX_CACHE)
        for name, value in options.items():
            if name in ("groups", "pools", "flags", "policy") or not hasattr(config, name):
                raise TypeError(f"{name!r} is no option of a Manager; see kvc_manager_config")
            setattr(config, name, value)
        pools, group_array = None, None
        groups = tuple(groups)
        if isinstance(num_blocks, int):
            config.num_blocks = num_blocks
        else:
            num_blocks = tuple(num_blocks)
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
            try:
                close(self._m, id)
            except KvCacheError:  # ended by other means, or a namespace that is still in use: nobody is left to be told
                pass

    # ---- requests

    def allocate(self, tokens: "Tokens", keys: Optional[Iterable[ExtraKey]] = None, **options: Any) -> Request:
        """Creates and admits a request: its longest cached prefix is found and blocks are taken for the rest, all or nothing.
        request.num_cached tokens need no compute.

        tokens: int32 [n]. keys: extra keys. options: namespace (Namespace or id), lookahead, slots, external_tokens,
        max_cached_tokens, drop_tail_blocks, user_data, flags (RequestFlags).
        Raises NoSpaceError, AgainError, InvalidArgumentError, LimitError; then there is no request."""
        self._free_dropped()
        return Request(self, *_native.kvc_manager_allocate_request(self._m, tokens, pack_keys(keys), request_config(options) if options else None))

    def create(self, tokens: "Tokens", keys: Optional[Iterable[ExtraKey]] = None, **options: Any) -> Request:
        """Creates a waiting request: tokens are copied and hashed, no block is taken. Parameters as allocate()."""
        self._free_dropped()
        return Request(self, _native.kvc_manager_create_request(self._m, tokens, pack_keys(keys), request_config(options) if options else None))

    def request(self, id: int) -> Request:
        """A Request for an id, such as one of Step.admitted; it is freed by free() only."""
        return Request(self, int(id), owned=False)

    def requests(self) -> "list[int]":
        """Ids of all requests."""
        ids: "list[int]" = self._grown(lambda room: _native.kvc_manager_list_requests(self._m, room), np.uint64).tolist()
        return ids

    def block_tables(self, requests: "numpy.ndarray", out: "numpy.ndarray", group: int = 0, fill_id: int = -1) -> "numpy.ndarray":
        """Writes whole block tables. requests: uint64 [n] admitted ones. out: int32 [n, entries], returned."""
        sizes: "Sizes" = {}
        requests = take("requests", requests, sizes)
        written = take("block_tables.out", out, sizes, written=True)
        _native.kvc_manager_export_tables(self._m, requests, group, fill_id, written.reshape(-1))
        return out

    def take_copies(self) -> "numpy.ndarray":
        """Takes the copies that single calls have asked for: int32 [n, 2] of (source, destination), to execute in order
        before anything is written."""
        return self._grown(lambda room: _native.kvc_manager_take_copies(self._m, room), np.int64).view(np.int32).reshape(-1, 2)

    def take_zero_blocks(self) -> "numpy.ndarray":
        """With zero="foreign" or "always": takes the blocks to clear (int32 ids), after the copies and before anything is written."""
        return self._grown(lambda room: _native.kvc_manager_take_zero_blocks(self._m, room), np.int32)

    def compact(self, pool: int = 0, max_moves: int = 4096) -> "numpy.ndarray":
        """Moves contents from the highest blocks of a pool to its lowest free ones: int32 [n, 2] of (source, destination), to carry out before
        any block is read or written. If n is max_moves, another call may find more. Raises BusyError while a step is in flight."""
        moves = np.empty((max_moves, 2), np.int32)
        return moves[: _native.kvc_manager_compact(self._m, pool, moves)]

    def _grown(self, call: "Callable[[numpy.ndarray], int]", dtype: "numpy.typing.DTypeLike", size: int = 64) -> "numpy.ndarray":
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
        _native.kvc_manager_reset(self._m, namespace_id(namespace))

    def probe(self, tokens: "Tokens", keys: Optional[Iterable[ExtraKey]] = None, namespace: "Namespace | int" = 0) -> ProbeInfo:
        """Would these tokens fit, and how much is cached? ProbeInfo; changes nothing."""
        struct = _native.kvc_probe_info()
        _native.kvc_manager_probe(self._m, namespace_id(namespace), tokens, pack_keys(keys), struct)
        return ProbeInfo.read(struct)

    def pin(self, tokens: "Tokens", keys: Optional[Iterable[ExtraKey]] = None, namespace: "Namespace | int" = 0) -> Pin:
        """Keeps the cached part of a prefix from eviction. Raises NotFoundError if not even one block is cached."""
        return Pin(self, *_native.kvc_manager_pin_prefix(self._m, namespace_id(namespace), tokens, pack_keys(keys)))

    def drop(self, tokens: "Tokens", keys: Optional[Iterable[ExtraKey]] = None, namespace: "Namespace | int" = 0) -> int:
        """Drops every cached block of these tokens that nobody holds; returns their number."""
        return _native.kvc_manager_drop_prefix(self._m, namespace_id(namespace), tokens, pack_keys(keys))

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
        packed, id = pack_keys(keys), namespace_id(namespace)
        return self._grown(lambda room: _native.kvc_manager_acquire_prefix(self._m, id, group, tokens, packed, room), np.int32)

    def publish_blocks(self, tokens: "Tokens", blocks: "Tokens", keys: Optional[Iterable[ExtraKey]] = None, namespace: "Namespace | int" = 0,
                       group: int = 0) -> None:
        """Publishes raw-held blocks as the KV of the first len(blocks) * block_size tokens, which must be written."""
        _native.kvc_manager_publish_blocks(self._m, namespace_id(namespace), group, tokens, pack_keys(keys), blocks)

    def release_blocks(self, blocks: "Tokens") -> None:
        """Gives back one raw hold per entry, all or nothing. Raises NotHeldError."""
        _native.kvc_manager_release_blocks(self._m, blocks)

    def unpublish_blocks(self, blocks: "Tokens") -> int:
        """Makes blocks (int32 ids) unfindable, whoever holds them, because their bytes turned out to be wrong; returns how many were
        findable. Idle ones become free, held ones stay with their holders."""
        return _native.kvc_manager_unpublish_blocks(self._m, blocks)

    # ---- what it is and how it does

    @property
    def stats(self) -> Stats:
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
    def properties(self) -> Properties:
        """Properties: what the manager was made with, defaults filled in."""
        struct = _native.kvc_properties()
        _native.kvc_manager_properties(self._m, struct)
        return Properties.read(struct)

    def pool_info(self, pool: int = 0) -> PoolInfo:
        """PoolInfo of a pool."""
        struct = _native.kvc_pool_info()
        _native.kvc_manager_pool_info(self._m, pool, struct)
        return PoolInfo.read(struct)

    def block_info(self, block: int) -> BlockInfo:
        """BlockInfo of a block; its `state` is a BlockState."""
        struct = _native.kvc_block_info()
        _native.kvc_manager_block_info(self._m, block, struct)
        return BlockInfo.read(struct)

    def digest(self) -> int:
        """A hash of the state: equal call sequences give equal digests anywhere."""
        return _native.kvc_manager_digest(self._m)

    def check(self) -> None:
        """Checks every invariant; raises CorruptError."""
        _native.kvc_manager_check(self._m)

    def retire_step(self, step_id: int) -> None:
        """The kernels of all steps up to step_id have finished: their fences fall."""
        _native.kvc_manager_retire_step(self._m, step_id)

    def events(self, cursor: int = 0) -> "EventReader":
        """An iterator over events from `cursor` on, to the present end; see EventReader. Needs event_capacity."""
        from .events import EventReader

        return EventReader(self, cursor)


def _group_config(group: Group) -> "_native.kvc_group_config":
    if not isinstance(group, Group):
        raise TypeError(f"a group is {type(group).__name__}; it must be a kvcache.Group")
    config = _native.kvc_group_config()
    config.kind = _native.KVC_GROUP_SLIDING_WINDOW if group.window_tokens else _native.KVC_GROUP_FULL
    config.window_tokens, config.num_sink_tokens = group.window_tokens, group.num_sink_tokens
    config.retention_tokens, config.pool = group.retention_tokens, group.pool
    return config
