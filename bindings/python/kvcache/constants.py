# SPDX-License-Identifier: Apache-2.0
"""The enumerations of the C headers, with the values of C. scripts/generate writes the members of the classes that have values of C."""

from enum import IntEnum, IntFlag

from . import _native


class Status(IntEnum):
    """Result of a call, or of one item of a step.

    Each but OK and SKIPPED is raised as an exception of its own: NO_SPACE as kvcache.NoSpaceError, and so on, whose help() says what it means.
    SKIPPED: an admission of a step before it was refused. OK, INVALID_ARGUMENT, OUT_OF_MEMORY, NOT_FOUND, BUSY, LIMIT, BUFFER_TOO_SMALL,
    UNSUPPORTED, NOT_HELD, CORRUPT, INTERNAL, AGAIN, DEVICE, OVER_QUOTA, FILLING, NEVER_FITS."""

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
    """State of a block: the first of these that applies.

    FENCED: released, but a step in flight may still write to it. FILLING: a step in flight writes all of it. LIVE: held by a request or an external
    hold, with a committed token. RESERVED: held, nothing committed. PINNED: held only by pins. CACHED: not held, can be found. FREE."""

    FREE = _native.KVC_BLOCK_FREE
    CACHED = _native.KVC_BLOCK_CACHED
    PINNED = _native.KVC_BLOCK_PINNED
    RESERVED = _native.KVC_BLOCK_RESERVED
    LIVE = _native.KVC_BLOCK_LIVE
    FILLING = _native.KVC_BLOCK_FILLING
    FENCED = _native.KVC_BLOCK_FENCED


class LostReason(IntEnum):
    """Why a group could not reuse what another one had cached.

    BLOCK: a block of full attention, or of the sink tokens, is not cached. WINDOW: a block of the window or the chunk before the end is not cached.
    STATE: no checkpoint of a recurrent state is at the end. AGREEMENT: every group had more alone, but they do not end at the same place. NODES, only
    in LostReuse: all prefix positions were in use, so a request stopped publishing; raise Manager(max_nodes=...)."""

    BLOCK = _native.KVC_LOST_BLOCK
    WINDOW = _native.KVC_LOST_WINDOW
    STATE = _native.KVC_LOST_STATE
    AGREEMENT = _native.KVC_LOST_AGREEMENT
    NODES = _native.KVC_LOST_NODES


class EventKind(IntEnum):
    """Kind of an event.

    STORED: a prefix position can be found from now on. REMOVED: it cannot. NAMESPACE_CLEARED:
    all content of a namespace cannot. ALL_CLEARED: that of all namespaces cannot."""

    STORED = _native.KVC_EVENT_STORED
    REMOVED = _native.KVC_EVENT_REMOVED
    NAMESPACE_CLEARED = _native.KVC_EVENT_NAMESPACE_CLEARED
    ALL_CLEARED = _native.KVC_EVENT_ALL_CLEARED


class Layout(IntEnum):
    """Order of the dimensions of a storage, outermost first: L layer, B block, H head, N token, C content of a row.

    LBHNC, LBNHC, BLHNC, BLNHC, BHLNC. With heads before tokens (LBHNC, BLHNC, BHLNC) attention on CPUs reads memory in order."""

    LBHNC = _native.KVC_LAYOUT_LBHNC
    LBNHC = _native.KVC_LAYOUT_LBNHC
    BLHNC = _native.KVC_LAYOUT_BLHNC
    BLNHC = _native.KVC_LAYOUT_BLNHC
    BHLNC = _native.KVC_LAYOUT_BHLNC


class DeviceFlags(IntFlag):
    """What a device can do, and what is known about it: device_info().flags.

    READS_HOST: its kernels read host memory. MANAGED: it has memory that moves between host and device. SWAP_MEASURED: the limits for swaps are
    measured, not estimated."""

    READS_HOST = _native.KVC_DEVICE_READS_HOST
    MANAGED = _native.KVC_DEVICE_MANAGED
    SWAP_MEASURED = _native.KVC_DEVICE_SWAP_MEASURED


class MemoryKind(IntEnum):
    """Kind of memory of a storage.

    DEFAULT: what suits the device; on the CPU host memory, in huge pages if it is large. HOST: host memory. HOST_HUGE: host memory in huge pages.
    PINNED: host memory that a GPU reads directly. DEVICE: memory of a GPU. EXTERNAL: memory of the caller. MANAGED: memory that moves between host
    and GPU."""

    DEFAULT = _native.KVC_MEMORY_DEFAULT
    HOST = _native.KVC_MEMORY_HOST
    HOST_HUGE = _native.KVC_MEMORY_HOST_HUGE
    PINNED = _native.KVC_MEMORY_PINNED
    DEVICE = _native.KVC_MEMORY_DEVICE
    EXTERNAL = _native.KVC_MEMORY_EXTERNAL
    MANAGED = _native.KVC_MEMORY_MANAGED


