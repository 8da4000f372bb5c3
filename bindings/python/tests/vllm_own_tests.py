# SPDX-License-Identifier: Apache-2.0
"""vLLM's own tests of its scheduler, with kvcache.integrations.vllm.Scheduler in its place.

    python bindings/python/tests/vllm_own_tests.py FOLDER [options of pytest]

FOLDER has the `tests` of vLLM's source distribution, of the same version. A test that needs what the Scheduler refuses is skipped and says what that is.
LEFT_OUT names the tests that look at vLLM's own parts instead of behaviour, or at behaviour in which the Scheduler differs, as docs/INTEGRATIONS.md says."""

import functools
import json
import os
import pathlib
import sys
import tempfile

import pytest

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

from vllm.config import DeviceConfig  # noqa: E402

from kvcache import UnsupportedError  # noqa: E402
from kvcache.integrations.vllm import Scheduler  # noqa: E402

FILES = ("test_scheduler.py", "test_async_scheduler.py", "test_priority_preemption_bug.py", "test_priority_scheduler_random.py")
OPT = dict(architectures=["OPTForCausalLM"], model_type="opt", vocab_size=50272, hidden_size=768, ffn_dim=3072, num_hidden_layers=12, num_attention_heads=12,
           max_position_embeddings=2048, word_embed_proj_dim=768, torch_dtype="float16")
_BY_HAND = "puts requests or outputs into vLLM's scheduler by hand, without a plan"
_TWO = "schedules a step before the output of the last one, without asynchronous scheduling"
LEFT_OUT = {
    "test_update_from_output_routes_sampling_masks_by_request": _BY_HAND,
    "test_update_from_output_routes_multi_position_sampling_masks": _BY_HAND,
    "test_stop_via_update_from_output": _BY_HAND,
    "test_preemption_re_records_prefix_cache_query": _BY_HAND,
    "test_aux_output_reset_follows_kv_reset_result": _BY_HAND,
    "test_schedule_concurrent_batches": _TWO,
    "test_preempt_during_execution": _TWO,
    "test_streaming_lookahead_hashes_follow_recomputed_kv": "hashes of streaming input; its model would be fetched",
    "test_pause_new_ignores_streaming_session_waiting_for_input": "streaming input",
    "test_max_loras_counts_running_request_skipped_for_encoder_budget": "images",
    "test_throttle_capacity_bound_guard_admits": "prefills that wait for those of other replicas",
    "test_long_prefill_threshold_ignored_when_alone": "the threshold also holds for a request that is alone",
    "test_spec_decoding_stats_empty_output": "a request that samples gets no token",
    "test_spec_decode_padding_first_decode_step": "decodes are not padded with drafts",
    "test_memory_leak": "looks into vLLM's KVCacheManager",
    "test_grammar_compile_error_finishes_only_request": "its model would be fetched, with a tokenizer",
    "test_abort_request_when_structured_output_fsm_cannot_advance": _BY_HAND,
    "test_prefix_caching_for_prefill_dedup": "a block is found when the step that computes it has ended",
    "test_resumable_request_handoff": "streaming input",
    **dict.fromkeys(("test_encoder_cache_rejects_mismatched_embed_count", "test_mamba_align_encoder_cache_cap_makes_progress",
                     "test_mamba_align_eagle_schedules_encoder_at_boundary", "test_drafter_lookahead_encoder_cache_cap_makes_progress",
                     "test_drafter_lookahead_encoder_cache_cap_respects_token_budget", "test_priority_scheduling_blast"), "images"),
    **dict.fromkeys(("test_pending_hisparse_reclamation_defers_preemption", "test_remote_kv_promotion_drains_before_grammar_prefix",
                     "test_fcfs_mixed_blocked_types_remote_load_drains_first", "test_scheduler_kv_connector_stats", "test_scheduler_ec_connector_stats"),
                    "connectors, put in by hand"),
    "test_skip_drafts_only_when_no_request_can_use_them": "drafts with keys and values of their own",
    "test_priority_scheduling_preemption": "its configuration turns asynchronous scheduling on, and its class is the other one",
}


class WithOurs:
    """Puts the Scheduler in the place of vLLM's, and a configuration without weights in that of a model that would be fetched."""

    def __init__(self, model):
        self.model = model

    def pytest_sessionstart(self, session):
        from tests.v1.core import utils

        config = utils.ModelConfig

        def local(**options):
            if "llava" in options["model"]:
                pytest.skip("multimodal: refused, and its configuration would be fetched")
            return config(**{**options, "model": self.model, "tokenizer": self.model, "skip_tokenizer_init": True})

        self.replaced = {"ModelConfig": local, "Scheduler": Scheduler, "AsyncScheduler": Scheduler,
                         "VllmConfig": functools.partial(utils.VllmConfig, device_config=DeviceConfig("cpu"))}
        self.replace(utils)

    def replace(self, module):
        vars(module).update({name: value for name, value in self.replaced.items() if hasattr(module, name)})

    def pytest_collection_modifyitems(self, items):
        for module in {item.module for item in items}:
            self.replace(module)
        for item in items:
            reason = LEFT_OUT.get(item.originalname)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        try:
            return (yield)
        except UnsupportedError as error:
            pytest.skip(str(error))
        except AttributeError as error:
            if "'PlannedBlocks' object has no attribute" not in str(error):
                raise
            pytest.skip(f"looks into vLLM's KVCacheManager: {error}")


def main():
    folder, *options = sys.argv[1:]
    sys.path.insert(0, folder)
    where = pathlib.Path(folder) / "tests/v1/core"
    with tempfile.TemporaryDirectory() as model:
        pathlib.Path(model, "config.json").write_text(json.dumps(OPT))
        return pytest.main(["-q", "-rs", "--noconftest", f"--rootdir={folder}", "-p", "no:cacheprovider", "--import-mode=importlib",
                            *[str(where / name) for name in FILES], *options],
                           plugins=[WithOurs(model)])


if __name__ == "__main__":
    sys.exit(main())
