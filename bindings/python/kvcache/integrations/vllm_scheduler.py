# SPDX-License-Identifier: Apache-2.0
"""A Scheduler for vLLM 0.33 whose plans are those of kvcache.Scheduler.

    vllm serve MODEL --scheduler-cls kvcache.integrations.vllm.Scheduler

The library decides which requests a step computes and with how many tokens, finds cached prefixes, gives out blocks and preempts. This class turns
a plan into vLLM's SchedulerOutput. What a request is for vLLM stays vLLM's: it is a subclass of vLLM's scheduler, and its code handles stop
conditions, logprobs, grammars, events and outputs. Options that the library does not serve are refused when the scheduler is made.

One thread calls it, as in vLLM.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import OrderedDict, deque
from types import SimpleNamespace
from typing import Any, Iterable, Iterator, NamedTuple, Optional

import vllm.v1.core.sched.scheduler as scheduling
from vllm.outputs import RequestError
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.output import CachedRequestData, NewRequestData, SchedulerOutput
from vllm.v1.core.sched.request_queue import RequestQueue
from vllm.v1.engine import EngineCoreEventType
from vllm.v1.metrics.stats import PrefixCacheStats
from vllm.v1.request import RequestStatus

from .. import __version__, _native
from .._arrays import np
from ..constants import Admission, RequestFlags, SchedulePolicy
from ..errors import KvCacheError, LimitError, UnsupportedError
from ..manager import Manager
from ..request import RequestOptions
from ..scheduler import Plan as _Plan
from ..scheduler import Scheduler as _Planner
from ._vllm_blocks import NULL_BLOCK, Layout, identity_keys, layout_of, text_of

_log = logging.getLogger("vllm.kvcache")  # vLLM prints what its own loggers and those below them log
_MOST_REQUESTS = 65536  # that the library keeps; more wait here
_FOREVER = 2**64 - 1


def _refused(config: Any, kv_cache_config: Any) -> Iterator[tuple[str, str]]:
    """What this configuration asks for and the library does not serve, and how to do without."""
    scheduler, parallel, model, draft = config.scheduler_config, config.parallel_config, config.model_config, config.speculative_config
    own = "drop --scheduler-cls"
    options = (
        (config.kv_transfer_config is not None, "--kv-transfer-config (a KV connector)", own),
        (config.ec_transfer_config is not None, "--ec-transfer-config (a connector of encoder caches)", own),
        (config.aux_output_config.enabled, "auxiliary outputs (routed experts)", own),
        (config.kv_events_config is not None and config.kv_events_config.enable_kv_cache_events, "--kv-events-config with enable_kv_cache_events",
         f"{own} and use KVCACHE_VLLM=1, whose manager tells events"),
        (config.observability_config.kv_cache_metrics, "--kv-cache-metrics", "drop it"),
        (parallel.pipeline_parallel_size > 1, f"--pipeline-parallel-size {parallel.pipeline_parallel_size}", "use 1, or " + own),
        (parallel.decode_context_parallel_size > 1, f"--decode-context-parallel-size {parallel.decode_context_parallel_size}", "use 1, or " + own),
        (parallel.prefill_context_parallel_size > 1, f"--prefill-context-parallel-size {parallel.prefill_context_parallel_size}", "use 1, or " + own),
        (model.runner_type != "generate", f"--runner {model.runner_type}", own),
        (model.is_diffusion, "a diffusion model", own),
        (model.is_encoder_decoder, "an encoder-decoder model", own),
        (model.supports_multimodal_inputs, "a model with images, video or audio",
         "pass --language-model-only if only text is sent, or " + own),
        (not scheduler.enable_chunked_prefill, "--no-enable-chunked-prefill", "drop it"),
        (scheduler.long_prefill_token_threshold_adaptive, "--long-prefill-token-threshold-adaptive", "drop it"),
        (scheduler.prefill_schedule_interval > 1, f"--prefill-schedule-interval {scheduler.prefill_schedule_interval}", "use 1"),
        (kv_cache_config.has_mamba_layers, "Mamba and linear attention layers", own),
        (kv_cache_config.needs_kv_cache_zeroing, "a KV cache whose blocks must be cleared before use", own),
        (any(group.kv_cache_spec.prefix_replay_tokens for group in kv_cache_config.kv_cache_groups), "layers that replay the end of a cached prefix", own))
    for wrong, what, instead in options:
        if wrong:
            yield what, instead
    if draft is None:
        return
    method = f"speculative decoding by {draft.method!r}"
    if config.num_lookahead_tokens or draft.max_num_new_slots_for_drafting or config.num_prefill_lookahead_tokens or draft.use_eagle_block_drop():
        yield f"{method}, whose drafts have keys and values of their own", "use method ngram, or " + own
    elif draft.num_speculative_tokens_per_batch_size:
        yield "num_speculative_tokens_per_batch_size", "drop it"
    elif scheduler.async_scheduling:
        yield f"{method} with --async-scheduling", "pass --no-async-scheduling"


@contextlib.contextmanager
def _no_manager() -> Iterator[None]:
    """vLLM's scheduler makes no manager of blocks, which has an object for each block."""
    own = scheduling.KVCacheManager
    scheduling.KVCacheManager = lambda **options: SimpleNamespace(coordinator=SimpleNamespace(single_type_managers=[], enable_partial_hash_hits=False))
    try:
        yield
    finally:
        scheduling.KVCacheManager = own