class Plane(IntEnum):
    """A plane of a storage: the rows of one kind.

    K: keys. V: values. K_SCALE, V_SCALE: their scales, if they are in the blocks."""

    K = _native.KVC_PLANE_K
    V = _native.KVC_PLANE_V
    K_SCALE = _native.KVC_PLANE_K_SCALE
    V_SCALE = _native.KVC_PLANE_V_SCALE


class RopeScaling(IntEnum):
    """How a model extends its rotary embedding past its trained context.

    NONE, LINEAR, DYNAMIC, YARN, LLAMA3, LONGROPE, as rope_type of a config.json."""

    NONE = _native.KVC_ROPE_NONE
    LINEAR = _native.KVC_ROPE_LINEAR
    DYNAMIC = _native.KVC_ROPE_DYNAMIC
    YARN = _native.KVC_ROPE_YARN
    LLAMA3 = _native.KVC_ROPE_LLAMA3
    LONGROPE = _native.KVC_ROPE_LONGROPE


class RequestFlags(IntFlag):
    """Flags of a request.

    NO_READ: it takes no hit. NO_WRITE: its blocks are not published. FULL_MUST_FIT: it is admitted only if all of its tokens fit, not only the
    first chunk. RESUMED: it counts as a readmission in the statistics. PUBLISH_ENQUEUED: the known tokens that a step gives slots are computed by
    that step; others that share find them at once. SHARE_FILLING: hits may end in blocks that a step in flight writes. Both need
    Manager(fills=True)."""

    NO_READ = _native.KVC_REQUEST_NO_READ
    NO_WRITE = _native.KVC_REQUEST_NO_WRITE
    FULL_MUST_FIT = _native.KVC_REQUEST_FULL_MUST_FIT
    RESUMED = _native.KVC_REQUEST_RESUMED
    PUBLISH_ENQUEUED = _native.KVC_REQUEST_PUBLISH_ENQUEUED
    SHARE_FILLING = _native.KVC_REQUEST_SHARE_FILLING


class StepFlags(IntFlag):
    """Flags of a step: Step.flags.

    WHOLE_ROWS: writes whole rows of block_tables, whose memory moved or was lost. ADMIT_PAST_REFUSAL: goes on admitting after an admission that had
    no space."""

    WHOLE_ROWS = _native.KVC_STEP_WHOLE_ROWS
    ADMIT_PAST_REFUSAL = _native.KVC_STEP_ADMIT_PAST_REFUSAL


class StorageFlags(IntFlag):
    """Flags of a storage.

    LATENT: rows of latent attention, keys alone. TILED_KEYS: keys in tiles, which decode on CPUs reads faster. ASYMMETRIC: int8 and int4 with an
    offset beside each scale. NOT_ZEROED: new memory is not cleared. CHANNEL_KEYS: int8 and int4 keys with a scale for each channel. HADAMARD:
    rows are rotated before they are quantized."""

    LATENT = _native.KVC_STORAGE_LATENT
    TILED_KEYS = _native.KVC_STORAGE_TILED_KEYS
    ASYMMETRIC = _native.KVC_STORAGE_ASYMMETRIC
    NOT_ZEROED = _native.KVC_STORAGE_NOT_ZEROED
    CHANNEL_KEYS = _native.KVC_STORAGE_CHANNEL_KEYS
    HADAMARD = _native.KVC_STORAGE_HADAMARD


class SizingMode(IntEnum):
    """Which number a Sizer stands on: Sizer(mode=...). REACTIVE, PREDICTIVE, HYBRID."""

    REACTIVE = _native.KVC_SIZING_REACTIVE
    PREDICTIVE = _native.KVC_SIZING_PREDICTIVE
    HYBRID = _native.KVC_SIZING_HYBRID


class SizingAction(IntEnum):
    """What a decision does with the size. KEEP, GROW, SHRINK."""

    KEEP = _native.KVC_SIZING_KEEP
    GROW = _native.KVC_SIZING_GROW
    SHRINK = _native.KVC_SIZING_SHRINK


class SizingBasis(IntEnum):
    """The number that a decision took: the LAST need, the FORECAST, or the LEVEL."""

    LAST = _native.KVC_SIZING_BY_LAST
    FORECAST = _native.KVC_SIZING_BY_FORECAST
    LEVEL = _native.KVC_SIZING_BY_LEVEL


