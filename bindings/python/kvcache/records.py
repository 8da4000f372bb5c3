# SPDX-License-Identifier: Apache-2.0
"""Structs that the library fills, as named tuples with the fields of C. Written by stubs.py."""

from __future__ import annotations

from typing import NamedTuple

from . import _native
from ._docs import described
from .constants import BlockState, SizingAction, SizingBasis, SizingMode, SizingReason


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
    refusals: Admissions and extensions with the result NO_SPACE, AGAIN or OVER_QUOTA.
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


@described
class ProbeInfo(NamedTuple):
    """What would hit, and whether the prompt fits.

    num_cached: Tokens that would hit.
    blocks_needed: Blocks that the admission takes from the pool with the least left over, cached ones that nobody holds included, the watermark
        not. Use `fits` to decide.
    blocks_available: Free and evictable blocks of that pool; with quotas those that it may take.
    lost_reuse_tokens: As in RequestInfo.
    fits: True = the admission has space in every pool, watermark included; False = it is NO_SPACE, AGAIN or OVER_QUOTA.
    filling_request: Manager.probe_request(): the request that computes the block after num_cached, for all to wait for; 0 = none does from there.
        Manager.probe(): 0. Since 0.3.
    """

    num_cached: int
    blocks_needed: int
    blocks_available: int
    lost_reuse_tokens: int
    fits: bool
    filling_request: int

    @classmethod
    def read(cls, filled: _native.kvc_probe_info) -> ProbeInfo:
        """Reads the struct of the native layer."""
        return cls(filled.num_cached, filled.blocks_needed, filled.blocks_available, filled.lost_reuse_tokens,
                   bool(filled.fits), filled.filling_request)


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


@described
class LostReuse(NamedTuple):
    """The lost reuse of a group: sums over first admissions.

    admissions: Admissions that add to the numbers below.
    block_tokens: That this group alone could not reuse: LostReason.BLOCK.
    window_tokens: The same: LostReason.WINDOW.
    state_tokens: The same: LostReason.STATE.
    agreement_tokens: LostReason.AGREEMENT: that every group alone could reuse and all together could not. Counted in the group that could reuse
        least, the first of equal ones.
    """

    admissions: int
    block_tokens: int
    window_tokens: int
    state_tokens: int
    agreement_tokens: int

    @classmethod
    def read(cls, filled: _native.kvc_lost_reuse) -> LostReuse:
        """Reads the struct of the native layer."""
        return cls(filled.admissions, filled.block_tokens, filled.window_tokens, filled.state_tokens,
                   filled.agreement_tokens)


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


@described
class LogInfo(NamedTuple):
    """The log of a manager.

    capacity: Manager.config().record_bytes; 0 = nothing is recorded.
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


@described
class Properties(NamedTuple):
    """Configuration of a manager, with defaults filled in.

    num_blocks: Blocks that all pools have now, null block included.
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
    next_checkpoint: State groups: the next number of tokens above num_committed whose state is worth keeping: the end of the prompt's full
        blocks, also less drop_tail_blocks, of what the other groups had cached, or a multiple of a group's retention_tokens. End a step there,
        and commit it. 0 = none, or no state group. Since 0.3.
    cross_tokens: As configured. Since 0.3.
    num_cross_cached: cross_tokens if the last admission found the KV of all of the encoder's tokens, so that the encoder need not run; else 0. A
        fork has cross_tokens here if they are written. Since 0.3.
    lost_group, lost_reason: If lost_reuse_tokens is not 0: the group that alone had least, the first of equal ones, and why most of it was lost
        (LostReason). Else 0. Since 0.3.
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


@described
class MemoryEstimate(NamedTuple):
    """Memory in bytes and blocks.

    bytes_per_token: Keys and values of one token in the full and the window group, as if no layer had a window.
    full_block_bytes: One block of the full group, all its layers.
    window_block_bytes: One block of the window group, all its layers.
    full_blocks: Blocks of a sequence in the full group: ceil(tokens / block_size).
    window_blocks: Most blocks that a sequence holds at once in the window group while it grows to `tokens`: min(ceil(tokens / block_size),
        ceil((window_tokens + chunk_tokens - 2) / block_size) + 1).
    sequence_bytes: The sum of blocks * block bytes of all groups, and residual_bytes.
    total_bytes: num_sequences * sequence_bytes.
    max_tokens: Largest `tokens` for which num_sequences sequences fit the budget: a multiple of block_size, possibly above max_context. 0 = not
        one block fits; 2**64 - 1 = any length fits (no full group).
    max_sequences: Largest num_sequences of `tokens` tokens that fits the budget; may be 0.
    num_full_layers: Layers of the full group.
    num_window_layers: Layers of the window group.
    residual_bytes: channel_keys: the bfloat16 keys of a sequence's residual block in all layers, and of the open block of cross-attention. Else
        0.
    budget_bytes: The budget: that of the query, or memory_fraction of the free memory.
    pool_blocks: Blocks that the budget pays for after residual_bytes of num_sequences sequences: of the pool of the first group. A manager gets
        as many from Manager(memory=...). Groups whose blocks have equal sizes share one pool. Otherwise each has its own, and they divide the
        budget as a sequence of `tokens` tokens does: blocks * block bytes of their groups; the first pool has the rest. So `tokens` and
        checkpoint_tokens decide how many states there are, and with them how many requests run at once. 0 = the budget is below one block of each
        pool.
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


@described
class CurveInfo(NamedTuple):
    """What a miss-ratio curve has seen.

    sample_rate: Share of the blocks that it follows.
    max_samples: Samples that max_blocks blocks have.
    max_blocks: Largest size to ask for.
    half_life: Block queries; 0 = none.
    queries: Block queries, earlier ones as half_life says.
    sampled: Those of them whose distance was looked up.
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
