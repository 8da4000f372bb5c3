# SPDX-License-Identifier: Apache-2.0
"""The scheduler: which requests an engine's next step computes, and how many tokens of each. kvcache/scheduler.h is the manual of its calls."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Sequence

from . import _native
from ._arrays import as_bytes, np, take, view
from ._docs import add_properties, described
from .checkpoints import take_manager
from .constants import Admission, EndReason, ScheduledState, SchedulePolicy, WaitReason
from .offload import Offload
from .records import ScheduledInfo, SchedulerStats
from .request import RequestOptions, namespace_id, pack_keys, request_config

if TYPE_CHECKING:
    import numpy

    from ._arrays import Sizes
    from .manager import Manager
    from .request import Tokens

__all__ = ["Admission", "EndReason", "EndedRequest", "Plan", "ScheduledInfo", "ScheduledState", "SchedulePolicy", "Scheduler", "SchedulerStats", "WaitReason"]

_NUMBERS = {
    "plan_id": "1, 2, ...; 0 if the plan has no items.",
    "step_id": "Newest step of the manager.",
    "num_items": "Items. 0: nothing can run now. Such a plan is finished already; its arrays are valid until the next plan.",
    "num_tokens": "Tokens of all items.",
    "whole_tables": "Not 0: more became different than `changes` has room for: take all of block_tables.",
}
# In the order of kvc_plan_view.
_TEXTS = {
    "requests": "uint64 [num_items]: id of each item's request.",
    "rows": "int32 [num_items]: its row of block_tables, the same from admission to preemption or end.",
    "first_tokens": "uint64 [num_items]: position of its first token: so many are written.",
    "token_offsets": "uint64 [num_items + 1]: item i has tokens token_offsets[i] : token_offsets[i + 1] of the plan.",
    "num_drafts": "int32 [num_items]: how many of its tokens are drafts, the last ones.",
    "samples": "bool [num_items]: whether its result brings tokens.",
    "is_new": "bool [num_items]: whether this plan admitted it. Its row is new.",
    "block_tables": "int32 [groups, max_running, entries]: block ids; -1 where there is none. Valid until the next plan is made.",
    "slots": "int64 [groups, num_tokens]: where each token of the plan is written.",
    "copies": "int32 [n, 2]: blocks to copy before the step, as (source, destination).",
    "changes": "int32 [n, 4]: what became different in block_tables, as (group, row, column, block); without rows of is_new items.",
    "preempted": "uint64 [n]: requests that gave back their blocks and rows.",
    "encoder_runs": "int32 [n, 2]: encoder inputs to encode before the step, as (item, index of the input).",
}
_ENDED = len(_TEXTS)


@described
class EndedRequest(NamedTuple):
    """A request that a Scheduler has ended.

    request: its id, which names nothing any more.
    reason: an EndReason.
    num_new_tokens: tokens that it got after its prompt.
    """

    request: int
    reason: EndReason
    num_new_tokens: int


def _read_ended(words: numpy.ndarray) -> list[EndedRequest]:
    return [EndedRequest(request, EndReason(word & 0xFFFFFFFF), word >> 32) for request, word in words.tolist()]


class Plan:
    """One step of the engine: arrays in memory of the scheduler, which are read-only. They are valid until finish() of the plan, and raise
    ValueError after it: the memory is that of a later plan then. Copy block_tables to the device before."""

    __slots__ = ("_plan", "_memory", "_arrays", "_finished", "__weakref__")

    if TYPE_CHECKING:  # properties, made below
        plan_id: int
        step_id: int
        num_items: int
        num_tokens: int
        whole_tables: int
        requests: numpy.ndarray
        rows: numpy.ndarray
        first_tokens: numpy.ndarray
        token_offsets: numpy.ndarray
        num_drafts: numpy.ndarray
        samples: numpy.ndarray
        is_new: numpy.ndarray
        block_tables: numpy.ndarray
        slots: numpy.ndarray
        copies: numpy.ndarray
        changes: numpy.ndarray
        preempted: numpy.ndarray
        encoder_runs: numpy.ndarray

    def __init__(self, plan: Any, memory: Any):
        self._plan, self._memory = plan, memory
        self._arrays: dict[int, numpy.ndarray] = {}
        self._finished = False

    def _array(self, number: int) -> numpy.ndarray:
        if self._finished:
            raise ValueError(f"plan {self.plan_id} is finished, and its arrays are those of a later plan: read them, or copy them, before finish()")
        array = self._arrays.get(number)
        if array is None:
            array = view(_native.kvc_plan_view(self._plan, number), self._memory)
            array.flags.writeable = False
            if array.dtype == np.uint8:
                array = array.view(np.bool_)
            self._arrays[number] = array
        return array

    def _finish(self) -> None:
        self._finished = True
        self._arrays.clear()

    @property
    def ended(self) -> list[EndedRequest]:
        """Requests that have ended because they cannot run."""
        return _read_ended(self._array(_ENDED))

    def __repr__(self) -> str:
        return f"<kvcache.Plan {self.plan_id}: {self.num_items} items, {self.num_tokens} tokens{', finished' if self._finished else ''}>"


add_properties(Plan, "_plan", _NUMBERS)
for _number, (_name, _text) in enumerate(_TEXTS.items()):
    setattr(Plan, _name, property(lambda self, number=_number: self._array(number), doc=_text))  # type: ignore[misc]


class Scheduler:
    """Owns the requests of a manager, and plans each step of an engine. Any thread may call it; one call is made at a time.

        scheduler.add(prompt, max_new_tokens=100)                     # at any time
        plan = scheduler.plan(time.monotonic_ns())                    # in the engine's loop
        ...                                                           # copy plan.copies, run the model, sample
        for ended in scheduler.finish(plan, sampled): ...             # one token for each item with plan.samples

    Decodes come first: one token each and its drafts. Then prompts get chunks within max_tokens: those that have begun, then waiting requests, which
    are admitted in the order of the policy. A request that lacks a block is preempted, waits, and is computed again from what is still cached. While
    a scheduler has requests, make no steps and change none of its requests by calls of the manager; reads are allowed.

    manager: has no other scheduler. offload: of the same manager: waiting requests are looked up in its tiers, and those that are preempted are
    stored. Call its poll() in the loop.

    policy: a SchedulePolicy. admission: an Admission: what must fit, besides the first chunk. cache_aware: of the first 128 waiting requests in the
    policy's order, those with the longest cached prefix come first. depth_first: those requests come in the order of a depth-first walk of the tree of
    their cached prefixes, the branch with the most of them first; not together with cache_aware. max_running: admitted requests, and rows of block_tables; 0 = 256. max_tokens:
    tokens of a plan; 0 = 2048. max_chunk: tokens of one prompt in a plan; 0 = max_tokens. max_drafts: draft tokens of a request in a plan.
    max_plans: plans in flight; 0 = 1. With 2, plan n + 1 is made before the tokens of plan n are known. max_adapters: different adapters of admitted
    requests; 0 = any number. max_tenants: tenants are numbered from 0; 0 = 1. max_encoder_tokens: of inputs that a plan encodes; 0 = any number.
    max_request_tokens: tokens of one request with all that it generates; 0 = what the manager allows. max_wait_ns: how long a request may be passed by
    others; 0 = 10 s. high_watermark, low_watermark: shares of the blocks, 0 to 1: from the first on nothing is admitted, until the second; 0 =
    never. adaptive_plans: of SchedulePolicy.ADAPTIVE; 0 = 8. on_pressure: called by plan(), at its end, as on_pressure(high, usage) when the
    watermarks are crossed; if it raises, the new plan is the last of `plans`.

    A Scheduler keeps its manager and its offload alive, whichever of them is closed first. Raises BusyError (the manager has a scheduler),
    InvalidArgumentError, OutOfMemoryError."""

    def __init__(self, manager: Manager, *, offload: Optional[Offload] = None, policy: SchedulePolicy | int = 0, admission: Admission | int = 0,
                 cache_aware: bool = False, depth_first: bool = False, max_running: int = 0, max_tokens: int = 0, max_chunk: int = 0,
                 max_drafts: int = 0, max_plans: int = 0, max_adapters: int = 0, max_tenants: int = 0, max_encoder_tokens: int = 0, max_request_tokens: int = 0, max_wait_ns: int = 0,
                 high_watermark: float = 0.0, low_watermark: float = 0.0, adaptive_plans: int = 0,
                 on_pressure: Optional[Callable[[bool, float], object]] = None):
        self._pid, self._lock = os.getpid(), threading.RLock()
        m = take_manager(manager)
        config = _native.kvc_scheduler_config()
        config.policy, config.admission = policy, admission
        config.flags = (_native.KVC_SCHEDULER_CACHE_AWARE if cache_aware else 0) | (_native.KVC_SCHEDULER_DEPTH_FIRST if depth_first else 0)
        config.max_running, config.max_tokens, config.max_chunk, config.max_drafts = max_running, max_tokens, max_chunk, max_drafts
        config.max_plans, config.max_adapters, config.max_tenants = max_plans, max_adapters, max_tenants
        config.max_encoder_tokens, config.max_request_tokens, config.max_wait_ns = max_encoder_tokens, max_request_tokens, max_wait_ns
        config.high_watermark, config.low_watermark, config.adaptive_plans = high_watermark, low_watermark, adaptive_plans
        self._on_pressure, self._told = on_pressure, 0
        self._plans: deque[Plan] = deque()  # in flight
        self._empty: Optional[Plan] = None  # the last plan, if it has no items
        self._memory = _native.kvc_kept()
        self._memory.lend(config)
        self._offload: Optional[Offload] = None
        self._m: Any = m  # until after the scheduler
        if offload is not None:
            if not isinstance(offload, Offload):
                raise TypeError(f"offload is {type(offload).__name__}; it must be a kvcache.Offload")
            offload._lend(m)
            self._offload = offload
        try:
            self._s: Any = _native.kvc_scheduler_create(config, m, None if offload is None else offload._o)
        except BaseException:
            self._end()
            raise
        self._ended = np.empty((config.max_running or 256, 2), np.uint64)

    def close(self) -> None:
        """Ends all requests and frees them in the manager. Later calls raise ValueError; closing again does nothing. Arrays of plans stay readable."""
        if getattr(self, "_s", None) is None:
            return
        if self._pid != os.getpid() and self._offload is not None:  # which has threads that are not in this process
            self._s.disown()
            self._s = self._m = self._offload = None
            return
        with self._lock:
            self._end()

    def _end(self) -> None:
        self._memory.end()
        self._s = None
        self._m = None
        if self._offload is not None:
            self._offload._take_back()
            self._offload = None

    __del__ = close

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Scheduler cannot be pickled; it belongs to its process")

    def __repr__(self) -> str:
        if getattr(self, "_s", None) is None:
            return "<kvcache.Scheduler, closed>"
        stats = self.stats()
        return f"<kvcache.Scheduler: {stats.running} requests running, {stats.waiting} waiting, {stats.plans_in_flight} plans in flight>"

    def _open(self) -> Any:
        """With the lock. No variable may hold what it returns: a traceback would, beyond close()."""
        if self._s is None:
            raise ValueError("the scheduler is closed")
        return self._s

    def add(self, tokens: Tokens, max_new_tokens: int, *, options: Optional[RequestOptions] = None, expected_new_tokens: int = 0, priority: int = 0,
            tenant: int = 0, adapter: int = 0, inputs: numpy.ndarray | Sequence[tuple[int, int]] = (), ready: bool = True, now_ns: int = 0) -> int:
        """Adds a request, and returns its id.

        tokens: int32 [n], at least one. max_new_tokens: it ends when it has got so many. options: RequestOptions, with namespace and keys; slots,
        lookahead, headroom and external_tokens must be unset: plans say what a request gets. expected_new_tokens: your prediction; 0 = with
        Manager(headroom=True) the 75th percentile of the lengths of ended requests; without, or as long as there are none, the mean of its tenant's
        requests. priority: of SchedulePolicy.PRIORITY: a lower number is served first. tenant: of SchedulePolicy.FAIR.
        adapter: its number; 0 = none. inputs: uint64 [n, 2]: (first_token, num_tokens) of what an encoder turns into embeddings, in any order;
        at most 16 over a token: see Plan.encoder_runs. ready: False = it waits for set_ready(). now_ns: its arrival; 0 = the latest time that the scheduler was told.

        Raises InvalidArgumentError, NotFoundError (namespace), LimitError (max_requests of the manager), UnsupportedError, OutOfMemoryError: then
        nothing is added."""
        if options is None:
            options = RequestOptions()
        elif not isinstance(options, RequestOptions):
            raise TypeError(f"options is {type(options).__name__}; it must be a kvcache.RequestOptions")
        fields = options._asdict()
        namespace, keys = namespace_id(fields.pop("namespace")), pack_keys(fields.pop("keys"))
        config, ranges = request_config(**fields), take("inputs", inputs) if len(inputs) else None
        with self._lock:
            return _native.kvc_scheduler_add(self._open(), namespace, tokens, keys, config, max_new_tokens, expected_new_tokens, priority, tenant, adapter,
                                             ranges, 0 if ready else _native.KVC_JOB_NOT_READY, now_ns)

    def abort(self, request: int) -> None:
        """Ends a request, also one of a plan in flight. Its blocks are given back with the next plan. Raises NotFoundError: it has ended."""
        with self._lock:
            _native.kvc_scheduler_abort(self._open(), request)

    def set_ready(self, request: int) -> None:
        """Says that what a request of add(ready=False) waits for is there."""
        with self._lock:
            _native.kvc_scheduler_set_ready(self._open(), request)

    def set_priority(self, request: int, priority: int) -> None:
        """Changes a priority."""
        with self._lock:
            _native.kvc_scheduler_set_priority(self._open(), request, priority)

    def set_weight(self, tenant: int, weight: float) -> None:
        """Sets the weight of a tenant, 1 at first; 2**-16 to 65536."""
        with self._lock:
            _native.kvc_scheduler_set_weight(self._open(), tenant, weight)

    def set_drafts(self, requests: numpy.ndarray | Sequence[int], num_drafts: numpy.ndarray | Sequence[int]) -> None:
        """Says how many drafts the next plan may add to the decode of each request: for that plan alone. It may take fewer, the first ones.

        requests: uint64 [n]. num_drafts: int32 [n], at most max_drafts. Raises NotFoundError, InvalidArgumentError: then nothing is set."""
        sizes: Sizes = {}
        ids, counts = take("requests", requests, sizes), take("num_drafts", num_drafts, sizes)
        with self._lock:
            _native.kvc_scheduler_set_drafts(self._open(), ids, counts)

    def plan(self, now_ns: int = 0) -> Plan:
        """Makes the next plan. now_ns: of a monotonic clock, which never goes back; 0 = unchanged. Raises BusyError (max_plans are in flight),
        InvalidArgumentError (the time), OutOfMemoryError."""
        filled = _native.kvc_plan()
        with self._lock:
            self._open()
            with self._lock if self._offload is None else self._offload._lock:  # which nobody polls meanwhile
                _native.kvc_scheduler_plan(self._s, now_ns, filled)
            plan = Plan(filled, self._memory)
            if self._empty is not None:
                self._empty._finish()
            self._empty = None if filled.num_items else plan
            if filled.num_items:
                self._plans.append(plan)
            changes = self._memory.num_changes()
            told, self._told = self._told, changes
            high, usage = bool(self._memory.high()), self._memory.usage()
        if told != changes and self._on_pressure is not None:
            self._on_pressure(high, usage)
        return plan

    @property
    def plans(self) -> tuple[Plan, ...]:
        """Plans in flight, the oldest first."""
        with self._lock:
            return tuple(self._plans)

    def finish(self, plan: Plan, tokens: Tokens = (), token_offsets: Optional[numpy.ndarray | Sequence[int]] = None, *,
               stopped: Optional[numpy.ndarray | Sequence[bool]] = None, failed: bool = False) -> list[EndedRequest]:
        """Takes the result of the oldest plan in flight, and returns the requests that have ended with it. All kernels of its step have finished, or
        are ordered before those of later plans.

        tokens: int32: sampled tokens. token_offsets: uint64 [num_items + 1]: item i brings tokens[token_offsets[i] : token_offsets[i + 1]]: with
        drafts the accepted ones and the next; None = one token for each item of plan.samples, if the plan has no drafts. stopped: bool [num_items]: the request has ended with
        these tokens; None = none has. failed: the step was not computed, nor were the later plans in flight: their tokens are planned again.

        Raises InvalidArgumentError and ValueError: not the oldest plan; too few or too many tokens. Then nothing is taken."""
        if not isinstance(plan, Plan):
            raise TypeError(f"plan is {type(plan).__name__}; it must be a kvcache.Plan")
        if plan._memory is not self._memory:
            raise ValueError(f"plan {plan.plan_id} is of another scheduler")
        items = plan.num_items
        sizes: Sizes = {"items": items, "items + 1": items + 1}
        with self._lock:
            self._open()
            ends = None if stopped is None else as_bytes(take("stopped", stopped, sizes).view(np.uint8))
            offsets = sampled = None
            if not failed:
                sampled = take("sampled", tokens)
                if token_offsets is not None:
                    offsets = take("token_offsets", token_offsets, sizes).astype(np.uint64)  # a copy, which nobody changes
                if not plan._finished:
                    brought = int(np.count_nonzero(plan.samples) if offsets is None else offsets.max())
                    if brought != len(sampled):
                        raise ValueError(f"tokens has {len(sampled)} tokens; the items of plan {plan.plan_id} bring {brought}: one for each of "
                                         "plan.samples, or what token_offsets says")
            count = _native.kvc_scheduler_finish(self._open(), plan.plan_id, items, offsets, sampled, ends,
                                                 _native.KVC_RESULT_FAILED if failed else 0, self._ended)
            for _ in range(len(self._plans) if failed else 1):
                self._plans.popleft()._finish()
            return _read_ended(self._ended[:count])

    def request_info(self, request: int) -> ScheduledInfo:
        """Returns the state of a request. Raises NotFoundError: it has ended."""
        filled = _native.kvc_scheduled_info()
        with self._lock:
            _native.kvc_scheduler_request_info(self._open(), request, filled)
        return ScheduledInfo.read(filled)

    def stats(self) -> SchedulerStats:
        """Counters and gauges."""
        filled = _native.kvc_scheduler_stats()
        with self._lock:
            _native.kvc_scheduler_read_stats(self._open(), filled)
        return SchedulerStats.read(filled)

    def check(self) -> None:
        """Checks every invariant of the state, in O(requests). Raises CorruptError."""
        with self._lock:
            _native.kvc_scheduler_check(self._open())