class SizingReason(IntEnum):
    """Why a decision is what it is.

    NEED: the size follows the need. HYSTERESIS: kept, the change is too small. COOLDOWN: kept, the last change is too recent for a smaller size.
    LIMIT: min_blocks or max_blocks decided."""

    NEED = _native.KVC_SIZING_NEED
    HYSTERESIS = _native.KVC_SIZING_HYSTERESIS
    COOLDOWN = _native.KVC_SIZING_COOLDOWN
    LIMIT = _native.KVC_SIZING_LIMIT


class PageResult(IntEnum):
    """Result of one page of a Tier's job.

    WAITING: the job has not ended. OK: exists: a hit; get, put, remove: done; a put of a page that is there is done too. MISS: there is no such
    page, or it did not check. PENDING: the page is being written, read or removed; or it is leased, and was to be removed. EXPIRED: get with a
    generation: that page is gone, though another may have its key. NO_SPACE: put: all pages are leased or in use, or the page is larger than
    page_bytes. FAILED: the system or the server failed. TIMEOUT: it was not done in time. CANCELLED: the job was cancelled before it was begun.
    UNAVAILABLE: the server failed before, and is left alone until the next probe."""

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
    """Kinds of a Tier's jobs, for Tier.counts(). EXISTS: which pages are there? GET: read pages. PUT: write pages. REMOVE: forget pages."""

    EXISTS = _native.KVC_TIER_EXISTS
    GET = _native.KVC_TIER_GET
    PUT = _native.KVC_TIER_PUT
    REMOVE = _native.KVC_TIER_REMOVE


class TierPriority(IntEnum):
    """What the threads of a Tier take first.

    LOAD: a request waits for it. PREFETCH: a request will want it; refused if three quarters of the tier's jobs are taken. STORE: nobody waits for
    it; refused if half of the tier's jobs are taken."""

    LOAD = _native.KVC_TIER_LOAD
    PREFETCH = _native.KVC_TIER_PREFETCH
    STORE = _native.KVC_TIER_STORE


class PageFileKind(IntEnum):
    """Kinds of files of a Tier. SLAB: the file of a tier "slab:". PAGE: a page of a tier "dir:"."""

    SLAB = _native.KVC_PAGE_FILE_SLAB
    PAGE = _native.KVC_PAGE_FILE_PAGE


