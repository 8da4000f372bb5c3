# SPDX-License-Identifier: Apache-2.0
"""Replays a trace through the library as a synchronous engine with continuous batching does, and counts hits, evictions and preemptions.
All counts equal those of the command `kvcache replay`."""

from __future__ import annotations

import collections
import os
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Optional, Sequence

from . import _native
from ._arrays import np
from .constants import RequestFlags
from .errors import NoSpaceError
from .manager import Manager
from .request import Request
from .step import Step
from .trace import VOCAB_SIZE, TraceRequest, longest, output_tokens, prompt_tokens, read_trace

MAX_BLOCKS = _native.KVC_MAX_BLOCKS
MAX_CONCURRENCY = (1 << 18) - 2  # a manager's most requests, less one that waits


@dataclass
class ReplayResult:
    """Prompt, cached and queried tokens and blocks are those of the first admission of each request. Requests that are longer than the pool are
    rejected: they run nowhere, but hit_rate counts their prompts, so that it does not fall when a larger pool takes them. step_ns and admit_ns
    have the time of each call, measured in Python."""

    requests: int = 0
    rejected: int = 0
    rejected_tokens: int = 0
    preemptions: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    block_queries: int = 0
    block_hits: int = 0
    evictions: int = 0
    failed_allocations: int = 0
    num_blocks: int = 0
    block_size: int = 0
    occupancy: list[tuple[int, int, int]] = field(default_factory=list)  # (steps so far, held blocks, cached blocks)
    step_ns: list[int] = field(default_factory=list)
    admit_ns: list[int] = field(default_factory=list)

    @property
    def hit_rate(self) -> float:
        """Cached tokens of all prompt tokens of the trace, those of rejected requests included."""
        tokens = self.prompt_tokens + self.rejected_tokens
        return self.cached_tokens / tokens if tokens else 0.0

    def percentile_us(self, which: str, percent: float) -> float:
        """Microseconds that `percent` of the calls of a kind, "step" or "admit", do not exceed."""
        times = self.step_ns if which == "step" else self.admit_ns
        return float(np.percentile(times, percent)) / 1000 if times else 0.0

    def summary(self) -> dict[str, Any]:
        """All counts and some percentiles."""
        counts = {name: value for name, value in asdict(self).items() if not isinstance(value, list)}
        times = {f"{which}_us_p{percent}": round(self.percentile_us(which, percent), 2) for which in ("admit", "step") for percent in (50, 95, 99)}
        return {**counts, "hit_rate": self.hit_rate, **times}


class _Live:
    """A live request, its output tokens and its progress."""

    def __init__(self, request: Request, index: int, outputs: Any, produced: int, length: int):
        self.request, self.index, self.outputs, self.produced, self.length = request, index, outputs, produced, length


