# SPDX-License-Identifier: Apache-2.0
"""The enumerations of the C headers, with the values of C. Written by stubs.py."""

from enum import IntEnum, IntFlag

from . import _native


class Status(IntEnum):
    """Result of a call, or of one item of a step. Each but OK and SKIPPED is raised as an exception of its own: NO_SPACE as kvcache.NoSpaceError.

    OK: Success.
    INVALID_ARGUMENT: An argument is out of range, or contradicts another one or the state.
    OUT_OF_MEMORY: The allocator returned NULL.
    NO_SPACE: Too few blocks are free or evictable.
    NOT_FOUND: What is named does not exist: a request, pin, namespace, preset, device, plane or memory; or it belongs to another manager.
    BUSY: The object is in use, or in the wrong state for this call.
    LIMIT: A limit is reached, such as max_requests.
    BUFFER_TOO_SMALL: An output array is too short. The required count is written where there is a count.
    UNSUPPORTED: The call is valid, but this build, device or state cannot do it.
    NOT_HELD: The block has no external hold to release.
    CORRUPT: Manager.check() found a broken invariant: a bug in the library, or corrupted memory.
    INTERNAL: A bug in the library.
    AGAIN: There is no space now. There will be when the steps in flight are retired.
    SKIPPED: Of a step's item or a batch's: not tried, because an earlier admission (with quotas, one of the same share) had no space; or it fits,
        and all or none were to be admitted.
    DEVICE: The device failed. The text has the message of its runtime. The outputs may be partly written. Once a device is lost, every call on it
        fails.
    OVER_QUOTA: The namespace would hold more blocks than the maximum of its quota. Only its own requests, pins and external holds can make room.
    FILLING: Another request computes the next tokens of the prompt, and this one waits for them: admit it again in the next steps
        (Manager(fills=True)).
    NEVER_FITS: This manager can never hold it: end the request. Waiting does not help; only a larger pool, another quota, the last close of a
        namespace whose quota has a minimum, or asking for less does.
    """

    OK = _native.KVC_OK
    INVALID_ARGUMENT = _native.KVC_ERROR_INVALID_ARGUMENT
    OUT_OF_MEMORY = _native.KVC_ERROR_OUT_OF_MEMORY
    NO_SPACE = _native.KVC_ERROR_NO_SPACE
    NOT_FOUND = _native.KVC_ERROR_NOT_FOUND
    BUSY = _native.KVC_ERROR_BUSY
    LIMIT = _native.KVC_ERROR_LIMIT
    BUFFER_TOO_SMALL = _native.KVC_ERROR_BUFFER_TOO_SMALL
    UNSUPPORTED = _native.KVC_ERROR_UNSUPPORTED
    NOT_HELD = _native.KVC_ERROR_NOT_HELD
    CORRUPT = _native.KVC_ERROR_CORRUPT
    INTERNAL = _native.KVC_ERROR_INTERNAL
    AGAIN = _native.KVC_ERROR_AGAIN
    SKIPPED = _native.KVC_ERROR_SKIPPED
    DEVICE = _native.KVC_ERROR_DEVICE
    OVER_QUOTA = _native.KVC_ERROR_OVER_QUOTA
    FILLING = _native.KVC_ERROR_FILLING
    NEVER_FITS = _native.KVC_ERROR_NEVER_FITS


class BlockState(IntEnum):
    """State of a block: the last of these that applies.

    FREE: None of the others.
    CACHED: Not held, and can be found.
    PINNED: Held only by pins.
    RESERVED: Held, nothing committed.
    LIVE: Held by a request or an external hold, with a committed token.
    FILLING: Held, and a step in flight will write all of it.
    FENCED: Released, but a step in flight may still write to it.
    """

    FREE = _native.KVC_BLOCK_FREE
    CACHED = _native.KVC_BLOCK_CACHED
    PINNED = _native.KVC_BLOCK_PINNED
    RESERVED = _native.KVC_BLOCK_RESERVED
    LIVE = _native.KVC_BLOCK_LIVE
    FILLING = _native.KVC_BLOCK_FILLING
    FENCED = _native.KVC_BLOCK_FENCED


