# SPDX-License-Identifier: Apache-2.0
"""vLLM's own manager and requests, made the way vLLM makes them. Importing this needs vLLM."""

import logging

import torch
from vllm.sampling_params import SamplingParams
from vllm.v1.core.kv_cache_manager import KVCacheManager as VllmManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, SlidingWindowSpec
from vllm.v1.request import Request

from kvcache.integrations.vllm import KVCacheManager

logging.getLogger("vllm").setLevel(logging.ERROR)


def hasher(block_size, function_name="sha256"):
    """The block hasher that vLLM gives its requests; sha256 is its default."""
    from vllm.utils.hashing import get_hash_fn_by_name

    function = get_hash_fn_by_name(function_name)
    init_none_hash(function)
    return get_request_block_hasher(block_size, function)


def layout(num_blocks, block_size, windows=(0,)):
    shape = dict(block_size=block_size, num_kv_heads=1, head_size=1, dtype=torch.float32)
    specs = [SlidingWindowSpec(sliding_window=window, **shape) if window else FullAttentionSpec(**shape) for window in windows]
    return KVCacheConfig(num_blocks=num_blocks, kv_cache_tensors=[],
                         kv_cache_groups=[KVCacheGroupSpec([f"layer{i}"], spec) for i, spec in enumerate(specs)])


def managers(num_blocks, block_size, max_model_len, windows=(0,), **options):
    """(vLLM's manager, ours) with equal arguments."""
    return [kind(layout(num_blocks, block_size, windows), max_model_len, block_size, block_size, **options) for kind in (VllmManager, KVCacheManager)]


def make_request(request_id, tokens, block_hasher, salt=None):
    return Request(request_id, tokens, SamplingParams(max_tokens=1 << 20), None, cache_salt=salt, block_hasher=block_hasher)
