# SPDX-License-Identifier: Apache-2.0
"""vLLM's own Scheduler and kvcache.Scheduler on the same arrivals, pool and token budget, with a stated time of a step.

    PYTHONPATH=build/release/python:bindings/python/tests python bindings/python/bench/vllm_arrivals.py TRACE [--requests N] [--json]

Requests arrive at the times of the trace (milliseconds), divided by --speed. A step of n tokens over c tokens of context takes
fixed_us + n * token_us + c * context_us of virtual time. Both run one step at a time, and each has its own clock.

Host time is processor time of the thread, of schedule() and update_from_output(), and of plan() and finish() with what an engine reads of a plan:
requests, positions, numbers of tokens, who samples. Creating and adding requests, with their hashes, is outside. "c" is the part of it in the two
calls of the library. "full" are the steps with nine tenths of --running requests or more. All run in turns of --turn steps in one process; with
--rounds 2 and more, the ratios of the rounds are told. "dropin" is vLLM's interface over the library (kvcache.integrations.vllm.Scheduler).
"""

import argparse
import gc
import json
import statistics
import tempfile
import time

import numpy as np

import kvcache
from kvcache import _native
from kvcache.trace import prompt_tokens, read_trace

_clock = time.thread_time


class _Timed:
    """A function of the library, and the processor time of its calls."""

    def __init__(self, name):
        self.function, self.seconds = getattr(_native, name), 0.0
        setattr(_native, name, self)

    def __call__(self, *args):
        begin = _clock()
        try:
            return self.function(*args)
        finally:
            self.seconds += _clock() - begin


class Ours:
    def __init__(self, options, length):
        self.manager = kvcache.Manager(options.blocks, block_size=16, max_requests=min(options.requests + 16, 200000), max_request_tokens=length,
                                       null_block=True, fills=options.fills)  # as in vLLM's pool
        self.scheduler = kvcache.Scheduler(self.manager, max_running=options.running, max_tokens=options.tokens, max_request_tokens=length,
                                           max_wait_ns=(1 << 64) - 1, admission=kvcache.Admission.PROMPT if options.full else kvcache.Admission.CHUNK)
        self.waits = kvcache.RequestOptions(wait_until_ns=(1 << 64) - 1) if options.fills else None
        self.numbers, self.host, self.timed = {}, 0.0, options.timed
        self.c = 0.0

    def add(self, number, tokens, new):
        self.numbers[self.scheduler.add(tokens, new, options=self.waits)] = number

    def step(self, now):
        """(tokens, context, numbers of requests that get a token, requests that run), or None: nothing can run."""
        before, begin = sum(one.seconds for one in self.timed), _clock()
        plan = self.scheduler.plan(1 + int(1e9 * now))
        if plan.num_items == 0:
            self.host += _clock() - begin
            if plan.ended:
                raise RuntimeError(f"a request does not fit: {plan.ended}")
            return None
        offsets, samples = plan.token_offsets, plan.samples
        requests, first = plan.requests.tolist(), plan.first_tokens
        self.host += _clock() - begin
        tokens, context = int(offsets[-1]), int(first.sum())
        sampled = samples.copy()
        given = np.full(int(sampled.sum()), 7, np.int32)
        begin = _clock()
        ended = self.scheduler.finish(plan, given)
        self.host += _clock() - begin
        self.c += sum(one.seconds for one in self.timed) - before
        got = [self.numbers[id] for id, one in zip(requests, sampled) if one]
        for one in ended:
            del self.numbers[one.request]
        return tokens, context, got, len(requests)

    def counts(self, prompt_tokens):
        stats = self.scheduler.stats()
        return {"preemptions": stats.preemptions, "hit_rate": round(stats.cached_tokens / prompt_tokens, 4)}

    def close(self):
        self.scheduler.close()
        self.manager.close()


