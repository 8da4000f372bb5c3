# SPDX-License-Identifier: Apache-2.0
# Written by stubs.py: the functions, structs and constants of the C headers under their C names, internal to the package.
from typing import Any, Callable, Optional, Sequence, Union, final

import numpy
from typing_extensions import Buffer

_Array = Union[Buffer, numpy.ndarray, Sequence[int], int, None]  # a buffer, or a sequence of int or a single one that is copied

KVC_ATTENTION_NOT_CAUSAL: int
KVC_ATTENTION_ALLOW_BF16: int
KVC_LAUNCH_ON_DEVICE: int
KVC_LAUNCH_INVARIANT: int
KVC_LAUNCH_PLANNED: int
KVC_CHECKPOINT_FULL: int
KVC_CHECKPOINT_INCREMENT: int
KVC_CHECKPOINT_REQUESTS: int
KVC_CHECKPOINT_NO_SYNC: int
KVC_CHECKPOINT_BYTES_ELSEWHERE: int
KVC_CHECKPOINT_CACHE_ONLY: int
KVC_MEMORY_DEFAULT: int
KVC_MEMORY_HOST: int
KVC_MEMORY_HOST_HUGE: int
KVC_MEMORY_PINNED: int
KVC_MEMORY_DEVICE: int
KVC_MEMORY_EXTERNAL: int
KVC_MEMORY_MANAGED: int
KVC_MANAGED_LEAST_BYTES: int
KVC_DEVICE_READS_HOST: int
KVC_DEVICE_MANAGED: int
KVC_DEVICE_SWAP_MEASURED: int
KVC_STREAM_LEGACY: int
KVC_EVENT_STORED: int
KVC_EVENT_REMOVED: int
KVC_EVENT_NAMESPACE_CLEARED: int
KVC_EVENT_ALL_CLEARED: int
KVC_INDEX_MAX_MEDIA: int
KVC_INDEX_MAX_WORKERS: int
KVC_INDEX_HIDE_STALE: int
KVC_PAGE_FILE_SLAB: int
KVC_PAGE_FILE_PAGE: int
KVC_GROUP_FULL: int
KVC_GROUP_SLIDING_WINDOW: int
KVC_GROUP_CHUNKED_LOCAL: int
KVC_GROUP_STATE: int
KVC_GROUP_CROSS: int
KVC_POLICY_LRU: int
KVC_POLICY_FREQUENCY: int
KVC_POLICY_FRAGMENTATION: int
KVC_MANAGER_NULL_BLOCK: int
KVC_MANAGER_NO_PREFIX_CACHE: int
KVC_MANAGER_ZERO_CROSS_NAMESPACE: int
KVC_MANAGER_ZERO_ALWAYS: int
KVC_MANAGER_TOUCH_MEMORY: int
KVC_MANAGER_HINTS: int
KVC_MANAGER_FILLS: int
KVC_MANAGER_HEADROOM: int
KVC_MANAGER_PARTIAL_REUSE: int
KVC_MAX_BLOCKS: int
KVC_BLOCK_FREE: int
KVC_BLOCK_CACHED: int
KVC_BLOCK_PINNED: int
KVC_BLOCK_RESERVED: int
KVC_BLOCK_LIVE: int
KVC_BLOCK_FILLING: int
KVC_BLOCK_FENCED: int
KVC_METRICS_VLLM_NAMES: int
KVC_LATENCY_ADMIT: int
KVC_LATENCY_STEP: int
KVC_LATENCY_PLAN: int
KVC_LATENCY_FINISH: int
KVC_LATENCY_STORE: int
KVC_LATENCY_GATHER: int
KVC_LATENCY_POLL: int
KVC_LATENCY_LOAD: int
KVC_LATENCY_TIER_EXISTS: int
KVC_LATENCY_TIER_GET: int
KVC_LATENCY_TIER_PUT: int
KVC_LATENCY_TIER_REMOVE: int
KVC_ROPE_NONE: int
KVC_ROPE_LINEAR: int
KVC_ROPE_DYNAMIC: int
KVC_ROPE_YARN: int
KVC_ROPE_LLAMA3: int
KVC_ROPE_LONGROPE: int
KVC_MODEL_ROPE_EXACT_RAMP: int
KVC_MODEL_ROPE_WINDOW_ONLY: int
KVC_ROPE_ROWS_INTERLEAVED: int
KVC_MODEL_MAX_LAYERS: int
KVC_MODEL_MAX_REGISTERED: int
KVC_OFFLOAD_WRITE_THROUGH: int
KVC_OFFLOAD_SECOND_USE: int
KVC_OFFLOAD_BEFORE_EVICTION: int
KVC_OFFLOAD_NO_PROMOTE: int
KVC_OFFLOAD_NONE: int
KVC_OFFLOAD_LOOKING: int
KVC_OFFLOAD_LOADING: int
KVC_OFFLOAD_READY: int
KVC_OFFLOAD_NOTHING: int
KVC_OFFLOAD_SLOWER: int
KVC_OFFLOAD_NO_ROOM: int
KVC_OFFLOAD_FAILED: int
KVC_OFFLOAD_LOADED: int
KVC_OFFLOAD_CANCELLED: int
KVC_PAGE_WAITING: int
KVC_PAGE_OK: int
KVC_PAGE_MISS: int
KVC_PAGE_PENDING: int
KVC_PAGE_EXPIRED: int
KVC_PAGE_NO_SPACE: int
KVC_PAGE_FAILED: int
KVC_PAGE_TIMEOUT: int
KVC_PAGE_CANCELLED: int
KVC_PAGE_UNAVAILABLE: int
KVC_STORE_REMOTE: int
KVC_LOST_BLOCK: int
KVC_LOST_WINDOW: int
KVC_LOST_STATE: int
KVC_LOST_AGREEMENT: int
KVC_LOST_NODES: int
KVC_PUBLISHER_DIGEST: int
KVC_PUBLISHER_VLLM: int
KVC_PUBLISHER_SGLANG: int
KVC_PUBLISHER_THREAD: int
KVC_PUBLISHER_ARRAYS: int
KVC_PUBLISHER_BYTES: int
KVC_PUBLISHER_NO_RANK: int
KVC_PUBLISHER_NO_GROUPS: int
KVC_PUBLISHER_ALL_FLAGS: int
KVC_MIN_RECORD_BYTES: int
KVC_MAX_KEYS_OF_TOKEN: int
KVC_REQUEST_NO_READ: int
KVC_REQUEST_NO_WRITE: int
KVC_REQUEST_FULL_MUST_FIT: int
KVC_REQUEST_RESUMED: int
KVC_REQUEST_PUBLISH_ENQUEUED: int
KVC_REQUEST_SHARE_FILLING: int
KVC_HEADROOM_NONE: int
KVC_HEADROOM_MINIMAL: int
KVC_HEADROOM_BALANCED: int
KVC_HEADROOM_AGGRESSIVE: int
KVC_SCHEDULE_FCFS: int
KVC_SCHEDULE_PRIORITY: int
KVC_SCHEDULE_SHORTEST: int
KVC_SCHEDULE_FAIR: int
KVC_SCHEDULE_ADAPTIVE: int
KVC_ADMIT_CHUNK: int
KVC_ADMIT_PROMPT: int
KVC_ADMIT_PEAK: int
KVC_ADMIT_WORST: int
KVC_SCHEDULER_CACHE_AWARE: int
KVC_SCHEDULER_DEPTH_FIRST: int
KVC_JOB_NOT_READY: int
KVC_ENDED_STOPPED: int
KVC_ENDED_LENGTH: int
KVC_ENDED_NO_SPACE: int
KVC_RESULT_FAILED: int
KVC_SCHEDULED_NOT_READY: int
KVC_SCHEDULED_WAITING: int
KVC_SCHEDULED_LOADING: int
KVC_SCHEDULED_RUNNING: int
KVC_WAIT_NONE: int
KVC_WAIT_READY: int
KVC_WAIT_LOAD: int
KVC_WAIT_PLANS: int
KVC_WAIT_TURN: int
KVC_WAIT_SPACE: int
KVC_WAIT_PEAK: int
KVC_WAIT_PRESSURE: int
KVC_WAIT_QUOTA: int
KVC_WAIT_ADAPTER: int
KVC_WAIT_ENCODER: int
KVC_WAIT_FILLING: int
KVC_MAX_CURVES: int
KVC_MAX_OBSERVATIONS: int
KVC_SIZING_REACTIVE: int
KVC_SIZING_PREDICTIVE: int
KVC_SIZING_HYBRID: int
KVC_SIZING_KEEP: int
KVC_SIZING_GROW: int
KVC_SIZING_SHRINK: int
KVC_SIZING_BY_LAST: int
KVC_SIZING_BY_FORECAST: int
KVC_SIZING_BY_LEVEL: int
KVC_SIZING_NEED: int
KVC_SIZING_HYSTERESIS: int
KVC_SIZING_COOLDOWN: int
KVC_SIZING_LIMIT: int
KVC_MAX_DRAFT_NODES: int
KVC_MAX_DRAFT_DEPTHS: int
KVC_PROBABILITIES_TRUSTED: int
KVC_STEP_WHOLE_ROWS: int
KVC_STEP_ADMIT_PAST_REFUSAL: int
KVC_STEP_ADMIT_ALL_OR_NONE: int
KVC_STEP_FREES: int
KVC_STEP_PREEMPTS: int
KVC_STEP_TRUNCATES: int
KVC_STEP_TRUNCATE_LENGTHS: int
KVC_STEP_REQUESTS: int
KVC_STEP_COMMITTED: int
KVC_STEP_COMMIT_OFFSETS: int
KVC_STEP_COMMIT_TOKENS: int
KVC_STEP_EXTEND_OFFSETS: int
KVC_STEP_EXTEND_TOKENS: int
KVC_STEP_ADMIT_REQUESTS: int
KVC_STEP_ADMIT_OFFSETS: int
KVC_STEP_ADMIT_TOKENS: int
KVC_STEP_ROWS: int
KVC_STEP_STATUS: int
KVC_STEP_ADMITTED: int
KVC_STEP_CACHED: int
KVC_STEP_NUM_BLOCKS: int
KVC_STEP_BLOCK_TABLES: int
KVC_STEP_SLOTS: int
KVC_STEP_COPIES: int
KVC_STEP_CHANGES: int
KVC_STEP_ADMIT_NAMESPACES: int
KVC_STEP_ADMIT_SLOTS: int
KVC_LAYOUT_LBHNC: int
KVC_LAYOUT_LBNHC: int
KVC_LAYOUT_BLHNC: int
KVC_LAYOUT_BLNHC: int
KVC_LAYOUT_BHLNC: int
KVC_STORAGE_LATENT: int
KVC_STORAGE_TILED_KEYS: int
KVC_STORAGE_ASYMMETRIC: int
KVC_STORAGE_NOT_ZEROED: int
KVC_STORAGE_CHANNEL_KEYS: int
KVC_STORAGE_HADAMARD: int
KVC_PLANE_K: int
KVC_PLANE_V: int
KVC_PLANE_K_SCALE: int
KVC_PLANE_V_SCALE: int
KVC_ROWS_ON_DEVICE: int
KVC_ROWS_ROPE_INTERLEAVED: int
KVC_QUANT_ASYMMETRIC: int
KVC_QUANT_CHANNELS: int
KVC_TIER_EXISTS: int
KVC_TIER_GET: int
KVC_TIER_PUT: int
KVC_TIER_REMOVE: int
KVC_TIER_LOAD: int
KVC_TIER_PREFETCH: int
KVC_TIER_STORE: int
KVC_OK: int
KVC_ERROR_INVALID_ARGUMENT: int
KVC_ERROR_OUT_OF_MEMORY: int
KVC_ERROR_NO_SPACE: int
KVC_ERROR_NOT_FOUND: int
KVC_ERROR_BUSY: int
KVC_ERROR_LIMIT: int
KVC_ERROR_BUFFER_TOO_SMALL: int
KVC_ERROR_UNSUPPORTED: int
KVC_ERROR_NOT_HELD: int
KVC_ERROR_CORRUPT: int
KVC_ERROR_INTERNAL: int
KVC_ERROR_AGAIN: int
KVC_ERROR_SKIPPED: int
KVC_ERROR_DEVICE: int
KVC_ERROR_OVER_QUOTA: int
KVC_ERROR_FILLING: int
KVC_ERROR_NEVER_FITS: int
KVC_INT8: int
KVC_UINT8: int
KVC_INT32: int
KVC_INT64: int
KVC_UINT64: int
KVC_FLOAT32: int
KVC_FLOAT16: int
KVC_BFLOAT16: int
KVC_FLOAT8_E4M3: int
KVC_FLOAT8_E5M2: int
KVC_INT4: int
KVC_VERSION_MAJOR: int
KVC_VERSION_MINOR: int
KVC_VERSION_PATCH: int