class Latency(IntEnum):
    """What a latency measures.

    Of a Manager: ADMIT (allocate() and Request.admit()), STEP. Of a Scheduler: PLAN, with the steps of its manager, and FINISH. Of a Storage: STORE and
    GATHER; with a stream, until the work is enqueued. Of an Offload: POLL; LOAD, from the first page of a load until its blocks are cached, by the
    times of poll(). Of a Tier: TIER_EXISTS, TIER_GET, TIER_PUT, TIER_REMOVE, from the submission of a job to its end."""

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

    WRITE_THROUGH: each block that is published. SECOND_USE: blocks that a lookup finds cached. BEFORE_EVICTION: the cached blocks that leave next,
    a few at each poll()."""

    WRITE_THROUGH = _native.KVC_OFFLOAD_WRITE_THROUGH
    SECOND_USE = _native.KVC_OFFLOAD_SECOND_USE
    BEFORE_EVICTION = _native.KVC_OFFLOAD_BEFORE_EVICTION


class OffloadState(IntEnum):
    """How far the lookup of a request is.

    NONE: nothing is under way: admit it. LOOKING: the tiers are asked, or another request loads the same content. LOADING: pages are read. READY:
    admit it now, while what was loaded is held."""

    NONE = _native.KVC_OFFLOAD_NONE
    LOOKING = _native.KVC_OFFLOAD_LOOKING
    LOADING = _native.KVC_OFFLOAD_LOADING
    READY = _native.KVC_OFFLOAD_READY


class OffloadReason(IntEnum):
    """Why a lookup is ready.

    NONE: it is not. NOTHING: the tiers have nothing that the manager lacks. SLOWER: computing is expected to be faster. NO_ROOM: the pools had no
    blocks. FAILED: a page failed: less was loaded than was found. LOADED: all that was found is loaded. CANCELLED: not seen: a lookup that was
    cancelled is forgotten."""

    NONE = 0
    NOTHING = _native.KVC_OFFLOAD_NOTHING
    SLOWER = _native.KVC_OFFLOAD_SLOWER
    NO_ROOM = _native.KVC_OFFLOAD_NO_ROOM
    FAILED = _native.KVC_OFFLOAD_FAILED
    LOADED = _native.KVC_OFFLOAD_LOADED
    CANCELLED = _native.KVC_OFFLOAD_CANCELLED


class SchedulePolicy(IntEnum):
    """The order in which a Scheduler admits waiting requests. Equal ones are ordered by arrival.

    FCFS: by arrival. PRIORITY: by priority, the lowest number first. SHORTEST: the shortest first, by tokens of the prompt and expected new tokens.
    FAIR: fair shares of tenants, by weight. ADAPTIVE: FCFS, or SHORTEST while many tokens wait."""

    FCFS = _native.KVC_SCHEDULE_FCFS
    PRIORITY = _native.KVC_SCHEDULE_PRIORITY
    SHORTEST = _native.KVC_SCHEDULE_SHORTEST
    FAIR = _native.KVC_SCHEDULE_FAIR
    ADAPTIVE = _native.KVC_SCHEDULE_ADAPTIVE


class Admission(IntEnum):
    """What must fit, besides the first chunk, when a Scheduler admits a request.

    CHUNK: nothing more. PROMPT: all its known tokens. PEAK: the most blocks that the running requests and it will hold at one time, if each gets its
    expected new tokens. WORST: the same, if each gets max_new_tokens; nothing is preempted then."""

    CHUNK = _native.KVC_ADMIT_CHUNK
    PROMPT = _native.KVC_ADMIT_PROMPT
    PEAK = _native.KVC_ADMIT_PEAK
    WORST = _native.KVC_ADMIT_WORST


class EndReason(IntEnum):
    """Why a request of a Scheduler has ended.

    STOPPED: finish(stopped=...). LENGTH: it has max_new_tokens, or max_request_tokens of the scheduler. NO_SPACE: it lacks blocks although no other
    request runs."""

    STOPPED = _native.KVC_ENDED_STOPPED
    LENGTH = _native.KVC_ENDED_LENGTH
    NO_SPACE = _native.KVC_ENDED_NO_SPACE


class ScheduledState(IntEnum):
    """State of a request of a Scheduler.

    NOT_READY: it waits for set_ready(). WAITING: to be admitted. LOADING: for the offload. RUNNING: it is admitted."""

    NOT_READY = _native.KVC_SCHEDULED_NOT_READY
    WAITING = _native.KVC_SCHEDULED_WAITING
    LOADING = _native.KVC_SCHEDULED_LOADING
    RUNNING = _native.KVC_SCHEDULED_RUNNING


class WaitReason(IntEnum):
    """Why the last plan of a Scheduler has not admitted a request.

    NONE: it does not wait. READY: for set_ready(). LOAD: for the offload, or for room in it. PLANS: it was preempted, and plans in flight still
    compute it. TURN: others come first, the plan had no tokens or rows left, or no plan was made since it began to wait. SPACE: for blocks. PEAK:
    for blocks that running requests are expected to need. PRESSURE: the pools are filled above high_watermark. QUOTA: its namespace is over its
    quota. ADAPTER: max_adapters others run. ENCODER: the step had no room for its encoder inputs. FILLING: for a request that computes its prefix."""

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


class DType(IntEnum):
    """Element types of arrays, views and stored keys and values.

    Arrays and views: INT8, UINT8, INT32, INT64, UINT64, FLOAT32, FLOAT16, BFLOAT16. Stored: FLOAT32, FLOAT16, BFLOAT16, FLOAT8_E4M3,
    FLOAT8_E5M2, INT8, INT4."""

    INT8 = _native.KVC_INT8
    UINT8 = _native.KVC_UINT8
    INT32 = _native.KVC_INT32
    INT64 = _native.KVC_INT64
    UINT64 = _native.KVC_UINT64
    FLOAT32 = _native.KVC_FLOAT32
    FLOAT16 = _native.KVC_FLOAT16
    BFLOAT16 = _native.KVC_BFLOAT16
    FLOAT8_E4M3 = _native.KVC_FLOAT8_E4M3
    FLOAT8_E5M2 = _native.KVC_FLOAT8_E5M2
    INT4 = _native.KVC_INT4

    @property
    def bits(self) -> int:
        """Bits of one element, without scales: 4 for INT4, 16 for FLOAT16 and BFLOAT16."""
        return _native.kvc_dtype_bits(self)

    @classmethod
    def parse(cls, value: "DType | int | str") -> "DType":
        """Returns the member for a member, a number, or a name such as "bf16", "bfloat16", "fp8_e4m3", "int8".

        Raises ValueError for an unknown name or number, TypeError for anything else."""
        if not isinstance(value, str):
            try:
                return cls(value)
            except ValueError:
                error = ValueError if hasattr(value, "__index__") else TypeError
                raise error(f"dtype is {value!r:.100}; it must be a kvcache.DType, or one of the names {cls._known()}") from None
        name = value.lower().replace("-", "_")
        name = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3", "fp8_e4m3": "float8_e4m3",
                "fp8_e5m2": "float8_e5m2"}.get(name, name)
        try:
            return cls[name.upper()]
        except KeyError:
            raise ValueError(f"dtype {value!r} is not known; one of {cls._known()}") from None

    @classmethod
    def _known(cls) -> str:
        return ", ".join(member.name.lower() for member in cls)