class _Replay:
    def __init__(self, trace: Sequence[TraceRequest], num_blocks: int, block_size: int, concurrency: int, sample_steps: int,
                 policy: str, policy_weight: float):
        self.trace, self.num_blocks, self.block_size, self.concurrency = trace, num_blocks, block_size, concurrency
        self.sample_steps = sample_steps
        self.manager = Manager(num_blocks, block_size, max_requests=concurrency + 1, max_request_tokens=longest(trace), vocab_size=VOCAB_SIZE,
                               policy=policy, policy_weight=policy_weight)
        self.step = Step(self.manager, concurrency, concurrency, 0, max_frees=concurrency)
        self.step.use(block_tables=False, slots=False)
        self.step.extend_offsets[:] = np.arange(concurrency + 1)
        self.live: list[_Live] = []
        self.queue: collections.deque[list[Any]] = collections.deque()  # [index, produced, waiting Request or None]
        self.next = 0
        self.any_finished = self.any_block_filled = False
        self.result = ReplayResult(requests=len(trace), num_blocks=num_blocks, block_size=block_size)

    def run(self, progress: Callable[[int], Any]) -> ReplayResult:
        steps = 0
        while self.head() is not None or self.live:
            admitting = len(self.live) < self.concurrency and self.head() is not None
            if self.any_finished or (admitting and self.any_block_filled):
                self.settle()
            while len(self.live) < self.concurrency and self.head() is not None and self.admit(self.queue[0]):
                self.queue.popleft()
            if self.live:
                if steps % self.sample_steps == 0:
                    stats = self.manager.stats
                    self.result.occupancy.append((steps, stats.blocks_live + stats.blocks_reserved, stats.blocks_cached))
                steps += 1
                self.decode()
            progress(self.next)
        self.result.evictions = self.manager.stats.evictions
        return self.result

    def head(self) -> Optional[list[Any]]:
        """The next request to admit. Skips requests that can never fit."""
        while not self.queue and self.next < len(self.trace):
            request = self.trace[self.next]
            if -(-(request.input_length + request.num_outputs) // self.block_size) > self.num_blocks:
                self.result.rejected += 1
                self.result.rejected_tokens += request.input_length
            else:
                self.queue.append([self.next, 0, None])
            self.next += 1
        return self.queue[0] if self.queue else None

    def admit(self, head: list[Any]) -> bool:
        index, produced, waiting = head
        request = self.trace[index]
        outputs = output_tokens(index, request)
        begin = time.perf_counter_ns()
        if waiting is None:
            tokens = np.concatenate([prompt_tokens(request), outputs[:produced]])
            flags = RequestFlags.RESUMED if produced else RequestFlags(0)
            begin = time.perf_counter_ns()
            head[2] = waiting = self.manager.create(tokens, flags=int(flags))
        length = request.input_length + produced
        try:
            cached = waiting.admit()
        except NoSpaceError:
            if not self.live:
                raise
            self.result.failed_allocations += 1
            return False
        waiting.commit(length)
        self.result.admit_ns.append(time.perf_counter_ns() - begin)
        self.live.append(_Live(waiting, index, outputs, produced, length))
        if not produced:
            self.result.prompt_tokens += length
            self.result.cached_tokens += cached
            self.result.block_queries += (length - 1) // self.block_size
            self.result.block_hits += cached // self.block_size
        return True

    def call(self, items: list[_Live], frees: list[Request], extending: bool) -> list[_Live]:
        """Runs a step that commits the items' tokens, frees and extends. Returns the items without space."""
        step = self.step
        step.num_frees, step.num_requests = len(frees), len(items)
        step.frees[: len(frees)] = [request.id for request in frees]
        step.requests[: len(items)] = [item.request.id for item in items]
        step.committed[: len(items)] = [item.length for item in items]
        step.use(extend_offsets=extending)
        if extending:
            step.extend_tokens[: len(items)] = [item.outputs[item.produced] for item in items]
        step.retired_step = step.step_id
        begin = time.perf_counter_ns()
        step.run()
        if extending:
            self.result.step_ns.append(time.perf_counter_ns() - begin)
        for request in frees:
            request.forget()
        status = step.status[: len(frees) + len(items)]
        short = []
        for i in np.flatnonzero(status):
            if status[i] != _native.KVC_ERROR_NO_SPACE or i < len(frees):
                raise step.error or RuntimeError(f"an item of a step got status {status[i]}")
            short.append(items[i - len(frees)])
        self.result.failed_allocations += len(short)
        return short

    def decode(self) -> None:
        """Decodes one token for every live request. Without space, preempts the youngest."""
        short = self.call(self.live, [], True)
        while short:
            if len(self.live) == 1:
                raise RuntimeError("no space for a request that is alone in the pool")
            victim = self.live.pop()
            self.queue.appendleft([victim.index, victim.produced, None])
            self.result.preemptions += 1
            short = self.call([item for item in short if item is not victim], [victim.request], True)
        for item in self.live:
            item.produced += 1
            item.length += 1
            self.any_finished |= item.produced == len(item.outputs)
            self.any_block_filled |= item.length % self.block_size == 0
        self.result.output_tokens += len(self.live)

    def settle(self) -> None:
        """Commits all tokens and frees finished requests, in order of admission."""
        finished = [item for item in self.live if item.produced == len(item.outputs)]
        for item in finished:
            item.request.commit(item.length)
        self.live = [item for item in self.live if item.produced != len(item.outputs)]
        self.call(self.live, [item.request for item in finished], False)
        self.any_finished = self.any_block_filled = False


def replay(trace: str | os.PathLike[str] | Sequence[TraceRequest], num_blocks: int, *, block_size: int = 16, concurrency: int = 16,
           max_requests: int = 0, sample_steps: int = 64, policy: str = "lru", policy_weight: float = 0,
           progress: Optional[Callable[[int], Any]] = None) -> ReplayResult:
    """Replays a trace as an engine would, and counts what it hits, evicts and preempts.

    trace: path of a Mooncake JSONL file, or kvcache.trace.TraceRequest objects. num_blocks, block_size: the pool. concurrency: most requests at a time.
    max_requests: replay only so many; 0 = all. sample_steps: steps between two samples of the occupancy. policy, policy_weight: as of
    Manager. progress: called with the number of requests taken so far. Raises ValueError for a number out of range, and, with file and line, for a bad trace."""
    for name, value, low, high in (("num_blocks", num_blocks, 1, MAX_BLOCKS), ("block_size", block_size, 1, 1024),
                                   ("concurrency", concurrency, 1, MAX_CONCURRENCY), ("max_requests", max_requests, 0, 0xFFFFFFFF),
                                   ("sample_steps", sample_steps, 1, 0xFFFFFFFF)):
        if not low <= value <= high:
            raise ValueError(f"{name} is {value}; it must be from {low} to {high}")
    requests = read_trace(trace, max_requests) if isinstance(trace, (str, os.PathLike)) else list(trace[: max_requests or None])
    engine = _Replay(requests, num_blocks, block_size, concurrency, sample_steps, policy, policy_weight)
    with engine.manager:
        return engine.run(progress or (lambda done: None))