class kvc_draft: ...

class kvc_index: ...

class kvc_manager: ...

class kvc_offload: ...

class kvc_publisher: ...

class kvc_scheduler: ...

class kvc_sizer: ...

class kvc_storage: ...

class kvc_stream: ...

class kvc_stream_event: ...

class kvc_tier: ...

class kvc_workload: ...

class kvc_pool_config:
    num_blocks: int
    max_blocks: int

class kvc_group_config:
    kind: int
    num_sink_tokens: int
    window_tokens: int
    retention_tokens: int
    pool: int
    chunk_tokens: int
    max_checkpoints: int

class kvc_attention:
    num_requests: int
    table_stride: int
    layer: int
    num_q_heads: int
    dtype: int
    flags: int
    scale: float
    soft_cap: float
    window: int
    sinks: int
    block_mask_stride: int
    shared_tokens: int
    q_token_stride: int
    q_head_stride: int
    out_token_stride: int
    out_head_stride: int

class kvc_attention_info:
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

class kvc_attention_launch:
    flags: int
    total_queries: int
    max_queries: int
    max_kv_len: int

class kvc_backend_info:
    path: str
    architectures: str
    remark: str
    num_devices: int

class kvc_block_choice:
    top_k: int
    sink_blocks: int
    recent_blocks: int
    block_mask_stride: int
    ratio: float
    threshold: float

class kvc_block_info:
    token_offset: int
    state: int
    pool: int
    requests: int
    external_holds: int
    pins: int
    published: int
    num_copies: int
    group: int

class kvc_checkpoint_info:
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
    ids_kept: int
    content: bytes
    codec: str
    model: str
    weights: str
    resumed_pages: int
    longest_hold: int
    longest_admission: int

class kvc_checkpoint_needs:
    num_pages: int
    new_pages: int
    new_bytes: int
    full_bytes: int
    free_bytes: int