class LostReason(IntEnum):
    """Why a group could not reuse what another one had cached.

    BLOCK: A block of full attention, or of the sink tokens, is not cached.
    WINDOW: A block of the window or the chunk before the end is not cached.
    STATE: No checkpoint of a recurrent state is at the end.
    AGREEMENT: Every group had more alone, but they do not end at the same place.
    NODES: All prefix positions were in use, so a request stopped publishing. Only in LostReuse: no prompt can tell what it would have found.
        Raise Manager(max_nodes=...).
    """

    BLOCK = _native.KVC_LOST_BLOCK
    WINDOW = _native.KVC_LOST_WINDOW
    STATE = _native.KVC_LOST_STATE
    AGREEMENT = _native.KVC_LOST_AGREEMENT
    NODES = _native.KVC_LOST_NODES


class EventKind(IntEnum):
    """Kind of an event.

    STORED: A prefix position has a block in a group; perhaps only requests that share find it (Manager(fills=True)). With block -1 it has none in
        any group: it is told of as the parent of one that has, and is no hit.
    REMOVED: Its last copy in that group is gone. With block -1: what a STORED with block -1 said is over.
    NAMESPACE_CLEARED: All of namespace_id is gone: it was reset or closed. No REMOVED events follow for it. Since 0.3.
    ALL_CLEARED: All of all namespaces is gone: Manager.reset(). No REMOVED events follow for it. Since 0.3.
    """

    STORED = _native.KVC_EVENT_STORED
    REMOVED = _native.KVC_EVENT_REMOVED
    NAMESPACE_CLEARED = _native.KVC_EVENT_NAMESPACE_CLEARED
    ALL_CLEARED = _native.KVC_EVENT_ALL_CLEARED


class Layout(IntEnum):
    """Order of the dimensions of a storage, outermost first: L layer, B block, H head, N token, C content of a row.

    LBHNC: Layer first, heads outside tokens: the rows of a (block, head) are contiguous.
    LBNHC: Layer first, tokens outside heads: the rows of a token are contiguous.
    BLHNC: Block first, heads outside tokens: the bytes of a block are contiguous.
    BLNHC: Block first, tokens outside heads.
    BHLNC: Block first, heads outside layers: some heads of a block are contiguous (tensor parallelism).
    """

    LBHNC = _native.KVC_LAYOUT_LBHNC
    LBNHC = _native.KVC_LAYOUT_LBNHC
    BLHNC = _native.KVC_LAYOUT_BLHNC
    BLNHC = _native.KVC_LAYOUT_BLNHC
    BHLNC = _native.KVC_LAYOUT_BHLNC


class DeviceFlags(IntFlag):
    """What a device can do, and what is known about it.

    READS_HOST: The device reads and writes all host memory, through the host's page tables or as its own. A GPU that fetches each page by a fault
        (HMM) does not have this flag. Without it keys, values, queries, results, key bounds, masks and external slabs of its storages must be in
        device memory, or in pinned or registered host memory.
    MANAGED: There is MemoryKind.MANAGED, which the host may touch at any time.
    SWAP_MEASURED: swap_out_kernel_bytes and swap_in_kernel_bytes were measured on this device.
    """

    READS_HOST = _native.KVC_DEVICE_READS_HOST
    MANAGED = _native.KVC_DEVICE_MANAGED
    SWAP_MEASURED = _native.KVC_DEVICE_SWAP_MEASURED


class MemoryKind(IntEnum):
    """Kind of memory of a storage.

    DEFAULT: The kind that suits the device. On the CPU: host memory, in huge pages if it is large.
    HOST: Host memory.
    HOST_HUGE: Host memory aligned to 2 MiB, in huge pages if the system has them.
    PINNED: Host memory that a GPU reads and writes directly; in huge pages if it is large.
    DEVICE: Memory of a GPU.
    EXTERNAL: Memory of the caller, used in place.
    MANAGED: Memory whose pages migrate to the host or the GPU that touches them. Use it for large buffers that both sides touch rarely: a kernel
        stalls while a page migrates, so the blocks of a GPU storage must not be in such memory.
    """

    DEFAULT = _native.KVC_MEMORY_DEFAULT
    HOST = _native.KVC_MEMORY_HOST
    HOST_HUGE = _native.KVC_MEMORY_HOST_HUGE
    PINNED = _native.KVC_MEMORY_PINNED
    DEVICE = _native.KVC_MEMORY_DEVICE
    EXTERNAL = _native.KVC_MEMORY_EXTERNAL
    MANAGED = _native.KVC_MEMORY_MANAGED


class Plane(IntEnum):
    """A plane of a storage: the rows of one kind.

    K: Keys.
    V: Values.
    K_SCALE: Scales of the keys.
    V_SCALE: Scales of the values.
    """

    K = _native.KVC_PLANE_K
    V = _native.KVC_PLANE_V
    K_SCALE = _native.KVC_PLANE_K_SCALE
    V_SCALE = _native.KVC_PLANE_V_SCALE


