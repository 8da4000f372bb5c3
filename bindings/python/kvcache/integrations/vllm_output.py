# SPDX-License-Identifier: Apache-2.0
"""Plans of a kvcache.Scheduler as vLLM 0.33's SchedulerOutput: for an engine that has workers of vLLM and a loop of its own.

    outputs = PlanOutputs(scheduler, block_size=16)
    outputs.add(id, "request-1", prompt)                 # the id of scheduler.add()
    plan = scheduler.plan()
    out = outputs.take(plan)                             # fields of SchedulerOutput, plain values
    outputs.finish(plan, sampled)                        # in the place of scheduler.finish()

Every field that vLLM has is there. Fields that a plan does not determine (connectors, auxiliary outputs, grammars) have vLLM's defaults. vLLM need not be installed:
vllm_output() makes vLLM's own dataclasses of the fields where it is.

One thread calls a PlanOutputs. kvcache.integrations.vllm.Scheduler, a scheduler for vLLM's own engine, does not need it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Optional, Sequence

from .. import _native
from ..scheduler import EndedRequest, Plan, Scheduler

if TYPE_CHECKING:
    import numpy

    from ..request import Tokens

__all__ = ["PlanOutputs", "vllm_output"]


class _Request:
    """tables: blocks of each group that the workers know. encoded: inputs whose embeddings they hold."""

    def __init__(self, name: str, prompt: list[int], data: dict[str, Any], inputs: list[tuple[int, int, str]]):
        self.name, self.tokens, self.num_prompt, self.data, self.inputs = name, prompt, len(prompt), data, inputs
        self.flying, self.preempted = 0, False
        self.tables: list[list[int]] = []
        self.drafts: list[int] = []
        self.encoded: set[int] = set()


class PlanOutputs:
    """Follows the requests of a scheduler, and turns each of its plans into the fields of a SchedulerOutput.

    block_size: the manager's. Create the manager with null_block=True: like vLLM, this class writes block 0 where a table has no block. v2: True for
    vLLM's model runner V2, which takes resumed requests as new requests with all their tokens.

    Raises ValueError: the manager has another block_size, or no null block."""

    def __init__(self, scheduler: Scheduler, block_size: int, *, v2: bool = False):
        properties = _native.kvc_properties()
        _native.kvc_manager_properties(scheduler._m, properties)
        if block_size != properties.block_size:
            raise ValueError(f"block_size is {block_size}; the manager has {properties.block_size}")
        if not properties.flags & _native.KVC_MANAGER_NULL_BLOCK:
            raise ValueError("block 0 of the manager is a block of requests, and vLLM writes 0 where a table has none; make it with null_block=True")
        self._scheduler, self._block_size, self._v2 = scheduler, block_size, v2
        self._requests: dict[int, _Request] = {}
        self._finished: set[str] = set()
        self._freed: list[str] = []
        self._holders: dict[str, int] = {}  # of the embeddings of an input: requests
        self._last: set[str] = set()  # of the last step
        self._is_behind = False  # a plan was refused: the changes of the next one do not say what it had
        self._in_flight: deque[tuple[list[int], list[int], dict[int, list[int]]]] = deque()  # plans: ids, samples, inputs encoded by item

    def add(self, id: int, name: str, prompt: Sequence[int] | numpy.ndarray, *, inputs: Sequence[tuple[int, int, str]] = (), sampling_params: Any = None,
            pooling_params: Any = None, lora_request: Any = None, mm_features: Sequence[Any] = ()) -> None:
        """Names a request of the scheduler. inputs: (first_token, num_tokens, hash) of what an encoder turns into embeddings, as in Scheduler.add().
        The other options go into vLLM's NewRequestData as they are."""
        data = {"sampling_params": sampling_params, "pooling_params": pooling_params, "lora_request": lora_request, "mm_features": list(mm_features)}
        self._requests[id] = _Request(name, [int(token) for token in prompt], data, list(inputs))

    def set_drafts(self, id: int, drafts: Sequence[int]) -> None:
        """Gives the draft tokens of a request for the next plan, and tells the scheduler how many they are."""
        self._requests[id].drafts = list(drafts)
        self._scheduler.set_drafts([id], [len(drafts)])

    def abort(self, id: int) -> None:
        """Ends a request."""
        self._scheduler.abort(id)
        self._end(id)

    def _end(self, id: int) -> None:
        request = self._requests.pop(id)
        self._finished.add(request.name)
        for number in sorted(request.encoded):
            self._drop(request, number)

    def _drop(self, request: _Request, number: int) -> None:
        request.encoded.discard(number)
        key = request.inputs[number][2]
        self._holders[key] -= 1
        if self._holders[key] == 0:
            del self._holders[key]
            self._freed.append(key)

    def _extend(self, plan: Plan, row: int, request: _Request, end: int) -> Optional[tuple[list[int], ...]]:
        """The entries that workers do not know yet. None: they know all of them."""
        begin = len(request.tables[0]) if request.tables else 0
        if end <= begin:
            return None
        more = tuple([max(0, block) for block in group[row, begin:end].tolist()] for group in plan.block_tables)
        request.tables = [known + new for known, new in zip(request.tables, more)] if begin else [list(new) for new in more]
        return more

    def _replaced(self, plan: Plan) -> Optional[tuple[str, int, int, int, int]]:
        """A block that workers know, and that the plan has another one for: (request, group, column, old, new). Where a window has left a block the
        table has none any more; workers keep its number and do not read it, as with vLLM's own scheduler."""
        running = {row: self._requests[id] for id, row, is_new in zip(plan.requests.tolist(), plan.rows.tolist(), plan.is_new.tolist()) if not is_new}
        if plan.whole_tables or self._is_behind:
            changes = [(group, row, column, block) for row, request in running.items() for group, known in enumerate(request.tables)
                       for column, block in enumerate(plan.block_tables[group, row, : len(known)].tolist())]
        else:
            changes = plan.changes.tolist()
        for group, row, column, block in changes:
            request = running.get(row)
            if request and block >= 0 and request.tables and column < len(request.tables[group]) and request.tables[group][column] != block:
                return request.name, group, column, request.tables[group][column], block
        return None

    def take(self, plan: Plan) -> dict[str, Any]:
        """Returns the fields of the SchedulerOutput of the newest plan, which may have no items. scheduled_new_reqs is a list of the fields of
        NewRequestData, scheduled_cached_reqs has those of CachedRequestData, kv_cache_block_copies pairs of blocks. Take a plan before you abort
        any of its requests. Raises ValueError: the plan has a request that was not added, or was aborted; or it has another block in the place of one that the
        workers know, to whose tables an output can only append. Then nothing is taken."""
        named = [*plan.requests.tolist(), *plan.preempted.tolist(), *(ended.request for ended in plan.ended)]
        if unknown := [id for id in named if id not in self._requests]:
            raise ValueError(f"request {unknown[0]} of the plan is unknown: call add() before plan(), and take() a plan before you abort its requests")
        if replaced := self._replaced(plan):
            name, group, column, old, block = replaced
            self._is_behind = True
            raise ValueError(f"the plan has block {block} at entry {column} of group {group} of request {name!r}, whose workers have block {old}: vLLM's outputs "
                             "only append blocks. Do not truncate or fork requests of the scheduler; finish this plan with failed=True and abort the request")
        self._is_behind = False
        for ended in plan.ended:
            self._end(ended.request)
        preempted = set()
        for id in plan.preempted.tolist():
            request = self._requests[id]
            request.preempted, request.tables = True, []
            preempted.add(request.name)
            for number in sorted(request.encoded):
                self._drop(request, number)
        encodes: dict[int, list[int]] = {}
        for item, number in plan.encoder_runs.tolist():
            encodes.setdefault(item, []).append(number)
        new: list[dict[str, Any]] = []
        cached: dict[str, Any] = {"req_ids": [], "resumed_req_ids": set(), "new_token_ids": [], "all_token_ids": {}, "new_block_ids": [],
                                  "num_computed_tokens": [], "num_output_tokens": []}
        tokens, spec, encoder = {}, {}, {}
        offsets, drafts = plan.token_offsets.tolist(), plan.num_drafts.tolist()
        rows, samples = plan.rows.tolist(), plan.samples.tolist()
        for i, (id, first, is_new) in enumerate(zip(plan.requests.tolist(), plan.first_tokens.tolist(), plan.is_new.tolist())):
            request, count = self._requests[id], offsets[i + 1] - offsets[i]
            name, resumed = request.name, is_new and request.preempted
            tokens[name] = count
            table = self._extend(plan, rows[i], request, -(-(first + count) // self._block_size))
            request.preempted = False
            if is_new and (self._v2 or not resumed):
                new.append({"req_id": name, "prompt_token_ids": request.tokens[: request.num_prompt], **request.data, "block_ids": table,
                            "num_computed_tokens": first, "prompt_embeds": None, "prompt_is_token_ids": None,
                            "prefill_token_ids": list(request.tokens) if self._v2 else None, "replay_start": 0})
            else:
                cached["req_ids"].append(name)
                cached["new_block_ids"].append(table)
                cached["num_computed_tokens"].append(first)
                cached["num_output_tokens"].append(len(request.tokens) - request.num_prompt + request.flying)
                if resumed:
                    cached["resumed_req_ids"].add(name)
                if not self._v2 and name not in self._last:
                    cached["all_token_ids"][name] = list(request.tokens)
            if drafts[i]:
                spec[name] = request.drafts[: drafts[i]]
            if i in encodes:
                encoder[name] = encodes[i]
                for number in encodes[i]:
                    request.encoded.add(number)
                    key = request.inputs[number][2]
                    self._holders[key] = self._holders.get(key, 0) + 1
            request.flying += samples[i]
        if plan.num_items:
            self._in_flight.append((plan.requests.tolist(), samples, encodes))
        for request in self._requests.values():
            request.drafts = []
        self._last = set(tokens)
        finished, freed = self._finished, [key for key in self._freed if key not in self._holders]
        self._finished, self._freed = set(), []
        return {
            "scheduled_new_reqs": new, "scheduled_cached_reqs": cached, "num_scheduled_tokens": tokens, "total_num_scheduled_tokens": plan.num_tokens,
            "scheduled_spec_decode_tokens": spec, "scheduled_encoder_inputs": encoder, "finished_req_ids": finished, "free_encoder_mm_hashes": freed,
            "encoder_input_updates": {}, "scheduled_encoder_input_stats": None, "preempted_req_ids": preempted, "has_structured_output_requests": False,
            "pending_structured_output_tokens": False, "num_invalid_spec_tokens": None, "kv_connector_metadata": None, "has_sync_kv_loads": False,
            "aux_output_connector_metadata": None, "ec_connector_metadata": None, "ec_manager_metadata": None, "new_block_ids_to_zero": None,
            "kv_cache_block_copies": [tuple(pair) for pair in plan.copies.tolist()] or None, "kv_connector_block_state": None,
            "num_spec_tokens_to_schedule": 0, "num_common_prefix_blocks": [], "skip_drafts": False}

    def finish(self, plan: Plan, tokens: Tokens = (), token_offsets: Optional[Sequence[int]] = None, *,
               stopped: Optional[Sequence[bool]] = None, failed: bool = False) -> list[EndedRequest]:
        """Calls Scheduler.finish() with the sampled tokens, and notes them. failed: as there: all plans in flight were lost. Returns the requests that
        have ended."""
        ids, samples, firsts = plan.requests.tolist(), plan.samples.tolist(), plan.first_tokens.tolist()
        counts = plan.token_offsets
        sizes = [a - b for a, b in zip(counts[1:].tolist(), counts[:-1].tolist())]
        drafts = plan.num_drafts.tolist()
        sampled = [int(token) for token in tokens]
        offsets = [0]
        for i, one in enumerate(samples):
            offsets.append(offsets[-1] + int(one) if token_offsets is None else int(token_offsets[i + 1]))
        ended = self._scheduler.finish(plan, tokens, token_offsets, stopped=stopped, failed=failed)
        if failed:
            while self._in_flight:
                self._lose(*self._in_flight.popleft())
            return ended
        self._in_flight.popleft()
        for i, id in enumerate(ids):
            request = self._requests.get(id)
            if request is None:
                continue  # it was aborted
            got = sampled[offsets[i]: offsets[i + 1]]
            request.tokens += got
            request.flying -= samples[i]
            written = firsts[i] + sizes[i] - drafts[i]
            for number in sorted(request.encoded):
                first, length, _ = request.inputs[number]
                if first + length <= written:
                    self._drop(request, number)
        for one in ended:
            self._end(one.request)
        return ended


    def _lose(self, ids: list[int], samples: list[int], encodes: dict[int, list[int]]) -> None:
        """A plan was not computed: its tokens do not come, and workers do not hold what it was to encode."""
        for i, id in enumerate(ids):
            if request := self._requests.get(id):
                request.flying -= samples[i]
                for number in encodes.get(i, ()):
                    if number in request.encoded:
                        self._drop(request, number)


def vllm_output(fields: dict[str, Any]) -> Any:
    """Makes vLLM's SchedulerOutput of the fields of PlanOutputs.take(). Needs vLLM 0.33."""
    from vllm.v1.core.kv_cache_utils import KVCacheBlockCopy
    from vllm.v1.core.sched.output import CachedRequestData, NewRequestData, SchedulerOutput

    copies = fields["kv_cache_block_copies"]
    return SchedulerOutput(**{
        **fields, "scheduled_new_reqs": [NewRequestData(**new) for new in fields["scheduled_new_reqs"]],
        "scheduled_cached_reqs": CachedRequestData(**fields["scheduled_cached_reqs"]),
        "kv_cache_block_copies": None if copies is None else [KVCacheBlockCopy(*pair) for pair in copies]})
