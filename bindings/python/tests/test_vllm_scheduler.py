# SPDX-License-Identifier: Apache-2.0
"""vLLM's own schedulers with our KVCacheManager in place of its own: every step must be the same. Skipped where vLLM is not installed."""

import json
import math
import os
import random
from collections import deque

import pytest

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
pytest.importorskip("vllm.v1.core.sched.scheduler", reason="vLLM is not installed", exc_type=ImportError)
pytest.importorskip("vllm.model_executor.models.llama", reason="vLLM's models lack a dependency", exc_type=ImportError)

import vllm.v1.core.sched.scheduler as scheduling  # noqa: E402
from vllm.config import KVTransferConfig, SpeculativeConfig  # noqa: E402
from vllm.v1.core.sched.async_scheduler import AsyncScheduler  # noqa: E402
from vllm.v1.outputs import DraftTokenIds, KVConnectorOutput  # noqa: E402
from vllm.v1.structured_output import StructuredOutputManager  # noqa: E402
from vllm_doubles import CountedTokens  # noqa: E402
from vllm_engine import BLOCK, MODEL, engine_config, layout, model_output  # noqa: E402
from vllm_real import KVCacheManager, VllmManager, hasher, make_request  # noqa: E402

from kvcache.integrations.vllm import _Coordinator  # noqa: E402

BLOCKS, LENGTH, DRAFTS = 40, 512, 3
# name: steps that are scheduled ahead of the outputs (0: the plain scheduler), draft tokens
KINDS = {"plain": (0, 0), "async_1": (1, 0), "async_2": (2, 0), "plain_drafts": (0, DRAFTS), "async_1_drafts": (1, DRAFTS), "async_2_drafts": (2, DRAFTS)}


def config_of(folder, depth, drafts, connector=None, caching=True):
    options = {"kv_transfer_config": connector, "caching": caching}
    if drafts:
        options["speculative_config"] = SpeculativeConfig(method="ngram_gpu" if depth else "ngram", num_speculative_tokens=drafts,
                                                          prompt_lookup_max=4, prompt_lookup_min=2)
    return engine_config(folder, max_num_seqs=16, max_num_batched_tokens=128, max_model_len=LENGTH, async_scheduling=depth > 0, **options)


def eagle_of(folder, depth, lookahead_hashes, caching=True):
    """A configuration with a drafter of EAGLE's family, of whose hashes vLLM 0.33 looks one token ahead unless lookahead_hashes is False."""
    (folder / "draft").mkdir()
    (folder / "draft" / "config.json").write_text(json.dumps({**MODEL, "architectures": ["EagleLlamaForCausalLM"], "num_hidden_layers": 1,
                                                              "max_position_embeddings": LENGTH}))
    target = config_of(folder, depth, 0)
    drafter = SpeculativeConfig(method="eagle", model=str(folder / "draft"), num_speculative_tokens=DRAFTS, target_model_config=target.model_config,
                                target_parallel_config=target.parallel_config, disable_lookahead_block_hashes=not lookahead_hashes)
    return engine_config(folder, max_num_seqs=16, max_num_batched_tokens=128, max_model_len=LENGTH, async_scheduling=depth > 0, caching=caching,
                         speculative_config=drafter)


@pytest.fixture(params=KINDS)
def kind(request, tmp_path):
    """(depth, a VllmConfig)"""
    depth, drafts = KINDS[request.param]
    return depth, config_of(tmp_path, depth, drafts)


