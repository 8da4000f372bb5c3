# SPDX-License-Identifier: Apache-2.0
"""Structs that the library fills, as named tuples with the fields of C. Written by stubs.py."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from . import _native
from ._docs import described
from .enumerations import (BlockState, OffloadReason, OffloadState, PageFileKind, ScheduledState, SchedulePolicy, SizingAction, SizingBasis,
                           SizingMode, SizingReason, WaitReason)


@described
class Stats(NamedTuple):
    """Counters since creation and gauges.

    epoch: Resets so far.
    blocks_total, blocks_free, blocks_cached, blocks_live, blocks_reserved, blocks_filling, blocks_fenced, blocks_pinned: Gauges over all pools.
        The states sum to blocks_total.
    live_requests: Gauge: admitted requests.
    waiting_requests: Gauge: created or preempted requests.
    admissions: First admissions. The next five counters, partial_hits and partial_tokens are of these only.
    prompt_tokens: Known tokens.
    cached_tokens: Tokens of the hits.
    block_queries: Sum of floor((tokens - 1) / block_size).
    block_hits: Blocks of the hits.
    lost_reuse_tokens: Sum of RequestInfo.lost_reuse_tokens.
    readmissions: Admissions after a preemption or with RequestFlags.RESUMED.
    refusals: Admissions and extensions with NO_SPACE, AGAIN, OVER_QUOTA or NEVER_FITS.
    preemptions: Request.preempt() and Step.preempts.
    evictions: Cached blocks that were dropped to make room, or by Manager.evict().
    copies: Pairs: copy-on-write, and of admissions with partial reuse.
    duplicates: Committed blocks whose content another block had published.
    published_blocks: Blocks published so far, also those that were evicted since.
    unpublished_blocks: Blocks not published because all nodes were in use.
    rejected_candidates: Entries with an equal hash that the comparison rejected.
    nodes_used: Gauge: prefix positions in use.
    metadata_bytes: Gauge: memory from the manager's allocator, touched or not.
    events_dropped: Events that were overwritten before any reader had read them.
    filling_hits: Blocks of hits that a step in flight was writing. Since 0.3.
    filling_waits: Admissions with the result FILLING. Since 0.3.
    partial_hits: Hits that ended inside a block. Since 0.3.
    partial_tokens: Tokens of these hits in their last blocks. Since 0.3.
    """

    epoch: int
    blocks_total: int
    blocks_free: int
    blocks_cached: int
    blocks_live: int
    blocks_reserved: int
    blocks_filling: int
    blocks_fenced: int
    blocks_pinned: int
    live_requests: int
    waiting_requests: int
    admissions: int
    prompt_tokens: int
    cached_tokens: int
    block_queries: int
    block_hits: int
    lost_reuse_tokens: int
    readmissions: int
    refusals: int
    preemptions: int
    evictions: int
    copies: int
    duplicates: int
    published_blocks: int
    unpublished_blocks: int
    rejected_candidates: int
    nodes_used: int
    metadata_bytes: int
    events_dropped: int
    filling_hits: int
    filling_waits: int
    partial_hits: int
    partial_tokens: int

    @classmethod
    def read(cls, filled: _native.kvc_stats) -> Stats:
        """Reads the struct of the native layer."""
        return cls(filled.epoch, filled.blocks_total, filled.blocks_free, filled.blocks_cached, filled.blocks_live,
                   filled.blocks_reserved, filled.blocks_filling, filled.blocks_fenced, filled.blocks_pinned,
                   filled.live_requests, filled.waiting_requests, filled.admissions, filled.prompt_tokens,
                   filled.cached_tokens, filled.block_queries, filled.block_hits, filled.lost_reuse_tokens,
                   filled.readmissions, filled.refusals, filled.preemptions, filled.evictions, filled.copies,
                   filled.duplicates, filled.published_blocks, filled.unpublished_blocks, filled.rejected_candidates,
                   filled.nodes_used, filled.metadata_bytes, filled.events_dropped, filled.filling_hits,
                   filled.filling_waits, filled.partial_hits, filled.partial_tokens)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> Stats:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_stats()
        call(*arguments, filled)
        return cls.read(filled)


@described
class ProbeInfo(NamedTuple):
    """What would hit, and whether the prompt fits.

    num_cached: Tokens that would hit.
    blocks_needed: Blocks taken from the tightest pool (the least left over), hits that nobody holds included, the watermark not. Use `fits` to
        decide.
    blocks_available: Free and evictable blocks of that pool; with quotas those that it may take.
    lost_reuse_tokens: As in RequestInfo.
    fits: True = the admission has space in every pool, watermark included; False = it is NO_SPACE, AGAIN, OVER_QUOTA or NEVER_FITS. It is about
        space alone: with wait_until_ns the admission may be FILLING all the same, or, if no time was told, INVALID_ARGUMENT.
    never_fits: True = an admission with the request's own slots is NEVER_FITS: end the request, unless a step can admit it with fewer
        (Step.admit_slots), which no probe knows. False = it fits now, or may fit later. Since 0.3.
    filling_request: Manager.probe_request(): the request to wait for, which computes the block after num_cached. 0 = none does; a step in flight
        may still write it, which is FILLING too. Manager.probe(): 0. Since 0.3.
    next_checkpoint: Manager.probe_request(), with state groups: what RequestInfo.next_checkpoint will be right after this admission. Its first
        step can end there: give it next_checkpoint - num_cached slots, less the external_tokens, if that is positive; else the transfer passes
        it. 0 = none. Manager.probe(): 0. Since 0.3.
    """

    num_cached: int
    blocks_needed: int
    blocks_available: int
    lost_reuse_tokens: int
    fits: bool
    never_fits: bool
    filling_request: int
    next_checkpoint: int

    @classmethod
    def read(cls, filled: _native.kvc_probe_info) -> ProbeInfo:
        """Reads the struct of the native layer."""
        return cls(filled.num_cached, filled.blocks_needed, filled.blocks_available, filled.lost_reuse_tokens,
                   bool(filled.fits), bool(filled.never_fits), filled.filling_request, filled.next_checkpoint)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> ProbeInfo:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_probe_info()
        call(*arguments, filled)
        return cls.read(filled)


@described
class PoolInfo(NamedTuple):
    """Blocks of a pool by state; the states sum to num_blocks.

    first_block: Lowest block id, null block included.
    num_blocks: Usable blocks that it has now.
    free, cached, live, reserved, filling, fenced, pinned: Blocks by state.
    max_blocks: As configured: its ids are below first_block + max_blocks. Since 0.3.
    """

    first_block: int
    num_blocks: int
    free: int
    cached: int
    live: int
    reserved: int
    filling: int
    fenced: int
    pinned: int
    max_blocks: int

    @classmethod
    def read(cls, filled: _native.kvc_pool_info) -> PoolInfo:
        """Reads the struct of the native layer."""
        return cls(filled.first_block, filled.num_blocks, filled.free, filled.cached, filled.live, filled.reserved,
                   filled.filling, filled.fenced, filled.pinned, filled.max_blocks)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> PoolInfo:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_pool_info()
        call(*arguments, filled)
        return cls.read(filled)


@described
class LostReuse(NamedTuple):
    """The lost reuse of a group: sums over first admissions.

    admissions: Admissions that add to the numbers below.
    block_tokens: Tokens that this group could not reuse because a block was missing: LostReason.BLOCK.
    window_tokens: The same, a block of its window or chunk: LostReason.WINDOW.
    state_tokens: The same, a checkpoint: LostReason.STATE.
    agreement_tokens: LostReason.AGREEMENT: that every group alone could reuse and all together could not. Counted in the group that could reuse
        least, the first of equal ones.
    node_tokens: LostReason.NODES: in full blocks that requests knew and did not publish when all positions were in use, the same in each group.
        Not counted in admissions and Stats.lost_reuse_tokens.
    """

    admissions: int
    block_tokens: int
    window_tokens: int
    state_tokens: int
    agreement_tokens: int
    node_tokens: int

    @classmethod
    def read(cls, filled: _native.kvc_lost_reuse) -> LostReuse:
        """Reads the struct of the native layer."""
        return cls(filled.admissions, filled.block_tokens, filled.window_tokens, filled.state_tokens,
                   filled.agreement_tokens, filled.node_tokens)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> LostReuse:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_lost_reuse()
        call(*arguments, filled)
        return cls.read(filled)


@described
class QuotaInfo(NamedTuple):
    """The share of a namespace in one pool.

    min_blocks: As set.
    max_blocks: As set; 0 = no maximum.
    held: Gauge: blocks that its requests, pins and external holds hold.
    cached: Gauge: its cached blocks.
    fenced: Gauge: its released blocks that steps in flight may still write to.
    available: Gauge: blocks that an admission or an extension of the namespace may take, hits on cached blocks and the watermark included.
    refusals: Admissions and extensions that its maximum in this pool refused (OVER_QUOTA), since it has the quota.
    block_queries, block_hits: As in Stats, of this namespace, since it has the quota; the same in all pools.
    """

    min_blocks: int
    max_blocks: int
    held: int
    cached: int
    fenced: int
    available: int
    refusals: int
    block_queries: int
    block_hits: int

    @classmethod
    def read(cls, filled: _native.kvc_quota_info) -> QuotaInfo:
        """Reads the struct of the native layer."""
        return cls(filled.min_blocks, filled.max_blocks, filled.held, filled.cached, filled.fenced, filled.available,
                   filled.refusals, filled.block_queries, filled.block_hits)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> QuotaInfo:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_quota_info()
        call(*arguments, filled)
        return cls.read(filled)


@described
class LogInfo(NamedTuple):
    """The log of a manager.

    capacity: record_bytes; 0 = nothing is recorded.
    bytes: Bytes that Manager.take_log() would give now.
    calls: Calls logged since creation, taken or not.
    lost_calls: Calls after the log was full. If this is not 0, recording has ended.
    """

    capacity: int
    bytes: int
    calls: int
    lost_calls: int

    @classmethod
    def read(cls, filled: _native.kvc_log_info) -> LogInfo:
        """Reads the struct of the native layer."""
        return cls(filled.capacity, filled.bytes, filled.calls, filled.lost_calls)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> LogInfo:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_log_info()
        call(*arguments, filled)
        return cls.read(filled)


@described
class LogReplay(NamedTuple):
    """What replay_log() found.

    calls: Calls made again.
    mismatches: Calls with another status or result than in the log.
    first_mismatch: Number of the first of them, from 1; 0 = none.
    digest: Manager.digest() after the last call.
    lost_calls: Calls that the log lost at its end, because it was full.
    library_version: Of the library that wrote the log: major * 10000 + minor * 100 + patch.
    text: The first mismatch: call, result, both values. Empty without one.
    """

    calls: int
    mismatches: int
    first_mismatch: int
    digest: int
    lost_calls: int
    library_version: int
    text: str

    @classmethod
    def read(cls, filled: _native.kvc_replay_info) -> LogReplay:
        """Reads the struct of the native layer."""
        return cls(filled.calls, filled.mismatches, filled.first_mismatch, filled.digest, filled.lost_calls,
                   filled.library_version, filled.text)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> LogReplay:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_replay_info()
        call(*arguments, filled)
        return cls.read(filled)


@described
class BlockInfo(NamedTuple):
    """State of one block.

    token_offset: If published: position of its first token.
    state: BlockState
    pool: Index of its pool.
    requests: References of requests.
    external_holds: Holds of Manager.acquire_blocks() and Manager.acquire_prefix().
    pins: Holds of Manager.pin().
    published: True = attached to a prefix position.
    num_copies: Published blocks with the same identity and group, itself included; 0 if not published.
    group: Group of its present content; -1 if never used.
    """

    token_offset: int
    state: BlockState
    pool: int
    requests: int
    external_holds: int
    pins: int
    published: bool
    num_copies: int
    group: int

    @classmethod
    def read(cls, filled: _native.kvc_block_info) -> BlockInfo:
        """Reads the struct of the native layer."""
        return cls(filled.token_offset, BlockState(filled.state), filled.pool, filled.requests, filled.external_holds,
                   filled.pins, bool(filled.published), filled.num_copies, filled.group)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> BlockInfo:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_block_info()
        call(*arguments, filled)
        return cls.read(filled)


@described
class Properties(NamedTuple):
    """Configuration of a manager, with defaults filled in.

    num_blocks: Blocks that all pools began with, null block included.
    max_nodes, max_requests, max_request_tokens, event_capacity, watermark_blocks: As configured.
    block_size, vocab_size, policy, flags, num_groups, num_pools: As configured.
    policy_weight: As configured. Since 0.3.
    policy_history: As configured. Since 0.3.
    max_quotas: As configured. Since 0.3.
    num_cross_groups: Groups of cross-attention, the last ones. Since 0.3.
    max_blocks: Blocks that all pools may have, null block included: ids are below. As many a storage of all ids needs. Since 0.3.
    record_bytes: As configured. Since 0.3.
    """

    num_blocks: int
    max_nodes: int
    max_requests: int
    max_request_tokens: int
    event_capacity: int
    watermark_blocks: int
    block_size: int
    vocab_size: int
    policy: int
    flags: int
    num_groups: int
    num_pools: int
    policy_weight: float
    policy_history: int
    max_quotas: int
    num_cross_groups: int
    max_blocks: int
    record_bytes: int

    @classmethod
    def read(cls, filled: _native.kvc_properties) -> Properties:
        """Reads the struct of the native layer."""
        return cls(filled.num_blocks, filled.max_nodes, filled.max_requests, filled.max_request_tokens,
                   filled.event_capacity, filled.watermark_blocks, filled.block_size, filled.vocab_size, filled.policy,
                   filled.flags, filled.num_groups, filled.num_pools, filled.policy_weight, filled.policy_history,
                   filled.max_quotas, filled.num_cross_groups, filled.max_blocks, filled.record_bytes)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> Properties:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_properties()
        call(*arguments, filled)
        return cls.read(filled)


@described
class RequestInfo(NamedTuple):
    """State of a request.

    namespace_id: As configured.
    user_data: As configured.
    num_tokens: Known tokens.
    num_committed: Tokens whose KV is written.
    num_cached: Tokens of the hit at the last admission.
    capacity: Tokens that have slots; 0 while waiting.
    num_blocks: Blocks held in all groups.
    lost_reuse_tokens: Tokens that one group had cached and another had not, at the last admission.
    min_truncate_tokens: Smallest non-zero length that Request.truncate() can restore. Without sink tokens it can restore every greater length
        too; with them it may refuse lengths between the sinks and the present window.
    admitted: True = holds blocks, False = waiting.
    flags: RequestFlags as configured.
    next_checkpoint: State groups: end your next step here, and commit it. The smallest count above num_committed that is: the end of the last
        full block before the prompt's last token, with or without drop_tail_blocks; the end of what the other groups had cached at the admission;
        a multiple of a group's retention_tokens. 0 = none, no state group, a waiting request, or one that publishes nothing. Since 0.3.
    cross_tokens: As configured. Since 0.3.
    num_cross_cached: cross_tokens if the last admission found the KV of all of the encoder's tokens, so that the encoder need not run; else 0. A
        fork has cross_tokens here if they are written. Since 0.3.
    lost_group, lost_reason: If lost_reuse_tokens is not 0: the group that alone could reuse least (the first of equal ones), and why most of the
        tokens were lost (LostReason). Else 0. Since 0.3.
    """

    namespace_id: int
    user_data: int
    num_tokens: int
    num_committed: int
    num_cached: int
    capacity: int
    num_blocks: int
    lost_reuse_tokens: int
    min_truncate_tokens: int
    admitted: bool
    flags: int
    next_checkpoint: int
    cross_tokens: int
    num_cross_cached: int
    lost_group: int
    lost_reason: int

    @classmethod
    def read(cls, filled: _native.kvc_request_info) -> RequestInfo:
        """Reads the struct of the native layer."""
        return cls(filled.namespace_id, filled.user_data, filled.num_tokens, filled.num_committed, filled.num_cached,
                   filled.capacity, filled.num_blocks, filled.lost_reuse_tokens, filled.min_truncate_tokens,
                   bool(filled.admitted), filled.flags, filled.next_checkpoint, filled.cross_tokens,
                   filled.num_cross_cached, filled.lost_group, filled.lost_reason)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> RequestInfo:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_request_info()
        call(*arguments, filled)
        return cls.read(filled)


@described
class QuantMetrics(NamedTuple):
    """Measured cost and error of stored rows.

    elements: Elements compared.
    bytes: Their size: codes, their share of the scales rounded up, residual rows in bfloat16.
    fp16_bytes: Their size as fp16.
    ratio: fp16_bytes / bytes; 0 without elements.
    mse: Mean squared error of the finite elements.
    snr_db: 10 log10(sum of squares / sum of squared errors); +infinity without error, -infinity without signal.
    max_error: Largest absolute error.
    """

    elements: int
    bytes: int
    fp16_bytes: int
    ratio: float
    mse: float
    snr_db: float
    max_error: float

    @classmethod
    def read(cls, filled: _native.kvc_quant_metrics) -> QuantMetrics:
        """Reads the struct of the native layer."""
        return cls(filled.elements, filled.bytes, filled.fp16_bytes, filled.ratio, filled.mse, filled.snr_db,
                   filled.max_error)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> QuantMetrics:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_quant_metrics()
        call(*arguments, filled)
        return cls.read(filled)


@described
class AttentionInfo(NamedTuple):
    """How attention would be computed.

    kernels: GPU: "mma" (tensor cores) or "plain". CPU: the instruction set, "amx", "avx512-bf16", "avx512", "avx2" or "scalar". The environment
        variable KVC_KERNELS, read once, is an upper limit.
    keys: How the kernels read keys: "tiles", "rows", or "converted" to float32 first.
    values: The same for values; "keys" = latent rows that are read once for both.
    num_workers: Threads or multiprocessors that take part.
    sparse: True = a block mask hides some blocks.
    num_pieces: Units of work (a request, some KV heads, some queries); 0 = decided on the device.
    num_splits: Parts of the context after splitting the units, at least num_pieces; 0 = decided on the device.
    scratch_bytes: Memory that the call takes and the storage keeps for the next one; less with Launch.plan.
    shared_tokens: shared_tokens if they are read once for all requests; else 0 (docs/GPU.md).
    plan_bytes: Least bytes of Launch.plan. Smaller bounds never need more. 0 on the CPU.
    workspace_bytes: Least bytes of Launch.workspace. Smaller bounds never need more. 0 on the CPU.
    selection_bytes: The same for Storage.select_blocks() with these arguments.
    """

    kernels: str
    keys: str
    values: str
    num_workers: int
    sparse: bool
    num_pieces: int
    num_splits: int
    scratch_bytes: int
    shared_tokens: int
    plan_bytes: int
    workspace_bytes: int
    selection_bytes: int

    @classmethod
    def read(cls, filled: _native.kvc_attention_info) -> AttentionInfo:
        """Reads the struct of the native layer."""
        return cls(filled.kernels, filled.keys, filled.values, filled.num_workers, bool(filled.sparse),
                   filled.num_pieces, filled.num_splits, filled.scratch_bytes, filled.shared_tokens, filled.plan_bytes,
                   filled.workspace_bytes, filled.selection_bytes)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> AttentionInfo:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_attention_info()
        call(*arguments, filled)
        return cls.read(filled)


@described
class DeviceInfo(NamedTuple):
    """Properties of a device.

    memory_bytes: Total memory; of the CPU at most what control groups allow; 0 = unknown.
    memory_kinds: Bits 1 << MemoryKind that a storage on the device may have.
    num_processors: Hardware threads or multiprocessors; 0 = unknown.
    free_bytes: Memory that is free now; of the CPU what the process can still take, caches that the system can drop included; 0 = unknown.
    name: "NVIDIA H200"; "" = unknown.
    architecture: "sm_90", "gfx90a"; "" = unknown.
    dlpack_device: DLDeviceType of its memory: 1 CPU, 2 CUDA, 10 ROCm.
    flags: DeviceFlags
    swap_out_kernel_bytes: Storage.swap_out() copies runs (Storage.runs() of a block) that are shorter than this by a kernel, longer ones by the
        copy engine. An estimate without DeviceFlags.SWAP_MEASURED. 0 = always the copy engine; 2**64 - 1 = always a kernel. 0 on the CPU.
    swap_in_kernel_bytes: The same for Storage.swap_in().
    """

    memory_bytes: int
    memory_kinds: int
    num_processors: int
    free_bytes: int
    name: str
    architecture: str
    dlpack_device: int
    flags: int
    swap_out_kernel_bytes: int
    swap_in_kernel_bytes: int

    @classmethod
    def read(cls, filled: _native.kvc_device_info) -> DeviceInfo:
        """Reads the struct of the native layer."""
        return cls(filled.memory_bytes, filled.memory_kinds, filled.num_processors, filled.free_bytes, filled.name,
                   filled.architecture, filled.dlpack_device, filled.flags, filled.swap_out_kernel_bytes,
                   filled.swap_in_kernel_bytes)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> DeviceInfo:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_device_info()
        call(*arguments, filled)
        return cls.read(filled)


@described
class BackendInfo(NamedTuple):
    """Properties of a backend.

    path: Its file; "" = a part of the library.
    architectures: The architectures of its kernels, separated by spaces; "" = no restriction.
    remark: Why there are no devices; "" if there are some.
    num_devices: Devices "name:0" .. "name:<num_devices - 1>".
    """

    path: str
    architectures: str
    remark: str
    num_devices: int

    @classmethod
    def read(cls, filled: _native.kvc_backend_info) -> BackendInfo:
        """Reads the struct of the native layer."""
        return cls(filled.path, filled.architectures, filled.remark, filled.num_devices)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> BackendInfo:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_backend_info()
        call(*arguments, filled)
        return cls.read(filled)


@described
class MemoryEstimate(NamedTuple):
    """Memory in bytes and blocks.

    bytes_per_token: Keys and values of one token in the full and the window group, as if no layer had a window.
    full_block_bytes: One block of the full group, all its layers.
    window_block_bytes: One block of the window group, all its layers.
    full_blocks: Blocks of a sequence in the full group: ceil(tokens / block_size).
    window_blocks: Most blocks of a sequence in the window group while it grows to `tokens`: min(ceil(tokens / block_size), ceil((window_tokens -
        1) / block_size) + ceil((chunk_tokens - 1) / block_size) + 1).
    sequence_bytes: The sum of blocks * block bytes of all groups, and residual_bytes.
    total_bytes: num_sequences * sequence_bytes.
    max_tokens: Largest `tokens` for which num_sequences sequences fit the budget: a multiple of block_size, possibly above max_context. 0 = not
        one block fits; 2**64 - 1 = any length fits (no full group).
    max_sequences: Largest num_sequences of `tokens` tokens that fits the budget; may be 0. Pools are divided for them if the query asks for as
        many: see pool_blocks.
    num_full_layers: Layers of the full group.
    num_window_layers: Layers of the window group.
    residual_bytes: channel_keys: the bfloat16 keys of a sequence's residual block in all layers, and of the open block of cross-attention. Else
        0.
    budget_bytes: The budget: that of the query, or memory_fraction of the free memory.
    pool_blocks: Blocks that the budget pays for after residual_bytes of num_sequences sequences: of the pool of the first group. A manager gets
        as many from Manager(memory=...). Groups whose blocks have equal sizes share one pool. Otherwise each has its own. First it gets what
        num_sequences running sequences of `tokens` tokens need (blocks * block bytes), or its share of the budget if that is too small. What is
        left is divided by what a cached sequence keeps: the same blocks, but of a window group with retention_tokens a sixth of those that hits
        at all multiples need, if that is more (docs/BENCHMARKS.md). The first pool gets the rest. So `tokens` and checkpoint_tokens decide how
        many states there are, and with them how many requests run at once. 0 = the budget is below one block of each pool.
    window_pool_blocks: Blocks of the window group's own pool; 0 = it takes from an earlier group's, or is the first.
    state_block_bytes: The state of all state layers after some number of tokens. Since 0.3.
    cross_block_bytes: One block of encoder tokens in all layers that read them. Since 0.3.
    state_blocks: Most blocks of a sequence in the state group: 2, or 1 if `tokens` are one block, and a checkpoint for every checkpoint_tokens.
        Since 0.3.
    cross_blocks: ceil(cross_tokens / block_size). Since 0.3.
    state_pool_blocks: As window_pool_blocks, of the state and the cross group. Since 0.3.
    cross_pool_blocks: Since 0.3.
    num_state_layers: Layers of the state group. Since 0.3.
    num_cross_layers: Layers of the cross group. Since 0.3.
    num_pools: Pools that the groups take from, whatever the budget. Since 0.3.
    window_pool: Pool of the window group; the first group's is 0. Since 0.3.
    state_pool: Pool of the state group. Since 0.3.
    cross_pool: Pool of the cross group. Since 0.3.
    """

    bytes_per_token: int
    full_block_bytes: int
    window_block_bytes: int
    full_blocks: int
    window_blocks: int
    sequence_bytes: int
    total_bytes: int
    max_tokens: int
    max_sequences: int
    num_full_layers: int
    num_window_layers: int
    residual_bytes: int
    budget_bytes: int
    pool_blocks: int
    window_pool_blocks: int
    state_block_bytes: int
    cross_block_bytes: int
    state_blocks: int
    cross_blocks: int
    state_pool_blocks: int
    cross_pool_blocks: int
    num_state_layers: int
    num_cross_layers: int
    num_pools: int
    window_pool: int
    state_pool: int
    cross_pool: int

    @classmethod
    def read(cls, filled: _native.kvc_memory_estimate) -> MemoryEstimate:
        """Reads the struct of the native layer."""
        return cls(filled.bytes_per_token, filled.full_block_bytes, filled.window_block_bytes, filled.full_blocks,
                   filled.window_blocks, filled.sequence_bytes, filled.total_bytes, filled.max_tokens,
                   filled.max_sequences, filled.num_full_layers, filled.num_window_layers, filled.residual_bytes,
                   filled.budget_bytes, filled.pool_blocks, filled.window_pool_blocks, filled.state_block_bytes,
                   filled.cross_block_bytes, filled.state_blocks, filled.cross_blocks, filled.state_pool_blocks,
                   filled.cross_pool_blocks, filled.num_state_layers, filled.num_cross_layers, filled.num_pools,
                   filled.window_pool, filled.state_pool, filled.cross_pool)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> MemoryEstimate:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_memory_estimate()
        call(*arguments, filled)
        return cls.read(filled)


@described
class CurveInfo(NamedTuple):
    """What a miss-ratio curve has seen.

    sample_rate: Share of the blocks that it follows.
    max_samples: Samples that max_blocks blocks have.
    max_blocks: Largest size to ask for.
    half_life: Block queries; 0 = none.
    queries: Block queries, earlier ones as half_life says.
    sampled: Sampled queries, without those that requests do not allow.
    num_samples: Blocks that it follows now.
    bytes: Its memory, from the manager's allocator.
    """

    sample_rate: float
    max_samples: int
    max_blocks: int
    half_life: int
    queries: float
    sampled: float
    num_samples: int
    bytes: int

    @classmethod
    def read(cls, filled: _native.kvc_curve_info) -> CurveInfo:
        """Reads the struct of the native layer."""
        return cls(filled.sample_rate, filled.max_samples, filled.max_blocks, filled.half_life, filled.queries,
                   filled.sampled, filled.num_samples, filled.bytes)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> CurveInfo:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_curve_info()
        call(*arguments, filled)
        return cls.read(filled)


@described
class WorkloadInfo(NamedTuple):
    """What a workload shows; all 0 before the first observation.

    num_observations: So far.
    last_ns: Time of the last one.
    last: Its value.
    average: Exponentially weighted moving average. An observation dt after the last one has the weight a = 1 - 2^(-dt / half_life_ns).
    level: Level and trend of Holt's double exponential smoothing with the same a, which makes it aware of time: level = a * value + (1 - a) *
        (level + trend * dt); trend = a * (level - earlier level) / dt + (1 - a) * trend. The second observation sets both.
    trend: Per second.
    mean: Over the last `window` observations: mean, variance (divided by their number), largest value.
    variance: See mean.
    peak: See mean.
    rate: Observations per second in the window; 0 with one.
    burstiness: (s - mean) / (s + mean) with s the standard deviation (Goh and Barabasi, 2008), for values of 0 and more: -1 = constant, 0 = s
        equals the mean, towards 1 = bursts. 0 if all are 0.
    dispersion: variance / mean; 0 if the mean is 0.
    """

    num_observations: int
    last_ns: int
    last: float
    average: float
    level: float
    trend: float
    mean: float
    variance: float
    peak: float
    rate: float
    burstiness: float
    dispersion: float

    @classmethod
    def read(cls, filled: _native.kvc_workload_info) -> WorkloadInfo:
        """Reads the struct of the native layer."""
        return cls(filled.num_observations, filled.last_ns, filled.last, filled.average, filled.level, filled.trend,
                   filled.mean, filled.variance, filled.peak, filled.rate, filled.burstiness, filled.dispersion)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> WorkloadInfo:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_workload_info()
        call(*arguments, filled)
        return cls.read(filled)


@described
class TierStats(NamedTuple):
    """State of a Tier, and counters since it was opened.

    pages, capacity_pages: Gauges; 0 = unknown.
    bytes, capacity_bytes: The same in bytes.
    max_jobs: Jobs at one time, those not polled included.
    waiting_jobs, running_jobs, done_jobs: Gauges.
    waiting_store_bytes: Gauge: bytes of puts that wait.
    refused_loads, refused_prefetches, refused_stores: Jobs refused because of max_jobs.
    refused_bytes: Jobs refused because of max_store_bytes.
    evictions: Pages that gave way to others, because of the bound of the tier.
    recovered: Pages found when the tier was opened.
    bad_headers: Misses, because the header was not one of this page.
    bad_payloads: Misses, because the checksum did not match.
    failures: Of the system or server.
    last_errno: Of the last failure; 0 = none, or not known.
    fallbacks: I/O past the page cache or by io_uring that the system refused: done without.
    outages: Times that reads or writes of a server were given up, after failures in a row.
    available: True = in use; False = given up (outages), and nothing has succeeded since.
    uses_uring: True = io_uring does the I/O.
    disk_evictions: Pages that gave way because the disk was full, or for keep_free.
    expired: Pages removed because nobody used them for ttl.
    removed: Pages removed by jobs.
    mismatches: Pages whose key came again with another size, which replaced them.
    """

    pages: int
    capacity_pages: int
    bytes: int
    capacity_bytes: int
    max_jobs: int
    waiting_jobs: int
    running_jobs: int
    done_jobs: int
    waiting_store_bytes: int
    refused_loads: int
    refused_prefetches: int
    refused_stores: int
    refused_bytes: int
    evictions: int
    recovered: int
    bad_headers: int
    bad_payloads: int
    failures: int
    last_errno: int
    fallbacks: int
    outages: int
    available: bool
    uses_uring: bool
    disk_evictions: int
    expired: int
    removed: int
    mismatches: int

    @classmethod
    def read(cls, filled: _native.kvc_tier_stats) -> TierStats:
        """Reads the struct of the native layer."""
        return cls(filled.pages, filled.capacity_pages, filled.bytes, filled.capacity_bytes, filled.max_jobs,
                   filled.waiting_jobs, filled.running_jobs, filled.done_jobs, filled.waiting_store_bytes,
                   filled.refused_loads, filled.refused_prefetches, filled.refused_stores, filled.refused_bytes,
                   filled.evictions, filled.recovered, filled.bad_headers, filled.bad_payloads, filled.failures,
                   filled.last_errno, filled.fallbacks, filled.outages, bool(filled.available), bool(filled.uses_uring),
                   filled.disk_evictions, filled.expired, filled.removed, filled.mismatches)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> TierStats:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_tier_stats()
        call(*arguments, filled)
        return cls.read(filled)


@described
class TierCounts(NamedTuple):
    """What the jobs of one kind came to.

    jobs: Accepted.
    items: Of ended jobs.
    bytes: Got or put, of items with PageResult.OK.
    ok, misses, pending, expired, no_space, failed, timeouts, cancelled, unavailable: Items by result.
    """

    jobs: int
    items: int
    bytes: int
    ok: int
    misses: int
    pending: int
    expired: int
    no_space: int
    failed: int
    timeouts: int
    cancelled: int
    unavailable: int

    @classmethod
    def read(cls, filled: _native.kvc_tier_counts) -> TierCounts:
        """Reads the struct of the native layer."""
        return cls(filled.jobs, filled.items, filled.bytes, filled.ok, filled.misses, filled.pending, filled.expired,
                   filled.no_space, filled.failed, filled.timeouts, filled.cancelled, filled.unavailable)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> TierCounts:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_tier_counts()
        call(*arguments, filled)
        return cls.read(filled)


@described
class CheckpointInfo(NamedTuple):
    """A checkpoint.

    id: Never 0, but when a save was not due.
    num_files: Data files that it needs.
    file_bytes: Of all files that it needs, whole.
    written_bytes: Bytes that this save or compaction wrote; else of its own files.
    page_bytes: Of all its pages, not compressed.
    stored_bytes: The same as they are stored.
    num_pages: Blocks with bytes.
    new_pages: Of these, in its own data file.
    num_blocks: Blocks, with or without bytes.
    num_positions: Prefix positions.
    num_namespaces: But for the default one.
    num_requests: Requests that it has.
    lost_blocks: Save: blocks that were evicted before they were written; they are left out.
    left_out: Restore: blocks for which there was no room.
    not_removed: Save, compact: old files that could not be removed, or were not, since a manifest cannot be read. The next save tries again.
    version: Of the format.
    block_size, num_groups: As of the manager.
    ids_kept: Restore: True = all blocks have the ids that they had.
    content: Manager.content_digest() of the manager that was saved.
    codec: Of its own data file.
    model, weights: Their first bytes, other than printable ones as '?'.
    resumed_pages: Save: of new_pages, those that a save which was cut short had written.
    longest_hold, longest_admission: Save: positions, blocks and other records that it visited at most under one hold of the manager's lock, and
        positions and blocks that one admission visited at most since the manager was made. A hold is not longer than 64, or than an admission of
        the longest prefix that is saved.
    """

    id: int
    num_files: int
    file_bytes: int
    written_bytes: int
    page_bytes: int
    stored_bytes: int
    num_pages: int
    new_pages: int
    num_blocks: int
    num_positions: int
    num_namespaces: int
    num_requests: int
    lost_blocks: int
    left_out: int
    not_removed: int
    version: int
    block_size: int
    num_groups: int
    ids_kept: bool
    content: bytes
    codec: str
    model: str
    weights: str
    resumed_pages: int
    longest_hold: int
    longest_admission: int

    @classmethod
    def read(cls, filled: _native.kvc_checkpoint_info) -> CheckpointInfo:
        """Reads the struct of the native layer."""
        return cls(filled.id, filled.num_files, filled.file_bytes, filled.written_bytes, filled.page_bytes,
                   filled.stored_bytes, filled.num_pages, filled.new_pages, filled.num_blocks, filled.num_positions,
                   filled.num_namespaces, filled.num_requests, filled.lost_blocks, filled.left_out, filled.not_removed,
                   filled.version, filled.block_size, filled.num_groups, bool(filled.ids_kept), filled.content,
                   filled.codec, filled.model, filled.weights, filled.resumed_pages, filled.longest_hold,
                   filled.longest_admission)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> CheckpointInfo:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_checkpoint_info()
        call(*arguments, filled)
        return cls.read(filled)


@described
class CheckpointNeeds(NamedTuple):
    """What a save would write.

    num_pages: Blocks with bytes.
    new_pages: Of these, neither in the newest checkpoint nor left by a save that was cut short.
    new_bytes: Upper bound of the bytes that the save takes of the disk. Without a codec close to what it takes.
    full_bytes: The same for a save of all pages.
    free_bytes: Of the disk of the folder, for this user.
    """

    num_pages: int
    new_pages: int
    new_bytes: int
    full_bytes: int
    free_bytes: int

    @classmethod
    def read(cls, filled: _native.kvc_checkpoint_needs) -> CheckpointNeeds:
        """Reads the struct of the native layer."""
        return cls(filled.num_pages, filled.new_pages, filled.new_bytes, filled.full_bytes, filled.free_bytes)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> CheckpointNeeds:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_checkpoint_needs()
        call(*arguments, filled)
        return cls.read(filled)


@described
class PageFileInfo(NamedTuple):
    """What a file of a Tier has.

    kind: PageFileKind
    version: Of the format.
    fingerprint: Of its pages; 0 = it has none, or those of several.
    key: Of the page; of a slab 0.
    file_bytes: Of the file.
    page_bytes: Of the page; of a slab of the largest that fits.
    num_slots: Pages that a slab has room for; else 1.
    num_pages: Pages with a whole header.
    stored_bytes: Of these pages.
    bad_headers: Slots with something else; they are free.
    bad_pages: With validate=True: pages whose checksum does not match; they are misses.
    description: Of pages of one fingerprint: what they are of, as the offload that stored them said: lines "field: value" of printable ASCII;
        ended by 0; empty if nothing was said. Whoever may write to the place may have written it.
    """

    kind: PageFileKind
    version: int
    fingerprint: bytes
    key: bytes
    file_bytes: int
    page_bytes: int
    num_slots: int
    num_pages: int
    stored_bytes: int
    bad_headers: int
    bad_pages: int
    description: str

    @classmethod
    def read(cls, filled: _native.kvc_page_file_info) -> PageFileInfo:
        """Reads the struct of the native layer."""
        return cls(PageFileKind(filled.kind), filled.version, filled.fingerprint, filled.key, filled.file_bytes,
                   filled.page_bytes, filled.num_slots, filled.num_pages, filled.stored_bytes, filled.bad_headers,
                   filled.bad_pages, filled.description)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> PageFileInfo:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_page_file_info()
        call(*arguments, filled)
        return cls.read(filled)


@described
class OffloadInfo(NamedTuple):
    """How far the lookup of a request is.

    state: OffloadState
    reason: Of READY: OffloadReason; else NONE.
    num_cached: Tokens that the manager had cached.
    num_found: Tokens beyond them that the tiers have.
    num_loaded: Tokens that are cached now because they were loaded.
    """

    state: OffloadState
    reason: OffloadReason
    num_cached: int
    num_found: int
    num_loaded: int

    @classmethod
    def read(cls, filled: _native.kvc_offload_info) -> OffloadInfo:
        """Reads the struct of the native layer."""
        return cls(OffloadState(filled.state), OffloadReason(filled.reason), filled.num_cached, filled.num_found,
                   filled.num_loaded)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> OffloadInfo:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_offload_info()
        call(*arguments, filled)
        return cls.read(filled)


@described
class OffloadStats(NamedTuple):
    """State of an Offload, and counters since it was created.

    waiting_blocks: Gauge: to be stored.
    busy_pages: Gauge: staging pages in use.
    busy_lookups: Gauge.
    published_blocks: Seen by WRITE_THROUGH.
    dropped_events: Of them lost, because the manager's events were read too late.
    dropped_blocks: Not stored, because too many waited.
    gone_blocks: Not stored, because they were evicted before.
    lookups: Begun.
    slower_loads: Not begun: computing is expected to be faster, or too little was found.
    refused_loads: Loads for which the pools had no room.
    loads: Begun.
    short_loads: Of them ended with less than was found.
    loaded_tokens: Made cached.
    failed_publications: Loads that the manager did not take.
    """

    waiting_blocks: int
    busy_pages: int
    busy_lookups: int
    published_blocks: int
    dropped_events: int
    dropped_blocks: int
    gone_blocks: int
    lookups: int
    slower_loads: int
    refused_loads: int
    loads: int
    short_loads: int
    loaded_tokens: int
    failed_publications: int

    @classmethod
    def read(cls, filled: _native.kvc_offload_stats) -> OffloadStats:
        """Reads the struct of the native layer."""
        return cls(filled.waiting_blocks, filled.busy_pages, filled.busy_lookups, filled.published_blocks,
                   filled.dropped_events, filled.dropped_blocks, filled.gone_blocks, filled.lookups,
                   filled.slower_loads, filled.refused_loads, filled.loads, filled.short_loads, filled.loaded_tokens,
                   filled.failed_publications)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> OffloadStats:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_offload_stats()
        call(*arguments, filled)
        return cls.read(filled)


@described
class OffloadTierStats(NamedTuple):
    """Counters of one tier of an Offload.

    hits, misses: Pages asked for.
    loaded_pages, loaded_bytes: Read.
    failed_loads: Pages that were found and could not be read, or did not check.
    stored_pages, stored_bytes: Written, or there already.
    refused_stores: Dropped: the tier's queue was full, or it is left alone.
    failed_stores: The tier had no space, failed, or did not come to it in time.
    waits: Loads that the queue refused at first.
    load_ns_per_byte: Gauge: what loads took lately; 0 = not measured.
    outages: Times that reads or writes were given up, after failures in a row.
    available: Gauge: 0 = they were given up, and none has succeeded since.
    difference: Why pages that were there when the offload was made are misses: the first field that differs and both values, such as `weights is
        "v1" there and "v2" here`; ended by 0. Empty: the tier had pages of these fields, or none that are described. Printable ASCII.
    """

    hits: int
    misses: int
    loaded_pages: int
    loaded_bytes: int
    failed_loads: int
    stored_pages: int
    stored_bytes: int
    refused_stores: int
    failed_stores: int
    waits: int
    load_ns_per_byte: float
    outages: int
    available: int
    difference: str

    @classmethod
    def read(cls, filled: _native.kvc_offload_tier_stats) -> OffloadTierStats:
        """Reads the struct of the native layer."""
        return cls(filled.hits, filled.misses, filled.loaded_pages, filled.loaded_bytes, filled.failed_loads,
                   filled.stored_pages, filled.stored_bytes, filled.refused_stores, filled.failed_stores, filled.waits,
                   filled.load_ns_per_byte, filled.outages, filled.available, filled.difference)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> OffloadTierStats:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_offload_tier_stats()
        call(*arguments, filled)
        return cls.read(filled)


@described
class LatencyInfo(NamedTuple):
    """A distribution of durations since enable_latencies().

    count: Recorded durations, of failed calls too.
    sum_ns: Their sum, in ns.
    max_ns: The longest, in ns.
    p50_ns, p90_ns, p99_ns, p999_ns: 50, 90, 99 and 99.9 % are at most so long, in ns.
    """

    count: int  # type: ignore[assignment] # a method of tuples
    sum_ns: int
    max_ns: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int

    @classmethod
    def read(cls, filled: _native.kvc_latency) -> LatencyInfo:
        """Reads the struct of the native layer."""
        return cls(filled.count, filled.sum_ns, filled.max_ns, filled.p50_ns, filled.p90_ns, filled.p99_ns,
                   filled.p999_ns)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> LatencyInfo:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_latency()
        call(*arguments, filled)
        return cls.read(filled)


@described
class MemoryProfile(NamedTuple):
    """Memory by kind, in bytes.

    metadata_bytes, metadata_peak_bytes: Managers: blocks, positions, requests, logs.
    slab_bytes, slab_peak_bytes: Storages: blocks. External memory is the caller's.
    workspace_bytes, workspace_peak_bytes: Storages: residual keys, and scratch memory that Storage.trim() gives back. That of GPUs is not
        counted.
    tier_bytes, tier_peak_bytes: Tiers: queues, indexes, pages in memory.
    offload_bytes, offload_peak_bytes: Offloads: tables and staging pages.
    scheduler_bytes, scheduler_peak_bytes: Schedulers: jobs, plans and tables.
    """

    metadata_bytes: int
    metadata_peak_bytes: int
    slab_bytes: int
    slab_peak_bytes: int
    workspace_bytes: int
    workspace_peak_bytes: int
    tier_bytes: int
    tier_peak_bytes: int
    offload_bytes: int
    offload_peak_bytes: int
    scheduler_bytes: int
    scheduler_peak_bytes: int

    @classmethod
    def read(cls, filled: _native.kvc_memory_profile) -> MemoryProfile:
        """Reads the struct of the native layer."""
        return cls(filled.metadata_bytes, filled.metadata_peak_bytes, filled.slab_bytes, filled.slab_peak_bytes,
                   filled.workspace_bytes, filled.workspace_peak_bytes, filled.tier_bytes, filled.tier_peak_bytes,
                   filled.offload_bytes, filled.offload_peak_bytes, filled.scheduler_bytes, filled.scheduler_peak_bytes)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> MemoryProfile:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_memory_profile()
        call(*arguments, filled)
        return cls.read(filled)


@described
class PublisherStats(NamedTuple):
    """Counters of a Publisher since its creation.

    next_sequence: Batches published, also the number of the next one.
    stored_blocks: Told in BlockStored.
    removed_blocks: Told in BlockRemoved.
    cancelled_events: Not told: stored and removed, or removed and stored, in one batch.
    bytes: Of all payloads.
    resyncs: AllBlocksCleared with all that is cached behind it; the first one too.
    lost_events: Left the manager's ring before they were read. A resync followed.
    unresolved_blocks: Not told: VLLM, SGLANG, and the parent is in none of the `groups`.
    slow_batches: Did not reach a subscriber whose queue is full. It must ask for replay.
    failed_batches: Not taken by the transport. Subscribers must ask for replay.
    replay_requests: Answered.
    replayed_batches: Sent in answers.
    replay_misses: Requests for a batch that is not kept any more.
    bad_requests: That are no requests.
    kept_batches: For replay, now.
    kept_bytes: Of their payloads.
    """

    next_sequence: int
    stored_blocks: int
    removed_blocks: int
    cancelled_events: int
    bytes: int
    resyncs: int
    lost_events: int
    unresolved_blocks: int
    slow_batches: int
    failed_batches: int
    replay_requests: int
    replayed_batches: int
    replay_misses: int
    bad_requests: int
    kept_batches: int
    kept_bytes: int

    @classmethod
    def read(cls, filled: _native.kvc_publisher_stats) -> PublisherStats:
        """Reads the struct of the native layer."""
        return cls(filled.next_sequence, filled.stored_blocks, filled.removed_blocks, filled.cancelled_events,
                   filled.bytes, filled.resyncs, filled.lost_events, filled.unresolved_blocks, filled.slow_batches,
                   filled.failed_batches, filled.replay_requests, filled.replayed_batches, filled.replay_misses,
                   filled.bad_requests, filled.kept_batches, filled.kept_bytes)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> PublisherStats:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_publisher_stats()
        call(*arguments, filled)
        return cls.read(filled)


@described
class ScheduledInfo(NamedTuple):
    """State of a request of a Scheduler.

    state: ScheduledState
    row: Of block_tables; -1 = none.
    num_tokens: Known tokens.
    num_prompt: Tokens of the prompt.
    num_planned: Tokens that are computed, cached, or in flight.
    num_cached: Tokens of the hit at the last admission.
    num_preemptions: So far.
    arrival_ns: As told.
    priority: As set.
    tenant: As set.
    wait_reason: WaitReason
    """

    state: ScheduledState
    row: int
    num_tokens: int
    num_prompt: int
    num_planned: int
    num_cached: int
    num_preemptions: int
    arrival_ns: int
    priority: int
    tenant: int
    wait_reason: WaitReason

    @classmethod
    def read(cls, filled: _native.kvc_scheduled_info) -> ScheduledInfo:
        """Reads the struct of the native layer."""
        return cls(ScheduledState(filled.state), filled.row, filled.num_tokens, filled.num_prompt, filled.num_planned,
                   filled.num_cached, filled.num_preemptions, filled.arrival_ns, filled.priority, filled.tenant,
                   WaitReason(filled.wait_reason))

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> ScheduledInfo:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_scheduled_info()
        call(*arguments, filled)
        return cls.read(filled)


@described
class SchedulerStats(NamedTuple):
    """Counters of a Scheduler since its creation, and gauges.

    waiting, running, plans_in_flight: Gauges. waiting: all that are not admitted.
    added, aborted, ended: Requests.
    plans: Plans with items.
    prompt_tokens: Planned tokens of prompts, and of recomputation.
    decode_tokens: Planned tokens of decodes, without drafts.
    draft_tokens: Planned drafts.
    accepted_drafts: Of them accepted.
    admissions: First ones.
    cached_tokens: Tokens of their hits.
    preemptions: Requests that gave their blocks back.
    recomputed_tokens: Tokens that were computed once more after a preemption or a failed plan.
    refused_space, refused_peak, refused_adapter, refused_encoder, refused_quota, refused_filling: Attempts to admit a request that ended so.
    aged: Requests that reached max_wait_ns.
    policy_changes: ADAPTIVE.
    pressure_changes: Times that pressure became high.
    policy: Gauge: the order in force.
    pressure: Gauge: True = high.
    """

    waiting: int
    running: int
    plans_in_flight: int
    added: int
    aborted: int
    ended: int
    plans: int
    prompt_tokens: int
    decode_tokens: int
    draft_tokens: int
    accepted_drafts: int
    admissions: int
    cached_tokens: int
    preemptions: int
    recomputed_tokens: int
    refused_space: int
    refused_peak: int
    refused_adapter: int
    refused_encoder: int
    refused_quota: int
    refused_filling: int
    aged: int
    policy_changes: int
    pressure_changes: int
    policy: SchedulePolicy
    pressure: bool

    @classmethod
    def read(cls, filled: _native.kvc_scheduler_stats) -> SchedulerStats:
        """Reads the struct of the native layer."""
        return cls(filled.waiting, filled.running, filled.plans_in_flight, filled.added, filled.aborted, filled.ended,
                   filled.plans, filled.prompt_tokens, filled.decode_tokens, filled.draft_tokens,
                   filled.accepted_drafts, filled.admissions, filled.cached_tokens, filled.preemptions,
                   filled.recomputed_tokens, filled.refused_space, filled.refused_peak, filled.refused_adapter,
                   filled.refused_encoder, filled.refused_quota, filled.refused_filling, filled.aged,
                   filled.policy_changes, filled.pressure_changes, SchedulePolicy(filled.policy), bool(filled.pressure))

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> SchedulerStats:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_scheduler_stats()
        call(*arguments, filled)
        return cls.read(filled)


@described
class IndexApplied(NamedTuple):
    """What Index.apply() has done.

    applied: Events applied.
    ignored: Events that had been applied before.
    next_sequence: The first event that is missing; replay from the one before.
    is_stale: True = events are missing before the newest one.
    restarts: Restarts of the worker that the events showed.
    """

    applied: int
    ignored: int
    next_sequence: int
    is_stale: bool
    restarts: int

    @classmethod
    def read(cls, filled: _native.kvc_index_applied) -> IndexApplied:
        """Reads the struct of the native layer."""
        return cls(filled.applied, filled.ignored, filled.next_sequence, bool(filled.is_stale), filled.restarts)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> IndexApplied:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_index_applied()
        call(*arguments, filled)
        return cls.read(filled)


@described
class IndexStats(NamedTuple):
    """Counters of an Index.

    num_workers: Now.
    num_blocks: Now.
    num_holdings: (block, worker, medium) now.
    num_sets: Different sets of holders now.
    bytes_allocated: Its memory. Large arrays take pages of the system when they are used.
    bytes_used: Of them used at some time.
    applied_events: Since it was created.
    ignored_events: Had been applied before.
    gaps: Times that a stream without missing events skipped some.
    dropped_events: Had no room: too many namespaces, or words of holders. Their stream is stale.
    evicted_blocks: By max_blocks.
    restarts: Restarts of streams.
    expired_workers: By ttl_ns.
    """

    num_workers: int
    num_blocks: int
    num_holdings: int
    num_sets: int
    bytes_allocated: int
    bytes_used: int
    applied_events: int
    ignored_events: int
    gaps: int
    dropped_events: int
    evicted_blocks: int
    restarts: int
    expired_workers: int

    @classmethod
    def read(cls, filled: _native.kvc_index_stats) -> IndexStats:
        """Reads the struct of the native layer."""
        return cls(filled.num_workers, filled.num_blocks, filled.num_holdings, filled.num_sets, filled.bytes_allocated,
                   filled.bytes_used, filled.applied_events, filled.ignored_events, filled.gaps, filled.dropped_events,
                   filled.evicted_blocks, filled.restarts, filled.expired_workers)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> IndexStats:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_index_stats()
        call(*arguments, filled)
        return cls.read(filled)


@described
class SizingDecision(NamedTuple):
    """One decision of a Sizer, with all numbers that it stands on.

    number: 0 for the first of the sizer.
    now_ns: Its time.
    from_blocks: Size before.
    to_blocks: Size from now on.
    action: SizingAction.
    reason: SizingReason
    basis: SizingBasis
    mode: SizingMode
    needed: The need that was given.
    level: As WorkloadInfo.
    trend: As WorkloadInfo, blocks per second.
    forecast: At lead_time_ns.
    variation: Standard deviation / mean of the window; 0 if the mean is 0.
    wanted: The number of the basis with its headroom, before limits.
    """

    number: int
    now_ns: int
    from_blocks: int
    to_blocks: int
    action: SizingAction
    reason: SizingReason
    basis: SizingBasis
    mode: SizingMode
    needed: float
    level: float
    trend: float
    forecast: float
    variation: float
    wanted: float

    @classmethod
    def read(cls, filled: _native.kvc_sizing_decision) -> SizingDecision:
        """Reads the struct of the native layer."""
        return cls(filled.number, filled.now_ns, filled.from_blocks, filled.to_blocks, SizingAction(filled.action),
                   SizingReason(filled.reason), SizingBasis(filled.basis), SizingMode(filled.mode), filled.needed,
                   filled.level, filled.trend, filled.forecast, filled.variation, filled.wanted)

    @classmethod
    def of(cls, call: Callable[..., None], *arguments: Any) -> SizingDecision:
        """Reads the struct that a call of the native layer fills."""
        filled = _native.kvc_sizing_decision()
        call(*arguments, filled)
        return cls.read(filled)
