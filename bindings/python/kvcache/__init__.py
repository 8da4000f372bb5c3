# SPDX-License-Identifier: Apache-2.0
"""libkvcache: the KV cache of LLM inference engines, in Python.

    with kvcache.Manager(num_blocks=4096) as manager:             # blocks of 16 tokens
        with manager.allocate(prompt) as request:                 # request.num_cached tokens need no compute
            table = request.block_table()                         # block ids for the attention kernel
            ...                                                   # run the model on prompt[request.num_cached:]
            request.commit(len(prompt))                           # their KV is written: others may reuse it
            request.append(token)                                 # one decode step

kvcache.h is the manual: meaning, units and threading are the same here. NumPy is imported when an array is first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _native, errors
from .constants import BlockState, DType, EventKind, Feature, Layout, Plane, RequestFlags, RopeScaling, Status, StorageFlags
from .errors import AgainError, KvCacheError, NoSpaceError, NotFoundError, UnsupportedError
from .manager import Group, Manager, PendingWork
from .models import Model, find_model, models
from .quant import dequantize, quantize
from .request import DEFAULT_NAMESPACE, ExtraKey, Namespace, Pin, Request, RequestOptions
from .rope import apply_rope, rope_frequencies, rope_table
from .step import Step
from .storage import Launch, Storage, merge_attention, storage_size, tree_mask
from .streams import Stream, StreamEvent, device_info, open_backend

if TYPE_CHECKING:
    from ._replay import ReplayResult

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


def replay(*args: Any, **options: Any) -> "ReplayResult":
    """Replays a trace and counts what it hits, evicts and preempts: see kvcache._replay.replay."""
    from . import _replay

    return _replay.replay(*args, **options)


__all__ = [
    "AgainError", "BlockState", "DEFAULT_NAMESPACE", "DType", "EventKind", "ExtraKey", "Feature", "Group", "KvCacheError", "Launch", "Layout",
    "Manager", "Model", "Namespace",
    "NoSpaceError", "NotFoundError", "PendingWork", "Pin", "Plane", "Request", "RequestFlags", "RequestOptions", "RopeScaling", "Status", "Step", "Storage",
    "StorageFlags", "Stream", "StreamEvent", "UnsupportedError", "apply_rope", "build_info", "dequantize", "device_info", "errors", "find_model",
    "merge_attention", "models", "open_backend", "quantize", "replay", "rope_frequencies", "rope_table", "storage_size", "supports", "tree_mask",
]
