# SPDX-License-Identifier: Apache-2.0
"""kvcache.integrations.vllm.Scheduler in the place of vLLM's own. Skipped where vLLM is not installed."""

import json
import os
import pathlib
import random
import subprocess
import sys
from collections import deque
from types import SimpleNamespace

import pytest

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
pytest.importorskip("vllm.v1.core.sched.scheduler", reason="vLLM is not installed", exc_type=ImportError)
pytest.importorskip("vllm.model_executor.models.llama", reason="vLLM's models lack a dependency", exc_type=ImportError)

import vllm.v1.core.sched.scheduler as scheduling  # noqa: E402
from vllm.config import LoRAConfig, SpeculativeConfig  # noqa: E402
from vllm.lora.request import LoRARequest  # noqa: E402
from vllm.sampling_params import SamplingParams, StructuredOutputsParams  # noqa: E402
from vllm.v1.core.sched.async_scheduler import AsyncScheduler  # noqa: E402
from vllm.v1.core.sched.interface import PauseState, SchedulerInterface  # noqa: E402
from vllm.v1.engine import FinishReason  # noqa: E402
from vllm.v1.request import Request, RequestStatus  # noqa: E402
from vllm.v1.structured_output import StructuredOutputManager  # noqa: E402
from vllm_engine import BLOCK, engine_config, layout  # noqa: E402
from vllm_worker import VOCAB, Worker, expected  # noqa: E402

import kvcache.integrations.vllm  # noqa: E402
from kvcache import UnsupportedError  # noqa: E402
from kvcache.integrations.vllm_scheduler import Scheduler  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
LENGTH, DRAFTS = 512, 3
# name: steps that are scheduled ahead of the outputs, draft tokens, vLLM's second model runner
KINDS = {"plain": (0, 0, False), "plain_v2": (0, 0, True), "async": (1, 0, False), "async_v2": (1, 0, True), "drafts": (0, DRAFTS, False)}


class Engine:
    """A scheduler, its worker, and the outputs on their way. tokens: what each request has got; ended: why it ended."""

    def __init__(self, folder, which=Scheduler, kind="plain", kinds=(0,), blocks=60, seed=0, caching=True, tokens=128, running=16, lora=None, **options):
        self.depth, drafts, v2 = KINDS[kind]
        if drafts:
            options["speculative_config"] = SpeculativeConfig(method="ngram", num_speculative_tokens=drafts, prompt_lookup_max=4, prompt_lookup_min=2)
        policy = options.pop("policy", "fcfs")
        changes = options.pop("changes", {})
        config = engine_config(folder, max_num_seqs=running, max_num_batched_tokens=tokens, max_model_len=LENGTH, async_scheduling=self.depth > 0,
                               caching=caching, **options)
        config.cache_config.num_gpu_blocks, config.scheduler_config.policy, config.lora_config = blocks, policy, lora
        for name, value in changes.items():
            setattr(config.scheduler_config, name, value)
        kind = which if which is Scheduler else AsyncScheduler if self.depth else scheduling.Scheduler
        self.scheduler = kind(vllm_config=config, kv_cache_config=layout(blocks, BLOCK, kinds), block_size=BLOCK, log_stats=True,
                              structured_output_manager=StructuredOutputManager(config))
        self.scheduler.use_v2_model_runner = v2
        self.worker = Worker(kinds, v2, drafts, random.Random(seed))
        self.flying, self.tokens, self.ended, self.errors, self.outs = deque(), {}, {}, {}, []

    def add(self, name, prompt, count, stops=(), **options):
        params = options.pop("params", None) or SamplingParams(max_tokens=count, ignore_eos=True, stop_token_ids=list(stops))
        request = Request(name, list(prompt), params, None, **options)
        self.tokens[name] = []
        self.scheduler.add_request(request)
        return request

    def step(self):
        scheduler = self.scheduler
        out = scheduler.schedule()
        self.outs.append(out)
        self.flying.append((out, self.worker.run(out), self.worker.drafts))
        if len(self.flying) > self.depth:
            self.take()
        return out

    def take(self):
        """Handles the oldest output."""
        scheduler = self.scheduler
        out, answer, drafts = self.flying.popleft()
        for outputs in scheduler.update_from_output(out, answer).values():
            for one in outputs.outputs:
                self.tokens[one.request_id] += one.new_token_ids
                if one.finish_reason is not None:
                    self.ended[one.request_id], self.errors[one.request_id] = one.finish_reason, one.error
        if drafts is not None and not self.depth:
            scheduler.update_draft_token_ids(drafts)

    def run(self, most=4000):
        """Until no request is left."""
        for _ in range(most):
            if not self.scheduler.has_unfinished_requests() and not self.flying:
                break
            if self.scheduler.has_requests():
                self.step()
            else:
                self.take()
        assert not self.scheduler.has_unfinished_requests()
        self.check()

    def check(self):
        if isinstance(self.scheduler, Scheduler):
            self.scheduler.planner.check()
            self.scheduler.kv_cache_manager.manager.check()


