# SPDX-License-Identifier: Apache-2.0
"""Metrics: counters, gauges, latencies and memory of managers, storages, tiers, offloads and schedulers. docs/METRICS.md lists all names."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Sequence, TypeVar, Union

from . import _native
from ._arrays import grown, np
from .constants import Latency
from .manager import Manager
from .offload import Offload
from .records import LatencyInfo, MemoryProfile
from .scheduler import Scheduler
from .storage import Storage
from .tiers import Tier

if TYPE_CHECKING:
    _Object = Union[Manager, Storage, Tier, Offload, Scheduler]
    _Source = Union[_Object, tuple[_Object, Mapping[str, str]]]

__all__ = ["Latency", "LatencyInfo", "MemoryProfile", "enable_latencies", "read_latency", "read_memory", "render_metrics"]

_T = TypeVar("_T")
_KINDS = (Manager, Storage, Tier, Offload, Scheduler)


def render_metrics(sources: Iterable[_Source], *, vllm_names: bool = False) -> str:
    """Returns the metrics of objects as OpenMetrics text, for Prometheus: answer /metrics with it, as
    application/openmetrics-text; version=1.0.0; charset=utf-8.

        kvcache.render_metrics([(manager, {"model": "llama"}), (tier, {"model": "llama", "level": "disk"})])

    sources: objects, or pairs of an object and its labels; at most 64 of a kind, and no two of one kind with the same labels. Names of labels are
    letters, digits and _; none that docs/METRICS.md has. vllm_names: adds the names of vLLM for what has the same meaning there.

    Changes nothing. Any thread may call it beside others. Raises InvalidArgumentError (labels)."""
    pairs = [source if isinstance(source, tuple) else (source, {}) for source in sources]
    for i, pair in enumerate(pairs):
        if len(pair) != 2 or not hasattr(pair[1], "items"):
            raise TypeError(f"sources[{i}] is {pair!r:.100}; it must be an object, or a pair of it and a mapping of labels")
    pairs.sort(key=lambda pair: _kind(pair[0]))
    parts: list[bytes] = []
    counts = np.array([len(labels) for _, labels in pairs], np.uint64)
    for _, labels in pairs:
        for text in (text for label in labels.items() for text in label):
            if not isinstance(text, str) or "\0" in text:
                raise TypeError(f"a label is {text!r:.100}; names and values must be str without a NUL")
            parts += text.encode("utf-8", "surrogateescape"), b"\0"  # the library refuses what is not UTF-8
    texts = b"".join(parts)
    flags = _native.KVC_METRICS_VLLM_NAMES if vllm_names else 0

    def render(n: Any) -> str:
        return grown(lambda room: _native.kvc_metrics_render(n[0], n[1], n[2], n[3], n[4], texts, counts, flags, room), np.uint8, 1 << 16).tobytes().decode()

    return _with_objects([of for of, _ in pairs], render)


def enable_latencies(objects: _Object | Sequence[_Object]) -> None:
    """Makes objects measure their calls until they are closed: a call takes some 40 ns longer, and each latency takes 19 KiB. No result of a call
    depends on it. No other call on the objects may run: do it right after their creation. Doing it twice changes nothing."""
    _with_objects(objects, lambda n: _native.kvc_metrics_enable_latencies(n[0], n[1], n[2], n[3], n[4]))


def read_latency(of: _Object, latency: Latency) -> LatencyInfo:
    """Returns one latency of an object. Raises InvalidArgumentError (it has no such latency), BusyError (enable_latencies() was not called)."""
    filled = _native.kvc_latency()
    _with_objects(of, lambda n: _native.kvc_metrics_read_latency(n[0], n[1], n[2], n[3], n[4], latency, filled))
    return LatencyInfo.read(filled)


def read_memory(objects: _Object | Sequence[_Object]) -> MemoryProfile:
    """Returns the memory of objects by kind, in bytes: what they have from their allocators now, and the most that they have had."""
    filled = _native.kvc_memory_profile()
    _with_objects(objects, lambda n: _native.kvc_metrics_read_memory(n[0], n[1], n[2], n[3], n[4], filled))
    return MemoryProfile.read(filled)


def _kind(of: Any) -> int:
    for i, kind in enumerate(_KINDS):
        if isinstance(of, kind):
            return i
    raise TypeError(f"{type(of).__name__} has no metrics; give a Manager, Storage, Tier, Offload or Scheduler")


def _with_objects(objects: Any, function: Callable[[Any], _T]) -> _T:
    """Calls function with the native objects of each kind, which stay alive meanwhile."""
    some = (objects,) if isinstance(objects, _KINDS) or not hasattr(objects, "__iter__") or isinstance(objects, str) else tuple(objects)
    kinds = [_kind(of) for of in some]
    native: list[Any] = [(), (), (), (), ()]
    with contextlib.ExitStack() as stack:
        for of in sorted({of for of in some if isinstance(of, (Tier, Offload))}, key=id):
            of._check()
        for user in sorted({of for of in some if isinstance(of, (Offload, Scheduler))}, key=id):
            stack.enter_context(user._lock)  # calls on an offload must not overlap
        try:
            for kind, of in zip(kinds, some):
                native[kind] += (_OPEN[kind](of),)
            return function(native)
        finally:
            native.clear()  # a traceback would hold them beyond close()


def _open(name: str) -> Callable[[Any], Any]:
    def open_it(of: Any) -> Any:
        native = getattr(of, name)
        if native is None:
            raise ValueError(f"the {type(of).__name__.lower()} is closed")
        return native

    return open_it


_OPEN: tuple[Callable[[Any], Any], ...] = (_open("_m"), _open("_s"), lambda tier: tier._open(True), lambda offload: offload._open(), lambda s: s._open())
