# SPDX-License-Identifier: Apache-2.0
"""The library behind interfaces that engines already speak: vllm (block managers), vllm_scheduler, shortfin (pages), transformers (a Cache), and tiers
below the caches of engines: vllm_tier, lmcache_tier, sglang_tier.
transformers, torch_attention, vllm_scheduler, vllm_tier and sglang_tier need their framework to be imported."""
