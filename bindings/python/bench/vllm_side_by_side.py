# SPDX-License-Identifier: Apache-2.0
"""vLLM's own KVCacheManager, ours in its place, and ours through NumPy steps, on one trace in one run:

    KVC_SHARED_DATA=<folder> PYTHONPATH=build/release/python:bindings/python/tests python bindings/python/bench/vllm_side_by_side.py

A scheduler of `concurrency` running requests, prompts computed at once, one token per request and step. All three are given the same
stream and take turns of TURN steps; only calls of the managers are timed. "hashing" is what vLLM's requests do for their
manager when tokens are added (sha256, its default); our managers take the tokens and hash inside their calls.
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

BLOCK, TURN = 16, 32
now = time.perf_counter


class Engine:
    """Drives a manager with vLLM's interface as its scheduler does."""

    def __init__(self, manager, block_hasher):
        self.manager, self.hasher, self.running = manager, block_hasher, []
        self.seconds = {"admit": 0.0, "decode": 0.0, "free": 0.0, "hashing": 0.0}
        self.hits = 0

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
        self.hits += hit
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
        for request, _ in running:
            if self.manager.allocate_slots(request, 1) is None:
                raise RuntimeError("a token has no room; give more blocks")
        decoded = now()
        for request, _ in running:
            request.num_computed_tokens += 1
        freeing = now()
        for request in finished:
            self.manager.free(request)
        self.seconds["free"] += now() - freeing
        self.seconds["decode"] += decoded - appended
        if self.hasher:
            self.seconds["hashing"] += appended - begin
        self.running = running
        return len(finished)


class StepEngine:
    """Drives a Manager with one kvcache.Step per engine step. The arrays of the step are the state: running requests are the first n
    items, the last one moves to where one ends."""

    def __init__(self, num_blocks, lanes, max_tokens, max_outputs):
        self.manager = Manager(num_blocks, BLOCK, max_requests=lanes + 1, max_request_tokens=max_tokens)
        self.call = Step(self.manager, lanes, lanes, -(-max_tokens // BLOCK), max_frees=lanes)
        self.call.use(rows=True)
        self.call.extend_offsets[:] = np.arange(lanes + 1)
        self.call.rows[:] = np.arange(lanes)
        self.left = np.zeros(lanes, np.int64)
        self.outputs = np.zeros((lanes, max_outputs), np.int32)  # by row, from the end
        self.running = 0
        self.seconds = {"admit": 0.0, "decode": 0.0, "free": 0.0, "hashing": 0.0}
        self.hits = 0

    def admit(self, index, prompt, outputs):
        call, i = self.call, self.running
        self.outputs[call.rows[i], : len(outputs)] = outputs[::-1]
        self.left[i] = len(outputs)
        begin = now()
        request = self.manager.allocate(prompt)
        request.commit(len(prompt))
        request.forget()
        call.requests[i], call.committed[i] = request.id, len(prompt)
        self.running = i + 1
        self.seconds["admit"] += now() - begin
        self.hits += request.num_cached

    def step(self):
        call, n = self.call, self.running
        begin = now()
        ended = np.flatnonzero(self.left[:n] == 0).tolist()
        for freed, i in enumerate(reversed(ended)):
            n -= 1
            call.frees[freed] = call.requests[i]
            for array in (call.requests, call.committed, call.rows, self.left):
                array[i], array[n] = array[n], array[i]
        self.running = call.num_requests = n
        call.num_frees = len(ended)
        paused = now()
        sampled = self.outputs[call.rows[:n], self.left[:n] - 1]
        resumed = now()
        call.extend_tokens[:n] = sampled
        call.retired_step = call.step_id
        call.run()
        if call.status[: len(ended) + n].any():
            raise RuntimeError("a token has no room; give more blocks")
        call.committed[:n] += 1
        self.left[:n] -= 1
        self.seconds["decode"] += now() - resumed + paused - begin
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
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    trace = read_trace(os.path.join(os.environ["KVC_SHARED_DATA"], "traces", "conversation_trace.jsonl"), options.requests)
    limit = longest(trace)
    theirs, ours = managers(options.blocks, BLOCK, limit)
    engines = {"vllm": Engine(theirs, hasher(BLOCK)), "drop_in": Engine(ours, None),
               "numpy_steps": StepEngine(options.blocks - 1, options.concurrency, limit + BLOCK, max(r.num_outputs for r in trace))}
    gc.collect()
    gc.disable()  # cycles are collected at no predictable time
    runs = [replay(engine, stream(trace, name != "numpy_steps"), options.concurrency) for name, engine in engines.items()]
    while runs:
        runs = [run for run in runs if sum(1 for _ in itertools.islice(run, TURN)) == TURN]
    if len({engine.hits for engine in engines.values()}) != 1:
        print("note: hits differ:", {name: engine.hits for name, engine in engines.items()})
    result = {name: {**{part: round(s, 3) for part, s in e.seconds.items()}, "hit_tokens": e.hits} for name, e in engines.items()}

    def seconds(name, *parts):
        return sum(engines[name].seconds[part] for part in parts)

    for name in ("drop_in", "numpy_steps"):
        own = seconds(name, "admit", "decode", "free")
        result[f"ratio_{name}"] = round(seconds("vllm", "admit", "decode", "free") / own, 1)
        result[f"ratio_{name}_with_hashing"] = round(seconds("vllm", "admit", "decode", "free", "hashing") / own, 1)
        result[f"ratio_{name}_decode_steps"] = round(seconds("vllm", "decode", "free") / seconds(name, "decode", "free"), 1)
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))


main()