class kvc_curve_config:
    sample_rate: float
    max_samples: int
    max_blocks: int
    half_life: int

class kvc_curve_info:
    sample_rate: float
    max_samples: int
    max_blocks: int
    half_life: int
    queries: float
    sampled: float
    num_samples: int
    bytes: int

class kvc_device_info:
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

class kvc_draft_config:
    max_rows: int
    min_ngram: int
    max_ngram: int
    row_capacity: int

class kvc_index_applied:
    applied: int
    ignored: int
    next_sequence: int
    is_stale: int
    restarts: int

class kvc_index_config:
    max_blocks: int
    ttl_ns: int
    max_workers: int
    num_media: int
    max_namespaces: int
    group: int
    flags: int

class kvc_index_stats:
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

class kvc_latency:
    count: int
    sum_ns: int
    max_ns: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int

class kvc_log_info:
    capacity: int
    bytes: int
    calls: int
    lost_calls: int

class kvc_lost_reuse:
    admissions: int
    block_tokens: int
    window_tokens: int
    state_tokens: int
    agreement_tokens: int
    node_tokens: int

class kvc_manager_config:
    num_blocks: int
    max_nodes: int
    max_requests: int
    max_request_tokens: int
    event_capacity: int
    seed: int
    watermark_blocks: int
    block_size: int
    vocab_size: int
    policy: int
    flags: int
    groups: Optional[kvc_group_config]
    num_groups: int
    pools: Optional[kvc_pool_config]
    num_pools: int
    policy_weight: float
    policy_history: int
    max_quotas: int
    max_blocks: int
    record_bytes: int
    def set_memory(self, model: kvc_model, query: kvc_memory_query) -> None: ...

class kvc_memory_estimate:
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

class kvc_memory_profile:
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

class kvc_memory_query:
    tokens: int
    num_sequences: int
    budget_bytes: int
    chunk_tokens: int
    dtype: int
    block_size: int
    scale_group: int
    asymmetric: int
    tensor_scales: int
    channel_keys: int
    channel_tokens: int
    memory_fraction: float
    device: str
    checkpoint_tokens: int
    conv_dtype: int
    recurrent_dtype: int
    retention_tokens: int

class kvc_model:
    name: str
    num_layers: int
    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    v_head_dim: int
    latent_dim: int
    rope_dim: int
    vocab_size: int
    max_context: int
    window_tokens: int
    rope_theta: float
    rope_local_theta: float
    rope_factor: float
    rope_original_context: int
    rope_scaling: int
    rope_flags: int
    rope_low_rotations: float
    rope_high_rotations: float
    rope_attention_factor: float
    window_kind: int
    num_cross_layers: int
    conv_elements: int
    recurrent_elements: int
    cross_tokens: int
    cross_kv_heads: int
    cross_head_dim: int
    def has_window(self, layer: int) -> int: ...
    def set_window(self, layer: int) -> None: ...
    def has_state(self, layer: int) -> int: ...
    def set_state(self, layer: int) -> None: ...

class kvc_offload_info:
    state: int
    reason: int
    num_cached: int
    num_found: int
    num_loaded: int

class kvc_offload_stats:
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

class kvc_offload_tier_stats:
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

class kvc_page_file_info:
    kind: int
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

class kvc_plan:
    plan_id: int
    step_id: int
    num_items: int
    num_tokens: int
    num_groups: int
    num_rows: int
    row_stride: int
    slot_stride: int
    num_copies: int
    num_changes: int
    whole_tables: int
    num_preempted: int
    num_encoder_runs: int
    num_ended: int

class kvc_pool_info:
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

class kvc_probe_info:
    num_cached: int
    blocks_needed: int
    blocks_available: int
    lost_reuse_tokens: int
    fits: int
    never_fits: int
    filling_request: int
    next_checkpoint: int

class kvc_properties:
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

class kvc_publisher_stats:
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

class kvc_quant_format:
    dtype: int
    flags: int
    group: int
    scale: float

class kvc_quant_metrics:
    elements: int
    bytes: int
    fp16_bytes: int
    ratio: float
    mse: float
    snr_db: float
    max_error: float

class kvc_quota_info:
    min_blocks: int
    max_blocks: int
    held: int
    cached: int
    fenced: int
    available: int
    refusals: int
    block_queries: int
    block_hits: int

class kvc_replay_info:
    calls: int
    mismatches: int
    first_mismatch: int
    digest: int
    lost_calls: int
    library_version: int
    text: str

class kvc_request_config:
    user_data: int
    max_cached_tokens: int
    external_tokens: int
    slots: int
    lookahead: int
    flags: int
    drop_tail_blocks: int
    wait_until_ns: int
    headroom: int
    cross_tokens: int
    def set_cross_digest(self, first: int, second: int, third: int, fourth: int) -> None: ...

class kvc_request_info:
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
    next_checkpoint: int
    cross_tokens: int
    num_cross_cached: int
    lost_group: int
    lost_reason: int

class kvc_rope_rows:
    num_heads: int
    head_dim: int
    rope_dim: int
    first_element: int
    dtype: int
    flags: int
    token_stride: int
    head_stride: int

class kvc_rows:
    first_layer: int
    num_layers: int
    dtype: int
    flags: int
    k_layer_stride: int
    k_token_stride: int
    k_head_stride: int
    v_layer_stride: int
    v_token_stride: int
    v_head_stride: int
    first_token: int
    rope_dim: int
    rope_first_element: int

class kvc_scheduled_info:
    state: int
    row: int
    num_tokens: int
    num_prompt: int
    num_planned: int
    num_cached: int
    num_preemptions: int
    arrival_ns: int
    priority: int
    tenant: int
    wait_reason: int

class kvc_scheduler_config:
    policy: int
    admission: int
    flags: int
    max_running: int
    max_tokens: int
    max_chunk: int
    max_drafts: int
    max_plans: int
    max_adapters: int
    max_tenants: int
    max_encoder_tokens: int
    max_request_tokens: int
    max_wait_ns: int
    high_watermark: float
    low_watermark: float
    adaptive_plans: int

class kvc_scheduler_stats:
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
    policy: int
    pressure: int

class kvc_sizer_config:
    min_blocks: int
    max_blocks: int
    num_blocks: int
    lead_time_ns: int
    cooldown_ns: int
    half_life_ns: int
    headroom: float
    hysteresis: float
    burst_threshold: float
    mode: int
    window: int
    log_capacity: int

class kvc_sizing_decision:
    number: int
    now_ns: int
    from_blocks: int
    to_blocks: int
    action: int
    reason: int
    basis: int
    mode: int
    needed: float
    level: float
    trend: float
    forecast: float
    variation: float
    wanted: float

class kvc_stats:
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

class kvc_step_limits:
    max_frees: int
    max_requests: int
    max_admissions: int
    max_tokens: int
    max_prompt_tokens: int
    max_rows: int
    row_stride: int
    max_changes: int

class kvc_storage_config:
    num_blocks: int
    num_layers: int
    num_heads: int
    head_dim: int
    v_head_dim: int
    block_size: int
    dtype: int
    layout: int
    flags: int
    scale_group: int
    alignment: int
    num_threads: int
    memory_kind: int
    device: str
    k_scale: float
    v_scale: float
    channel_tokens: int
    residual_blocks: int
    memory_fraction: float

