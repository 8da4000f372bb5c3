# SPDX-License-Identifier: Apache-2.0
"""A process with vLLM's engine core, which loads vLLM's plug-ins as the one that `vllm serve` spawns. A stub stands in for the model runner.
It runs one request to its end and prints, as JSON, what has managed its blocks. An argument is the value of --scheduler-cls."""

import json
import sys
import tempfile
import time

from vllm.config.logging import LoggingConfig
from vllm.logger import configure_logging
from vllm.sampling_params import SamplingParams
from vllm.v1.engine import EngineCoreRequest
from vllm.v1.engine.core import EngineCore
from vllm.v1.executor.abstract import Executor
from vllm_engine import BLOCK, FullAttentionSpec, engine_config, model_output, torch


class NoModel(Executor):
    """An executor whose workers compute nothing."""

    def _init_executor(self):
        pass

    def check_health(self):
        pass

    def collective_rpc(self, method, *args, **kwargs):
        return []

    def get_kv_cache_specs(self):
        return [{"layer0": FullAttentionSpec(block_size=BLOCK, num_kv_heads=2, head_size=16, dtype=torch.float32)}]

    def get_supported_kv_cache_layouts(self):
        return [["NHD"]]

    def determine_available_memory(self):
        return [1 << 22]


def main():
    configure_logging(LoggingConfig())
    with tempfile.TemporaryDirectory() as folder:
        config = engine_config(folder, max_num_seqs=16, max_num_batched_tokens=128, max_model_len=512, async_scheduling=True)
        if len(sys.argv) > 1:
            config.scheduler_config.scheduler_cls = sys.argv[1]
        core = EngineCore(config, NoModel, log_stats=True)
    parameters = SamplingParams(max_tokens=40, ignore_eos=True)
    request, wave = core.preprocess_add_request(EngineCoreRequest("a", list(range(100)), None, parameters, None, time.time(), None, None, None))
    core.add_request(request, wave)
    steps = 0
    while core.scheduler.has_unfinished_requests():
        out = core.scheduler.schedule()
        sampled = [[5] if not core.scheduler.requests[id].is_prefill_chunk else [] for id in out.num_scheduled_tokens]
        core.scheduler.update_from_output(out, model_output(out, sampled))
        steps += 1
    manager = type(core.scheduler.kv_cache_manager)
    print(json.dumps({"manager": f"{manager.__module__}.{manager.__name__}", "scheduler": type(core.scheduler).__name__, "steps": steps,
                      "tokens": request.num_tokens, "block_hashes": len(request.block_hashes)}))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
