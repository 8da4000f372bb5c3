# SPDX-License-Identifier: Apache-2.0
"""SGLang's own scheduling and kvcache.Scheduler on the same arrivals, pool and token budget, with a stated time of a step.

    scripts/integrations sglang TRACE
    PYTHONPATH=build/release/python python bindings/python/bench/sglang_arrivals.py TRACE [--load light|heavy|many] [--requests N] [--json]

Options, the time of a step and what host time is are those of vllm_arrivals.py, whose lanes this runs. Of SGLang 0.5.23 it runs, on the CPU and without a
model, what its Scheduler runs before each forward: Scheduler.get_next_batch_to_run() itself, so SchedulePolicy, PrefillAdder, ScheduleBatch with its
allocations, retraction and the ratio of new tokens, over its RadixCache, PagedTokenToKVPoolAllocator and ReqToTokenPool. Not run: its constructor (workers,
processes, metrics), the forward, and process_batch_result(), which needs logits: of that, what changes requests and the cache is in _take() below, with
SGLang's own functions. "sglang" has SGLang's defaults: a step is prefills or decodes. "sglang_mixed" has --enable-mixed-chunk: both in one step. Requests
end by their length; SGLang is not told that they ignore the end of text, so that it predicts their lengths as it does in service.
"""

import array
import contextlib
import io
import json
import os
import sys
import tempfile
from types import SimpleNamespace

import vllm_arrivals

BLOCK = 16
# Of the comparison: three loads over the same time of a step.
COST = "--fixed-us 5000 --token-us 3 --context-us 0.002 --running 256"
LOADS = {
    "light": f"{COST} --requests 500 --speed 4 --tokens 8192 --blocks 120000 --ttft-ms 2000 --full",
    "heavy": f"{COST} --requests 600 --speed 20 --tokens 16384 --blocks 50000 --ttft-ms 8000",
    "many": f"{COST} --requests 600 --speed 100 --tokens 32768 --blocks 230000 --ttft-ms 8000",
}
MODEL = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=1 << 30, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, torch_dtype="float32")