class kvc_storage_info:
    slab_bytes: int
    block_bytes: int
    token_bytes: int
    num_blocks: int
    num_layers: int
    num_heads: int
    head_dim: int
    v_head_dim: int
    block_size: int
    dtype: int
    layout: int
    flags: int
    scale_group: int
    alignment: int
    memory_kind: int
    residual_bytes: int
    k_scale: float
    v_scale: float
    channel_tokens: int
    residual_blocks: int

class kvc_tier_counts:
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

class kvc_tier_stats:
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
    available: int
    uses_uring: int
    disk_evictions: int
    expired: int
    removed: int
    mismatches: int

class kvc_workload_config:
    half_life_ns: int
    window: int

class kvc_workload_info:
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

class kvc_selection:
    first_layer: int
    num_layers: int
    first_head: int
    num_heads: int
    first_token: int
    num_tokens: int

class kvc_step:
    flags: int
    fill_id: int
    retired_step: int
    step_id: int
    num_frees: int
    num_preempts: int
    num_truncates: int
    num_requests: int
    num_admissions: int
    num_rows: int
    row_stride: int
    slot_capacity: int
    copy_capacity: int
    change_capacity: int
    num_slots: int
    num_copies: int
    num_changes: int
    num_refused: int
    shortage_blocks: int
    now_ns: int

class kvc_view:
    dtype: int
    ndim: int

