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
from .checkpoints import (Restored, checkpoint_info, collect_checkpoints, compact_checkpoint, list_checkpoints, measure_checkpoint,
                          remove_checkpoint, restore_checkpoint, restore_stream, save_checkpoint, save_stream, validate_checkpoint)
from .constants import (Admission, BlockState, DeviceFlags, DType, EndReason, EventKind, Latency, Layout, LostReason, MemoryKind, OffloadPolicy, OffloadReason, OffloadState, PageFileKind, PageResult, Plane, RequestFlags, RopeScaling, ScheduledState, SchedulePolicy,
                        SizingAction, SizingBasis, SizingMode, SizingReason, Status, StepFlags, StorageFlags, TierKind, TierPriority, WaitReason)
from .errors import (AgainError, BufferTooSmallError, BusyError, CorruptError, DeviceError, FillingError, InternalError, InvalidArgumentError,
                     KvCacheError, LimitError, NeverFitsError, NoSpaceError, NotFoundError, NotHeldError, OutOfMemoryError, OverQuotaError, UnsupportedError)
from .events import Event, EventReader, Prefixes
from .index import Index, IndexWorker, Matches, namespace_root, prefix_digests
from .manager import Group, Manager, PendingWork, Rebuilt, replay_log
from .metrics import enable_latencies, read_latency, read_memory, render_metrics
from .models import Memory, Model, find_model, models
from .offload import Offload
from .publisher import Publisher
from .quant import dequantize, quantize
from .records import (AttentionInfo, BackendInfo, BlockInfo, CheckpointInfo, CheckpointNeeds, CurveInfo, DeviceInfo, IndexApplied, IndexStats, LatencyInfo, LogInfo, LogReplay, LostReuse, MemoryEstimate, MemoryProfile, OffloadInfo, OffloadStats,
                      OffloadTierStats, PageFileInfo, PoolInfo, ProbeInfo, Properties, PublisherStats, QuantMetrics,
                      QuotaInfo, RequestInfo, ScheduledInfo, SchedulerStats, SizingDecision, Stats, TierCounts, TierStats, WorkloadInfo)
from .request import ALL_NAMESPACES, PRIORITY_DEMOTED, ExtraKey, Namespace, Pin, Request, RequestOptions
from .rope import apply_rope, rope_frequencies, rope_table
from .scheduler import EndedRequest, Plan, Scheduler
from .sizing import Sizer, Workload
from .step import Step
from .storage import Launch, Storage, merge_attention, storage_size, tree_mask
from .streams import Stream, StreamEvent, device_info, open_backend
from .tiers import Completion, PageInfo, Tier, open_plugin, page_file_info, page_file_parts, page_key, page_keys, purge_page_file

if TYPE_CHECKING:
    from ._replay import ReplayResult, replay

_version = _native.kvc_version()
__version__ = f"{_version // 10000}.{_version // 100 % 100}.{_version % 100}"


def build_info() -> str:
    """Returns the version, compiler and instruction sets of the library in one line."""
    return _native.kvc_build_info()


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
    "ALL_NAMESPACES", "Admission", "AgainError", "AttentionInfo", "BackendInfo", "BlockInfo", "BlockState", "BufferTooSmallError", "BusyError", "CheckpointInfo", "CheckpointNeeds",
    "Completion", "CorruptError", "CurveInfo", "DType", "DeviceError", "DeviceFlags", "DeviceInfo", "EndReason",
    "EndedRequest", "Event", "EventKind", "EventReader", "ExtraKey", "FillingError", "Group", "Index", "IndexApplied", "IndexStats", "IndexWorker", "InternalError", "InvalidArgumentError",
    "KvCacheError", "Latency", "LatencyInfo", "Launch", "Layout", "LimitError", "LogInfo", "LogReplay", "LostReason", "LostReuse", "Manager", "Matches", "Memory", "MemoryEstimate",
    "MemoryKind", "MemoryProfile", "Model", "Namespace", "NeverFitsError", "NoSpaceError", "NotFoundError", "NotHeldError", "Offload", "OffloadInfo", "OffloadPolicy",
    "OffloadReason", "OffloadState", "OffloadStats", "OffloadTierStats", "OutOfMemoryError", "OverQuotaError", "PRIORITY_DEMOTED", "PageFileInfo", "PageFileKind",
    "PageInfo", "PageResult", "PendingWork", "Pin", "Plan", "Plane", "PoolInfo", "Prefixes", "ProbeInfo", "Properties", "Publisher", "PublisherStats", "QuantMetrics",
    "QuotaInfo", "Rebuilt", "ReplayResult", "Request", "RequestFlags", "RequestInfo", "RequestOptions", "Restored", "RopeScaling",
    "SchedulePolicy", "ScheduledInfo", "ScheduledState", "Scheduler", "SchedulerStats", "Sizer", "SizingAction", "SizingBasis", "SizingDecision",
    "SizingMode", "SizingReason", "Stats", "Status", "Step", "StepFlags", "Storage", "StorageFlags", "Stream", "StreamEvent", "Tier", "TierCounts", "TierKind",
    "TierPriority", "TierStats", "UnsupportedError", "WaitReason", "Workload", "WorkloadInfo", "apply_rope", "build_info", "checkpoint_info",
    "collect_checkpoints", "compact_checkpoint", "dequantize", "device_info", "enable_latencies", "errors", "find_model", "list_checkpoints", "measure_checkpoint", "merge_attention", "models", "namespace_root", "open_backend",
    "open_plugin", "page_file_info", "page_file_parts", "page_key", "page_keys", "prefix_digests", "purge_page_file", "quantize", "read_latency", "read_memory", "remove_checkpoint", "render_metrics", "replay", "replay_log", "restore_checkpoint", "restore_stream",
    "rope_frequencies", "rope_table", "save_checkpoint", "save_stream", "storage_size", "tree_mask", "validate_checkpoint",
]