class Sglang:
    mixed = False

    def __init__(self, options, length):
        import torch
        from sglang.srt.configs.model_config import ModelConfig
        from sglang.srt.disaggregation.utils import DisaggregationMode
        from sglang.srt.managers import scheduler as scheduling
        from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
        from sglang.srt.managers.schedule_policy import SchedulePolicy
        from sglang.srt.managers.scheduler_components.new_token_ratio_tracker import NewTokenRatioTracker
        from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
        from sglang.srt.mem_cache.cache_init_params import CacheInitParams
        from sglang.srt.mem_cache.common import checkpoint_kv_cache, release_kv_cache
        from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
        from sglang.srt.mem_cache.radix_cache import RadixCache
        from sglang.srt.runtime_context import publish
        from sglang.srt.sampling.sampling_params import SamplingParams
        from sglang.srt.server_args import ServerArgs
        from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

        self.Req, self.SamplingParams = Req, SamplingParams
        self.checkpoint, self.release = checkpoint_kv_cache, release_kv_cache
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "config.json"), "w") as file:
                json.dump({**MODEL, "max_position_embeddings": length}, file)
            args = ServerArgs(model_path=folder, device="cpu", page_size=BLOCK, attention_backend="torch_native", max_running_requests=options.running,
                              chunked_prefill_size=options.tokens, max_prefill_tokens=options.tokens, schedule_policy="fcfs", skip_tokenizer_init=True,
                              disable_overlap_schedule=True, enable_mixed_chunk=self.mixed,
                              pp_max_micro_batch_size=options.running)
            publish(args, role="scheduler")
            model_config = ModelConfig.from_server_args(args)

        lane = self
        lane.preempted = 0

        class Scheduler(scheduling.Scheduler):
            """With what get_next_batch_to_run() reads, and nothing else."""

            def __init__(self):
                self.req_to_token_pool = ReqToTokenPool(options.running, length, "cpu", False)
                self.token_to_kv_pool_allocator = PagedTokenToKVPoolAllocator(options.blocks * BLOCK, BLOCK, torch.float32, "cpu", None, False)
                self.tree_cache = RadixCache(CacheInitParams(False, self.req_to_token_pool, self.token_to_kv_pool_allocator, BLOCK))
                self.policy = SchedulePolicy(args.schedule_policy, self.tree_cache, False, False, False)
                self.new_token_ratio_tracker = NewTokenRatioTracker.from_config()
                self.waiting_queue, self.running_batch, self.last_batch = [], ScheduleBatch(reqs=[], batch_is_full=False), None
                self.chunked_prefill_size, self.max_prefill_tokens, self.page_size = options.tokens, options.tokens, BLOCK
                self.is_mixed_chunk, self.max_running_requests, self.model_config = lane.mixed, options.running, model_config
                self.spec_algorithm, self.disaggregation_mode = SpeculativeAlgorithm.NONE, DisaggregationMode.NULL
                self.chunked_req = self._pending_chunked_abort_req = self.dllm_config = self.prefill_delayer = self.dynamic_chunk_sizer = None
                self.min_free_slots_delayer = self.truncation_align_size = self.decode_offload_manager = self.hisparse_coordinator = None
                self.max_queued_requests = self.scheduler_stage_metrics = None
                self.enable_hierarchical_cache = self.enable_unified_cache_external_linker = self.enable_lmcache = self.enable_hisparse = False
                self.enable_hicache_storage = self.enable_priority_scheduling = self.enable_priority_preemption = self.is_hybrid_swa = False
                self.enable_lora = self.enable_overlap = self.enable_skip_finishing_decode = self.require_mlp_sync = False
                self.prefill_decode_interval = self._prefill_decode_interval_remaining = self.prefill_decode_interval_min_bs = 0
                self.priority_scheduling_preemption_threshold = self.max_prefill_bs = self.processed_tokens_counter = self.forward_ct = 0
                keep = SimpleNamespace(maybe_prepare_mlp_sync_batch=lambda batch, need_sync=None: batch, maybe_convert_decode_to_extend=lambda batch: batch)
                self.dp_attn_adapter = keep
                self.ngram_embedding_manager = SimpleNamespace(prepare_for_forward=lambda batch, chunked_req=None: batch)
                self.grammar_manager = SimpleNamespace(has_waiting_grammars=lambda: False)
                self.beam_coordinator = SimpleNamespace(pending_member_rows=lambda batch: 0, retire_group=lambda request: None)
                self.metrics_reporter = SimpleNamespace(enable_metrics=False, num_retracted_reqs=0)
                self.load_inquirer = SimpleNamespace(_get_num_pending_tokens=lambda chunk_deduct=0: 0)
                self.tp_worker = SimpleNamespace(model_runner=SimpleNamespace(attn_backend=None, prefill_aware_swa=False))

            def _set_or_validate_priority(self, request):
                return True

            def _prefetch_kvcache(self, request):
                pass

            def _add_request_to_queue(self, request, is_retracted=False):
                lane.preempted += is_retracted
                super()._add_request_to_queue(request, is_retracted)

        self.scheduler, self.host, self.cached, self.c = Scheduler(), 0.0, 0, None
        self.seen = set()

    def add(self, number, tokens, new):
        ids = array.array("q", tokens.tolist())
        params = self.SamplingParams(max_new_tokens=new, temperature=0)
        params.normalize(None)
        self.scheduler._add_request_to_queue(self.Req(str(number), "", ids, params, vocab_size=MODEL["vocab_size"]))

    def step(self, now):
        scheduler, begin = self.scheduler, vllm_arrivals._clock()
        plan = scheduler.get_next_batch_to_run(scheduler.running_batch, scheduler.last_batch)
        scheduler.running_batch, batch = plan.running_batch, plan.batch_to_run
        scheduler.last_batch = batch
        self.host += vllm_arrivals._clock() - begin
        if batch is None:
            return None
        extends = batch.forward_mode.is_extend()
        decodes = set(batch.decoding_reqs or ()) if extends else set(batch.reqs)
        tokens = context = 0
        for request in batch.reqs:
            if request in decodes:
                tokens, context = tokens + 1, context + len(request.origin_input_ids) + len(request.output_ids) - 1
                continue
            tokens, context = tokens + request.extend_end - request.prefix_len, context + request.prefix_len
            if request.rid not in self.seen:
                self.seen.add(request.rid)
                self.cached += request.prefix_len
        begin = vllm_arrivals._clock()
        got = self._take(batch, decodes)
        self.host += vllm_arrivals._clock() - begin
        return tokens, context, got, len(batch.reqs)

    def _take(self, batch, decodes):
        """What process_batch_result_prefill() and process_batch_result_decode() do with requests and the cache; each request gets the token 7."""
        tree, got = self.scheduler.tree_cache, []
        batch.token_to_kv_pool_allocator.free_group_begin()
        for request in batch.reqs:
            if request.inflight_middle_chunks > 0:
                request.inflight_middle_chunks -= 1
                continue
            request.output_ids.append(7)
            request.update_finish_state()
            got.append(int(request.rid))
            if request.finished():
                self.release(request, tree, checkpoint=True)
            elif request not in decodes:
                self.checkpoint(request, tree)
        batch.token_to_kv_pool_allocator.free_group_end()
        return got

    def counts(self, prompt_tokens):
        return {"preemptions": self.preempted, "hit_rate": round(self.cached / prompt_tokens, 4)}

    def close(self):
        pass


class SglangMixed(Sglang):
    mixed = True


vllm_arrivals.KINDS.update(sglang=Sglang, sglang_mixed=SglangMixed)


def main():
    if "--load" in sys.argv:
        at = sys.argv.index("--load")
        sys.argv[at: at + 2] = LOADS[sys.argv[at + 1]].split()
    if "--kinds" not in sys.argv:
        sys.argv += ["--kinds", "sglang,sglang_mixed,ours"]
    with contextlib.redirect_stderr(io.StringIO()):
        import sglang.srt.managers.scheduler  # noqa: F401  tells about kernels that are not installed
    vllm_arrivals.main()


if __name__ == "__main__":
    main()
