# SPDX-License-Identifier: Apache-2.0
"""The block manager. kvcache.h is the manual of its calls.

Any thread may call a Manager. Calls that hash, match or compute release the interpreter lock. Tokens are int32 arrays (NumPy, array.array,
memoryview), which are used in place, or plain sequences, which are copied. A call that fails raises kvcache.KvCacheError and changes nothing.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any, Callable, Iterable, NamedTuple, Optional, Sequence

from . import _native
from ._arrays import as_bytes, at_least_0, grown, np, take, whole
from ._docs import described
from .errors import BufferTooSmallError, KvCacheError
from .events import EventReader, Prefixes
from .models import Memory
from .records import BlockInfo, CurveInfo, LogInfo, LogReplay, LostReuse, PoolInfo, ProbeInfo, Properties, QuotaInfo, Stats
from .request import ALL_NAMESPACES, ExtraKey, Namespace, Pin, Request, headroom_number, namespace_id, pack_keys, request_config

if TYPE_CHECKING:
    import numpy
    import numpy.typing

    from ._arrays import Sizes
    from .constants import RequestFlags
    from .request import Tokens
    from .storage import Storage
    from .tiers import Tier


@described
class Group(NamedTuple):
    """A group of layers with one block table per request.

    window_tokens: a query reads the last window_tokens tokens, itself included; 0 = full attention, chunks, or a state.
    num_sink_tokens: with a window, the first tokens that a query reads besides.
    retention_tokens: with a window, chunks or a state, also keep what a hit needs that ends at a multiple of this many tokens, itself a
        multiple of block_size; 0 = only before the ends of the prompt and the request.
    pool: index of the pool that the group takes its blocks from.
    chunk_tokens: chunked local attention: a query reads the earlier tokens of its chunk of so many tokens, and itself.
    state: recurrent state (Mamba, linear attention). A block holds the state of the group's layers after some number of tokens: after c
        tokens the one at position (c - 1) // block_size of the table. A step from c to e tokens reads it there and writes the new one at
        (e - 1) // block_size. Only steps' ends have blocks: the others are the fill id. A commit that ends at a multiple of block_size
        publishes the state there, and hits end at such checkpoints: see RequestInfo.next_checkpoint.
    max_checkpoints: with a state, cached states at most; the group needs a pool of its own. 0 = as many as the pool has room for.
    cross: cross-attention: a query reads the tokens of the request's encoder. Such groups are the last ones, behind another one.
    """

    window_tokens: int = 0
    num_sink_tokens: int = 0
    retention_tokens: int = 0
    pool: int = 0
    chunk_tokens: int = 0
    state: bool = False
    max_checkpoints: int = 0
    cross: bool = False


@described
class PendingWork(NamedTuple):
    """Copies and clears that the engine must execute.

    copies: int32 [n, 2] of (source, destination), in order.
    zero_blocks: int32 ids of blocks to clear, each once.
    """

    copies: numpy.ndarray
    zero_blocks: numpy.ndarray


@described
class Rebuilt(NamedTuple):
    """What Manager.rebuild() made.

    manager: the new manager.
    copies: int32 [n, 6] of (group, source, destination, offset, new_offset, num_tokens), by group, destination and new_offset: tokens to copy
        from block `source` of the old memory to block `destination` of the new one (Storage.copy_tokens) before the new manager admits a request.
    namespaces: the namespaces of the new manager, by their old ids.
    """

    manager: Manager
    copies: numpy.ndarray
    namespaces: dict[int, Namespace]


_POLICIES = {"lru": _native.KVC_POLICY_LRU, "frequency": _native.KVC_POLICY_FREQUENCY, "fragmentation": _native.KVC_POLICY_FRAGMENTATION}
_OFFLOAD_EVENTS = 1 << 14  # published blocks between two polls
_ZERO = {"never": 0, "cross_namespace": _native.KVC_MANAGER_ZERO_CROSS_NAMESPACE, "always": _native.KVC_MANAGER_ZERO_ALWAYS}


class Manager:
    """The block manager: it decides which block holds which tokens, what requests share, and what is evicted.

    num_blocks: blocks of the only pool, or a sequence with the blocks of each pool. memory: instead of num_blocks and groups, the blocks and groups
    that a model has within a budget: Model.memory(). block_size: tokens per block; default: that of `memory`, or 16. groups: Group objects;
    default: one with full attention. null_block: block id 0 is reserved for the engine. prefix_cache: publish blocks. zero: the blocks that
    take_pending() lists to clear: "never", "cross_namespace" (blocks that move from one namespace to another) or "always".

    max_requests: requests at one time, waiting ones included; 0 = 1024. max_request_tokens: tokens of one request; 0 = 2**24. max_nodes: prefix
    blocks to remember; 0 = enough for all blocks and, without full attention, 8 for each and two requests of memory's tokens or of
    max_request_tokens, if one is given. event_capacity: events to keep for events(); 0 = none. watermark_blocks: blocks of each pool that an
    admission leaves available while other requests run. vocab_size: token ids must be below it; 0 = any that are not negative. seed: secret of
    the hash; 0 = random; it never changes a result. touch_memory: take all memory of the manager from the system now, not when it is first used.

    policy: which cached block is evicted first. "lru": the least recently released one. "frequency": the one with the least last use + A *
    log2(uses), for prompts that come back after others; A is policy_weight (0 .. 1000, 0 = 1) times the blocks of the pool, and uses of
    policy_history evicted blocks are remembered (0 = 4 * blocks). "fragmentation": blocks that no hit can use, since another group with full
    attention lost its block, go first; policy_weight 0 = as "lru" .. 1 = all of them first.

    hints: evict by priorities before the policy: Request.set_priority(), Request.end_session(), set_prefix_priority().

    max_quotas: namespaces that may have a quota, at most 63: set_quota().

    fills: follow which request computes which tokens: allocate(wait_until_ns=...), RequestFlags.PUBLISH_ENQUEUED and SHARE_FILLING, fail_step().
    max_blocks: blocks to which resize() may enlarge the pool, or a sequence for each pool; 0 = num_blocks. Room costs addresses, not memory.
    headroom: remember how many tokens ended requests got, for allocate(headroom=...) and expected_tokens().
    partial_reuse: hits may end inside a block; the cached block that shares most of the tokens after the hit is copied: Step.copies, take_pending().
    record_bytes: room for a log of the calls, at least 4096; 0 = no log: take_log().

    offload: URLs of tiers, or Tier objects, fastest first, in which what requests compute outlives eviction and the process, such as
    "slab:/var/cache/kv?bytes=64GiB"; empty = none. allocate() then waits for what it finds there, and a later allocate(), or close(), stores what was
    committed since. storages: the Storage of each group. model, weights, numerics: what computes the blocks: see Storage.page_info(). The attribute
    `offload` is the Offload, or None: its flush() stores what is not stored yet. An engine that must not wait makes an Offload itself instead.

    close() frees the manager as soon as the last call in another thread, the last Step and its arrays are gone. With `offload` it first stores what
    waits, for 10 seconds at most."""

    def __init__(self, num_blocks: int | Sequence[int] = 0, block_size: int = 0, *, memory: Optional[Memory] = None,
                 groups: Sequence[Group] = (), null_block: bool = False,
                 prefix_cache: bool = True, zero: str = "never", max_requests: int = 0, max_request_tokens: int = 0, max_nodes: int = 0,
                 event_capacity: int = 0, watermark_blocks: int = 0, vocab_size: int = 0, seed: int = 0, policy: str = "lru",
                 policy_weight: float = 0, policy_history: int = 0, touch_memory: bool = False, hints: bool = False, fills: bool = False,
                 max_quotas: int = 0, max_blocks: int | Sequence[int] = 0, headroom: bool = False, record_bytes: int = 0,
                 partial_reuse: bool = False, offload: Tier | str | Sequence[Tier | str] = (), storages: Storage | Sequence[Storage] = (),
                 model: bytes = b"", weights: bytes = b"", numerics: bytes = b""):
        self.offload: Any = None
        self._computed_by = {"storages": storages, "model": model, "weights": weights, "numerics": numerics}
        config = _native.kvc_manager_config()
        config.block_size = block_size
        if policy not in _POLICIES:
            raise ValueError(f"policy is {policy!r}; it must be one of {', '.join(map(repr, _POLICIES))}")
        config.policy, config.policy_weight, config.policy_history = _POLICIES[policy], policy_weight, policy_history
        if zero not in _ZERO:
            raise ValueError(f"zero is {zero!r}; it must be one of {', '.join(map(repr, _ZERO))}")
        config.flags = _ZERO[zero] | (_native.KVC_MANAGER_NULL_BLOCK if null_block else 0) | (0 if prefix_cache else _native.KVC_MANAGER_NO_PREFIX_CACHE)
        config.flags |= (_native.KVC_MANAGER_TOUCH_MEMORY if touch_memory else 0) | (_native.KVC_MANAGER_HINTS if hints else 0)
        config.flags |= _native.KVC_MANAGER_FILLS if fills else 0
        config.flags |= _native.KVC_MANAGER_HEADROOM if headroom else 0
        config.flags |= _native.KVC_MANAGER_PARTIAL_REUSE if partial_reuse else 0
        config.max_requests, config.max_request_tokens, config.max_nodes = max_requests, max_request_tokens, max_nodes
        if memory is not None:
            if not isinstance(memory, Memory):
                raise TypeError(f"memory is {memory!r:.100}; it must be a kvcache.Memory: pass model.memory(budget_bytes=...)")
            config.set_memory(memory._model._model, memory._query)
        config.watermark_blocks, config.vocab_size, config.seed = watermark_blocks, vocab_size, seed
        config.event_capacity = event_capacity or (_OFFLOAD_EVENTS if offload else 0)
        config.max_quotas, config.record_bytes = max_quotas, record_bytes
        pools, group_array = None, None
        if isinstance(groups, Group) or not hasattr(groups, "__iter__"):
            raise TypeError(f"groups is {groups!r:.100}; it must be a sequence of kvcache.Group: pass groups=[kvcache.Group(...)]")
        groups = tuple(groups)
        rooms: tuple[int, ...]
        if hasattr(max_blocks, "__index__"):
            rooms = (whole(max_blocks),)
        elif isinstance(max_blocks, str) or not hasattr(max_blocks, "__iter__"):
            raise TypeError(f"max_blocks is {max_blocks!r}; it must be an int, or a sequence with a number for each pool")
        else:
            rooms = tuple(max_blocks)
        if hasattr(num_blocks, "__index__"):
            if len(rooms) > 1:
                raise ValueError(f"max_blocks has {len(rooms)} entries for one pool")
            config.num_blocks, config.max_blocks = whole(num_blocks), whole(rooms[0]) if rooms else 0
        elif isinstance(num_blocks, str) or not hasattr(num_blocks, "__iter__"):
            raise TypeError(f"num_blocks is {num_blocks!r}; it must be an int, or a sequence with the blocks of each pool")
        else:
            num_blocks = tuple(num_blocks)
            if rooms in ((), (0,)):
                rooms = (0,) * len(num_blocks)
            if len(rooms) != len(num_blocks):
                raise ValueError(f"max_blocks has {len(rooms)} entries for {len(num_blocks)} pools")
            pools = _native.new_kvc_pool_configs(len(num_blocks))
            config.pools, config.num_pools = pools, len(num_blocks)
            for i, blocks in enumerate(num_blocks):
                pool = _native.kvc_pool_config()
                pool.num_blocks, pool.max_blocks = blocks, rooms[i]
                _native.kvc_pool_configs_setitem(pools, i, pool)
        if groups:
            group_array = _native.new_kvc_group_configs(len(groups))
            config.groups, config.num_groups = group_array, len(groups)
            for i, group in enumerate(groups):
                _native.kvc_group_configs_setitem(group_array, i, _group_config(i, group))
        try:
            self._m: Any = self._create(config)
        finally:
            if pools:
                _native.delete_kvc_pool_configs(pools)
            if group_array:
                _native.delete_kvc_group_configs(group_array)
        self._dropped: collections.deque[Any] = collections.deque()
        if offload:
            self.offload = self._write_through(self, storages, offload, model, weights, numerics)

    _create = staticmethod(_native.kvc_manager_create)
    _write_through: Callable[..., Any]  # makes an Offload; offload.py, which stands above this module, sets it

    def rebuild(self, num_blocks: int | Sequence[int] = 0, block_size: int = 0, *, memory: Optional[Memory] = None,
                groups: Sequence[Group] = (), null_block: bool = False,
                prefix_cache: bool = True, zero: str = "never", max_requests: int = 0, max_request_tokens: int = 0, max_nodes: int = 0,
                event_capacity: int = 0, watermark_blocks: int = 0, vocab_size: int = 0, seed: int = 0, policy: str = "lru",
                policy_weight: float = 0, policy_history: int = 0, touch_memory: bool = False, hints: bool = False, fills: bool = False,
                max_quotas: int = 0, max_blocks: int | Sequence[int] = 0, headroom: bool = False,
                partial_reuse: bool = False) -> Rebuilt:
        """Creates a manager of another configuration that has what this one has cached: the way to change block_size, the number of blocks or
        the policy. Parameters as for Manager(); `groups` as this manager's. This manager stays as it is; close it when the copies are done. A
        smaller pool keeps what would be evicted last. Raises BusyError while requests are admitted, blocks held or steps in flight, and
        UnsupportedError for groups with a window."""
        made: Manager = object.__new__(Manager)
        found: list[Any] = []
        made._create = lambda config: self._rebuild(config, found)
        made.__init__(  # type: ignore[misc]
            num_blocks, block_size, memory=memory, groups=groups, null_block=null_block, prefix_cache=prefix_cache, zero=zero,
            max_requests=max_requests, max_request_tokens=max_request_tokens, max_nodes=max_nodes, event_capacity=event_capacity,
            watermark_blocks=watermark_blocks, vocab_size=vocab_size, seed=seed, policy=policy, policy_weight=policy_weight,
            policy_history=policy_history, touch_memory=touch_memory, hints=hints, fills=fills, max_quotas=max_quotas,
            max_blocks=max_blocks, headroom=headroom, partial_reuse=partial_reuse)
        del made._create
        copies, pairs = found
        return Rebuilt(made, copies, {old: Namespace(made, new) for old, new in pairs.tolist()})

    def _rebuild(self, config: _native.kvc_manager_config, found: list[Any]) -> Any:
        size = 1024
        while True:
            copies, pairs = np.empty((size, 6), np.int32), np.empty((size, 2), np.uint64)
            try:
                m, num_copies, num_pairs = _native.kvc_manager_rebuild(self._m, config, copies, pairs)
            except BufferTooSmallError:
                size *= 4
            else:
                found += copies[:num_copies], pairs[:num_pairs]
                return m

    def close(self) -> None:
        """Closes the manager. Later calls raise ValueError; closing again does nothing."""
        try:
            if self.offload is not None:
                self.offload._finish()
        finally:
            self._m = None

    def __enter__(self) -> Manager:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if getattr(self, "_m", None) is None:
            return "<kvcache.Manager, closed>"
        stats = self.stats
        held = stats.blocks_total - stats.blocks_free - stats.blocks_cached
        return (f"<kvcache.Manager: {stats.blocks_total} blocks of {self.properties.block_size} tokens, {held} held, {stats.blocks_cached} cached, "
                f"{stats.live_requests} requests admitted, {stats.waiting_requests} waiting>")

    def _free_dropped(self) -> None:
        while self._dropped:
            close, id = self._dropped.popleft()
            try:
                close(self._m, id)
            except KvCacheError:  # freed by other means, or a namespace that is still in use
                pass

    # ---- requests

    def allocate(self, tokens: Tokens, keys: Optional[Iterable[ExtraKey]] = None, namespace: Namespace | int = 0, *, lookahead: int = 0,
                 slots: int = 0, external_tokens: int = 0, max_cached_tokens: int = 0, drop_tail_blocks: int = 0, user_data: int = 0,
                 flags: RequestFlags | int = 0, wait_until_ns: int = 0, headroom: str = "none", cross_tokens: int = 0, cross_digest: bytes = b"") -> Request:
        """Creates and admits a request: finds its longest cached prefix and takes blocks for the rest, all or nothing. The first
        request.num_cached tokens need no compute.

        tokens: int32 [n]. keys: extra keys. namespace: a Namespace or its id. lookahead: slots to reserve past the known tokens, for drafts.
        slots: tokens after the hit that get slots now, such as the first chunk of a prefill; 0 = all. external_tokens: tokens after the hit
        that a transfer will fill; they get slots besides. max_cached_tokens: upper bound of the hit; 0 = none. drop_tail_blocks: blocks by
        which a hit is shortened, for draft heads that need hidden states. user_data: number that Request.info returns. flags: RequestFlags.
        wait_until_ns: until then the request is not admitted (FillingError) while another one computes its next tokens; 0 = it computes them too.
        Needs Manager(fills=True).
        headroom: take room for the tokens that the request will probably get, as many as of the ended requests 50 % ("minimal"), 75 %
        ("balanced") or 95 % ("aggressive") got; appends within it never lack a block. With a window or chunks in some group the admission only
        asks for that room. Needs Manager(headroom=True).

        cross_tokens: tokens of the request's encoder, for which each cross group gets blocks. cross_digest: digest of the encoder's input (32
        bytes): requests with equal ones share its blocks (Request.info.num_cross_cached), and what the decoder computed with them; empty =
        private, which shares nothing. Needs a Group with cross=True.

        With Manager(offload=...) it waits for what the tiers have of the prompt.

        Raises NoSpaceError, of which NeverFitsError is for good, FillingError, InvalidArgumentError, NotFoundError (namespace), LimitError; then there is no request."""
        if self.offload is not None:
            request = self.create(tokens, keys, namespace, lookahead=lookahead, slots=slots, external_tokens=external_tokens,
                                  max_cached_tokens=max_cached_tokens, drop_tail_blocks=drop_tail_blocks, user_data=user_data, flags=flags,
                                  wait_until_ns=wait_until_ns, headroom=headroom, cross_tokens=cross_tokens, cross_digest=cross_digest)
            try:
                self.offload.admit(request)
            except BaseException:
                request.free()
                raise
            return request
        self._free_dropped()
        config = request_config(lookahead, slots, external_tokens, max_cached_tokens, drop_tail_blocks, user_data, flags, wait_until_ns, headroom,
                                cross_tokens, cross_digest)
        return Request(self, *_native.kvc_manager_allocate_request(self._m, namespace_id(namespace), tokens, pack_keys(keys), config))

    def create(self, tokens: Tokens, keys: Optional[Iterable[ExtraKey]] = None, namespace: Namespace | int = 0, *, lookahead: int = 0,
               slots: int = 0, external_tokens: int = 0, max_cached_tokens: int = 0, drop_tail_blocks: int = 0, user_data: int = 0,
               flags: RequestFlags | int = 0, wait_until_ns: int = 0, headroom: str = "none", cross_tokens: int = 0, cross_digest: bytes = b"") -> Request:
        """Creates a waiting request: its tokens are copied and hashed, and it gets no block. Parameters as for allocate()."""
        self._free_dropped()
        config = request_config(lookahead, slots, external_tokens, max_cached_tokens, drop_tail_blocks, user_data, flags, wait_until_ns, headroom,
                                cross_tokens, cross_digest)
        return Request(self, _native.kvc_manager_create_request(self._m, namespace_id(namespace), tokens, pack_keys(keys), config))

    def admit_batch(self, requests: Sequence[Request], statuses: Optional[numpy.ndarray] = None) -> list[int]:
        """Admits waiting requests, all or none, and returns the tokens of their hits. Each is planned as if those before it were admitted. If all fit,
        their hits are held before the first takes a block; else all wait as before. A hit is a multiple of block_size, also with partial_reuse.

        statuses: int32 [n], written with a Status for each: if one is refused, those that would fit are SKIPPED, and so are those behind one of the
        same quota that has no space, which are not tried. Raises what Request.admit() raises for the first that is refused; item of the error is
        ("requests", its index)."""
        batch = list(requests)
        for i, request in enumerate(batch):
            if not isinstance(request, Request):
                raise TypeError(f"requests[{i}] is {request!r:.100}; it must be a kvcache.Request")
        told = np.empty(len(batch), np.int32) if statuses is None else take("statuses", statuses, {"requests": len(batch)}, written=True)
        cached = np.empty(len(batch), np.uint64)
        told[:] = _native.KVC_OK
        try:
            _native.kvc_manager_admit_batch(self._m, [request.id for request in batch], cached, told)
        except KvCacheError as error:
            if refused := np.flatnonzero((told != _native.KVC_OK) & (told != _native.KVC_ERROR_SKIPPED)).tolist():
                error.item = "requests", refused[0]
            raise
        hits: list[int] = cached.tolist()
        for request, hit in zip(batch, hits):
            request.num_cached = hit
        return hits

    def allocate_batch(self, prompts: Iterable[Tokens], keys: Optional[Iterable[ExtraKey]] = None, namespace: Namespace | int = 0, *,
                       lookahead: int = 0, slots: int = 0, external_tokens: int = 0, max_cached_tokens: int = 0, drop_tail_blocks: int = 0,
                       user_data: int = 0, flags: RequestFlags | int = 0, wait_until_ns: int = 0, headroom: str = "none", cross_tokens: int = 0,
                       cross_digest: bytes = b"") -> list[Request]:
        """Creates and admits a request for each prompt, all or none, as admit_batch(). Other parameters as for allocate(), the same for all. It does
        not wait for tiers: Offload.admit() does, for one request. Raises what allocate() raises; then there is no request."""
        batch: list[Request] = []
        keys = None if keys is None else list(keys)
        try:
            for tokens in prompts:
                batch.append(self.create(tokens, keys, namespace, lookahead=lookahead, slots=slots, external_tokens=external_tokens,
                                         max_cached_tokens=max_cached_tokens, drop_tail_blocks=drop_tail_blocks, user_data=user_data, flags=flags,
                                         wait_until_ns=wait_until_ns, headroom=headroom, cross_tokens=cross_tokens, cross_digest=cross_digest))
            self.admit_batch(batch)
        except BaseException:
            for request in reversed(batch):
                request.close()
            raise
        return batch

    def request(self, id: int) -> Request:
        """Returns a Request for an id, such as one of Step.admitted. Only free() frees it. Raises NotFoundError if there is no such request."""
        if isinstance(id, Request):
            raise TypeError(f"id is {id!r}; it must be an int: use the Request itself, or pass its id")
        request = Request(self, id, owned=False)
        request.num_cached = request.info.num_cached
        request.id = whole(id)  # a plain int, whatever type of number it came as
        return request

    def requests(self) -> list[int]:
        """Returns the ids of all requests."""
        ids: list[int] = grown(lambda room: _native.kvc_manager_list_requests(self._m, room), np.uint64, 64).tolist()
        return ids

    def pins(self) -> list[int]:
        """Returns the ids of all pins."""
        ids: list[int] = grown(lambda room: _native.kvc_manager_list_pins(self._m, room), np.uint64, 64).tolist()
        return ids

    def namespaces(self) -> list[int]:
        """Returns the ids of the open namespaces besides the default one."""
        ids: list[int] = grown(lambda room: _native.kvc_manager_list_namespaces(self._m, room), np.uint64, 64).tolist()
        return ids

    def block_tables(self, requests: numpy.ndarray, out: numpy.ndarray, group: int = 0, fill_id: int = -1) -> numpy.ndarray:
        """Writes whole block tables, and returns `out`. requests: uint64 [n] ids of admitted requests. out: int32 [n, entries]. An entry
        without a block is fill_id. Raises BufferTooSmallError if a table has more entries."""
        sizes: Sizes = {}
        requests = take("requests", requests, sizes)
        written = take("block_tables.out", out, sizes, written=True)
        _native.kvc_manager_export_tables(self._m, requests, group, fill_id, written.reshape(-1))
        return out

    def common_prefix(self, requests: numpy.ndarray | Sequence[int], group: int = 0) -> int:
        """Returns how many first blocks the tables of requests (ids, uint64 [n]) have in common in a group, as cascade attention reads them once for
        all. A position without a block ends it; a waiting request has none."""
        return _native.kvc_manager_common_prefix(self._m, requests, group)

    def take_pending(self) -> PendingWork:
        """Takes the work of all calls since the last take: the copies of single calls (those of a Step are in Step.copies), and the blocks
        to clear, if `zero` is not "never". Execute the copies of the step first, then these, then the clears, before anything else
        writes to these blocks."""
        size = 64
        while True:
            copies, zero_blocks = np.empty((size, 2), np.int32), np.empty(size, np.int32)
            try:
                num_copies, num_zero_blocks = _native.kvc_manager_take_pending(self._m, copies, zero_blocks)
            except BufferTooSmallError:
                size *= 4
            else:
                return PendingWork(copies[:num_copies], zero_blocks[:num_zero_blocks])

    def compact(self, pool: int = 0, max_moves: int = 4096) -> numpy.ndarray:
        """Moves contents from the highest blocks of a pool to its lowest free ones. Returns the moves: int32 [n, 2] of (source, destination).
        Execute them before any block is read or written. If n is max_moves, another call may find more. Raises BusyError while a step is
        in flight or work is pending."""
        at_least_0("max_moves", max_moves)
        moves = np.empty((max_moves, 2), np.int32)
        return moves[: _native.kvc_manager_compact(self._m, pool, moves)]

    def resize(self, num_blocks: int, pool: int = 0) -> numpy.ndarray:
        """Changes the number of blocks of a pool, null block included, up to max_blocks of the Manager. A pool that grows has more free blocks at
        once. One that shrinks evicts cached blocks, if it must, in the order of the policy, and moves what is held or cached to the blocks that
        stay. Returns the moves: int32 [n, 2] of (source, destination). Execute them before any block is read or written.

        Raises NoSpaceError if more blocks are held, AgainError while a step is in flight, BusyError for pending work and for an external hold
        on a block that would leave, InvalidArgumentError for a number that cannot be. Then nothing changes."""
        return grown(lambda moves: _native.kvc_manager_resize(self._m, pool, num_blocks, moves), np.int32, 64, 2)

    def expected_tokens(self, headroom: str, generated: int = 0) -> int:
        """Returns how many tokens a request with `generated` tokens after its prompt will probably still get: so many that of the ended requests
        with at least as many, 50 % ("minimal"), 75 % ("balanced") or 95 % ("aggressive") got no more. Needs Manager(headroom=True)."""
        return _native.kvc_manager_expected_tokens(self._m, headroom_number(headroom), generated)

    # ---- prefixes

    def namespace(self, model: Optional[bytes] = None, adapter: Optional[bytes] = None, tenant: Optional[bytes] = None) -> Namespace:
        """Opens the namespace with this identity. A part that is None is absent; b"" is present and empty, which is different."""
        return Namespace(self, _native.kvc_manager_open_namespace(self._m, model, adapter, tenant))

    def reset_namespace(self, namespace: Namespace | int) -> None:
        """Forgets all cached content of a namespace (0 = the default one alone) in constant time. Requests keep their blocks and finish."""
        _native.kvc_manager_reset_namespace(self._m, namespace_id(namespace))

    def reset_all(self) -> None:
        """Forgets all cached content of all namespaces, as reset_namespace of each would."""
        _native.kvc_manager_reset_all(self._m)

    def set_prefix_caching(self, on: bool) -> None:
        """Switches prefix caching off and on, for example to measure without it; a manager begins with it on.

        Off: admissions, probe() and acquire_prefix() find nothing, and nothing is published. Cached blocks stay until they are evicted, and can hit when
        it is on again; pins, registered prompts, hints and checkpoints are as ever. Admitted requests keep their blocks. A request that was admitted at
        any moment while it was off publishes nothing until it is preempted and admitted again. rebuild() and checkpoints do not carry the switch: set it
        again. Raises TypeError (no bool), UnsupportedError (on, with prefix_cache=False)."""
        if not isinstance(on, bool):
            raise TypeError(f"on is {on!r}; give True or False")
        _native.kvc_manager_set_prefix_caching(self._m, on)

    def set_quota(self, namespace: Namespace | int = 0, pool: int = 0, *, min_blocks: int = 0, max_blocks: int = 0) -> None:
        """Sets the quota of a namespace in one pool: the blocks that it can always hold, and those that it may have at most (0 = no maximum).

        While it has no more than min_blocks, what it has cached is not evicted for others; at max_blocks it evicts its own cached blocks. Blocks
        that it has already count. A minimum of 0 and no maximum in every pool end the quota.
        Raises InvalidArgumentError (a maximum or a sum of minimums above the pool), NotFoundError (namespace), LimitError (max_quotas namespaces have
        one), NoSpaceError (others hold blocks of the minimum now), UnsupportedError (max_quotas is 0); then nothing is changed."""
        _native.kvc_manager_set_quota(self._m, namespace_id(namespace), pool, min_blocks, max_blocks)

    def quota_info(self, namespace: Namespace | int = 0, pool: int = 0) -> QuotaInfo:
        """Returns the share of a namespace in one pool; of a namespace without a quota the common share of all such namespaces, whose minimum and
        maximum are 0. Raises NotFoundError (namespace), UnsupportedError (max_quotas is 0)."""
        return QuotaInfo.of(_native.kvc_manager_quota_info, self._m, namespace_id(namespace), pool)

    def probe(self, tokens: Tokens, keys: Optional[Iterable[ExtraKey]] = None, namespace: Namespace | int = 0) -> ProbeInfo:
        """Asks whether a prompt would fit, and how much of it is cached. Changes nothing."""
        return ProbeInfo.of(_native.kvc_manager_probe, self._m, namespace_id(namespace), tokens, pack_keys(keys))

    def position_digests(self, tokens: Tokens, keys: Optional[Iterable[ExtraKey]] = None, namespace: Namespace | int = 0) -> numpy.ndarray:
        """Computes the digests of the prefix positions of a prompt, uint8 [full blocks, 32]: of each full block over the namespace's identity and all
        tokens and extra keys up to its end, as Event.digest. page_keys() makes keys of them. Changes nothing."""
        packed = pack_keys(keys)
        return grown(lambda out: _native.kvc_manager_position_digests(self._m, namespace_id(namespace), tokens, packed, out), np.uint8, 256, 32)

    def probe_request(self, request: Request | int) -> ProbeInfo:
        """Asks what the admission of a waiting request would find, with its options. Changes nothing. Raises BusyError if it is admitted."""
        return ProbeInfo.of(_native.kvc_manager_probe_request, self._m, request.id if isinstance(request, Request) else request)

    def pin(self, tokens: Tokens, keys: Optional[Iterable[ExtraKey]] = None, namespace: Namespace | int = 0) -> Pin:
        """Protects the cached part of a prefix from eviction. Raises NotFoundError if no block is cached."""
        return Pin(self, *_native.kvc_manager_pin_prefix(self._m, namespace_id(namespace), tokens, pack_keys(keys)))

    def drop(self, tokens: Tokens, keys: Optional[Iterable[ExtraKey]] = None, namespace: Namespace | int = 0) -> int:
        """Drops the cached blocks of these tokens that nobody holds. Returns their number."""
        return _native.kvc_manager_drop_prefix(self._m, namespace_id(namespace), tokens, pack_keys(keys))

    def set_prefix_priority(self, tokens: Tokens, priority: int, keys: Optional[Iterable[ExtraKey]] = None, namespace: Namespace | int = 0, *,
                            until_ns: int = 0, first_token: int = 0) -> int:
        """Hints the cached part of a prompt from first_token on: priority 0 (evicted first) to 100, 35 without a hint. until_ns: when the hint
        ends, in the time of set_time(); 0 = never. PRIORITY_DEMOTED, without until_ns, demotes the end of the prompt down to first_token; a
        position that others use ends it. Returns the tokens that took the hint. Needs `hints`."""
        return _native.kvc_manager_set_prefix_priority(self._m, namespace_id(namespace), tokens, pack_keys(keys), first_token, priority, until_ns)

    def set_time(self, now_ns: int) -> None:
        """Tells the time of a monotonic clock in nanoseconds, and ends the hints whose time has passed. Raises InvalidArgumentError for an
        earlier time than before."""
        _native.kvc_manager_set_time(self._m, now_ns)

    def register_prompt(self, name: str, tokens: Tokens, keys: Optional[Iterable[ExtraKey]] = None, namespace: Namespace | int = 0) -> int:
        """Registers a prompt, such as a system prompt, under a name of 1 to 255 bytes. What is cached of it, and what its requests compute of
        it, is pinned until it is unregistered. Returns the tokens pinned now. Raises InvalidArgumentError if the name is registered."""
        return _native.kvc_manager_register_prompt(self._m, name, namespace_id(namespace), tokens, pack_keys(keys))

    def allocate_from_prompt(self, name: str, tokens: Tokens = (), *, lookahead: int = 0, slots: int = 0, external_tokens: int = 0,
                       max_cached_tokens: int = 0, drop_tail_blocks: int = 0, user_data: int = 0, flags: RequestFlags | int = 0,
                       wait_until_ns: int = 0, headroom: str = "none", cross_tokens: int = 0, cross_digest: bytes = b"") -> Request:
        """Creates and admits a request with a registered prompt, followed by tokens (int32 [n]). Other parameters as for allocate(). Raises
        NotFoundError if there is no such name, and what allocate() raises; then there is no request."""
        self._free_dropped()
        config = request_config(lookahead, slots, external_tokens, max_cached_tokens, drop_tail_blocks, user_data, flags, wait_until_ns, headroom,
                                cross_tokens, cross_digest)
        return Request(self, *_native.kvc_manager_allocate_from_prompt(self._m, name, tokens, config))

    def unregister_prompt(self, name: str) -> None:
        """Ends a registration and its pin. Raises NotFoundError."""
        _native.kvc_manager_unregister_prompt(self._m, name)

    def prompts(self) -> list[str]:
        """Returns the names of the registered prompts."""
        names = grown(lambda room: _native.kvc_manager_list_prompts(self._m, room), np.uint8, 1024).tobytes()
        return [name.decode("utf-8", "surrogateescape") for name in names.split(b"\0")[:-1]]

    # ---- the log of its calls

    def take_log(self) -> bytes:
        """Returns what was logged since the last take, as one part of a log, and empties the log; b"" if there is nothing new. Append the parts
        to a file: replay_log() and `kvcache replay --log` make the calls again. A log has the tokens of all prompts. Raises UnsupportedError if
        record_bytes is 0."""
        part: bytes = grown(lambda room: _native.kvc_manager_take_log(self._m, room), np.uint8, 4096).tobytes()
        return part

    def log_info(self) -> LogInfo:
        """Returns the state of the log."""
        return LogInfo.of(_native.kvc_manager_log_info, self._m)

    def evict(self, max_blocks: int, pool: int = -1) -> int:
        """Evicts up to max_blocks cached blocks in the order of the policy. pool: the index of a pool; -1 = all, pool by pool. Returns
        their number."""
        return _native.kvc_manager_evict_blocks(self._m, pool, max_blocks)

    # ---- miss-ratio curves

    def open_curve(self, namespace: Namespace | int = ALL_NAMESPACES, *, sample_rate: float = 0.0, max_samples: int = 0, max_blocks: int = 0,
                   half_life: int = 0) -> None:
        """Starts to measure the hit rate of block queries that x blocks under LRU would have, for all x at once.

        namespace: a namespace, as if it had the cache alone; ALL_NAMESPACES = all of them in one cache. sample_rate: share of the blocks to follow, up
        to 1, which is exact; 0 = what max_samples allows. max_samples: 0 = 16,000; without a limit if sample_rate is set.
        max_blocks: largest size to ask for; 0 = 8 times the blocks of the manager. half_life: after so many block queries earlier ones count
        half; 0 = all count alike. Raises BusyError if the namespace has a curve, LimitError after 64 curves, UnsupportedError without a
        prefix cache."""
        config = _native.kvc_curve_config()
        config.sample_rate, config.max_samples, config.max_blocks, config.half_life = sample_rate, max_samples, max_blocks, half_life
        _native.kvc_manager_open_curve(self._m, namespace_id(namespace), config)

    def close_curve(self, namespace: Namespace | int = ALL_NAMESPACES) -> None:
        """Ends a curve and frees its memory. Raises NotFoundError if there is none."""
        _native.kvc_manager_close_curve(self._m, namespace_id(namespace))

    def hit_rates(self, num_blocks: numpy.ndarray | Sequence[int], namespace: Namespace | int = ALL_NAMESPACES) -> numpy.ndarray:
        """Returns the share of the block queries that caches of these sizes would answer: float64 [sizes]. num_blocks: ascending, uint64.
        Raises NotFoundError if there is no curve."""
        sizes = take("num_blocks", num_blocks)
        rates = np.empty(len(sizes))
        _native.kvc_manager_read_curve(self._m, namespace_id(namespace), sizes, as_bytes(rates))
        return rates

    def curve(self, namespace: Namespace | int = ALL_NAMESPACES) -> CurveInfo:
        """Returns what a curve has seen. Raises NotFoundError if there is none."""
        return CurveInfo.of(_native.kvc_manager_curve_info, self._m, namespace_id(namespace))

    # ---- external holds, for engines with their own block tables

    def acquire_blocks(self, num_blocks: int, group: int = 0) -> numpy.ndarray:
        """Takes blocks of a group's pool, all or nothing: int32 [num_blocks]. Each gets one external hold. Raises NoSpaceError, AgainError."""
        at_least_0("num_blocks", num_blocks)
        out = np.empty(num_blocks, np.int32)
        _native.kvc_manager_acquire_blocks(self._m, group, out)
        return out

    def acquire_prefix(self, tokens: Tokens, keys: Optional[Iterable[ExtraKey]] = None, namespace: Namespace | int = 0,
                       group: int = 0) -> numpy.ndarray:
        """Takes an external hold on each cached block of a prefix: int32 [positions], -1 where a window does not need the block."""
        packed, id = pack_keys(keys), namespace_id(namespace)
        return grown(lambda room: _native.kvc_manager_acquire_prefix(self._m, id, tokens, packed, group, room), np.int32, 64)

    def publish_blocks(self, tokens: Tokens, blocks: Tokens, keys: Optional[Iterable[ExtraKey]] = None, namespace: Namespace | int = 0,
                       group: int = 0) -> None:
        """Publishes externally held blocks as the KV of the first len(blocks) * block_size tokens, which must be written. Raises
        NotHeldError for a block without an external hold."""
        _native.kvc_manager_publish_blocks(self._m, namespace_id(namespace), tokens, pack_keys(keys), group, blocks)

    def release_blocks(self, blocks: Tokens) -> None:
        """Releases one external hold per entry, all or nothing. Raises NotHeldError."""
        _native.kvc_manager_release_blocks(self._m, blocks)

    def unpublish_blocks(self, blocks: Tokens) -> int:
        """Makes blocks (int32 ids) unfindable because their bytes are wrong, for example after a failed load. Returns how many were
        published. Cached blocks become free; held blocks stay with their holders."""
        return _native.kvc_manager_unpublish_blocks(self._m, blocks)

    # ---- state

    @property
    def stats(self) -> Stats:
        """Counters and gauges as of the last finished call. Does not wait for the manager's lock."""
        return Stats.of(_native.kvc_manager_read_stats, self._m)

    @property
    def usage(self) -> float:
        """Part of the blocks that is held (neither free nor cached), 0 .. 1."""
        stats = _native.kvc_stats()
        _native.kvc_manager_read_stats(self._m, stats)
        return 1 - (stats.blocks_free + stats.blocks_cached) / stats.blocks_total

    @property
    def properties(self) -> Properties:
        """Configuration of the manager, with defaults filled in."""
        return Properties.of(_native.kvc_manager_properties, self._m)

    def pool_info(self, pool: int = 0) -> PoolInfo:
        """Returns the blocks of a pool by state."""
        return PoolInfo.of(_native.kvc_manager_pool_info, self._m, pool)

    def lost_reuse(self, group: int) -> LostReuse:
        """Returns the reuse that a group has lost, by reason."""
        return LostReuse.of(_native.kvc_manager_lost_reuse, self._m, group)

    def block_info(self, block: int) -> BlockInfo:
        """Returns the state of one block."""
        return BlockInfo.of(_native.kvc_manager_block_info, self._m, block)

    def digest(self) -> int:
        """Hashes the state. Equal sequences of calls give equal digests in any build and process."""
        return _native.kvc_manager_digest(self._m)

    def content_digest(self) -> bytes:
        """Hashes what is cached: namespaces, positions, which of them has a block in which group, and the order of eviction: 32 bytes, equal in all
        processes, whatever the ids of blocks. A restored checkpoint has it: CheckpointInfo.content."""
        digest = np.empty(32, np.uint8)
        _native.kvc_manager_content_digest(self._m, digest)
        return digest.tobytes()

    _save: Callable[..., Any]  # save_checkpoint and restore_checkpoint; checkpoints.py, which stands above this module, sets them
    _restore: Callable[..., Any]

    def save(self, folder: Any, storages: Storage | Sequence[Optional[Storage]] | None = None, *, model: Optional[bytes] = None,
             weights: Optional[bytes] = None, numerics: Optional[bytes] = None, codec: str = "none", level: int = 0, full: bool = False,
             increment: bool = False, requests: bool = False, keep_last: int = 0, sync: bool = True, interval_ns: int = 0, last_ns: int = 0,
             now_ns: int = 0) -> Any:
        """Saves what is cached, with the bytes of its blocks, to a folder of checkpoints, and returns the CheckpointInfo. storages, model, weights,
        numerics: those that the Manager was made with, unless given. save_checkpoint() says what the others mean, and what it raises."""
        return self._save(folder=folder, codec=codec, level=level, full=full, increment=increment, requests=requests, keep_last=keep_last, sync=sync,
                          interval_ns=interval_ns, last_ns=last_ns, now_ns=now_ns,
                          **self._sources(storages=storages, model=model, weights=weights, numerics=numerics))

    def restore(self, folder: Any, storages: Storage | Sequence[Optional[Storage]] | None = None, *, model: Optional[bytes] = None,
                weights: Optional[bytes] = None, numerics: Optional[bytes] = None, id: int = 0, requests: bool = False,
                bytes_elsewhere: bool = False, cache_only: bool = False) -> Any:
        """Takes over the newest checkpoint of a folder, or the one with an id; the Manager must be new. Returns a Restored. storages, model, weights,
        numerics: those that the Manager was made with, unless given. restore_checkpoint() says what the others mean, and what it raises."""
        return self._restore(folder=folder, id=id, requests=requests, bytes_elsewhere=bytes_elsewhere, cache_only=cache_only,
                             **self._sources(storages=storages, model=model, weights=weights, numerics=numerics))

    def _sources(self, **given: Any) -> dict[str, Any]:
        return {**self._computed_by, **{name: value for name, value in given.items() if value is not None}}

    def check(self) -> None:
        """Checks every invariant of the state. Raises CorruptError."""
        _native.kvc_manager_check(self._m)

    def retire_step(self, step_id: int) -> None:
        """States that the kernels of all steps up to step_id have finished. Blocks fenced for these steps become available."""
        _native.kvc_manager_retire_step(self._m, step_id)

    def fail_step(self, step_id: int) -> list[int]:
        """Says that the kernels of a step in flight, and of all later ones, did not write their blocks. Requests that hold such a block are preempted,
        in the order of their admissions; returns their ids. Raises InvalidArgumentError (no step in flight), UnsupportedError."""
        ids: list[int] = grown(lambda room: _native.kvc_manager_fail_step(self._m, step_id, room), np.uint64, 64).tolist()
        return ids

    def events(self, cursor: int = 0) -> EventReader:
        """Returns an iterator over the events from `cursor` on. Needs event_capacity."""
        return EventReader(self, cursor)

    def prefixes(self) -> Prefixes:
        """Returns an iterator over what can be found now, for readers that have lost events. Needs event_capacity."""
        return Prefixes(self)