class Engine:
    """A scheduler and its queue of steps in flight, with a model that samples the token 200 + number of the request."""

    def __init__(self, kind, manager, monkeypatch, groups=(0,), blocks=BLOCKS, seed=0):
        self.depth, config = kind
        monkeypatch.setattr(scheduling, "KVCacheManager", manager)
        config.cache_config.num_gpu_blocks = blocks
        groups = layout(blocks, BLOCK, groups)
        size = math.lcm(*(group.kv_cache_spec.block_size for group in groups.kv_cache_groups))
        scheduler = AsyncScheduler if self.depth else scheduling.Scheduler
        self.scheduler = scheduler(vllm_config=config, kv_cache_config=groups, block_size=size, log_stats=True,
                                   structured_output_manager=StructuredOutputManager(config))
        self.drafts = config.num_speculative_tokens
        self.rng, self.flying = random.Random(seed), deque()

    def step(self):
        """Schedules a step and handles the output of an earlier one. Returns what was scheduled."""
        scheduler = self.scheduler
        out = scheduler.schedule()
        sampled = []
        for id in out.num_scheduled_tokens:
            count = 1 + self.rng.randint(0, len(out.scheduled_spec_decode_tokens.get(id, ())))  # drafts that are right, and one more
            sampled.append([200 + int(id)] * (0 if scheduler.requests[id].is_prefill_chunk else count))
        output = model_output(out, sampled)
        if scheduler.connector is not None:
            output.kv_connector_output = KVConnectorOutput(finished_recving=scheduler.connector.arrived())
        self.flying.append((out, output))
        if len(self.flying) > self.depth:
            done, result = self.flying.popleft()
            scheduler.update_from_output(done, result)
            if self.drafts and not self.depth:
                ids = [id for id in done.num_scheduled_tokens if id in scheduler.requests]
                scheduler.update_draft_token_ids(DraftTokenIds(ids, [[200 + int(id)] * self.rng.randint(0, self.drafts) for id in ids]))
        return out


def steps(kind, manager, monkeypatch, seed, length=400, tail=40, groups=(0,), shares=True, blocks=BLOCKS):
    """Everything that these steps decide, and the manager at their end. A draft's block may become free without having been published; of several
    such blocks the managers take different ones first, so with drafts the blocks are counted."""
    engine = Engine(kind, manager, monkeypatch, groups, blocks, seed)
    scheduler, rng, log, number = engine.scheduler, random.Random(seed), [], 0
    block_hasher = hasher(BLOCK, ahead=getattr(scheduler, "num_hash_lookahead_tokens", 0))

    def shown(tables):
        return [len(ids) for ids in tables] if tables and (engine.drafts or groups != (0,)) else tables

    for _ in range(length):
        if number < 60 and rng.random() < 0.4:
            shared = [rng.randrange(2) for _ in range(2)] if shares else []
            tokens = [token for token in shared for _ in range(3 * BLOCK)] + [100 + number] * rng.randint(1, tail)
            request = make_request(str(number), tokens, block_hasher)
            request.max_tokens, request.sampling_params.ignore_eos = rng.randint(1, 60), True
            scheduler.add_request(request)
            number += 1
        out = engine.step()
        log.append((dict(out.num_scheduled_tokens), [(new.req_id, shown(new.block_ids), new.num_computed_tokens) for new in out.scheduled_new_reqs],
                    out.scheduled_cached_reqs.req_ids, [shown(ids) for ids in out.scheduled_cached_reqs.new_block_ids], round(scheduler.kv_cache_manager.usage, 9)))
    stats = scheduler.make_stats()
    log.append((stats.prefix_cache_stats.queries, stats.prefix_cache_stats.hits, stats.kv_cache_usage))
    return log, scheduler.kv_cache_manager


@pytest.mark.parametrize("seed", range(3))
def test_every_step_of_vllms_scheduler_is_the_same(kind, monkeypatch, seed):
    theirs, _ = steps(kind, VllmManager, monkeypatch, seed)
    ours, manager = steps(kind, KVCacheManager, monkeypatch, seed)
    for number, (a, b) in enumerate(zip(theirs, ours)):
        assert a == b, f"step {number}"
    stats = manager.manager.stats
    assert stats.readmissions > 5 and stats.evictions > 50 and stats.block_hits > 100  # preemption, eviction and sharing took part
    manager.manager.check()


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("lookahead_hashes, caching", [(True, True), (False, True), (True, False)])
def test_every_step_with_a_drafter_that_looks_ahead_is_the_same(depth, lookahead_hashes, caching, tmp_path, monkeypatch):
    config = eagle_of(tmp_path, depth, lookahead_hashes, caching)
    assert (config.num_prefill_lookahead_tokens, config.num_hash_lookahead_tokens) == (1, int(lookahead_hashes and caching))
    theirs, _ = steps((depth, config), VllmManager, monkeypatch, 0)
    ours, manager = steps((depth, config), KVCacheManager, monkeypatch, 0)
    for number, (a, b) in enumerate(zip(theirs, ours)):
        assert a == b, f"step {number}"
    stats = manager.manager.stats
    assert stats.readmissions > 5 and (not caching or stats.evictions > 50 and stats.block_hits > 100)
    manager.manager.check()