class _Job:
    """A request of vLLM and what the library knows of it. id: of the library; 0 = it is held back. told: tokens that the library knows. blocks: entries
    of its tables that the workers know."""

    __slots__ = ("request", "id", "told", "row", "blocks")

    def __init__(self, request: Any):
        self.request = request
        self.id = self.told = self.blocks = 0
        self.row = -1


class _Flight(NamedTuple):
    """A plan whose output has not come: its items."""

    plan: _Plan
    jobs: list[_Job]
    ids: list[int]
    samples: list[bool]


class _Queue(RequestQueue):
    """Requests that wait, for those who count or list them. The order in which they run is the library's."""

    def __init__(self, by_priority: bool) -> None:
        self._requests: OrderedDict[str, Any] = OrderedDict()
        self._by_priority = by_priority

    def add_request(self, request: Any) -> None:
        self._requests[request.request_id] = request

    def prepend_request(self, request: Any) -> None:
        self._requests[request.request_id] = request
        self._requests.move_to_end(request.request_id, last=False)

    def prepend_requests(self, requests: Iterable[Any]) -> None:
        for request in requests:
            self.prepend_request(request)

    def peek_request(self) -> Any:
        if not self._requests:
            raise IndexError("no request waits")
        return min(self) if self._by_priority else next(iter(self))

    def pop_request(self) -> Any:
        request = self.peek_request()
        self.remove_request(request)
        return request

    def remove_request(self, request: Any) -> None:
        self._requests.pop(request.request_id, None)

    def remove_requests(self, requests: Iterable[Any]) -> None:
        for request in requests:
            self.remove_request(request)

    def __bool__(self) -> bool:
        return bool(self._requests)

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(self._requests.values()) if self._by_priority else self._requests.values())


