# SPDX-License-Identifier: Apache-2.0
"""Configurations and outputs of vLLM's engine, made the way vLLM makes them, without importing kvcache. Importing this needs vLLM."""

import json
import os

import torch
from vllm.config import CacheConfig, DeviceConfig, ModelConfig, ParallelConfig, SchedulerConfig, VllmConfig
from vllm.v1.kv_cache_interface import (ChunkedLocalAttentionSpec, CrossAttentionSpec, FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, MambaSpec,
                                        SlidingWindowSpec)
from vllm.v1.outputs import ModelRunnerOutput

BLOCK = 16
MODEL = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=1000, hidden_size=64, intermediate_size=96,
             num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, dtype="float32")


def spec(kind, block_size):
    """The specification of a group: 0 is full attention, a number a window of so many tokens, ("chunk", n) chunked local attention, ("state", n)
    Mamba whose kernels write states inside a step at multiples of n tokens (0 = only at its end), ("cross",) cross attention, ("mamba", length, n)
    Mamba without prefix caching, for sequences of up to so many tokens with n blocks for drafts."""
    shape = dict(block_size=block_size, num_kv_heads=1, head_size=1, dtype=torch.float32)
    if isinstance(kind, int):
        return SlidingWindowSpec(sliding_window=kind, **shape) if kind else FullAttentionSpec(**shape)
    name, *sizes = kind
    if name == "chunk":
        return ChunkedLocalAttentionSpec(attention_chunk_size=sizes[0], **shape)
    if name == "cross":
        return CrossAttentionSpec(**shape)
    if name == "mamba":
        return MambaSpec(shapes=((1,),), dtypes=(torch.float32,), block_size=sizes[0], num_speculative_blocks=sizes[1])
    return MambaSpec(shapes=((1,),), dtypes=(torch.float32,), block_size=block_size, mamba_cache_mode="align",
                     num_prefill_checkpoint_blocks=int(sizes[0] > 0), prefill_checkpoint_alignment=sizes[0] or None)


def layout(num_blocks, block_size, kinds=(0,)):
    groups = [KVCacheGroupSpec([f"layer{i}"], spec(kind, block_size)) for i, kind in enumerate(kinds)]
    return KVCacheConfig(num_blocks=num_blocks, kv_cache_tensors=[], kv_cache_groups=groups)


def engine_config(folder, max_num_seqs, max_num_batched_tokens, max_model_len, async_scheduling=False, caching=True, **options):
    """A VllmConfig for a small model without weights on the CPU, whose files are in `folder` while this runs."""
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({**MODEL, "max_position_embeddings": max_model_len}, file)
    return VllmConfig(
        model_config=ModelConfig(model=str(folder), tokenizer=str(folder), skip_tokenizer_init=True, dtype="float32", max_model_len=max_model_len),
        scheduler_config=SchedulerConfig(max_num_seqs=max_num_seqs, max_num_batched_tokens=max_num_batched_tokens, max_model_len=max_model_len,
                                         enable_chunked_prefill=True, is_encoder_decoder=False, async_scheduling=async_scheduling),
        cache_config=CacheConfig(block_size=BLOCK, enable_prefix_caching=caching), device_config=DeviceConfig("cpu"),
        parallel_config=ParallelConfig(), **options)


def model_output(out, sampled):
    """What a model runner returns for a SchedulerOutput: `sampled` has the tokens of each of its requests, in order."""
    ids = list(out.num_scheduled_tokens)
    return ModelRunnerOutput(req_ids=ids, req_id_to_index={id: i for i, id in enumerate(ids)}, sampled_token_ids=sampled, logprobs=None,
                             prompt_logprobs_dict={}, pooler_output=[])
