# SPDX-License-Identifier: Apache-2.0
"""Exceptions, one class for each Status. The text says what was wrong, the value, the limit and the fix."""

from __future__ import annotations

import re
from typing import Optional

from . import _native


class KvCacheError(Exception):
    """A failed call, which changed nothing. `status` is its Status, as a number. `item` is (name of the array, index) for a failed item of a Step
    (Step.errors) and for the first that Manager.admit_batch() refuses, otherwise None."""

    status: int = 0
    item: Optional[tuple[str, int]] = None


class InvalidArgumentError(KvCacheError, ValueError):
    """An argument is invalid in every state of the manager."""


class OutOfMemoryError(KvCacheError, MemoryError):
    """The allocator returned no memory."""


class NoSpaceError(KvCacheError):
    """Too few blocks are free or evictable. Preempt a request, or wait until one is freed."""


class AgainError(NoSpaceError):
    """There is no space now. There will be when the steps in flight are retired."""


class OverQuotaError(NoSpaceError):
    """The namespace would hold more blocks than the maximum of its quota. Preempt one of its requests, or wait until one is freed."""


class NeverFitsError(NoSpaceError):
    """This manager can never hold it: end the request. Waiting does not help; only a larger pool, another quota, or asking for less does."""


class NotFoundError(KvCacheError, LookupError):
    """The request, pin or namespace does not exist, was freed, or belongs to another manager; or there is no such preset or device."""


class BusyError(KvCacheError):
    """The object is in use, or in the wrong state for this call."""


class LimitError(KvCacheError):
    """A configured limit is reached, such as max_requests."""


class BufferTooSmallError(KvCacheError):
    """An output array is too short."""


class UnsupportedError(KvCacheError, NotImplementedError):
    """The call is valid, but this build or state cannot do it."""


class NotHeldError(KvCacheError):
    """The block has no external hold to release."""


class FillingError(KvCacheError):
    """Another request computes the next tokens of the prompt, and this one waits for them. Admit it again in the next steps."""


class CorruptError(KvCacheError):
    """check() found a broken invariant: a bug in the library, or corrupted memory."""


class InternalError(KvCacheError):
    """A bug in the library."""


class DeviceError(KvCacheError):
    """The device failed. The text has the message of its runtime. The results may be partly written."""


_CLASSES: dict[int, type[KvCacheError]] = {
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
    _native.KVC_ERROR_OVER_QUOTA: OverQuotaError,
    _native.KVC_ERROR_FILLING: FillingError,
    _native.KVC_ERROR_NEVER_FITS: NeverFitsError,
}
for _status, _class in _CLASSES.items():
    _class.status = _status


# What the texts of the library name, in Python.
_ENUMERATIONS = {"LAYOUT": "Layout", "MEMORY": "MemoryKind", "PLANE": "Plane", "REQUEST": "RequestFlags", "ROPE": "RopeScaling",
                 "STORAGE": "StorageFlags"}
_CALLS = {"kvc_manager_step": "Step.run()", "kvc_model_from_config": "Model.from_config()", "kvc_model_get": "models()",
          "kvc_model_rope": "rope_frequencies()",
          "kvc_rope_apply": "apply_rope()", "kvc_step_create": "Step()", "kvc_index_dump": "Index.dump()", "kvc_publisher_create": "Publisher()", "kvc_sizer_create": "Sizer()", "kvc_workload_create": "Workload()", "kvc_storage_create": "Storage()", "kvc_storage_page_properties": "Storage.page_info()", "kvc_stream_create": "Stream()", "kvc_tier_create": "Tier()"}
# Fields of C that are no parameters here: what a text says instead.
_FIELDS = [(re.compile(text), instead) for text, instead in (
    (r" \((?:table_stride|block_mask_stride)\)", ""), (r"\(slot_capacity\)", "(max_tokens)"), (r"\bchange_capacity\b", "max_changes"),
    (r"\bnum_q_heads is (\S+); it must be a multiple of the storage", r"q has \1 heads; they must be a multiple of the storage"),
    (r"\bnum_q_rows is (\S+) and", r"q has \1 rows and"),
    (r"\b(?:query\.)?dtype is \S+ \((\S+)\)", r"dtype is \1"))]
_CLASS_NAMES = {"manager": "Manager", "storage": "Storage", "stream": "Stream"}


def in_python(text: str) -> str:
    """Replaces names of C in a text of the library by those of this package."""
    if "kvc_" in text:
        text = text.replace("kvc_attention_launch.", "Launch.")
        text = re.sub(r"\bkvc_[a-z_]+\.(?=[a-z%])", "", text)  # fields, which are parameters here
        text = re.sub(r"\bkvc_[a-z_]+\b", lambda name: _CALLS.get(name[0], name[0]), text)
        text = re.sub(r"\bkvc_(manager|storage|stream)_([a-z_]+)", lambda name: f"{_CLASS_NAMES[name[1]]}.{name[2]}()", text)
    if "KVC_" in text:
        text = text.replace("KVC_MANAGER_NO_PREFIX_CACHE", "prefix_cache=False").replace("KVC_OFFLOAD_NO_PROMOTE", "promote=False")
        text = re.sub(r"\bKVC_CHECKPOINT_([A-Z_]+)", lambda name: f"{name[1].lower()}=True", text.replace("KVC_CHECKPOINT_*", "those of save_checkpoint()"))
        text = re.sub(r"\bKVC_OFFLOAD_([A-Z_]+)", r"OffloadPolicy.\1", text)
        text = text.replace("KVC_LAUNCH_PLANNED", "Launch.planned").replace("KVC_MANAGER_HEADROOM", "headroom=True").replace("KVC_MANAGER_FILLS", "fills=True")
        text = re.sub(r"KVC_TIER_(EXISTS|GET|PUT|REMOVE)\b", r"TierKind.\1", re.sub(r"KVC_TIER_(LOAD|PREFETCH|STORE)\b", r"TierPriority.\1", text))
        text = re.sub(r"KVC_HEADROOM_(\w+) \(\d\)", lambda name: repr(name[1].lower()), text)
        text = re.sub(r"\bKVC_(LAYOUT|MEMORY|PLANE|REQUEST|ROPE|STORAGE)_(\w+)", lambda name: f"{_ENUMERATIONS[name[1]]}.{name[2]}", text)
    for pattern, instead in _FIELDS:
        text = pattern.sub(instead, text)
    return text


def from_status(status: int, text: str) -> KvCacheError:
    """Returns the exception that the native layer raises for a status."""
    error = _CLASSES.get(status, KvCacheError)(in_python(text))
    error.status = status
    return error


def meaning(status: int) -> str:
    """Returns what a status means, for an item of a step that has no text of its own."""
    if status == _native.KVC_ERROR_SKIPPED:
        return "An admission before it was refused. Admit it again in a later step."
    return _CLASSES.get(status, KvCacheError).__doc__ or ""
