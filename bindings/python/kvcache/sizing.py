# SPDX-License-Identifier: Apache-2.0
"""How many blocks to have: the analysis of a workload, and the decision to grow or to shrink. kvcache/sizing.h is the manual. The miss-ratio
curve of a manager is Manager.open_curve(). All times are the caller's: nothing here reads a clock."""

from __future__ import annotations

from typing import Any

from . import _native
from ._arrays import as_bytes, np
from .records import SizingDecision, WorkloadInfo

_MODES = {"reactive": _native.KVC_SIZING_REACTIVE, "predictive": _native.KVC_SIZING_PREDICTIVE, "hybrid": _native.KVC_SIZING_HYBRID}


class Workload:
    """Follows one number over time: blocks in use, requests that wait, tokens. Any thread may use it.

    half_life_ns: age at which an observation counts half; 0 = 60 s. window: last observations for mean and variance, 2 .. 65536; 0 = 64."""

    def __init__(self, *, half_life_ns: int = 0, window: int = 0):
        config = _native.kvc_workload_config()
        config.half_life_ns, config.window = half_life_ns, window
        self._w: Any = _native.kvc_workload_create(config)

    def record(self, now_ns: int, value: float) -> None:
        """Adds an observation. now_ns: its time, later than that of the last one. value: finite, at most 1e15 in size."""
        _native.kvc_workload_record(self._w, now_ns, value)

    @property
    def info(self) -> WorkloadInfo:
        """The figures so far; all 0 before the first observation."""
        return WorkloadInfo.of(_native.kvc_workload_read_info, self._w)

    def predict(self, horizon_ns: int) -> float:
        """Forecasts the value horizon_ns after the last observation: level + trend * horizon. It may be negative."""
        value = np.empty(1)
        _native.kvc_workload_predict(self._w, horizon_ns, as_bytes(value))
        return float(value[0])


class Sizer:
    """Decides on a number of blocks, interval by interval, and logs the decisions. Any thread may use it.

    mode: the number that a decision stands on: "reactive" (the last need), "predictive" (the forecast at lead_time_ns), or "hybrid" (the larger
    of both if the need is bursty, else the forecast if the trend is significant, else the level). min_blocks, max_blocks: limits; 0 = 1, and
    2**32 - 1. num_blocks: size at the start; 0 = min_blocks. lead_time_ns: how far ahead to look; 0 = 60 s. cooldown_ns: a smaller size waits
    so long after the last change. headroom: share to have above the need. hysteresis: changes up to this share of the size are not made.
    burst_threshold: standard deviation / mean above which the need is bursty; 0 = 0.5. half_life_ns, window: as for Workload. log_capacity:
    decisions to remember; 0 = 256."""

    def __init__(self, mode: str = "reactive", *, min_blocks: int = 0, max_blocks: int = 0, num_blocks: int = 0, lead_time_ns: int = 0,
                 cooldown_ns: int = 0, half_life_ns: int = 0, headroom: float = 0.0, hysteresis: float = 0.0, burst_threshold: float = 0.0,
                 window: int = 0, log_capacity: int = 0):
        if mode not in _MODES:
            raise ValueError(f"mode is {mode!r:.100}; it must be one of {', '.join(map(repr, _MODES))}")
        config = _native.kvc_sizer_config()
        config.mode, config.min_blocks, config.max_blocks, config.num_blocks = _MODES[mode], min_blocks, max_blocks, num_blocks
        config.lead_time_ns, config.cooldown_ns, config.half_life_ns = lead_time_ns, cooldown_ns, half_life_ns
        config.headroom, config.hysteresis, config.burst_threshold = headroom, hysteresis, burst_threshold
        config.window, config.log_capacity = window, log_capacity
        self._s: Any = _native.kvc_sizer_create(config)

    def decide(self, now_ns: int, needed_blocks: float) -> SizingDecision:
        """Decides on the size for an interval that has ended, logs the decision, and takes its size as the present one. now_ns: end of the
        interval. needed_blocks: blocks in use and those that refused or waiting requests lack, or the size at which a curve reaches a hit rate."""
        return SizingDecision.of(_native.kvc_sizer_decide, self._s, now_ns, needed_blocks)

    def read_log(self, number: int) -> SizingDecision:
        """Returns a decision by its number, 0 for the first. Raises NotFoundError if it is not made yet or no longer in the log."""
        return SizingDecision.of(_native.kvc_sizer_read_log, self._s, number)