def prompts(rng, count, tail=40):
    """Prompts that share beginnings of up to six blocks."""
    return [[token for token in (rng.randrange(2), rng.randrange(2)) for _ in range(3 * BLOCK)] + [rng.randrange(VOCAB) for _ in range(rng.randint(1, tail))]
            for _ in range(count)]


def serve(engine, seed, count=60, aborts=True):
    """Random requests. Returns {name: (prompt, most tokens, stop tokens)} of those that nobody aborted."""
    rng, asked, number = random.Random(seed), {}, 0
    texts = prompts(rng, count)
    while number < count:
        if rng.random() < 0.4:
            most, stops = rng.randint(1, 60), [rng.randrange(VOCAB) for _ in range(10)]
            name = str(number)
            engine.add(name, texts[number], most, stops, priority=rng.randrange(3), arrival_time=float(number))
            asked[name] = texts[number], most, stops
            number += 1
        if aborts and rng.random() < 0.05 and asked:
            name = rng.choice(sorted(asked))
            if engine.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED):
                del asked[name]
        engine.step()
    engine.run()
    return asked


def test_it_is_found_by_its_name():
    from vllm.config import SchedulerConfig

    config = SchedulerConfig(max_model_len=64, is_encoder_decoder=False, scheduler_cls="kvcache.integrations.vllm.Scheduler")
    assert config.get_scheduler_cls() is Scheduler and kvcache.integrations.vllm.Scheduler is Scheduler
    assert issubclass(Scheduler, SchedulerInterface)
    with pytest.raises(AttributeError, match="no attribute 'Schedular'"):
        kvcache.integrations.vllm.Schedular


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("kinds", [(0,), (0, 48), (0, ("chunk", 64))], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_each_request_gets_the_tokens_that_it_gets_alone(tmp_path, kind, kinds, policy):
    """Also where it is preempted, cut into chunks, shares blocks, or others are aborted; and with vLLM's scheduler the same."""
    blocks, seed = 40 if kinds == (0,) else 44, len(kind) + len(policy)
    ours = Engine(tmp_path, Scheduler, kind, kinds, blocks=blocks, seed=seed, policy=policy)
    asked = serve(ours, seed)
    stats = ours.scheduler.planner.stats()
    assert stats.preemptions > 0 and stats.cached_tokens > 500 and len(asked) > 30
    assert (stats.accepted_drafts > 50) == (kind == "drafts")
    theirs = Engine(tmp_path, scheduling.Scheduler, kind, kinds, blocks=blocks, seed=seed, policy=policy)
    serve(theirs, seed)
    same = 0
    for name, (prompt, most, stops) in asked.items():
        assert ours.tokens[name] == expected(prompt, most, stops), name
        if name in theirs.ended:  # it was not aborted there before its end
            assert theirs.tokens[name] == ours.tokens[name] and theirs.ended[name] == ours.ended[name]
            same += 1
    assert same > 25


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_without_caching(tmp_path, kind):
    engine = Engine(tmp_path, kind=kind, blocks=40, caching=False)
    for name, (prompt, most, stops) in serve(engine, 3).items():
        assert engine.tokens[name] == expected(prompt, most, stops)
    stats = engine.scheduler.planner.stats()
    assert stats.preemptions > 3 and stats.cached_tokens == 0


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_with_room_for_all_it_schedules_the_same_tokens_as_vllms(tmp_path, kind):
    """Prompts share nothing here: ours finds a block when it is computed, vLLM's when it is scheduled."""
    def scheduled(which):
        engine = Engine(tmp_path, which, kind, blocks=2000)
        rng, steps = random.Random(5), []
        for number in range(300):
            if number % 3 == 0:
                engine.add(str(number), [1 + number] * rng.randint(1, 300), rng.randint(1, 40))
            out = engine.step()
            cached = out.scheduled_cached_reqs
            steps.append((out.num_scheduled_tokens, [(new.req_id, new.num_computed_tokens) for new in out.scheduled_new_reqs],
                          dict(zip(cached.req_ids, zip(cached.num_computed_tokens, cached.num_output_tokens))), out.finished_req_ids,
                          [len(new.block_ids[0]) for new in out.scheduled_new_reqs]))
            counts = engine.scheduler.get_request_counts()
            stats = engine.scheduler.make_stats()
            steps.append((counts, stats.num_running_reqs, stats.num_waiting_reqs))
        return steps

    for number, (a, b) in enumerate(zip(scheduled(scheduling.Scheduler), scheduled(Scheduler))):
        assert a == b, f"step {number // 2}"


def test_a_cached_prefix_is_found_and_counted(tmp_path):
    engine = Engine(tmp_path, blocks=100)
    engine.add("a", range(100), 2)
    engine.run()
    engine.scheduler.make_stats()
    request = engine.add("b", [*range(96), 7, 7], 2)
    out = engine.step()
    assert out.scheduled_new_reqs[0].num_computed_tokens == 96 and out.num_scheduled_tokens == {"b": 2}
    assert engine.scheduler.kv_cache_manager.get_block_ids("b")[0][:6] == engine.outs[0].scheduled_new_reqs[0].block_ids[0][:6]
    engine.run()
    assert request.num_tokens == 100
    asks = Engine(tmp_path, blocks=100)
    for name in "ab":
        asks.add(name, range(100), 2, params=SamplingParams(max_tokens=2, ignore_eos=True, skip_reading_prefix_cache=True))
        asks.run()
    assert [out.scheduled_new_reqs[0].num_computed_tokens for out in asks.outs if out.scheduled_new_reqs] == [0, 0]


def test_adapters_and_salts_share_nothing_and_adapters_are_limited(tmp_path):
    engine = Engine(tmp_path, blocks=100, lora=SimpleNamespace(max_loras=1))
    one, two = (LoRARequest(f"adapter{i}", i, f"/adapters/{i}") for i in (1, 2))
    for name, options in {"plain": {}, "one": {"lora_request": one}, "again": {"lora_request": one}, "two": {"lora_request": two},
                          "salt": {"cache_salt": "s"}}.items():
        engine.add(name, range(64), 4, **options)
    together = []
    while engine.scheduler.has_unfinished_requests():
        names = set(engine.step().num_scheduled_tokens)
        assert not ({"one", "again"} & names and "two" in names)
        together.append(names)
    assert {"plain", "one", "again", "salt"} in together
    assert {new.req_id: new.num_computed_tokens for out in engine.outs for new in out.scheduled_new_reqs} == {
        "plain": 0, "one": 0, "again": 48, "two": 0, "salt": 0}
    engine.add("last", range(64), 1, lora_request=two)
    assert engine.step().scheduled_new_reqs[0].num_computed_tokens == 48


def test_priorities(tmp_path):
    engine = Engine(tmp_path, policy="priority", running=2)
    for name, priority in (("low", 9), ("mid", 5), ("high", 0), ("late", 0)):
        engine.add(name, range(20), 2, priority=priority)
    assert set(engine.step().num_scheduled_tokens) == {"high", "late"}
    engine.run()
    assert list(engine.ended) == ["high", "late", "mid", "low"]
    for name, arrival in (("third", 3.0), ("first", 1.0), ("second", 2.0)):
        engine.add(name, range(20), 2, arrival_time=arrival)
    assert [request.request_id for request in engine.scheduler.waiting] == ["first", "second", "third"]
    assert set(engine.step().num_scheduled_tokens) == {"first", "second"}


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_paused(tmp_path, kind):
    engine = Engine(tmp_path, kind=kind, running=2)
    texts = prompts(random.Random(0), 5)
    for i in range(3):
        engine.add(str(i), texts[i], 20)
    for _ in range(3):
        engine.step()
    scheduler = engine.scheduler
    scheduler.set_pause_state(PauseState.PAUSED_ALL)
    assert scheduler.get_num_unfinished_requests() == 0
    engine.add("3", texts[3], 20)
    assert engine.step().total_num_scheduled_tokens == 0 and engine.step().total_num_scheduled_tokens == 0
    scheduler.set_pause_state(PauseState.PAUSED_NEW)
    engine.add("4", texts[4], 20)
    while scheduler.has_unfinished_requests():
        assert set(engine.step().num_scheduled_tokens) <= {"0", "1"}
    assert scheduler.get_request_counts() == (0, 3)
    scheduler.finish_requests("3", RequestStatus.FINISHED_ABORTED)
    scheduler.set_pause_state(PauseState.UNPAUSED)
    engine.run()
    assert [len(engine.tokens[str(i)]) for i in range(5)] == [20, 20, 20, 0, 20]
    assert all(engine.tokens[str(i)] == expected(texts[i], 20) for i in (0, 1, 2, 4))
    assert [name for out in engine.outs for name in (new.req_id for new in out.scheduled_new_reqs)] == ["0", "1", "2", "4"]


@pytest.mark.parametrize("kind", KINDS)
def test_reset_of_the_prefix_cache(tmp_path, kind):
    """With running requests these are computed again, from their first token, and get the same tokens."""
    engine = Engine(tmp_path, kind=kind, blocks=200, running=4)
    texts = prompts(random.Random(1), 8)
    for i, text in enumerate(texts):
        engine.add(str(i), text, 40)
    for _ in range(12):
        engine.step()
    assert engine.scheduler.reset_prefix_cache(reset_running_requests=True)
    assert len(engine.scheduler.running) == 0 and len(engine.scheduler.waiting) == 8
    out = engine.step()
    assert set(out.num_scheduled_tokens) == {"0", "1", "2", "3"} or len(out.num_scheduled_tokens) < 4
    assert all(first == 0 for first in out.scheduled_cached_reqs.num_computed_tokens)
    for _ in range(3):
        engine.step()
    assert engine.scheduler.reset_prefix_cache()  # while they run
    engine.run()
    for i, text in enumerate(texts):
        assert engine.tokens[str(i)] == expected(text, 40)


class Grammar:
    """Accepts all tokens."""

    def accept_tokens(self, request_id, tokens):
        return True

    def validate_tokens(self, tokens):
        return tokens

    def is_terminated(self):
        return False

    def rollback(self, count):
        pass


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_requests_wait_for_their_grammars(tmp_path, kind):
    engine = Engine(tmp_path, kind=kind, running=2)
    requests = {name: engine.add(name, range(10 + i), 5, params=SamplingParams(max_tokens=5, ignore_eos=True, structured_outputs=structured))
                for i, (name, structured) in enumerate({"a": StructuredOutputsParams(regex="a+"), "b": None, "c": StructuredOutputsParams(regex="("),
                                                        "d": None}.items())}
    assert set(engine.step().num_scheduled_tokens) == {"b", "d"}
    stats = engine.scheduler.make_stats()
    assert (stats.num_running_reqs, stats.num_waiting_reqs, stats.num_skipped_waiting_reqs) == (2, 0, 2)
    requests["a"].structured_output_request.grammar = Grammar()
    requests["c"].structured_output_request.grammar = ValueError("no such regex")
    engine.scheduler.structured_output_manager.should_advance = lambda request, *args, **options: request.use_structured_output
    engine.run()
    assert {name: len(tokens) for name, tokens in engine.tokens.items()} == {"a": 5, "b": 5, "c": 0, "d": 5}
    assert engine.ended["c"] == FinishReason.ERROR and "no such regex" in engine.errors["c"].message
    first = next(out for out in engine.outs if "a" in out.num_scheduled_tokens)
    assert first.has_structured_output_requests
    later = [out.pending_structured_output_tokens for out in engine.outs if "a" in out.num_scheduled_tokens]
    assert any(later) == (kind == "async")


def test_what_cannot_run_ends_with_an_error(tmp_path):
    engine = Engine(tmp_path, blocks=11)
    engine.add("small", range(20), 5)
    engine.add("large", range(300), 5)
    engine.add("grows", range(150), 100)
    with pytest.raises(ValueError, match="request small exists"):
        engine.add("small", range(3), 1)
    engine.add("stream", range(9), 5, resumable=True)
    engine.tokens["small"] = []
    engine.run()
    assert {name: str(reason) for name, reason in engine.ended.items()} == {"small": "length", "large": "error", "grows": "error", "stream": "error"}
    assert "more blocks" in engine.errors["grows"].message and "streaming input" in engine.errors["stream"].message
    assert engine.scheduler.get_request_counts() == (0, 0) and not engine.scheduler.requests


def test_more_requests_than_the_library_keeps_wait_outside(tmp_path, monkeypatch):
    monkeypatch.setattr("kvcache.integrations.vllm_scheduler._MOST_REQUESTS", 5)
    engine = Engine(tmp_path, running=3)
    texts = prompts(random.Random(2), 20)
    for i, text in enumerate(texts):
        engine.add(str(i), text, 5)
    assert engine.scheduler.get_request_counts() == (0, 20)
    engine.scheduler.finish_requests(["18"], RequestStatus.FINISHED_ABORTED)
    engine.run()
    assert list(map(int, engine.ended)) == sorted(set(range(20)) - {18})
    assert all(engine.tokens[str(i)] == expected(text, 5) for i, text in enumerate(texts) if i != 18)


def test_long_prompts_are_cut(tmp_path):
    engine = Engine(tmp_path, changes={"long_prefill_token_threshold": 32}, blocks=100)
    engine.add("a", range(100), 3)
    engine.add("b", range(100, 200), 3)
    assert engine.step().num_scheduled_tokens == {"a": 32, "b": 32}
    engine.run()
    assert engine.tokens["a"] == expected(range(100), 3)


def test_shutdown_frees_the_library(tmp_path):
    engine = Engine(tmp_path)
    engine.add("a", range(40), 10)
    engine.step()
    engine.scheduler.shutdown()
    with pytest.raises(ValueError, match="closed"):
        engine.scheduler.planner.stats()


REFUSED = {  # what is set in the configuration: a part of the text
    "kv_transfer_config": "--kv-transfer-config (a KV connector): drop --scheduler-cls",
    "ec_transfer_config": "--ec-transfer-config",
    "kv_events_config": "--kv-events-config with enable_kv_cache_events: drop --scheduler-cls and use KVCACHE_VLLM=1",
    "aux_output_config.enabled": "routed experts",
    "observability_config.kv_cache_metrics": "--kv-cache-metrics: drop it",
    "parallel_config.pipeline_parallel_size": "--pipeline-parallel-size 2: use 1",
    "parallel_config.decode_context_parallel_size": "--decode-context-parallel-size 2: use 1",
    "parallel_config.prefill_context_parallel_size": "--prefill-context-parallel-size 2: use 1",
    "scheduler_config.enable_chunked_prefill": "--no-enable-chunked-prefill: drop it",
    "scheduler_config.long_prefill_token_threshold_adaptive": "--long-prefill-token-threshold-adaptive: drop it",
    "scheduler_config.prefill_schedule_interval": "--prefill-schedule-interval 2: use 1",
    "model_config.runner_type": "--runner pooling",
    "model_config.is_encoder_decoder": "encoder-decoder",
    "model_config.is_diffusion": "diffusion",
    "model_config.supports_multimodal_inputs": "images, video or audio: pass --language-model-only",
    "num_lookahead_tokens": "speculative decoding by 'ngram', whose drafts have keys and values of their own: use method ngram",
}


class Changed:
    """A configuration with one field changed."""

    def __init__(self, of, path, value):
        self._of, (name, *rest) = of, path
        self._name, self._value = name, Changed(getattr(of, name), rest, value) if rest else value

    def __getattr__(self, name):
        return self._value if name == self._name else getattr(self._of, name)


@pytest.mark.parametrize("field", REFUSED)
def test_options_that_are_not_served_are_refused(tmp_path, field):
    speculation = SpeculativeConfig(method="ngram", num_speculative_tokens=2, prompt_lookup_max=4, prompt_lookup_min=2)
    config = engine_config(tmp_path, max_num_seqs=4, max_num_batched_tokens=128, max_model_len=LENGTH, speculative_config=speculation)
    config.cache_config.num_gpu_blocks = 50
    values = {"kv_events_config": SimpleNamespace(enable_kv_cache_events=True), "scheduler_config.enable_chunked_prefill": False,
              "model_config.runner_type": "pooling"}
    value = values.get(field, 2 if "size" in field or "interval" in field or "lookahead" in field else True)
    with pytest.raises(UnsupportedError) as caught:
        Scheduler(vllm_config=Changed(config, field.split("."), value), kv_cache_config=layout(50, BLOCK), block_size=BLOCK, structured_output_manager=None)
    assert REFUSED[field] in str(caught.value)


def test_drafts_with_asynchronous_scheduling_and_states_are_refused(tmp_path):
    speculation = SpeculativeConfig(method="ngram_gpu", num_speculative_tokens=2, prompt_lookup_max=4, prompt_lookup_min=2)
    config = engine_config(tmp_path, max_num_seqs=4, max_num_batched_tokens=128, max_model_len=LENGTH, async_scheduling=True, speculative_config=speculation)
    config.cache_config.num_gpu_blocks = 50
    with pytest.raises(UnsupportedError, match="--no-async-scheduling"):
        Scheduler(vllm_config=config, kv_cache_config=layout(50, BLOCK), block_size=BLOCK, structured_output_manager=None)
    with pytest.raises(UnsupportedError, match="Mamba"):
        Engine(tmp_path, kinds=(0, ("state", 0)))
    with pytest.raises(UnsupportedError, match="max_num_seqs 16"):
        Engine(tmp_path, changes={"max_num_scheduled_tokens": 8})


def test_vllms_engine_core_loads_it(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "VLLM_LOGGING_LEVEL": "INFO"}
    run = subprocess.run([sys.executable, str(HERE / "vllm_engine_core.py"), "kvcache.integrations.vllm.Scheduler"], env=environment, capture_output=True,
                         text=True)
    assert run.returncode == 0, run.stderr[-3000:]
    answer = json.loads(next(line for line in run.stdout.splitlines() if line.startswith("{")))
    assert answer["tokens"] == 140 and answer["manager"] == "kvcache.integrations.vllm_scheduler.PlannedBlocks" and answer["scheduler"] == "Scheduler"
    assert "its Scheduler runs in place of vLLM's" in run.stdout + run.stderr
