# SPDX-License-Identifier: Apache-2.0
"""vLLM's own manager and requests, made the way vLLM makes them. Importing this needs vLLM."""

import logging
import math

from vllm.sampling_params import SamplingParams
from vllm.v1.core.kv_cache_manager import KVCacheManager as VllmManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.request import Request
from vllm_engine import layout

from kvcache.integrations.vllm import KVCacheManager

logging.getLogger("vllm").setLevel(logging.ERROR)


def hasher(block_size, function_name="sha256", ahead=0):
    """The block hasher that vLLM gives its requests; sha256 is its default. ahead: tokens behind a block that its hash covers."""
    from vllm.utils.hashing import get_hash_fn_by_name

    function = get_hash_fn_by_name(function_name)
    init_none_hash(function)
    return get_request_block_hasher(block_size, function, *[ahead] * (ahead > 0))  # vLLM 0.32 has no such parameter


def managers(num_blocks, block_size, max_model_len, kinds=(0,), **options):
    """(vLLM's manager, ours) with equal arguments."""
    config = layout(num_blocks, block_size, kinds)
    of_scheduler = math.lcm(*(group.kv_cache_spec.block_size for group in config.kv_cache_groups))
    return [kind(config, max_model_len, of_scheduler, block_size, **options) for kind in (VllmManager, KVCacheManager)]


def make_request(request_id, tokens, block_hasher, salt=None, **options):
    return Request(request_id, tokens, SamplingParams(max_tokens=1 << 20), None, cache_salt=salt, block_hasher=block_hasher, **options)