class RopeScaling(IntEnum):
    """How a model extends its rotary embedding past its trained context, as rope_type of a config.json.

    NONE: No extension.
    LINEAR: Positions divided by rope_factor.
    DYNAMIC: NTK-aware, by the present length.
    YARN: YaRN: by wavelength, with a ramp.
    LLAMA3: By wavelength, as Llama 3.1.
    LONGROPE: One factor per dimension; rope_factor is max_context / rope_original_context.
    """

    NONE = _native.KVC_ROPE_NONE
    LINEAR = _native.KVC_ROPE_LINEAR
    DYNAMIC = _native.KVC_ROPE_DYNAMIC
    YARN = _native.KVC_ROPE_YARN
    LLAMA3 = _native.KVC_ROPE_LLAMA3
    LONGROPE = _native.KVC_ROPE_LONGROPE


class RequestFlags(IntFlag):
    """Flags of a request.

    NO_READ: Do not use cached blocks: compute everything.
    NO_WRITE: Do not publish.
    FULL_MUST_FIT: Admit only if all known tokens would fit, even if `slots` asks for fewer now. To fit means: what the request holds at one time
        while it is computed in steps of `slots` tokens. In window and chunked groups that is one window, or chunk, and one step.
    RESUMED: Admitted before under another id: counted in Stats.readmissions, not in admissions.
    PUBLISH_ENQUEUED: The known tokens that a step gives slots are computed by that step: Manager(fills=True). Since 0.3.
    SHARE_FILLING: Hits may end in blocks that a step in flight writes: Manager(fills=True). Since 0.3.
    """

    NO_READ = _native.KVC_REQUEST_NO_READ
    NO_WRITE = _native.KVC_REQUEST_NO_WRITE
    FULL_MUST_FIT = _native.KVC_REQUEST_FULL_MUST_FIT
    RESUMED = _native.KVC_REQUEST_RESUMED
    PUBLISH_ENQUEUED = _native.KVC_REQUEST_PUBLISH_ENQUEUED
    SHARE_FILLING = _native.KVC_REQUEST_SHARE_FILLING


class StepFlags(IntFlag):
    """Flags of a step.

    WHOLE_ROWS: Rewrite every table row of this step: its memory moved or was lost.
    ADMIT_PAST_REFUSAL: Continue to admit after an admission that had no space. One that is NEVER_FITS stops nothing anyway.
    ADMIT_ALL_OR_NONE: Admit all admissions of the step, or none. Its other items run as without this flag. All hits are found and held before any
        admission takes a block: none evicts another's hit, and a shared hit counts once. If all fit, each status is OK. Else none is admitted:
        each that failed has its own status, and the rest are SKIPPED: they fit, or were not tried (the flag before this one tries all). Hits are
        full blocks, and no admission shares, or waits for, what another one fills. The manager is locked meanwhile. `admitted` and
        `admit_requests` must be two arrays. Since 0.3.
    """

    WHOLE_ROWS = _native.KVC_STEP_WHOLE_ROWS
    ADMIT_PAST_REFUSAL = _native.KVC_STEP_ADMIT_PAST_REFUSAL
    ADMIT_ALL_OR_NONE = _native.KVC_STEP_ADMIT_ALL_OR_NONE


class StorageFlags(IntFlag):
    """Flags of a storage.

    LATENT: Multi-head latent attention: the values are the first v_head_dim elements of the keys. There is no value plane.
    TILED_KEYS: Keys are stored in tiles [head_dim / t][16 tokens][t elements], where t elements take 4 bytes, for CPU attention. Needs a float
        type, heads outside tokens, a block_size that is a multiple of 16, keys of a multiple of 4 bytes, and no latent rows. Tiled planes have no
        view.
    ASYMMETRIC: Integer types: a scale and an offset per group, instead of a scale.
    NOT_ZEROED: Do not clear the storage's own memory at creation. Slots never stored hold undefined values.
    CHANNEL_KEYS: INT8 and INT4: keys have one scale per channel (element of a row) over the tokens of a block, instead of one per row (KIVI,
        arXiv:2402.02750). It is more accurate for models with few large channels. A layer of a block is *residual*, its keys in bfloat16 beside
        the blocks, until all of its tokens are stored; then it is quantized. See residual_blocks. Not for latent rows.
    HADAMARD: FP8 and integer types: each row is transformed by the orthonormal Walsh-Hadamard matrix before it is quantized, which spreads a
        large element over its row. Gather and attention reverse the transform; queries are transformed like keys. A row with NaN or infinity
        comes back as NaN (FP8) or zeros. Needs powers of two as head_dim and v_head_dim, and no latent rows.
    """

    LATENT = _native.KVC_STORAGE_LATENT
    TILED_KEYS = _native.KVC_STORAGE_TILED_KEYS
    ASYMMETRIC = _native.KVC_STORAGE_ASYMMETRIC
    NOT_ZEROED = _native.KVC_STORAGE_NOT_ZEROED
    CHANNEL_KEYS = _native.KVC_STORAGE_CHANNEL_KEYS
    HADAMARD = _native.KVC_STORAGE_HADAMARD