class PlannedBlocks:
    """What vLLM asks its KVCacheManager besides the scheduler's calls: usage, statistics, tables. Blocks come and go with the plans."""

    reads_hashes = False  # request.block_hashes

    def __init__(self, manager: Manager, layout: Layout, kv_cache_config: Any, caching: bool, log_stats: bool):
        self.manager, self.block_size, self.enable_caching, self._log_stats = manager, layout.block_size, caching, log_stats
        self.kv_cache_config, self.num_kv_cache_groups = kv_cache_config, len(layout.groups)
        self.jobs: dict[str, _Job] = {}
        self.tables: Any = None  # int32 [groups, rows, entries], of the newest plan
        self.prefix_cache_stats = PrefixCacheStats() if log_stats else None
        self.coordinator = SimpleNamespace(enable_partial_hash_hits=False, num_reprefillable_tokens=0, single_type_managers=[
            SimpleNamespace(kv_cache_group_id=i, block_size=entry.kv_cache_spec.block_size, kv_cache_spec=entry.kv_cache_spec)
            for i, entry in enumerate(kv_cache_config.kv_cache_groups)])

    @property
    def usage(self) -> float:
        """Part of the blocks that requests hold, 0 .. 1."""
        return self.manager.usage

    def get_block_ids(self, request_id: str) -> tuple[list[int], ...]:
        """Returns, per group, the blocks that the workers know."""
        job = self.jobs.get(request_id)
        if job is None or job.row < 0:
            return tuple([] for _ in range(self.num_kv_cache_groups))
        return self.ids_of(job, 0, job.blocks)

    def ids_of(self, job: _Job, begin: int, end: int) -> tuple[list[int], ...]:
        """Returns entries begin .. end - 1 of the tables of a request."""
        rows = self.tables[:, job.row, begin:end]
        return tuple(np.maximum(rows, NULL_BLOCK).tolist())

    def estimate_cached_tokens(self, request: Any) -> int:
        """Returns the tokens of a request that are cached when its steps in flight have ended."""
        return int(request.num_computed_tokens) // self.block_size * self.block_size if self.enable_caching else 0

    def record_prefix_cache_stats(self, request: Any, num_hits: int) -> None:
        if self.prefix_cache_stats is not None and self.enable_caching and not request.skip_reading_prefix_cache:
            self.prefix_cache_stats.record(num_tokens=request.num_tokens, num_hits=num_hits, preempted=request.num_preemptions > 0)

    def make_prefix_cache_stats(self) -> Any:
        """Returns vLLM's PrefixCacheStats since the last call; None without log_stats."""
        stats, self.prefix_cache_stats = self.prefix_cache_stats, PrefixCacheStats() if self._log_stats else None
        return stats

    def reset_prefix_cache(self) -> bool:
        """Forgets all cached content. Always succeeds: running requests keep their blocks and publish nothing more."""
        self.manager.reset_all()
        if self.prefix_cache_stats is not None:
            self.prefix_cache_stats.reset = True
        return True

    def free(self, request: Any) -> None:
        """Does nothing: plans take blocks back."""

    def cache_blocks(self, request: Any, num_computed_tokens: int) -> None:
        """Does nothing: plans publish blocks."""

    def take_events(self) -> list[Any]:
        """Empty: events are refused."""
        return []