def kvc_storage_key_bounds(s: kvc_storage, layer: int, blocks: _Array, bounds: _Array, stream: Optional[kvc_stream]) -> None: ...
def kvc_tree_mask(parents: _Array, mask: _Array, first_bit: int, depths: _Array) -> None: ...
def kvc_checkpoint_list(folder: str, ids: _Array) -> int: ...
def kvc_checkpoint_read_info(folder: str, id: int, info: kvc_checkpoint_info) -> None: ...
def kvc_checkpoint_validate(folder: str, id: int, info: kvc_checkpoint_info) -> None: ...
def kvc_checkpoint_remove(folder: str, id: int) -> None: ...
def kvc_checkpoint_collect(folder: str, keep_last: int) -> int: ...
def kvc_backend_open(name: str, path: Optional[str]) -> None: ...
def kvc_backend_properties(name: str, info: kvc_backend_info) -> None: ...
def kvc_device_read_info(device: Optional[str], info: kvc_device_info) -> None: ...
def kvc_stream_create(device: Optional[str]) -> kvc_stream: ...
def kvc_stream_adopt(device: Optional[str], handle: Optional[int], flags: int) -> kvc_stream: ...
def kvc_stream_handle(stream: Optional[kvc_stream]) -> int: ...
def kvc_stream_synchronize(stream: Optional[kvc_stream]) -> None: ...
def kvc_stream_wait_event(stream: Optional[kvc_stream], event: kvc_stream_event) -> None: ...
def kvc_stream_event_create(device: Optional[str]) -> kvc_stream_event: ...
def kvc_stream_event_record(event: kvc_stream_event, stream: Optional[kvc_stream]) -> None: ...
def kvc_stream_event_query(event: kvc_stream_event) -> int: ...
def kvc_stream_event_synchronize(event: kvc_stream_event) -> None: ...
def kvc_manager_acquire_blocks(m: kvc_manager, group: int, blocks: _Array) -> None: ...
def kvc_manager_acquire_prefix(m: kvc_manager, namespace_id: int, tokens: _Array, keys: _Array, group: int, blocks: _Array) -> int: ...
def kvc_manager_publish_blocks(m: kvc_manager, namespace_id: int, tokens: _Array, keys: _Array, group: int, blocks: _Array) -> None: ...
def kvc_manager_release_blocks(m: kvc_manager, blocks: _Array) -> None: ...
def kvc_manager_unpublish_blocks(m: kvc_manager, blocks: _Array) -> int: ...
def kvc_manager_fail_step(m: kvc_manager, step_id: int, requests: _Array) -> int: ...
def kvc_index_create(config: kvc_index_config) -> kvc_index: ...
def kvc_index_add_worker(index: kvc_index, worker: int, name: str, now_ns: int) -> None: ...
def kvc_index_remove_worker(index: kvc_index, worker: int) -> None: ...
def kvc_index_touch_worker(index: kvc_index, worker: int, now_ns: int) -> None: ...
def kvc_index_expire(index: kvc_index, now_ns: int) -> int: ...
def kvc_index_begin_resync(index: kvc_index, worker: int, medium: int) -> None: ...
def kvc_index_end_resync(index: kvc_index, worker: int, medium: int, next_sequence: int) -> None: ...
def kvc_index_root(model: _Array, adapter: _Array, tenant: _Array, root: _Array) -> None: ...
def kvc_index_list_workers(index: kvc_index, workers: _Array) -> int: ...
def kvc_index_read_stats(index: kvc_index, stats: kvc_index_stats) -> None: ...
def kvc_index_dump(index: kvc_index, data: _Array) -> int: ...
def kvc_index_load(index: kvc_index, data: _Array) -> None: ...
def kvc_page_file_read_info(path: Optional[str], validate: int, info: kvc_page_file_info) -> None: ...
def kvc_page_file_read_part(path: Optional[str], number: int, validate: int, info: kvc_page_file_info) -> None: ...
def kvc_page_file_purge(path: Optional[str], fingerprint: _Array, info: kvc_page_file_info) -> None: ...
def kvc_manager_create(config: kvc_manager_config) -> kvc_manager: ...
def kvc_manager_properties(m: kvc_manager, properties: kvc_properties) -> None: ...
def kvc_manager_open_namespace(m: kvc_manager, model: _Array, adapter: _Array, tenant: _Array) -> int: ...
def kvc_manager_close_namespace(m: kvc_manager, namespace_id: int) -> None: ...
def kvc_manager_list_namespaces(m: kvc_manager, namespaces: _Array) -> int: ...
def kvc_manager_reset_namespace(m: kvc_manager, namespace_id: int) -> None: ...
def kvc_manager_reset_all(m: kvc_manager) -> None: ...
def kvc_manager_set_prefix_caching(m: kvc_manager, on: int) -> None: ...
def kvc_manager_read_stats(m: kvc_manager, stats: kvc_stats) -> None: ...
def kvc_manager_pool_info(m: kvc_manager, pool: int, info: kvc_pool_info) -> None: ...
def kvc_manager_block_info(m: kvc_manager, block: int, info: kvc_block_info) -> None: ...
def kvc_manager_check(m: kvc_manager) -> None: ...
def kvc_manager_digest(m: kvc_manager) -> int: ...
def kvc_model_count() -> int: ...
def kvc_model_get(index: int, model: kvc_model) -> None: ...
def kvc_model_find(name: str, model: kvc_model) -> None: ...
def kvc_model_register(model: kvc_model) -> None: ...
def kvc_model_from_config(json: _Array, model: kvc_model) -> None: ...
def kvc_config_from_shortfin(json: _Array, device: int, manager: kvc_manager_config, storage: kvc_storage_config) -> int: ...
def kvc_model_rope(model: kvc_model, layer: int, length: int, factors: _Array, frequencies: _Array, attention_factor: _Array) -> None: ...
def kvc_rope_table(frequencies: _Array, attention_factor: float, positions: _Array, table: _Array) -> None: ...
def kvc_offload_event_fd(o: kvc_offload) -> int: ...
def kvc_offload_poll(o: kvc_offload, now_ns: int, stream: Optional[kvc_stream]) -> None: ...
def kvc_offload_flush(o: kvc_offload, now_ns: int, timeout_ns: int, stream: Optional[kvc_stream]) -> int: ...
def kvc_offload_lookup(o: kvc_offload, request: int, now_ns: int) -> None: ...
def kvc_offload_load(o: kvc_offload, request: int, max_tokens: int, now_ns: int) -> None: ...
def kvc_offload_query(o: kvc_offload, request: int, info: kvc_offload_info) -> None: ...
def kvc_offload_cancel(o: kvc_offload, request: int) -> None: ...
def kvc_offload_read_stats(o: kvc_offload, stats: kvc_offload_stats) -> None: ...
def kvc_offload_read_tier_stats(o: kvc_offload, tier: int, stats: kvc_offload_tier_stats) -> None: ...
def kvc_storage_page_runs(s: kvc_storage, model: _Array, weights: _Array, numerics: _Array, num_layers: int, num_heads: int, first_layer: int, first_head: int, runs: _Array) -> int: ...
def kvc_storage_pack_pages(s: kvc_storage, blocks: _Array, pages: _Array, stride: int) -> None: ...
def kvc_storage_unpack_pages(s: kvc_storage, blocks: _Array, pages: _Array, stride: int) -> None: ...
def kvc_plugin_open(name: str, path: Optional[str]) -> None: ...
def kvc_manager_probe(m: kvc_manager, namespace_id: int, tokens: _Array, keys: _Array, info: kvc_probe_info) -> None: ...
def kvc_manager_probe_request(m: kvc_manager, request: int, info: kvc_probe_info) -> None: ...
def kvc_manager_lost_reuse(m: kvc_manager, group: int, info: kvc_lost_reuse) -> None: ...
def kvc_manager_pin_prefix(m: kvc_manager, namespace_id: int, tokens: _Array, keys: _Array) -> tuple[int, int]: ...
def kvc_manager_unpin_prefix(m: kvc_manager, pin: int) -> None: ...
def kvc_manager_list_pins(m: kvc_manager, pins: _Array) -> int: ...
def kvc_manager_drop_prefix(m: kvc_manager, namespace_id: int, tokens: _Array, keys: _Array) -> int: ...
def kvc_manager_evict_blocks(m: kvc_manager, pool: int, max_blocks: int) -> int: ...
def kvc_publisher_poll(publisher: kvc_publisher) -> int: ...
def kvc_publisher_resync(publisher: kvc_publisher) -> None: ...
def kvc_publisher_read_stats(publisher: kvc_publisher, stats: kvc_publisher_stats) -> None: ...
def kvc_manager_set_quota(m: kvc_manager, namespace_id: int, pool: int, min_blocks: int, max_blocks: int) -> None: ...
def kvc_manager_quota_info(m: kvc_manager, namespace_id: int, pool: int, info: kvc_quota_info) -> None: ...
def kvc_storage_copy_tokens(source: kvc_storage, destination: kvc_storage, copies: _Array) -> None: ...
def kvc_manager_take_log(m: kvc_manager, log: _Array) -> int: ...
def kvc_manager_log_info(m: kvc_manager, info: kvc_log_info) -> None: ...
def kvc_log_replay(log: _Array, info: kvc_replay_info) -> None: ...
def kvc_manager_create_request(m: kvc_manager, namespace_id: int, tokens: _Array, keys: _Array, config: Optional[kvc_request_config]) -> int: ...
def kvc_manager_admit_request(m: kvc_manager, request: int) -> int: ...
def kvc_manager_allocate_request(m: kvc_manager, namespace_id: int, tokens: _Array, keys: _Array, config: Optional[kvc_request_config]) -> tuple[int, int]: ...
def kvc_manager_reserve_tokens(m: kvc_manager, request: int, capacity: int) -> None: ...
def kvc_manager_append_tokens(m: kvc_manager, request: int, tokens: _Array) -> None: ...
def kvc_manager_add_keys(m: kvc_manager, request: int, keys: _Array) -> None: ...
def kvc_manager_commit_tokens(m: kvc_manager, request: int, num_committed: int) -> None: ...
def kvc_manager_commit_ahead(m: kvc_manager, request: int, num_committed: int, num_computed: int) -> None: ...
def kvc_manager_truncate_request(m: kvc_manager, request: int, num_tokens: int) -> None: ...
def kvc_manager_fork_request(m: kvc_manager, request: int) -> int: ...
def kvc_manager_preempt_request(m: kvc_manager, request: int) -> None: ...
def kvc_manager_free_request(m: kvc_manager, request: int) -> None: ...
def kvc_manager_request_info(m: kvc_manager, request: int, info: kvc_request_info) -> None: ...
def kvc_manager_list_requests(m: kvc_manager, requests: _Array) -> int: ...
def kvc_manager_common_prefix(m: kvc_manager, requests: _Array, group: int) -> int: ...
def kvc_manager_compact(m: kvc_manager, pool: int, moves: _Array) -> int: ...
def kvc_manager_resize(m: kvc_manager, pool: int, num_blocks: int, moves: _Array) -> int: ...
def kvc_manager_expected_tokens(m: kvc_manager, headroom: int, generated: int) -> int: ...
def kvc_storage_discard_blocks(s: kvc_storage, first_block: int, num_blocks: int) -> int: ...
def kvc_manager_set_time(m: kvc_manager, now_ns: int) -> None: ...
def kvc_manager_set_priority(m: kvc_manager, request: int, first_token: int, num_tokens: int, priority: int, until_ns: int) -> None: ...
def kvc_manager_end_session(m: kvc_manager, request: int, shared_tokens: int) -> None: ...
def kvc_manager_register_prompt(m: kvc_manager, name: str, namespace_id: int, tokens: _Array, keys: _Array) -> int: ...
def kvc_manager_allocate_from_prompt(m: kvc_manager, name: str, tokens: _Array, config: Optional[kvc_request_config]) -> tuple[int, int]: ...
def kvc_manager_unregister_prompt(m: kvc_manager, name: str) -> None: ...
def kvc_manager_list_prompts(m: kvc_manager, names: _Array) -> int: ...
def kvc_scheduler_abort(s: kvc_scheduler, request: int) -> None: ...
def kvc_scheduler_set_ready(s: kvc_scheduler, request: int) -> None: ...
def kvc_scheduler_set_priority(s: kvc_scheduler, request: int, priority: int) -> None: ...
def kvc_scheduler_set_weight(s: kvc_scheduler, tenant: int, weight: float) -> None: ...
def kvc_scheduler_plan(s: kvc_scheduler, now_ns: int, plan: kvc_plan) -> None: ...
def kvc_scheduler_request_info(s: kvc_scheduler, request: int, info: kvc_scheduled_info) -> None: ...
def kvc_scheduler_read_stats(s: kvc_scheduler, stats: kvc_scheduler_stats) -> None: ...
def kvc_scheduler_check(s: kvc_scheduler) -> None: ...
def kvc_manager_open_curve(m: kvc_manager, namespace_id: int, config: kvc_curve_config) -> None: ...
def kvc_manager_close_curve(m: kvc_manager, namespace_id: int) -> None: ...
def kvc_manager_read_curve(m: kvc_manager, namespace_id: int, num_blocks: _Array, hit_rates: _Array) -> None: ...
def kvc_manager_curve_info(m: kvc_manager, namespace_id: int, info: kvc_curve_info) -> None: ...
def kvc_workload_create(config: kvc_workload_config) -> kvc_workload: ...
def kvc_workload_record(workload: kvc_workload, now_ns: int, value: float) -> None: ...
def kvc_workload_read_info(workload: kvc_workload, info: kvc_workload_info) -> None: ...
def kvc_workload_predict(workload: kvc_workload, horizon_ns: int, value: _Array) -> None: ...
def kvc_sizer_create(config: kvc_sizer_config) -> kvc_sizer: ...
def kvc_sizer_decide(sizer: kvc_sizer, now_ns: int, needed_blocks: float, decision: kvc_sizing_decision) -> None: ...
def kvc_sizer_read_log(sizer: kvc_sizer, number: int, decision: kvc_sizing_decision) -> None: ...
def kvc_drafts_check(draft_offsets: _Array, draft_tokens: _Array, draft_parents: _Array) -> None: ...
def kvc_verify_greedy(draft_offsets: _Array, draft_tokens: _Array, draft_parents: _Array, target_tokens: _Array, path: _Array, num_accepted: _Array, next_tokens: _Array) -> None: ...
def kvc_storage_move_tokens(s: kvc_storage, moves: _Array) -> None: ...
def kvc_draft_lookup(tokens: _Array, min_ngram: int, max_ngram: int, draft: _Array) -> int: ...
def kvc_draft_create(config: kvc_draft_config) -> kvc_draft: ...
def kvc_draft_truncate(draft: kvc_draft, row: int, num_tokens: int) -> None: ...
def kvc_step_create(m: kvc_manager, limits: kvc_step_limits) -> kvc_step: ...
def kvc_step_view(step: kvc_step, array: int) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]: ...
def kvc_manager_retire_step(m: kvc_manager, step_id: int) -> None: ...
def kvc_storage_create(config: kvc_storage_config) -> kvc_storage: ...
def kvc_storage_properties(s: kvc_storage, info: kvc_storage_info) -> None: ...
def kvc_storage_size(config: kvc_storage_config) -> tuple[int, int]: ...
def kvc_storage_trim(s: kvc_storage) -> tuple[int, int]: ...
def kvc_storage_view(s: kvc_storage, plane: int, layer: int) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]: ...
def kvc_storage_runs(s: kvc_storage, block: int, selection: Optional[kvc_selection], runs: _Array) -> int: ...
def kvc_storage_copy_blocks(s: kvc_storage, copies: _Array, stream: Optional[kvc_stream]) -> None: ...
def kvc_storage_zero_blocks(s: kvc_storage, blocks: _Array, stream: Optional[kvc_stream]) -> None: ...
def kvc_storage_swap_out(s: kvc_storage, copies: _Array, pages: _Array, page_bytes: int, stream: Optional[kvc_stream]) -> None: ...
def kvc_storage_swap_in(s: kvc_storage, copies: _Array, pages: _Array, page_bytes: int, stream: Optional[kvc_stream]) -> None: ...
def kvc_storage_quantize_blocks(s: kvc_storage, blocks: _Array, stream: Optional[kvc_stream]) -> None: ...
def kvc_quantize(format: kvc_quant_format, in_: _Array, num_rows: int, dim: int, codes: _Array, scales: _Array) -> None: ...
def kvc_dequantize(format: kvc_quant_format, codes: _Array, scales: _Array, num_rows: int, dim: int, out: _Array) -> None: ...
def kvc_tier_cancel(t: kvc_tier, id: int) -> None: ...
def kvc_tier_poll(t: kvc_tier, completions: _Array) -> int: ...
def kvc_tier_event_fd(t: kvc_tier) -> int: ...
def kvc_tier_run_one(t: kvc_tier) -> int: ...
def kvc_tier_drain(t: kvc_tier) -> None: ...
def kvc_tier_read_stats(t: kvc_tier, stats: kvc_tier_stats) -> None: ...
def kvc_tier_read_counts(t: kvc_tier, kind: int, counts: kvc_tier_counts) -> None: ...
def kvc_status_name(status: int) -> str: ...
def kvc_last_error() -> str: ...
def kvc_dtype_bits(dtype: int) -> int: ...
def kvc_version() -> int: ...
def kvc_build_info() -> str: ...
def kvc_manager_set_prefix_priority(m: kvc_manager, namespace_id: int, tokens: _Array, keys: _Array, first_token: int, priority: int, until_ns: int) -> int: ...
def kvc_index_apply(index: kvc_index, worker: int, medium: int, events: _Array, now_ns: int, applied: kvc_index_applied) -> None: ...
def kvc_index_match(index: kvc_index, digests: _Array, workers: _Array, matched: _Array) -> int: ...
def kvc_index_match_tokens(index: kvc_index, root: _Array, tokens: _Array, block_size: int, workers: _Array, matched: _Array) -> int: ...
def kvc_index_digests(root: _Array, tokens: _Array, block_size: int, digests: _Array) -> int: ...
def kvc_index_worker_info(index: kvc_index, worker: int, names: _Array, worker_numbers: _Array) -> None: ...
def kvc_manager_admit_batch(m: kvc_manager, requests: _Array, cached: _Array, statuses: _Array) -> None: ...
def kvc_manager_export_tables(m: kvc_manager, requests: _Array, group: int, fill_id: int, tables: _Array) -> None: ...
def kvc_manager_export_slots(m: kvc_manager, request: int, group: int, first_token: int, slots: _Array) -> None: ...
def kvc_manager_take_pending(m: kvc_manager, copies: _Array, zero_blocks: _Array) -> tuple[int, int]: ...
def kvc_manager_rebuild(m: kvc_manager, config: kvc_manager_config, copies: _Array, pairs: _Array) -> tuple[kvc_manager, int, int]: ...
def kvc_manager_poll_events(m: kvc_manager, cursor: int, events: _Array, tokens: _Array) -> tuple[int, int]: ...
def kvc_manager_list_prefixes(m: kvc_manager, cursor: int, events: _Array, tokens: _Array) -> tuple[int, int, int]: ...
def kvc_manager_step(m: kvc_manager, step: kvc_step, namespaces: _Array, configs: Optional[kvc_request_config], keys: _Array, key_offsets: _Array) -> Optional[tuple[str, int, int, int, int, int]]: ...
def kvc_step_use(step: kvc_step, array: int, used: int) -> None: ...
def kvc_step_num_failed(step: kvc_step) -> int: ...
def kvc_storage_store(s: kvc_storage, rows: kvc_rows, length: int, k: _Array, v: _Array, slots: _Array, block_table: _Array, rope_table: _Array, rope_rows: _Array, stream: Optional[kvc_stream]) -> None: ...
def kvc_storage_gather(s: kvc_storage, rows: kvc_rows, length: int, k: _Array, v: _Array, slots: _Array, block_table: _Array, stream: Optional[kvc_stream]) -> None: ...
def kvc_storage_measure(s: kvc_storage, rows: kvc_rows, length: int, k: _Array, v: _Array, slots: _Array, block_table: _Array, keys: Optional[kvc_quant_metrics], values: Optional[kvc_quant_metrics]) -> None: ...
def kvc_storage_attend(s: kvc_storage, attention: kvc_attention, q: _Array, out: _Array, lse: _Array, q_offsets: _Array, q_starts: _Array, kv_lens: _Array, block_tables: _Array, alibi_slopes: _Array, sink_logits: _Array, mask: _Array, mask_offsets: _Array, mask_starts: _Array, block_mask: _Array, launch: Optional[kvc_attention_launch], plan: _Array, workspace: _Array, stream: Optional[kvc_stream]) -> None: ...
def kvc_storage_explain(s: kvc_storage, attention: kvc_attention, q: _Array, out: _Array, lse: _Array, q_offsets: _Array, q_starts: _Array, kv_lens: _Array, block_tables: _Array, alibi_slopes: _Array, sink_logits: _Array, mask: _Array, mask_offsets: _Array, mask_starts: _Array, block_mask: _Array, launch: Optional[kvc_attention_launch], plan: _Array, workspace: _Array, info: kvc_attention_info) -> None: ...
def kvc_storage_select_blocks(s: kvc_storage, attention: kvc_attention, q: _Array, out: _Array, lse: _Array, q_offsets: _Array, q_starts: _Array, kv_lens: _Array, block_tables: _Array, alibi_slopes: _Array, sink_logits: _Array, mask: _Array, mask_offsets: _Array, mask_starts: _Array, block_mask: _Array, launch: Optional[kvc_attention_launch], plan: _Array, workspace: _Array, choice: kvc_block_choice, bounds: _Array, picked: _Array, stream: Optional[kvc_stream]) -> None: ...
def kvc_attention_merge(outs: _Array, lses: _Array, num_partials: int, num_rows: int, v_dim: int, dtype: int, out: _Array, lse: _Array) -> None: ...
def kvc_estimate_memory(model: kvc_model, query: kvc_memory_query, estimate: kvc_memory_estimate) -> None: ...
def kvc_rope_apply(rows: kvc_rope_rows, x: _Array, count: int, rope_table: _Array, rope_rows: _Array) -> None: ...
def kvc_storage_adopt(config: kvc_storage_config, memory: _Array) -> kvc_storage: ...
def kvc_storage_page_properties(s: kvc_storage, model: _Array, weights: _Array, numerics: _Array, num_layers: int, num_heads: int, first_layer: int, first_head: int, fingerprint: _Array) -> tuple[int, int]: ...
def kvc_manager_position_digests(m: kvc_manager, namespace_id: int, tokens: _Array, keys: _Array, digests: _Array) -> int: ...
def kvc_page_key(digests: _Array, group: int, fingerprint: _Array, page_keys: _Array) -> None: ...
def kvc_tier_create(url: str, fingerprint: _Array, page_bytes: int, max_store_bytes: int) -> kvc_tier: ...
def kvc_tier_submit(t: kvc_tier, items: _Array, kind: int, priority: int, now_ns: int, lease_ns: int, timeout_ns: int, user_data: int) -> int: ...
def kvc_verify_sampling(draft_offsets: _Array, draft_tokens: _Array, draft_parents: _Array, flags: int, vocab: int, p: _Array, p_ids: _Array, p_width: int, q: _Array, q_ids: _Array, q_width: int, num_q_rows: int, q_rows: _Array, uniforms: _Array, path: _Array, num_accepted: _Array, next_tokens: _Array) -> None: ...
def kvc_verify_typical(draft_offsets: _Array, draft_tokens: _Array, draft_parents: _Array, flags: int, vocab: int, p: _Array, p_ids: _Array, p_width: int, uniforms: _Array, epsilon: float, delta: float, path: _Array, num_accepted: _Array, next_tokens: _Array) -> None: ...
def kvc_verdict_moves(draft_offsets: _Array, draft_tokens: _Array, draft_parents: _Array, accepted_path: _Array, accepted_counts: _Array, group: int, block_size: int, starts: _Array, block_tables: _Array, table_stride: int, copies: _Array) -> int: ...
def kvc_verdict_states(draft_offsets: _Array, draft_tokens: _Array, draft_parents: _Array, accepted_path: _Array, accepted_counts: _Array, block_size: int, starts: _Array, block_tables: _Array, table_stride: int, states: _Array, copies: _Array) -> None: ...
def kvc_draft_append(draft: kvc_draft, draft_rows: _Array, draft_starts: _Array, draft_tokens: _Array) -> None: ...
def kvc_draft_propose(draft: kvc_draft, draft_rows: _Array, max_lengths: _Array, ends: _Array, drafted: _Array) -> int: ...
def kvc_acceptance_add(acceptance: _Array, draft_offsets: _Array, draft_tokens: _Array, draft_parents: _Array, accepted_path: _Array, accepted_counts: _Array) -> None: ...
def kvc_acceptance_halve(acceptance: _Array) -> None: ...
def kvc_acceptance_length(acceptance: _Array, costs: _Array, best_length: _Array, expected: _Array) -> None: ...
def kvc_scheduler_create(config: kvc_scheduler_config, m: kvc_manager, optional_offload: Optional[kvc_offload]) -> kvc_scheduler: ...
def kvc_scheduler_add(s: kvc_scheduler, namespace_id: int, tokens: _Array, keys: _Array, config: Optional[kvc_request_config], max_new_tokens: int, expected_new_tokens: int, priority: int, tenant: int, adapter: int, inputs: _Array, flags: int, now_ns: int) -> int: ...
def kvc_scheduler_set_drafts(s: kvc_scheduler, requests: _Array, draft_counts: _Array) -> None: ...
def kvc_scheduler_finish(s: kvc_scheduler, plan_id: int, num_items: int, token_offsets: _Array, sampled: _Array, stopped: _Array, flags: int, ended: _Array) -> int: ...
def kvc_plan_view(plan: kvc_plan, array: int) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]: ...
def kvc_checkpoint_save(m: kvc_manager, storages: tuple[Optional[kvc_storage], ...], model: _Array, weights: _Array, numerics: _Array, num_layers: int, num_heads: int, first_layer: int, first_head: int, folder: str, codec: str, level: int, flags: int, keep_last: int, interval_ns: int, last_ns: int, now_ns: int, info: kvc_checkpoint_info) -> None: ...
def kvc_checkpoint_restore(m: kvc_manager, storages: tuple[Optional[kvc_storage], ...], model: _Array, weights: _Array, numerics: _Array, num_layers: int, num_heads: int, first_layer: int, first_head: int, folder: str, id: int, flags: int, pairs: _Array, request_pairs: _Array, info: kvc_checkpoint_info) -> None: ...
def kvc_checkpoint_measure(m: kvc_manager, storages: tuple[Optional[kvc_storage], ...], model: _Array, weights: _Array, numerics: _Array, num_layers: int, num_heads: int, first_layer: int, first_head: int, folder: str, codec: str, flags: int, needs: kvc_checkpoint_needs) -> None: ...
def kvc_checkpoint_save_stream(m: kvc_manager, storages: tuple[Optional[kvc_storage], ...], model: _Array, weights: _Array, numerics: _Array, num_layers: int, num_heads: int, first_layer: int, first_head: int, fd: int, codec: str, level: int, flags: int, info: kvc_checkpoint_info) -> None: ...
def kvc_checkpoint_restore_stream(m: kvc_manager, storages: tuple[Optional[kvc_storage], ...], model: _Array, weights: _Array, numerics: _Array, num_layers: int, num_heads: int, first_layer: int, first_head: int, fd: int, folder: str, flags: int, pairs: _Array, request_pairs: _Array, info: kvc_checkpoint_info) -> None: ...
def kvc_checkpoint_compact(folder: str, id: int, codec: str, level: int, flags: int, keep_last: int, info: kvc_checkpoint_info) -> None: ...
def kvc_manager_content_digest(m: kvc_manager, fingerprint: _Array) -> None: ...
def kvc_offload_create(m: kvc_manager, storages: tuple[Optional[kvc_storage], ...], page_sizes: _Array, tiers: tuple[Optional[kvc_tier], ...], model: _Array, weights: _Array, numerics: _Array, num_layers: int, num_heads: int, first_layer: int, first_head: int, policy: int, flags: int, num_pages: int, max_lookups: int, max_lookup_blocks: int, clean_blocks: int, timeout_ns: int, hold_ns: int, compute_ns_per_token: float, min_load_tokens: int, retry_ns: int) -> kvc_offload: ...
def kvc_offload_store_request(o: kvc_offload, request: int) -> int: ...
def kvc_publisher_create(m: kvc_manager, url: str, topic: str, medium: str, hash_seed: str, groups: int, interval_ns: int, replay_bytes: int, resync_interval_ns: int, replay_batches: int, max_blocks: int, rank: int, hash: int, flags: int) -> kvc_publisher: ...
def kvc_publisher_read(p: kvc_publisher, sequence: int, payload: _Array) -> tuple[int, int]: ...
def kvc_publisher_name_namespace(p: kvc_publisher, namespace_id: int, lora_name: str, lora_path: str, cache_salt: str) -> None: ...
def kvc_metrics_render(managers: tuple[Optional[kvc_manager], ...], storages: tuple[Optional[kvc_storage], ...], tiers: tuple[Optional[kvc_tier], ...], offloads: tuple[Optional[kvc_offload], ...], schedulers: tuple[Optional[kvc_scheduler], ...], label_texts: _Array, label_counts: _Array, flags: int, text: _Array) -> int: ...
def kvc_metrics_enable_latencies(managers: tuple[Optional[kvc_manager], ...], storages: tuple[Optional[kvc_storage], ...], tiers: tuple[Optional[kvc_tier], ...], offloads: tuple[Optional[kvc_offload], ...], schedulers: tuple[Optional[kvc_scheduler], ...]) -> None: ...
def kvc_metrics_read_latency(managers: tuple[Optional[kvc_manager], ...], storages: tuple[Optional[kvc_storage], ...], tiers: tuple[Optional[kvc_tier], ...], offloads: tuple[Optional[kvc_offload], ...], schedulers: tuple[Optional[kvc_scheduler], ...], latency: int, info: kvc_latency) -> None: ...
def kvc_metrics_read_memory(managers: tuple[Optional[kvc_manager], ...], storages: tuple[Optional[kvc_storage], ...], tiers: tuple[Optional[kvc_tier], ...], offloads: tuple[Optional[kvc_offload], ...], schedulers: tuple[Optional[kvc_scheduler], ...], profile: kvc_memory_profile) -> None: ...

