# SPDX-License-Identifier: Apache-2.0
"""vLLM's own KVCacheManager, ours in its place, and ours through NumPy steps, on one trace in one run:

    KVC_SHARED_DATA=<folder> PYTHONPATH=build/release/python:bindings/python/tests python bindings/python/bench/vllm_side_by_side.py

A scheduler of `concurrency` running requests, prompts computed at once, one token per request and step; as in vLLM, requests that have
ended are freed before the others get room for their tokens, and then new ones come in. All three are given the same stream and take
turns of `turn` steps. Only calls of the managers are timed, for the steps with the filling of their arrays; which requests have ended is
the engine's own business. "hashing" is what vLLM's requests do for their manager when tokens are added (sha256, its default); our
managers take the tokens and hash inside their calls. Our requests have no hasher, as with the plug-in. With --events the managers of vLLM's
interface also tell their events, which are taken after every step ("events"), and the microseconds per block told are given. Every request must hit the same tokens in all three, or the run fails.
"""

import argparse
import gc
import itertools
import json
import os
import time

import numpy as np
from vllm_real import hasher, make_request, managers

from kvcache import Manager, Step
from kvcache.trace import longest, output_tokens, prompt_tokens, read_trace

BLOCK = 16
now = time.perf_counter


class Engine:
    """Drives a manager with vLLM's interface as its scheduler does."""

    def __init__(self, manager, block_hasher):
        self.manager, self.hasher, self.running = manager, block_hasher, []
        self.seconds = {"admit": 0.0, "decode": 0.0, "free": 0.0, "hashing": 0.0, "events": 0.0}
        self.hits, self.told = [], 0

    def admit(self, index, prompt, outputs):
        request = make_request(str(index), prompt, None)
        request._block_hasher = self.hasher
        begin = now()
        request.update_block_hashes()
        hashed = now()
        blocks, hit, _ = self.manager.get_computed_blocks(request)
        new = self.manager.allocate_slots(request, request.num_tokens - hit, hit, blocks)
        ids = self.manager.get_block_ids(request.request_id)
        self.seconds["admit"] += now() - hashed
        self.seconds["hashing"] += hashed - begin
        if new is None or len(ids[0]) != -(-len(prompt) // BLOCK):
            raise RuntimeError("a prompt has no room; give more blocks")
        self.hits.append(hit)
        request.num_computed_tokens = request.num_tokens
        self.running.append((request, iter(outputs)))

    def step(self):
        """One token for all; returns how many have finished."""
        begin = now()
        finished, running = [], []
        for item in self.running:
            token = next(item[1], None)
            if token is None:
                finished.append(item[0])
            else:
                item[0].append_output_token_ids(token)
                running.append(item)
        appended = now()
        for request in finished:
            self.manager.free(request)
        freed = now()
        for request, _ in running:
            if self.manager.allocate_slots(request, 1) is None:
                raise RuntimeError("a token has no room; give more blocks")
        self.seconds["decode"] += now() - freed
        self.seconds["free"] += freed - appended
        if self.hasher:
            self.seconds["hashing"] += appended - begin
        begin = now()
        events = self.manager.take_events()
        self.seconds["events"] += now() - begin
        self.told += sum(len(getattr(event, "block_hashes", ())) for event in events)
        del events
        for request, _ in running:
            request.num_computed_tokens += 1
        self.running = running
        return len(finished)


class StepEngine:
    """Drives a Manager with one kvcache.Step per engine step. The arrays of the step are the state: running requests are the first n
    items, the last one moves to where one ends. Slots are left to the kernels, as vLLM does."""

    def __init__(self, num_blocks, lanes, max_tokens, max_outputs):
        self.manager = Manager(num_blocks, BLOCK, max_requests=lanes + 1, max_request_tokens=max_tokens)
        self.call = Step(self.manager, lanes, lanes, -(-max_tokens // BLOCK), max_frees=lanes)
        self.call.use(rows=True, slots=False)
        self.call.extend_offsets[:] = np.arange(lanes + 1)
        self.call.rows[:] = np.arange(lanes)
        self.left, self.order = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)  # tokens to come; index in the trace
        self.outputs = np.zeros((lanes, max_outputs), np.int32)  # by row, from the end
        self.running = 0
        self.seconds = {"admit": 0.0, "decode": 0.0, "free": 0.0, "hashing": 0.0}
        self.hits = []

    def admit(self, index, prompt, outputs):
        call, i = self.call, self.running
        self.outputs[call.rows[i], : len(outputs)] = outputs[::-1]
        self.left[i], self.order[i] = len(outputs), index
        begin = now()
        request = self.manager.allocate(prompt)
        request.commit(len(prompt))
        request.forget()
        call.requests[i], call.committed[i] = request.id, len(prompt)
        self.running = i + 1
        self.seconds["admit"] += now() - begin
        self.hits.append(request.num_cached)

    def retire(self, ended):
        """The requests at these places are to be freed by the next step, in order of admission."""
        call, n = self.call, self.running
        for freed, i in enumerate(sorted(ended, key=self.order.item)):
            call.frees[freed] = id = call.requests[i]
            self.manager.request(id).commit(call.committed[i])
        for i in reversed(ended):
            n -= 1
            for array in (call.requests, call.committed, call.rows, self.left, self.order):
                array[i], array[n] = array[n], array[i]
        self.running = n

    def step(self):
        call = self.call
        ended = np.flatnonzero(self.left[: self.running] == 0).tolist()
        begin = now()
        if ended:
            self.retire(ended)
        self.seconds["free"] += now() - begin
        n = self.running
        sampled = self.outputs[call.rows[:n], self.left[:n] - 1]
        committed = call.committed[:n]
        begin = now()
        call.num_frees, call.num_requests = len(ended), n
        call.extend_tokens[:n] = sampled
        call.retired_step = call.step_id
        call.run()
        if call.num_failed:
            raise RuntimeError("a token has no room; give more blocks")
        np.add(committed, 1, out=committed)
        self.seconds["decode"] += now() - begin
        self.left[:n] -= 1
        return len(ended)


def replay(engine, items, concurrency):
    """Runs items (index, prompt, outputs) to their end, in continuous batching; yields after every step."""
    room = concurrency
    while True:
        while room:
            item = next(items, None)
            if item is None:
                break
            engine.admit(*item)
            room -= 1
        if not engine.running:
            return
        room += engine.step()
        yield


def stream(trace, lists):
    for i, request in enumerate(trace):
        prompt, outputs = prompt_tokens(request), output_tokens(i, request)
        yield (i, prompt.tolist(), outputs.tolist()) if lists else (i, prompt, outputs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=1500)
    parser.add_argument("--concurrency", type=int, default=256)
    parser.add_argument("--blocks", type=int, default=400_000)
    parser.add_argument("--turn", type=int, default=32, help="steps of one manager before the next one's")
    parser.add_argument("--events", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    trace = read_trace(os.path.join(os.environ["KVC_SHARED_DATA"], "traces", "conversation_trace.jsonl"), options.requests)
    limit = longest(trace)
    theirs, ours = managers(options.blocks, BLOCK, limit, enable_kv_cache_events=options.events)
    engines = {"vllm": Engine(theirs, hasher(BLOCK)), "drop_in": Engine(ours, None),
               "numpy_steps": StepEngine(options.blocks - 1, options.concurrency, limit + BLOCK, max(r.num_outputs for r in trace))}
    gc.collect()
    gc.disable()  # cycles are collected at no predictable time
    runs = [replay(engine, stream(trace, name != "numpy_steps"), options.concurrency) for name, engine in engines.items()]
    while runs:
        runs = [run for run in runs if sum(1 for _ in itertools.islice(run, options.turn)) == options.turn]
    for name, engine in engines.items():
        if engine.hits != engines["vllm"].hits:
            index = next(i for i, (a, b) in enumerate(zip(engine.hits, engines["vllm"].hits)) if a != b)
            raise RuntimeError(f"request {index} hits {engine.hits[index]} tokens with {name}, {engines['vllm'].hits[index]} with vLLM")
    if ours.manager.stats.evictions != engines["numpy_steps"].manager.stats.evictions:
        raise RuntimeError("our two managers have not evicted the same number of blocks")
    result = {name: {part: round(s, 3) for part, s in e.seconds.items()} for name, e in engines.items()}
    result["hit_tokens"], result["evictions"] = sum(engines["vllm"].hits), ours.manager.stats.evictions

    for name in ("vllm", "drop_in"):
        if engines[name].told:
            result[f"us_per_event_{name}"] = round(1e6 * engines[name].seconds["events"] / engines[name].told, 2)
            result[f"seconds_with_events_{name}"] = round(sum(engines[name].seconds.values()), 2)

    def seconds(name, *parts):
        return sum(engines[name].seconds[part] for part in parts)

    for name in ("drop_in", "numpy_steps"):
        own = seconds(name, "admit", "decode", "free")
        result[f"ratio_{name}"] = round(seconds("vllm", "admit", "decode", "free") / own, 1)
        result[f"ratio_{name}_with_hashing"] = round(seconds("vllm", "admit", "decode", "free", "hashing") / own, 1)
        result[f"ratio_{name}_decode_steps"] = round(seconds("vllm", "decode", "free") / seconds(name, "decode", "free"), 1)
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))


main()
