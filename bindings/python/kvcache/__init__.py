# SPDX-License-Identifier: Apache-2.0
"""libkvcache: the KV cache of LLM inference engines, in Python.

    with kvcache.Manager(num_blocks=4096) as manager:             # blocks of 16 tokens
        with manager.allocate(prompt) as request:                 # request.num_cached tokens need no compute
            table = request.block_table()                         # block ids for the attention kernel
            ...                                                   # run the model on prompt[request.num_cached:]
            request.commit(len(prompt))                           # their KV is written: others may reuse it
            request.append(token)                                 # one decode step

help() of each class and function is the manual. NumPy is imported when an array is first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _native, errors
from .constants import (BlockState, DeviceFlags, DType, EventKind, Feature, Layout, LostReason, MemoryKind, Plane, RequestFlags, RopeScaling, SizingAction,
                        SizingBasis, SizingMode, SizingReason, Status, StorageFlags)
from .errors import (AgainError, BufferTooSmallError, BusyError, CorruptError, DeviceError, FillingError, InternalError, InvalidArgumentError,
                     KvCacheError, LimitError, NoSpaceError, NotFoundError, NotHeldError, OutOfMemoryError, OverQuotaError, UnsupportedError)
from .events import Event, EventReader, Prefixes
from .manager import Group, Manager, PendingWork, Rebuilt, replay_log
from .models import Memory, Model, find_model, models
from .quant import dequantize, quantize
from .records import (AttentionInfo, BackendInfo, BlockInfo, CurveInfo, DeviceInfo, LogInfo, LogReplay, LostReuse, MemoryEstimate, PoolInfo, ProbeInfo, Properties, QuantMetrics,
                      QuotaInfo, RequestInfo, SizingDecision, Stats, WorkloadInfo)
from .request import DEFAULT_NAMESPACE, ExtraKey, Namespace, Pin, Request, RequestOptions
from .rope import apply_rope, rope_frequencies, rope_table
from .sizing import Sizer, Workload
from .step import Step
from .storage import Launch, Storage, merge_attention, storage_size, tree_mask
from .streams import Stream, StreamEvent, device_info, open_backend

if TYPE_CHECKING:
    from ._replay import ReplayResult, replay

_version = _native.kvc_version()
__version__ = f"{_version // 10000}.{_version // 100 % 100}.{_version % 100}"


def build_info() -> str:
    """Returns the version, compiler and instruction sets of the library in one line."""
    return _native.kvc_build_info()


def supports(feature: Feature) -> bool:
    """Asks whether this build has a feature."""
    try:
        _native.kvc_supports(feature)
    except UnsupportedError:
        return False
    return True


if not TYPE_CHECKING:

    def __getattr__(name):
        """Imports what engines do not need when it is first used."""
        if name not in ("ReplayResult", "replay"):
            raise AttributeError(f"module 'kvcache' has no attribute {name!r}")
        from . import _replay

        return getattr(_replay, name)


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__file__", "__name__", "__path__", "__version__"]


__all__ = [
    "AgainError", "AttentionInfo", "BackendInfo", "BlockInfo", "BlockState", "BufferTooSmallError", "BusyError", "CorruptError", "CurveInfo", "DEFAULT_NAMESPACE",
    "DType", "DeviceError", "DeviceFlags", "DeviceInfo", "Event", "EventKind", "EventReader", "ExtraKey", "Feature", "FillingError", "Group", "InternalError",
    "InvalidArgumentError", "KvCacheError", "Launch", "Layout", "LimitError", "LogInfo", "LogReplay", "LostReason", "LostReuse", "Manager", "Memory", "MemoryEstimate", "MemoryKind", "Model", "Namespace",
    "NoSpaceError", "NotFoundError", "NotHeldError", "OutOfMemoryError", "OverQuotaError", "PendingWork", "Pin", "Plane", "PoolInfo", "Prefixes", "ProbeInfo",
    "Properties", "QuantMetrics", "QuotaInfo", "Rebuilt", "ReplayResult", "Request", "RequestFlags", "RequestInfo", "RequestOptions", "RopeScaling", "Sizer", "SizingAction", "SizingBasis",
    "SizingDecision", "SizingMode", "SizingReason", "Stats", "Status",
    "Step", "Storage", "StorageFlags", "Stream", "StreamEvent", "UnsupportedError", "Workload", "WorkloadInfo", "apply_rope", "build_info", "dequantize", "device_info", "errors",
    "find_model", "merge_attention", "models", "open_backend", "quantize", "replay", "replay_log", "rope_frequencies", "rope_table", "storage_size", "supports",
    "tree_mask",
]
