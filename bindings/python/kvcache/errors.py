# SPDX-License-Identifier: Apache-2.0
"""Exceptions, one class per KVC_ERROR_*. Their text says what was wrong, the value, the limit and the fix."""

from . import _native


class KvCacheError(Exception):
    """A failed call; it changed nothing. `status` is its KVC_ERROR_* number."""

    status: int = 0


class InvalidArgumentError(KvCacheError, ValueError):
    """A value that no state of the manager would make right."""


class OutOfMemoryError(KvCacheError, MemoryError):
    """The allocator had no memory."""


class NoSpaceError(KvCacheError):
    """Not enough free or evictable blocks. An answer more than an error: preempt or wait."""


class AgainError(NoSpaceError):
    """No space now, but enough once the steps in flight are retired."""


class NotFoundError(KvCacheError, LookupError):
    """No such request, pin, namespace or preset: never existed, stale, or of another manager."""


class BusyError(KvCacheError):
    """Still in use, or not in the right state for this call."""


class LimitError(KvCacheError):
    """A configured limit."""


class BufferTooSmallError(KvCacheError):
    """An output array is too short."""


class UnsupportedError(KvCacheError, NotImplementedError):
    """Valid, but this build or state cannot do it."""


class NotHeldError(KvCacheError):
    """Releasing a block that has no raw hold."""


class CorruptError(KvCacheError):
    """A broken invariant: a defect of the library or of memory."""


class InternalError(KvCacheError):
    """A defect of the library."""


class DeviceError(KvCacheError):
    """The device failed: what its runtime reports. What the call was to write may be written in part."""


_CLASSES: "dict[int, type[KvCacheError]]" = {
    _native.KVC_ERROR_INVALID_ARGUMENT: InvalidArgumentError,
    _native.KVC_ERROR_OUT_OF_MEMORY: OutOfMemoryError,
    _native.KVC_ERROR_NO_SPACE: NoSpaceError,
    _native.KVC_ERROR_NOT_FOUND: NotFoundError,
    _native.KVC_ERROR_BUSY: BusyError,
    _native.KVC_ERROR_LIMIT: LimitError,
    _native.KVC_ERROR_BUFFER_TOO_SMALL: BufferTooSmallError,
    _native.KVC_ERROR_UNSUPPORTED: UnsupportedError,
    _native.KVC_ERROR_NOT_HELD: NotHeldError,
    _native.KVC_ERROR_CORRUPT: CorruptError,
    _native.KVC_ERROR_INTERNAL: InternalError,
    _native.KVC_ERROR_AGAIN: AgainError,
    _native.KVC_ERROR_DEVICE: DeviceError,
}
for _status, _class in _CLASSES.items():
    _class.status = _status


def from_status(status: int, text: str) -> KvCacheError:
    """The exception that the native layer raises for a status."""
    error = _CLASSES.get(status, KvCacheError)(text)
    error.status = status
    return error