def new_kvc_pool_configs(nelements: int) -> kvc_pool_config: ...
def delete_kvc_pool_configs(ary: kvc_pool_config) -> None: ...
def kvc_pool_configs_getitem(ary: kvc_pool_config, index: int) -> kvc_pool_config: ...
def kvc_pool_configs_setitem(ary: kvc_pool_config, index: int, value: kvc_pool_config) -> None: ...
def new_kvc_group_configs(nelements: int) -> kvc_group_config: ...
def delete_kvc_group_configs(ary: kvc_group_config) -> None: ...
def kvc_group_configs_getitem(ary: kvc_group_config, index: int) -> kvc_group_config: ...
def kvc_group_configs_setitem(ary: kvc_group_config, index: int, value: kvc_group_config) -> None: ...
def new_kvc_request_configs(nelements: int) -> kvc_request_config: ...
def delete_kvc_request_configs(ary: kvc_request_config) -> None: ...
def kvc_request_configs_getitem(ary: kvc_request_config, index: int) -> kvc_request_config: ...
def kvc_request_configs_setitem(ary: kvc_request_config, index: int, value: kvc_request_config) -> None: ...

def kvc_live_objects() -> int: ...
def kvc_pack_tokens(tokens: Sequence[int]) -> memoryview: ...
def kvc_storage_export_dlpack(s: kvc_storage, plane: int, layer: int, owner: object) -> object: ...
def kvc_storage_dlpack_device(s: kvc_storage, plane: int, layer: int) -> tuple[int, int]: ...
class kvc_kept:
    def end(self) -> None: ...
    def lend(self, config: kvc_scheduler_config) -> None: ...
    def num_changes(self) -> int: ...
    def high(self) -> int: ...
    def usage(self) -> float: ...

