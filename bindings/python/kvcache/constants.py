# SPDX-License-Identifier: Apache-2.0
"""The enumerations of the C headers, with the values of C."""

from enum import IntEnum, IntFlag

from . import _native


class Status(IntEnum):
    """Result of a call, or of one item of a step."""

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


class Feature(IntEnum):
    """Questions for kvcache.supports()."""

    LRU = _native.KVC_FEATURE_LRU
    SLIDING_WINDOW = _native.KVC_FEATURE_SLIDING_WINDOW
    SEVERAL_POOLS = _native.KVC_FEATURE_SEVERAL_POOLS
    EVENTS = _native.KVC_FEATURE_EVENTS
    FREQUENCY = _native.KVC_FEATURE_FREQUENCY
    FRAGMENTATION = _native.KVC_FEATURE_FRAGMENTATION


class BlockState(IntEnum):
    """State of a block."""

    FREE = _native.KVC_BLOCK_FREE
    CACHED = _native.KVC_BLOCK_CACHED
    PINNED = _native.KVC_BLOCK_PINNED
    RESERVED = _native.KVC_BLOCK_RESERVED
    LIVE = _native.KVC_BLOCK_LIVE
    FILLING = _native.KVC_BLOCK_FILLING
    FENCED = _native.KVC_BLOCK_FENCED


class EventKind(IntEnum):
    """Kind of an event."""

    STORED = _native.KVC_EVENT_STORED
    REMOVED = _native.KVC_EVENT_REMOVED
    CLEARED = _native.KVC_EVENT_CLEARED


class Layout(IntEnum):
    """Order of the dimensions of a storage, outermost first: L layer, B block, H head, N token, C content of a row."""

    LBHNC = _native.KVC_LAYOUT_LBHNC
    LBNHC = _native.KVC_LAYOUT_LBNHC
    BLHNC = _native.KVC_LAYOUT_BLHNC
    BLNHC = _native.KVC_LAYOUT_BLNHC
    BHLNC = _native.KVC_LAYOUT_BHLNC


class DeviceFlags(IntFlag):
    """What a device can do, and what is known about it: device_info().flags."""

    READS_HOST = _native.KVC_DEVICE_READS_HOST
    MANAGED = _native.KVC_DEVICE_MANAGED
    SWAP_MEASURED = _native.KVC_DEVICE_SWAP_MEASURED


class MemoryKind(IntEnum):
    """Kind of memory of a storage."""

    DEFAULT = _native.KVC_MEMORY_DEFAULT  # what suits the device; on the CPU host memory, in huge pages if it is large
    HOST = _native.KVC_MEMORY_HOST
    HOST_HUGE = _native.KVC_MEMORY_HOST_HUGE
    PINNED = _native.KVC_MEMORY_PINNED
    DEVICE = _native.KVC_MEMORY_DEVICE
    EXTERNAL = _native.KVC_MEMORY_EXTERNAL
    MANAGED = _native.KVC_MEMORY_MANAGED


class Plane(IntEnum):
    """A plane of a storage: the rows of one kind."""

    K = _native.KVC_PLANE_K
    V = _native.KVC_PLANE_V
    K_SCALE = _native.KVC_PLANE_K_SCALE
    V_SCALE = _native.KVC_PLANE_V_SCALE


class RopeScaling(IntEnum):
    """How a model extends its rotary embedding past its trained context."""

    NONE = _native.KVC_ROPE_NONE
    LINEAR = _native.KVC_ROPE_LINEAR
    DYNAMIC = _native.KVC_ROPE_DYNAMIC
    YARN = _native.KVC_ROPE_YARN
    LLAMA3 = _native.KVC_ROPE_LLAMA3
    LONGROPE = _native.KVC_ROPE_LONGROPE


class RequestFlags(IntFlag):
    """Flags of a request."""

    NO_READ = _native.KVC_REQUEST_NO_READ
    NO_WRITE = _native.KVC_REQUEST_NO_WRITE
    FULL_MUST_FIT = _native.KVC_REQUEST_FULL_MUST_FIT
    RESUMED = _native.KVC_REQUEST_RESUMED


class StorageFlags(IntFlag):
    """Flags of a storage."""

    LATENT = _native.KVC_STORAGE_LATENT
    TILED_KEYS = _native.KVC_STORAGE_TILED_KEYS
    ASYMMETRIC = _native.KVC_STORAGE_ASYMMETRIC
    NOT_ZEROED = _native.KVC_STORAGE_NOT_ZEROED
    CHANNEL_KEYS = _native.KVC_STORAGE_CHANNEL_KEYS
    HADAMARD = _native.KVC_STORAGE_HADAMARD


class DType(IntEnum):
    """Element types of arrays, views and stored keys and values."""

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

    @classmethod
    def parse(cls, value: "DType | int | str") -> "DType":
        """Returns the member for a member, a number, or a name such as "bf16", "bfloat16", "fp8_e4m3", "int8".

        Raises ValueError for an unknown name or number."""
        if not isinstance(value, str):
            return cls(value)
        name = value.lower().replace("-", "_")
        name = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3", "fp8_e4m3": "float8_e4m3",
                "fp8_e5m2": "float8_e5m2"}.get(name, name)
        try:
            return cls[name.upper()]
        except KeyError:
            known = ", ".join(member.name.lower() for member in cls)
            raise ValueError(f"dtype {value!r} is not known; one of {known}") from None