class Vllm:
    def __init__(self, options, length):
        from vllm.v1.structured_output import StructuredOutputManager
        from vllm_engine import BLOCK, engine_config, layout
        from vllm_real import hasher

        with tempfile.TemporaryDirectory() as folder:
            config = engine_config(folder, max_num_seqs=options.running, max_num_batched_tokens=options.tokens, max_model_len=length)
        config.cache_config.num_gpu_blocks = options.blocks
        config.scheduler_config.scheduler_reserve_full_isl = options.full
        self.scheduler = self.kind()(vllm_config=config, kv_cache_config=layout(options.blocks, BLOCK, (0,)), block_size=BLOCK, log_stats=True,
                                     structured_output_manager=StructuredOutputManager(config))
        self.hasher, self.host, self.cached, self.preempted = hasher(BLOCK), 0.0, 0, 0
        self.c = None

    @staticmethod
    def kind():
        from vllm.v1.core.sched.scheduler import Scheduler

        return Scheduler

    def add(self, number, tokens, new):
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        params = SamplingParams(max_tokens=new, ignore_eos=True)
        self.scheduler.add_request(Request(str(number), tokens.tolist(), params, None, block_hasher=self.hasher))

    def step(self, now):
        from vllm_engine import model_output

        begin = _clock()
        out = self.scheduler.schedule()
        self.host += _clock() - begin
        scheduled = out.num_scheduled_tokens
        context, sampled, got = 0, [], []
        for id, count in scheduled.items():
            request = self.scheduler.requests[id]
            context += request.num_computed_tokens - count
            gets = request.num_computed_tokens == request.num_tokens
            sampled.append([7] if gets else [])
            if gets:
                got.append(int(id))
        for new in out.scheduled_new_reqs:
            if not self.scheduler.requests[new.req_id].num_preemptions:
                self.cached += new.num_computed_tokens
        self.preempted += len(out.preempted_req_ids or ())
        answer = model_output(out, sampled)
        begin = _clock()
        self.scheduler.update_from_output(out, answer)
        self.host += _clock() - begin
        return (out.total_num_scheduled_tokens, context, got, len(scheduled)) if scheduled else None

    def counts(self, prompt_tokens):
        return {"preemptions": self.preempted, "hit_rate": round(self.cached / prompt_tokens, 4)}

    def close(self):
        self.scheduler.shutdown()


class DropIn(Vllm):
    def __init__(self, options, length):
        super().__init__(options, length)
        self.hasher = None  # as with the plug-in

    @staticmethod
    def kind():
        from kvcache.integrations.vllm import Scheduler

        return Scheduler


KINDS = {"vllm": Vllm, "ours": Ours, "dropin": DropIn}


class Lane:
    """A scheduler that serves the requests of the trace in its own virtual time."""

    def __init__(self, kind, options, requests, arrivals):
        self.options, self.requests, self.arrivals = options, requests, arrivals
        self.lane = KINDS[kind](options, max(len(tokens) + new for tokens, new in requests) + 16)
        self.now, self.next_one, self.steps, self.items, self.full = 0.0, 0, 0, 0, []
        self.first, self.last, self.left = {}, {}, {number: new for number, (_, new) in enumerate(requests)}

    def turn(self, steps):
        """Runs some steps. Whether requests are left."""
        options, requests, arrivals, lane = self.options, self.requests, self.arrivals, self.lane
        for _ in range(steps):
            if not self.left:
                return False
            while self.next_one < len(requests) and arrivals[self.next_one] <= self.now:
                lane.add(self.next_one, *requests[self.next_one])
                self.next_one += 1
            before, c_before = lane.host, lane.c
            step = lane.step(self.now)
            if step is None:
                if self.next_one == len(requests):
                    raise RuntimeError(f"{len(self.left)} requests do not end")
                self.now = max(self.now, arrivals[self.next_one])
                continue
            tokens, context, got, items = step
            self.steps += 1
            self.items += items
            if items >= 0.9 * options.running:
                self.full.append((lane.host - before, 0.0 if lane.c is None else lane.c - c_before))
            self.now += 1e-6 * (options.fixed_us + tokens * options.token_us + context * options.context_us)
            for number in got:
                self.first.setdefault(number, self.now)
                self.last[number] = self.now
                self.left[number] -= 1
                if self.left[number] == 0:
                    del self.left[number]
        return True

    def result(self):
        options, arrivals, numbers = self.options, self.arrivals, range(len(self.requests))
        ttft = [self.first[n] - arrivals[n] for n in numbers]
        tpot = [(self.last[n] - self.first[n]) / max(1, self.requests[n][1] - 1) for n in numbers]
        good = sum(1e3 * a <= options.ttft_ms and 1e3 * b <= options.tpot_ms for a, b in zip(ttft, tpot))
        result = {"steps": self.steps, "requests_per_step": round(self.items / self.steps, 1), "makespan_s": round(self.now, 2),
                  "goodput": round(good / len(numbers), 4), "ttft_p50_ms": round(1e3 * statistics.median(ttft), 1),
                  "ttft_p99_ms": round(1e3 * statistics.quantiles(ttft, n=100)[98], 1), "tpot_p50_ms": round(1e3 * statistics.median(tpot), 2),
                  **self.lane.counts(sum(len(tokens) for tokens, _ in self.requests)), "host_us_per_step": round(1e6 * self.lane.host / self.steps, 1)}
        if self.full:
            result["full_steps"], result["host_us_per_full_step"] = len(self.full), round(1e6 * statistics.mean(host for host, _ in self.full), 1)
        if self.lane.c is not None:
            result["c_us_per_step"] = round(1e6 * self.lane.c / self.steps, 1)
            if self.full:
                result["c_us_per_full_step"] = round(1e6 * statistics.mean(c for _, c in self.full), 1)
        return result