@final
class Admitted:
    id: int
    known: int
    committed: int
    computed: int
    num_blocks: int
    quiet: int
    watched: int
    ahead: int
    unreturned: int
    def __init__(self, manager: kvc_manager, id: int, known: int, committed: int, block_size: int, num_groups: int,
                 order: bytes = ..., num_cross: int = ..., ahead: int = ...) -> None: ...
    def ids(self, first: int = ..., last: int = ...) -> list[list[int]]: ...
    def refresh(self) -> None: ...
    def grow(self, tokens: int) -> Optional[list[list[int]]]: ...
    def commit(self, tokens: Sequence[int], count: int, computed: int = ...) -> None: ...
    def stop_at(self, tokens: int) -> bool: ...

class SlotAllocator:
    def __init__(self, live: dict[str, Admitted], empty: Any, blocks_type: Any, max_model_len: int, edges: Sequence[tuple[int, int]],
                 caching: bool, simple: bool, states: bytes = ...) -> None: ...
    _fresh: set[int]
    def allocate_slots(self, request: Any, num_new_tokens: int, num_new_computed_tokens: int = ..., new_computed_blocks: Any = ...,
                       num_lookahead_tokens: int = ..., num_external_computed_tokens: int = ..., delay_cache_blocks: bool = ...,
                       num_encoder_tokens: int = ..., full_sequence_must_fit: bool = ..., reserved_blocks: int = ...,
                       has_scheduled_reqs: bool = ..., skip_zeroing_group_ids: tuple[int, ...] = ...) -> Any: ...
    def cache_blocks(self, request: Any, num_computed_tokens: int) -> None: ...
    def _commit(self, live: Admitted, request: Any, num_tokens: int, computed: int) -> None: ...