def _group_config(index: int, group: Group) -> _native.kvc_group_config:
    if not isinstance(group, Group):
        raise TypeError(f"groups[{index}] is {group!r:.100}; it must be a kvcache.Group")
    config = _native.kvc_group_config()
    if group.state:
        config.kind = _native.KVC_GROUP_STATE
    elif group.cross:
        config.kind = _native.KVC_GROUP_CROSS
    elif group.window_tokens:
        config.kind = _native.KVC_GROUP_SLIDING_WINDOW
    else:
        config.kind = _native.KVC_GROUP_CHUNKED_LOCAL if group.chunk_tokens else _native.KVC_GROUP_FULL
    config.chunk_tokens, config.max_checkpoints = group.chunk_tokens, group.max_checkpoints
    config.window_tokens, config.num_sink_tokens = group.window_tokens, group.num_sink_tokens
    config.retention_tokens, config.pool = group.retention_tokens, group.pool
    return config


def replay_log(log: bytes) -> LogReplay:
    """Makes the calls of a log (Manager.take_log()) again, on a manager of its own with another hash seed, and compares every status and result.
    log: all parts, in order. Raises InvalidArgumentError if it is no log, or was cut or changed; UnsupportedError if its format is of another
    version."""
    return LogReplay.of(_native.kvc_log_replay, np.frombuffer(log, np.uint8))