class SizingMode(IntEnum):
    """Which number a Sizer stands on.

    REACTIVE: The last need.
    PREDICTIVE: The forecast at lead_time_ns.
    HYBRID: The larger of both if the need is bursty; else the forecast if the trend is significant; else the level. Bursty: standard deviation /
        mean of the window is above burst_threshold. Significant: the forecast differs from the level by more than hysteresis * level.
    """

    REACTIVE = _native.KVC_SIZING_REACTIVE
    PREDICTIVE = _native.KVC_SIZING_PREDICTIVE
    HYBRID = _native.KVC_SIZING_HYBRID


class SizingAction(IntEnum):
    """What a decision does with the size.

    KEEP: It stays.
    GROW: It becomes larger.
    SHRINK: It becomes smaller.
    """

    KEEP = _native.KVC_SIZING_KEEP
    GROW = _native.KVC_SIZING_GROW
    SHRINK = _native.KVC_SIZING_SHRINK


class SizingBasis(IntEnum):
    """The number that a decision took: the last need, the forecast, or the level.

    LAST: The last need.
    FORECAST: The forecast at lead_time_ns.
    LEVEL: WorkloadInfo.level.
    """

    LAST = _native.KVC_SIZING_BY_LAST
    FORECAST = _native.KVC_SIZING_BY_FORECAST
    LEVEL = _native.KVC_SIZING_BY_LEVEL


class SizingReason(IntEnum):
    """Why a decision is what it is.

    NEED: The size follows the need.
    HYSTERESIS: Kept: the change is too small.
    COOLDOWN: Kept: the last change is too recent for a smaller size.
    LIMIT: min_blocks or max_blocks decided.
    """

    NEED = _native.KVC_SIZING_NEED
    HYSTERESIS = _native.KVC_SIZING_HYSTERESIS
    COOLDOWN = _native.KVC_SIZING_COOLDOWN
    LIMIT = _native.KVC_SIZING_LIMIT


class PageResult(IntEnum):
    """Result of one page of a Tier's job.

    WAITING: The job has not ended.
    OK: Exists: a hit. Get, put, remove: done. A put of a page that is there is done too: it replaces one of another size.
    MISS: There is no such page, or it did not check.
    PENDING: The page is being written, read or removed; or it is leased, and was to be removed.
    EXPIRED: Get with a generation: that page is gone, though another may have its key.
    NO_SPACE: Put: all pages are leased or in use, the page is larger than page_bytes, or (dir) the disk is full.
    FAILED: The system or the server failed.
    TIMEOUT: It was not done before the deadline.
    CANCELLED: The job was cancelled before it was begun.
    UNAVAILABLE: The server failed before, and is left alone until the next probe.
    """

    WAITING = _native.KVC_PAGE_WAITING
    OK = _native.KVC_PAGE_OK
    MISS = _native.KVC_PAGE_MISS
    PENDING = _native.KVC_PAGE_PENDING
    EXPIRED = _native.KVC_PAGE_EXPIRED
    NO_SPACE = _native.KVC_PAGE_NO_SPACE
    FAILED = _native.KVC_PAGE_FAILED
    TIMEOUT = _native.KVC_PAGE_TIMEOUT
    CANCELLED = _native.KVC_PAGE_CANCELLED
    UNAVAILABLE = _native.KVC_PAGE_UNAVAILABLE


class TierKind(IntEnum):
    """Kinds of a Tier's jobs.

    EXISTS: Which pages are there? May lease them.
    GET: Read pages.
    PUT: Write pages.
    REMOVE: Forget pages.
    """

    EXISTS = _native.KVC_TIER_EXISTS
    GET = _native.KVC_TIER_GET
    PUT = _native.KVC_TIER_PUT
    REMOVE = _native.KVC_TIER_REMOVE