def one_round(options, requests, arrivals):
    lanes = {kind: Lane(kind, options, requests, arrivals) for kind in options.kinds}
    gc.collect()
    gc.freeze()
    gc.disable()
    running = list(lanes.values())
    while running:
        running = [lane for lane in running if lane.turn(options.turn)]
        gc.collect(0)
    gc.enable()
    gc.unfreeze()
    result = {kind: lane.result() for kind, lane in lanes.items()}
    for lane in lanes.values():
        lane.lane.close()
    return result


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--blocks", type=int, default=60000)
    parser.add_argument("--running", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--full", action="store_true", help="the whole prompt must fit at admission")
    parser.add_argument("--fills", action="store_true", help="ours: a request waits while another one computes its next tokens")
    parser.add_argument("--fixed-us", type=float, default=5000)
    parser.add_argument("--token-us", type=float, default=20)
    parser.add_argument("--context-us", type=float, default=0.02)
    parser.add_argument("--ttft-ms", type=float, default=2000)
    parser.add_argument("--tpot-ms", type=float, default=100)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--turn", type=int, default=64)
    parser.add_argument("--kinds", default="vllm,ours", help=f"some of {','.join(KINDS)}, which take turns")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.kinds = options.kinds.split(",")
    options.timed = [_Timed("kvc_scheduler_plan"), _Timed("kvc_scheduler_finish")] if options.kinds != ["dropin"] else []

    trace = read_trace(options.trace, options.requests)
    with open(options.trace, encoding="utf-8") as file:
        arrivals = [json.loads(line)["timestamp"] / 1e3 / options.speed for line, _ in zip(file, trace)]
    requests = [(prompt_tokens(one), max(1, one.num_outputs)) for one in trace]
    rounds, ratios = [], {}
    for _ in range(options.rounds):
        rounds.append(one_round(options, requests, arrivals))
        if not options.json:
            for kind, result in rounds[-1].items():
                print(f"{kind}: {result}", flush=True)
    for kind in options.kinds:
        first = options.kinds[0]
        if kind != first:
            all = [one[first]["host_us_per_step"] / one[kind]["host_us_per_step"] for one in rounds]
            ratios[kind] = {"median": round(statistics.median(all), 1), "least": round(min(all), 1), "most": round(max(all), 1)}
    print(json.dumps({"rounds": rounds, "host_ratio": ratios}) if options.json else f"{options.kinds[0]}'s host time is so many times that of: {ratios}")


if __name__ == "__main__":
    main()
