# SPDX-License-Identifier: Apache-2.0
"""Structs that the library fills, as named tuples with the fields of C. Written by stubs.py."""

from __future__ import annotations

from typing import NamedTuple

from . import _native
from .constants import BlockState


class Stats(NamedTuple):
    """Counters since creation and gauges: kvc_stats."""

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

    @classmethod
    def read(cls, filled: _native.kvc_stats) -> Stats:
        return cls(filled.epoch, filled.blocks_total, filled.blocks_free, filled.blocks_cached, filled.blocks_live,
                   filled.blocks_reserved, filled.blocks_filling, filled.blocks_fenced, filled.blocks_pinned,
                   filled.live_requests, filled.waiting_requests, filled.admissions, filled.prompt_tokens,
                   filled.cached_tokens, filled.block_queries, filled.block_hits, filled.lost_reuse_tokens,
                   filled.readmissions, filled.refusals, filled.preemptions, filled.evictions, filled.copies,
                   filled.duplicates, filled.published_blocks, filled.unpublished_blocks, filled.rejected_candidates,
                   filled.nodes_used, filled.metadata_bytes, filled.events_dropped)


class ProbeInfo(NamedTuple):
    """What would hit, and whether the prompt fits: kvc_probe_info."""

    num_cached: int
    blocks_needed: int
    blocks_available: int
    lost_reuse_tokens: int
    fits: int

    @classmethod
    def read(cls, filled: _native.kvc_probe_info) -> ProbeInfo:
        return cls(filled.num_cached, filled.blocks_needed, filled.blocks_available, filled.lost_reuse_tokens,
                   filled.fits)


class PoolInfo(NamedTuple):
    """Blocks of a pool by state; the states sum to num_blocks: kvc_pool_info."""

    first_block: int
    num_blocks: int
    free: int
    cached: int
    live: int
    reserved: int
    filling: int
    fenced: int
    pinned: int

    @classmethod
    def read(cls, filled: _native.kvc_pool_info) -> PoolInfo:
        return cls(filled.first_block, filled.num_blocks, filled.free, filled.cached, filled.live, filled.reserved,
                   filled.filling, filled.fenced, filled.pinned)


class BlockInfo(NamedTuple):
    """State of one block: kvc_block_info."""

    token_offset: int
    state: BlockState
    pool: int
    requests: int
    external_holds: int
    pins: int
    published: int
    num_copies: int
    group: int

    @classmethod
    def read(cls, filled: _native.kvc_block_info) -> BlockInfo:
        return cls(filled.token_offset, BlockState(filled.state), filled.pool, filled.requests, filled.external_holds,
                   filled.pins, filled.published, filled.num_copies, filled.group)


class Properties(NamedTuple):
    """Configuration of a manager, with defaults filled in: kvc_properties."""

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

    @classmethod
    def read(cls, filled: _native.kvc_properties) -> Properties:
        return cls(filled.num_blocks, filled.max_nodes, filled.max_requests, filled.max_request_tokens,
                   filled.event_capacity, filled.watermark_blocks, filled.block_size, filled.vocab_size, filled.policy,
                   filled.flags, filled.num_groups, filled.num_pools)


class RequestInfo(NamedTuple):
    """State of a request: kvc_request_info."""

    namespace_id: int
    user_data: int
    num_tokens: int
    num_committed: int
    num_cached: int
    capacity: int
    num_blocks: int
    lost_reuse_tokens: int
    min_truncate_tokens: int
    admitted: int
    flags: int

    @classmethod
    def read(cls, filled: _native.kvc_request_info) -> RequestInfo:
        return cls(filled.namespace_id, filled.user_data, filled.num_tokens, filled.num_committed, filled.num_cached,
                   filled.capacity, filled.num_blocks, filled.lost_reuse_tokens, filled.min_truncate_tokens,
                   filled.admitted, filled.flags)


class QuantMetrics(NamedTuple):
    """Measured cost and error of stored rows: kvc_quant_metrics."""

    elements: int
    bytes: int
    fp16_bytes: int
    ratio: float
    mse: float
    snr_db: float
    max_error: float

    @classmethod
    def read(cls, filled: _native.kvc_quant_metrics) -> QuantMetrics:
        return cls(filled.elements, filled.bytes, filled.fp16_bytes, filled.ratio, filled.mse, filled.snr_db,
                   filled.max_error)


class AttentionInfo(NamedTuple):
    """How attention would be computed: kvc_attention_info."""

    kernels: str
    keys: str
    values: str
    num_workers: int
    sparse: int
    num_pieces: int
    num_splits: int
    scratch_bytes: int
    shared_tokens: int
    plan_bytes: int
    workspace_bytes: int
    selection_bytes: int

    @classmethod
    def read(cls, filled: _native.kvc_attention_info) -> AttentionInfo:
        return cls(filled.kernels, filled.keys, filled.values, filled.num_workers, filled.sparse, filled.num_pieces,
                   filled.num_splits, filled.scratch_bytes, filled.shared_tokens, filled.plan_bytes,
                   filled.workspace_bytes, filled.selection_bytes)


class DeviceInfo(NamedTuple):
    """Properties of a device: kvc_device_info."""

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
        return cls(filled.memory_bytes, filled.memory_kinds, filled.num_processors, filled.free_bytes, filled.name,
                   filled.architecture, filled.dlpack_device, filled.flags, filled.swap_out_kernel_bytes,
                   filled.swap_in_kernel_bytes)


class BackendInfo(NamedTuple):
    """Properties of a backend: kvc_backend_info."""

    path: str
    architectures: str
    remark: str
    num_devices: int

    @classmethod
    def read(cls, filled: _native.kvc_backend_info) -> BackendInfo:
        return cls(filled.path, filled.architectures, filled.remark, filled.num_devices)


class MemoryEstimate(NamedTuple):
    """Memory in bytes and blocks: kvc_memory_estimate."""

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

    @classmethod
    def read(cls, filled: _native.kvc_memory_estimate) -> MemoryEstimate:
        return cls(filled.bytes_per_token, filled.full_block_bytes, filled.window_block_bytes, filled.full_blocks,
                   filled.window_blocks, filled.sequence_bytes, filled.total_bytes, filled.max_tokens,
                   filled.max_sequences, filled.num_full_layers, filled.num_window_layers, filled.residual_bytes)