class TierPriority(IntEnum):
    """What the threads of a Tier take first.

    LOAD: A request waits for it.
    PREFETCH: A request will want it. Refused if three quarters of max_jobs are taken.
    STORE: Nobody waits for it. Refused if half of max_jobs are taken.
    """

    LOAD = _native.KVC_TIER_LOAD
    PREFETCH = _native.KVC_TIER_PREFETCH
    STORE = _native.KVC_TIER_STORE


class PageFileKind(IntEnum):
    """Kinds of files of a Tier.

    SLAB: The file of a tier slab:.
    PAGE: A page of a tier dir:.
    """

    SLAB = _native.KVC_PAGE_FILE_SLAB
    PAGE = _native.KVC_PAGE_FILE_PAGE


class Latency(IntEnum):
    """What a latency measures; the object that it belongs to is in brackets.

    ADMIT: [Manager] Manager.allocate(), Request.admit(); a Manager.admit_batch() as one.
    STEP: [Manager] Manager.step().
    PLAN: [Scheduler] Scheduler.plan(), with the steps of its manager.
    FINISH: [Scheduler] Scheduler.finish().
    STORE: [Storage] Storage.store(). With a stream: until the work is enqueued.
    GATHER: [Storage] Storage.gather(), in the same way.
    POLL: [Offload] Offload.poll().
    LOAD: [Offload] A load, from its first page until its blocks are cached, by the times of Offload.poll().
    TIER_EXISTS: [Tier] A job of exists, from its submission to its end.
    TIER_GET: [Tier] In the same way.
    TIER_PUT: [Tier] In the same way.
    TIER_REMOVE: [Tier] In the same way.
    """

    ADMIT = _native.KVC_LATENCY_ADMIT
    STEP = _native.KVC_LATENCY_STEP
    PLAN = _native.KVC_LATENCY_PLAN
    FINISH = _native.KVC_LATENCY_FINISH
    STORE = _native.KVC_LATENCY_STORE
    GATHER = _native.KVC_LATENCY_GATHER
    POLL = _native.KVC_LATENCY_POLL
    LOAD = _native.KVC_LATENCY_LOAD
    TIER_EXISTS = _native.KVC_LATENCY_TIER_EXISTS
    TIER_GET = _native.KVC_LATENCY_TIER_GET
    TIER_PUT = _native.KVC_LATENCY_TIER_PUT
    TIER_REMOVE = _native.KVC_LATENCY_TIER_REMOVE


class OffloadPolicy(IntFlag):
    """Which blocks an Offload stores, several together.

    WRITE_THROUGH: Each block that is published.
    SECOND_USE: Blocks that a lookup finds cached.
    BEFORE_EVICTION: The cached blocks that leave next, a few at each poll.
    """

    WRITE_THROUGH = _native.KVC_OFFLOAD_WRITE_THROUGH
    SECOND_USE = _native.KVC_OFFLOAD_SECOND_USE
    BEFORE_EVICTION = _native.KVC_OFFLOAD_BEFORE_EVICTION


class OffloadState(IntEnum):
    """How far the lookup of a request is.

    NONE: Nothing is under way: admit it.
    LOOKING: The tiers are asked, or another request loads the same content.
    LOADING: Pages are read.
    READY: Admit it now: what was loaded is held for hold_ns.
    """

    NONE = _native.KVC_OFFLOAD_NONE
    LOOKING = _native.KVC_OFFLOAD_LOOKING
    LOADING = _native.KVC_OFFLOAD_LOADING
    READY = _native.KVC_OFFLOAD_READY


class OffloadReason(IntEnum):
    """Why a lookup is ready. NONE: it is not.

    NOTHING: The tiers have nothing that the manager lacks.
    SLOWER: Computing is expected to be faster (compute_ns_per_token), or too little was found (min_load_tokens).
    NO_ROOM: The pools had no blocks.
    FAILED: A page failed: less was loaded than was found.
    LOADED: All that was found is loaded.
    CANCELLED: Not seen: a lookup that was cancelled is forgotten.
    """

    NONE = 0
    NOTHING = _native.KVC_OFFLOAD_NOTHING
    SLOWER = _native.KVC_OFFLOAD_SLOWER
    NO_ROOM = _native.KVC_OFFLOAD_NO_ROOM
    FAILED = _native.KVC_OFFLOAD_FAILED
    LOADED = _native.KVC_OFFLOAD_LOADED
    CANCELLED = _native.KVC_OFFLOAD_CANCELLED