class Scheduler(AsyncScheduler):
    """Takes the parameters of vLLM's Scheduler. `planner` is the kvcache.Scheduler, `kv_cache_manager.manager` its Manager.

    Raises UnsupportedError, which names the option and what to use instead."""

    finished_req_ids: set[str]
    reset_preempted_req_ids: set[str]

    def __init__(self, vllm_config: Any, kv_cache_config: Any, structured_output_manager: Any, block_size: int, hash_block_size: Optional[int] = None,
                 *args: Any, **options: Any) -> None:
        for what, instead in _refused(vllm_config, kv_cache_config):
            raise UnsupportedError(f"kvcache's Scheduler does not support {what}: {instead}")
        caching, length = vllm_config.cache_config.enable_prefix_caching, vllm_config.model_config.max_model_len
        layout = layout_of(kv_cache_config, caching, hash_block_size or block_size, length)
        with _no_manager():
            super().__init__(vllm_config, kv_cache_config, structured_output_manager, block_size, hash_block_size, *args, **options)
        config, lora = self.scheduler_config, self.lora_config
        if self.max_num_scheduled_tokens < self.max_num_active_reqs:
            raise UnsupportedError(f"max_num_scheduled_tokens is {self.max_num_scheduled_tokens} and max_num_seqs {self.max_num_active_reqs}; a step has "
                                   "a token for each request that runs, so lower max_num_seqs")
        blocks = kv_cache_config.num_blocks
        manager = Manager(blocks, layout.block_size, groups=layout.groups, null_block=True, prefix_cache=caching, max_requests=_MOST_REQUESTS,
                          max_request_tokens=-(-length // layout.block_size) * layout.block_size, watermark_blocks=int(config.watermark * blocks))
        self._by_priority = config.policy == "priority"
        self._max_plans = max(1, vllm_config.max_concurrent_batches)
        self.planner = _Planner(
            manager, policy=SchedulePolicy.PRIORITY if self._by_priority else SchedulePolicy.FCFS,
            admission=Admission.PROMPT if config.scheduler_reserve_full_isl else Admission.CHUNK, max_running=self.max_num_active_reqs,
            max_tokens=self.max_num_scheduled_tokens, max_chunk=min(config.long_prefill_token_threshold, self.max_num_scheduled_tokens),
            max_drafts=self.num_spec_tokens, max_plans=self._max_plans, max_adapters=lora.max_loras if lora else 0,
            max_request_tokens=length, max_wait_ns=_FOREVER)
        self.kv_cache_manager = PlannedBlocks(manager, layout, kv_cache_config, caching, self.log_stats)
        self.waiting = _Queue(self._by_priority)
        self._jobs = self.kv_cache_manager.jobs
        self._by_id: dict[int, _Job] = {}
        self._held: OrderedDict[str, _Job] = OrderedDict()  # that the library is told of later
        self._compiling: dict[str, _Job] = {}  # that wait for a grammar
        self._flights: deque[_Flight] = deque()
        self._stopped: Optional[list[_Job]] = None  # by the output that is handled
        self._async = bool(config.async_scheduling)
        _log.info("kvcache %s: its Scheduler runs in place of vLLM's: %d blocks of %d tokens, groups: %s", __version__, blocks, layout.block_size,
                  ", ".join(map(text_of, layout.groups)))

    # ---- requests come and go

    def add_request(self, request: Any) -> None:
        if request.request_id in self.requests:
            raise ValueError(f"request {request.request_id} exists; give each request an id of its own (streaming input is not supported)")
        super().add_request(request)
        request._block_hasher = None  # nothing reads vLLM's hashes
        job = self._jobs[request.request_id] = _Job(request)
        if request.resumable or request.pooling_params is not None or request.has_encoder_inputs:
            self._fail(job, "streaming input, pooling, images, video and audio are not supported by kvcache's Scheduler; use vLLM's own")
        elif self._held or self._by_priority or self._pause_state != PauseState.UNPAUSED:
            self._held[request.request_id] = job
        else:
            self._enter(job)

    def _enter(self, job: _Job) -> None:
        """Tells the library of a request, or holds it back."""
        request = job.request
        keys, flags = identity_keys(request), RequestFlags(0)
        if request.skip_reading_prefix_cache:
            flags |= RequestFlags.NO_READ
        if request.prompt_embeds is not None:  # embeddings have no token ids to compare
            flags |= RequestFlags.NO_READ | RequestFlags.NO_WRITE
        if request.num_preemptions:
            flags |= RequestFlags.RESUMED
        compiles = request.status == RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR
        try:
            job.id = self.planner.add(
                _native.kvc_pack_tokens(request._all_token_ids), request.max_tokens - request.num_output_tokens,
                options=RequestOptions(keys=keys, flags=flags), priority=request.priority,
                adapter=request.lora_request.lora_int_id if request.lora_request else 0, ready=not compiles)
        except LimitError:
            self._held[request.request_id] = job
            return
        except (KvCacheError, OverflowError) as error:
            self._fail(job, str(error))
            return
        job.told = request.num_tokens
        self._by_id[job.id] = job
        if compiles:
            self._compiling[request.request_id] = job

    def _fail(self, job: _Job, text: str) -> None:
        """Ends a request with an error when the next output is handled."""
        self.grammar_compile_error_reqs[job.request.request_id] = RequestError(code="validation_error", message=text)

    def _hold(self, job: _Job) -> None:
        """Takes a request from the library, which forgets it. It comes again later."""
        self._forget(job)
        self._held[job.request.request_id] = job

    def _forget(self, job: _Job) -> None:
        if job.id:
            self.planner.abort(job.id)
            del self._by_id[job.id]
            job.id, job.row, job.blocks = 0, -1, 0
        self._compiling.pop(job.request.request_id, None)
        self._held.pop(job.request.request_id, None)

    def _free_blocks(self, request: Any) -> None:
        job = self._jobs.pop(request.request_id)
        if self._stopped is not None:
            self._stopped.append(job)
        else:
            self._forget(job)
        del self.requests[request.request_id]

    def set_pause_state(self, pause_state: Any) -> None:
        super().set_pause_state(pause_state)
        if pause_state == PauseState.PAUSED_NEW:
            self._hold_waiting()

    def _hold_waiting(self) -> None:
        held = [self._jobs[request.request_id] for request in self.waiting]
        for job in held:
            if job.id or job.request.request_id in self._held:
                self._hold(job)

    def reset_prefix_cache(self, reset_running_requests: bool = False, reset_connector: bool = False) -> bool:
        """Forgets all cached content. Always succeeds: requests that run publish nothing more. reset_running_requests: they are computed again."""
        if reset_running_requests:
            now = time.monotonic()
            while self.running:
                self._preempt_request(self.running.pop(), now, drop_stale_output=True)
            self.prev_step_scheduled_req_ids.clear()
            self._hold_waiting()
        return self.kv_cache_manager.reset_prefix_cache()

    def shutdown(self) -> None:
        super().shutdown()
        self.planner.close()
        self.kv_cache_manager.manager.close()

    # ---- before a step

    def _prepare(self) -> None:
        """Tells the library what has become possible since the last plan."""
        if self._compiling:
            for name, job in list(self._compiling.items()):
                if self._handle_blocked_waiting_request(job.request):
                    del self._compiling[name]
                    self.deferred_waiting.discard(job.request)
                    self.planner.set_ready(job.id)
                elif name in self.grammar_compile_error_reqs:
                    del self._compiling[name]
        if self._held and self._pause_state == PauseState.UNPAUSED:
            held, self._held = list(self._held.values()), OrderedDict()
            if self._by_priority:  # equal priorities by the time of arrival, which the library takes from the order
                held.sort(key=lambda job: job.request)
            for job in held:
                request = job.request
                if self._held or (request.num_stale_output_tokens and not request.drop_stale_output):
                    self._held[request.request_id] = job  # tokens of it are on the way, or there is no room
                else:
                    self._enter(job)
        if self.num_spec_tokens:
            drafted = [request for request in self.running if request.spec_token_ids]
            if drafted:
                self.planner.set_drafts([self._jobs[request.request_id].id for request in drafted],
                                        [min(len(request.spec_token_ids), self.num_spec_tokens) for request in drafted])

    def schedule(self, throttle_prefills: bool = False) -> Any:
        if throttle_prefills:
            raise UnsupportedError("kvcache's Scheduler does not defer prefills: use --prefill-schedule-interval 1")
        self.current_step += 1
        self._prepare()
        if self._pause_state == PauseState.PAUSED_ALL or len(self._flights) == self._max_plans:
            return self._output([], CachedRequestData.make_empty(), {}, {}, [])
        plan = self.planner.plan()
        now = time.monotonic()
        self.kv_cache_manager.tables = plan.block_tables
        for id in plan.preempted.tolist():
            job = self._by_id[id]
            self.running.remove(job.request)
            job.row, job.blocks = -1, 0
            self._preempt_request(job.request, now)
            if self._pause_state == PauseState.PAUSED_NEW:
                self._hold(job)
        for ended in plan.ended:
            job = self._by_id.pop(ended.request)
            job.id, job.row = 0, -1
            self._fail(job, f"the request needs more blocks than there are: {self.kv_cache_config.num_blocks} in all")
        return self._output(*self._items(plan, now))

    def _items(self, plan: Any, now: float) -> tuple[Any, Any, dict[str, int], dict[str, list[int]], list[bool]]:
        """Returns the new requests, the others, the tokens and the drafts of a plan; and of the requests with a grammar that sample in it, whether
        tokens of earlier plans are on their way."""
        ids, samples = plan.requests.tolist(), plan.samples.tolist()
        counts = plan.token_offsets[1:] - plan.token_offsets[:-1]
        ends = plan.first_tokens + counts
        blocks, placeholders, v2 = self.kv_cache_manager, int(self._async), self.use_v2_model_runner
        jobs = [self._by_id[id] for id in ids]
        names, firsts = [job.request.request_id for job in jobs], plan.first_tokens.tolist()
        needed = ((ends + (blocks.block_size - 1)) // blocks.block_size).tolist()  # the arrays are unsigned
        new: list[Any] = []
        begun: set[int] = set()  # items that are told as new
        cached = CachedRequestData.make_empty()
        for i in np.flatnonzero(plan.is_new).tolist():
            job, request = jobs[i], jobs[i].request
            resumed = request.status == RequestStatus.PREEMPTED
            job.row = int(plan.rows[i])
            self._start(request, firsts[i], now)
            if v2 or not resumed:
                table = blocks.ids_of(job, 0, needed[i])
                new.append(NewRequestData.from_request(request, table, *([request._all_token_ids] if v2 else []), uses_mrope=self.model_uses_mrope))
                job.blocks = needed[i]
                begun.add(i)
            else:
                cached.resumed_req_ids.add(names[i])
        tables: list[Optional[tuple[list[int], ...]]] = []
        outputs: list[int] = []
        grammars: list[bool] = []
        for job, end, count, most, sample in zip(jobs, ends.tolist(), counts.tolist(), needed, samples):
            request = job.request
            if most > job.blocks:  # after drafts that were rejected the workers know more
                tables.append(blocks.ids_of(job, job.blocks, most))
                job.blocks = most
            else:
                tables.append(None)
            outputs.append(len(request._output_token_ids) + request.num_output_placeholders)
            request.num_computed_tokens = end
            request.num_in_flight_tokens += count
            request.is_prefill_chunk = not sample
            if sample:
                if request.structured_output_request is not None:
                    grammars.append(request.num_output_placeholders > 0)
                request.num_output_placeholders += placeholders
        spec: dict[str, list[int]] = {}
        if self.num_spec_tokens:
            for name, job, drafts in zip(names, jobs, plan.num_drafts.tolist()):
                if drafts:
                    spec[name] = job.request.spec_token_ids[:drafts]
                job.request.spec_token_ids = []
        if ids:
            self._flights.append(_Flight(plan, jobs, ids, samples))
        columns: list[list[Any]] = [names, tables, firsts, outputs]
        if begun:
            columns = [[value for i, value in enumerate(column) if i not in begun] for column in columns]
        cached.req_ids, cached.new_block_ids, cached.num_computed_tokens, cached.num_output_tokens = columns
        if not v2:
            for name in cached.req_ids:
                if name not in self.prev_step_scheduled_req_ids:
                    cached.all_token_ids[name] = self.requests[name].all_token_ids.copy()
        return new, cached, dict(zip(names, counts.tolist())), spec, grammars

    def _start(self, request: Any, hit: int, now: float) -> None:
        """Notes that a request runs from now on."""
        self.kv_cache_manager.record_prefix_cache_stats(request, hit)
        if request.prefill_stats and request.num_preemptions <= 0:
            request.prefill_stats.set(num_prompt_tokens=request.num_prompt_tokens, num_local_cached_tokens=hit, num_external_cached_tokens=0)
        self.waiting.remove_request(request)
        self.running.append(request)
        request.status, request.num_computed_tokens = RequestStatus.RUNNING, hit
        if self.log_stats:
            request.record_event(EngineCoreEventType.SCHEDULED, now)

    def _output(self, new: list[Any], cached: Any, tokens: dict[str, int], spec: dict[str, list[int]], grammars: list[bool]) -> Any:
        if not self.use_v2_model_runner:
            self.prev_step_scheduled_req_ids = set(tokens)
        out = SchedulerOutput(
            scheduled_new_reqs=new, scheduled_cached_reqs=cached, num_scheduled_tokens=tokens, total_num_scheduled_tokens=sum(tokens.values()),
            scheduled_spec_decode_tokens=spec, scheduled_encoder_inputs={}, preempted_req_ids=self.reset_preempted_req_ids,
            finished_req_ids=self.finished_req_ids, free_encoder_mm_hashes=[], has_structured_output_requests=bool(grammars),
            pending_structured_output_tokens=any(grammars), num_spec_tokens_to_schedule=self.num_spec_tokens,
            ec_manager_metadata=self.encoder_cache_manager.get_manager_metadata())
        self.finished_req_ids, self.reset_preempted_req_ids = set(), set()
        return out

    # ---- after a step

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        stopped: list[_Job] = []
        self._stopped = stopped
        try:
            outputs = super().update_from_output(scheduler_output, model_runner_output)
        finally:
            self._stopped = None
        if scheduler_output.total_num_scheduled_tokens:
            self._finish(self._flights.popleft())
        for job in stopped:  # those that this output has not ended, such as errors of grammars
            self._forget(job)
        return outputs

    def _finish(self, flight: _Flight) -> None:
        """Tells the library what came out of a plan: the tokens that the requests have now and that it does not know."""
        sampled: list[int] = []
        offsets, stopped = [0], []
        for job, id, samples in zip(flight.jobs, flight.ids, flight.samples):
            ends = False
            if samples and job.id == id:
                request = job.request
                known = request._all_token_ids
                count = len(known)
                if count == job.told + 1:
                    sampled.append(known[-1])
                else:
                    sampled += known[job.told:]
                job.told = count
                ends = request.is_finished()
            offsets.append(len(sampled))
            stopped.append(ends)
        for ended in self.planner.finish(flight.plan, sampled, offsets, stopped=stopped):
            job = self._by_id.pop(ended.request)
            job.id, job.row = 0, -1