class TierCalls:
    _found: dict[bytes, Any]
    _asked_by: dict[str, list[bytes]]
    _left: list[list[bytes]]
    _to_ask: list[bytes]
    _ended: list[Any]
    _asked: int
    _jobs: int
    def _open(self, tier: kvc_tier, memory: memoryview, row_bytes: int, lease_ns: int, answers: tuple[Any, Any, Any], result_type: Callable[..., Any],
              tells_bytes: bool, key_of: Callable[[bytes], bytes]) -> None: ...
    def _close(self, close: Callable[[], Any]) -> Any: ...
    def lookup(self, key: bytes, req_context: Any, /) -> Any: ...
    def on_schedule_end(self, context: Any = ..., /) -> None: ...
    def on_request_finished(self, req_context: Any, /) -> None: ...
    def submit_store(self, job_metadata: Any, /) -> None: ...
    def submit_load(self, job_metadata: Any, /) -> None: ...
    def get_finished_jobs(self) -> list[Any]: ...
    def _note_stored(self, keys: list[bytes], /) -> None: ...

def runs_of_events(events: _Array, tokens: _Array, int_hashes: bool, stored: Callable[..., Any], removed: Callable[[list[Any], int], Any],
                   cleared: Callable[[], Any], middle: tuple[Any, ...], ends: tuple[tuple[Any, ...], ...],
                   keys: Optional[Callable[[int, int], Any]]) -> list[Any]: ...