class SchedulePolicy(IntEnum):
    """The order in which a Scheduler admits waiting requests. Equal ones are ordered by arrival.

    FCFS: By arrival.
    PRIORITY: By priority, the lowest number first.
    SHORTEST: The shortest first: by tokens of the prompt and expected new tokens.
    FAIR: Fair shares of tenants: deficit round robin. A tenant in its turn gets weight * max_tokens tokens of credit, and pays for each token
        that is planned for it; its requests are admitted while it has credit. Within a tenant by arrival.
    ADAPTIVE: FCFS; SHORTEST from when the waiting prompts have more than adaptive_plans * max_tokens tokens until they have less than a quarter
        of that. SchedulerStats tells which, and how often it changed.
    """

    FCFS = _native.KVC_SCHEDULE_FCFS
    PRIORITY = _native.KVC_SCHEDULE_PRIORITY
    SHORTEST = _native.KVC_SCHEDULE_SHORTEST
    FAIR = _native.KVC_SCHEDULE_FAIR
    ADAPTIVE = _native.KVC_SCHEDULE_ADAPTIVE


class Admission(IntEnum):
    """What must fit, besides the first chunk, when a Scheduler admits a request.

    CHUNK: Nothing more. The most requests run, and most are preempted.
    PROMPT: All its known tokens.
    PEAK: The predicted peak: the most blocks that the running requests and it will hold at one time, if each gets its expected new tokens. Blocks
        that requests share count for each of them.
    WORST: The worst peak: the same, if each gets max_new_tokens. Nothing is preempted then.
    """

    CHUNK = _native.KVC_ADMIT_CHUNK
    PROMPT = _native.KVC_ADMIT_PROMPT
    PEAK = _native.KVC_ADMIT_PEAK
    WORST = _native.KVC_ADMIT_WORST


class EndReason(IntEnum):
    """Why a request of a Scheduler has ended.

    STOPPED: Scheduler.finish(stopped=...).
    LENGTH: It has max_new_tokens, or max_request_tokens of the scheduler.
    NO_SPACE: It lacks blocks although no other request runs (or none of its namespace, whose quota refuses them): the pool or the quota is too
        small for it, or something else holds its blocks. At once, whoever runs, if it is NEVER_FITS.
    """

    STOPPED = _native.KVC_ENDED_STOPPED
    LENGTH = _native.KVC_ENDED_LENGTH
    NO_SPACE = _native.KVC_ENDED_NO_SPACE


class ScheduledState(IntEnum):
    """State of a request of a Scheduler.

    NOT_READY: Waits for Scheduler.set_ready().
    WAITING: Waits to be admitted.
    LOADING: Waits for the offload.
    RUNNING: Admitted.
    """

    NOT_READY = _native.KVC_SCHEDULED_NOT_READY
    WAITING = _native.KVC_SCHEDULED_WAITING
    LOADING = _native.KVC_SCHEDULED_LOADING
    RUNNING = _native.KVC_SCHEDULED_RUNNING


class WaitReason(IntEnum):
    """Why the last plan of a Scheduler has not admitted a request.

    NONE: It does not wait.
    READY: For Scheduler.set_ready().
    LOAD: For the offload, or for room in it.
    PLANS: It was preempted, and plans in flight still compute it.
    TURN: Others come first, the plan had no tokens or rows left, or no plan was made since it began to wait.
    SPACE: For blocks.
    PEAK: For blocks that running requests are expected to need (Admission.PEAK, WORST).
    PRESSURE: For pressure to end: high_watermark was reached, low_watermark was not yet.
    QUOTA: Its namespace is over its quota.
    ADAPTER: max_adapters others run.
    ENCODER: The step had no room for its encoder inputs.
    FILLING: For a request that computes its prefix (wait_until_ns).
    """

    NONE = _native.KVC_WAIT_NONE
    READY = _native.KVC_WAIT_READY
    LOAD = _native.KVC_WAIT_LOAD
    PLANS = _native.KVC_WAIT_PLANS
    TURN = _native.KVC_WAIT_TURN
    SPACE = _native.KVC_WAIT_SPACE
    PEAK = _native.KVC_WAIT_PEAK
    PRESSURE = _native.KVC_WAIT_PRESSURE
    QUOTA = _native.KVC_WAIT_QUOTA
    ADAPTER = _native.KVC_WAIT_ADAPTER
    ENCODER = _native.KVC_WAIT_ENCODER
    FILLING = _native.KVC_WAIT_FILLING