@pytest.mark.parametrize("depth, drafts", KINDS.values())
@pytest.mark.parametrize("groups", [(0, ("mamba", LENGTH, 0)), (("mamba", LENGTH, 1), 0)])
def test_every_step_with_states_that_are_not_cached_is_the_same(depth, drafts, groups, tmp_path, monkeypatch):
    kind = depth, config_of(tmp_path, depth, drafts, caching=False)
    theirs, _ = steps(kind, VllmManager, monkeypatch, depth, groups=groups)
    ours, manager = steps(kind, KVCacheManager, monkeypatch, depth, groups=groups)
    for number, (a, b) in enumerate(zip(theirs, ours)):
        assert a == b, f"step {number}"
    stats = manager.manager.stats
    assert stats.admissions > 10 and stats.refusals > 5
    manager.manager.check()


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("groups", [(0, ("state", 0)), (("state", BLOCK), 0, 48, ("state", BLOCK))])
def test_every_step_with_states_is_the_same(depth, groups, tmp_path, monkeypatch):
    """There is room for all, and prompts share nothing: ours takes free blocks in another order. With asynchronous
    scheduling ours returns states when the output of a step comes, vLLM when the request is scheduled again."""
    kind = depth, config_of(tmp_path, depth, 0)
    kind[1].cache_config.mamba_cache_mode = "align"
    logs = []
    for which in VllmManager, KVCacheManager:
        log, manager = steps(kind, which, monkeypatch, depth, groups=groups, shares=False, tail=300, blocks=4000)
        logs.append([entry[:-1] if depth else entry for entry in log])
    for number, (a, b) in enumerate(zip(*logs)):
        assert a == b, f"step {number}"
    assert manager.manager.stats.admissions == 60
    manager.manager.check()


@pytest.mark.parametrize("depth, drafts", KINDS.values())
def test_every_step_with_asynchronous_loads_of_a_connector_is_the_same(depth, drafts, tmp_path, monkeypatch):
    """The blocks that other requests may still need are reserved: vLLM's scheduler asks the coordinator for their number.
    Prompts share nothing: a block that is loaded twice is kept once by ours."""
    kind = depth, config_of(tmp_path, depth, drafts, KVTransferConfig(kv_connector="Loads", kv_role="kv_both", kv_connector_module_path="vllm_connector"))
    theirs, _ = steps(kind, VllmManager, monkeypatch, depth, 300, 300, shares=False)
    asked, ask = [], _Coordinator.get_num_blocks_to_allocate
    monkeypatch.setattr(_Coordinator, "get_num_blocks_to_allocate", lambda *args, **options: asked.append(ask(*args, **options)) or asked[-1])
    ours, manager = steps(kind, KVCacheManager, monkeypatch, depth, 300, 300, shares=False)
    for number, (a, b) in enumerate(zip(theirs, ours)):
        assert a == b, f"step {number}"
    assert len(asked) > 10 and max(asked) > 0, asked
    manager.manager.check()


@pytest.mark.parametrize("groups", [(0,), (0, 48), (0, ("chunk", 64))])
def test_decoding_reads_each_token_once(kind, monkeypatch, groups):
    """Whatever the context, a step may read the tokens that are new, not those before them."""
    engine, prompt, requests = Engine(kind, KVCacheManager, monkeypatch, groups, blocks=200), 300, []
    for number in range(4):
        request = make_request(str(number), [number] * prompt, None)
        request.sampling_params.ignore_eos = True
        engine.scheduler.add_request(request)
        requests.append(request)
    while any(request.num_computed_tokens < prompt for request in requests):
        engine.step()
    counted = [CountedTokens(request._all_token_ids) for request in requests]
    for request, tokens in zip(requests, counted):
        request.all_token_ids = request._all_token_ids = tokens
    before = [request.num_tokens for request in requests]
    for _ in range(100):
        engine.step()
    for request, tokens, known in zip(requests, counted, before):
        assert request.num_tokens > known + 90
        assert request.num_tokens - known - 2 * BLOCK <= tokens.read <= request.num_tokens - known + 2 * BLOCK
    engine.scheduler.kv_cache_manager.manager.check()
