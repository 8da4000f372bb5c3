# SPDX-License-Identifier: Apache-2.0
"""vLLM's own scheduler with our KVCacheManager in place of its own: every step must be the same. Skipped where vLLM is not installed."""

import json
import os
import random

import pytest

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
pytest.importorskip("vllm.v1.core.sched.scheduler", reason="vLLM is not installed", exc_type=ImportError)
pytest.importorskip("vllm.model_executor.models.llama", reason="vLLM's models lack a dependency", exc_type=ImportError)

import vllm.v1.core.sched.scheduler as scheduling  # noqa: E402
from vllm.config import CacheConfig, DeviceConfig, ModelConfig, ParallelConfig, SchedulerConfig, VllmConfig  # noqa: E402
from vllm.v1.outputs import ModelRunnerOutput  # noqa: E402
from vllm.v1.structured_output import StructuredOutputManager  # noqa: E402
from vllm_real import KVCacheManager, VllmManager, hasher, layout, make_request  # noqa: E402

BLOCK, BLOCKS, LENGTH = 16, 40, 512
MODEL = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=1000, hidden_size=64, intermediate_size=96,
             num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=LENGTH, dtype="float32")


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text(json.dumps(MODEL))
    return VllmConfig(
        model_config=ModelConfig(model=str(folder), tokenizer=str(folder), skip_tokenizer_init=True, dtype="float32", max_model_len=LENGTH),
        scheduler_config=SchedulerConfig(max_num_seqs=16, max_num_batched_tokens=128, max_model_len=LENGTH, enable_chunked_prefill=True,
                                         is_encoder_decoder=False, async_scheduling=False),
        cache_config=CacheConfig(block_size=BLOCK, enable_prefix_caching=True), device_config=DeviceConfig("cpu"),
        parallel_config=ParallelConfig())


def steps(config, manager, monkeypatch, seed):
    """Everything that 400 steps decide, and the manager at their end."""
    monkeypatch.setattr(scheduling, "KVCacheManager", manager)
    config.cache_config.num_gpu_blocks = BLOCKS
    scheduler = scheduling.Scheduler(vllm_config=config, kv_cache_config=layout(BLOCKS, BLOCK), block_size=BLOCK, log_stats=True,
                                     structured_output_manager=StructuredOutputManager(config))
    rng, block_hasher, log, number = random.Random(seed), hasher(BLOCK), [], 0
    for _ in range(400):
        if number < 60 and rng.random() < 0.4:
            shared = [rng.randrange(2) for _ in range(2)]
            tokens = [token for token in shared for _ in range(3 * BLOCK)] + [100 + number] * rng.randint(1, 40)
            request = make_request(str(number), tokens, block_hasher)
            request.max_tokens, request.sampling_params.ignore_eos = rng.randint(1, 60), True
            scheduler.add_request(request)
            number += 1
        out = scheduler.schedule()
        log.append((dict(out.num_scheduled_tokens), [(new.req_id, new.block_ids, new.num_computed_tokens) for new in out.scheduled_new_reqs],
                    out.scheduled_cached_reqs.req_ids, out.scheduled_cached_reqs.new_block_ids, round(scheduler.kv_cache_manager.usage, 9)))
        ids = list(out.num_scheduled_tokens)
        running = [scheduler.requests[id] for id in ids]
        sampled = [[200 + int(r.request_id)] if r.num_computed_tokens >= r.num_tokens else [] for r in running]
        scheduler.update_from_output(out, ModelRunnerOutput(
            req_ids=ids, req_id_to_index={id: i for i, id in enumerate(ids)}, sampled_token_ids=sampled, logprobs=None,
            prompt_logprobs_dict={}, pooler_output=[]))
    stats = scheduler.make_stats()
    log.append((stats.prefix_cache_stats.queries, stats.prefix_cache_stats.hits, stats.kv_cache_usage))
    return log, scheduler.kv_cache_manager


@pytest.mark.parametrize("seed", range(3))
def test_every_step_of_vllms_scheduler_is_the_same(config, monkeypatch, seed):
    theirs, _ = steps(config, VllmManager, monkeypatch, seed)
    ours, manager = steps(config, KVCacheManager, monkeypatch, seed)
    for number, (a, b) in enumerate(zip(theirs, ours)):
        assert a == b, f"step {number}"
    stats = manager.manager.stats
    assert stats.readmissions > 5 and stats.evictions > 50 and stats.block_hits > 100  # preemption, eviction and sharing took part
    manager.manager.check()
