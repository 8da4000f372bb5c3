# SPDX-License-Identifier: Apache-2.0
"""What makes a chunk of vLLM's CPU cache what it is, apart from its tokens: from the offloading specification of this or an older vLLM."""

from __future__ import annotations

import dataclasses
from typing import Any

# How a worker's bytes are split among processes; without meaning if vLLM says that the chunk does not depend on it.
_PARALLEL = ("world_size", "tp_size", "pp_size", "pcp_size", "dcp_size")


def identity_of(spec: Any, row_bytes: int, weights: str) -> dict[str, Any]:
    """Fields for a digest. Ranks and replicas are not among them: a chunk has the bytes of all workers of one engine."""
    import vllm

    config = getattr(spec, "config", None)
    if config is None:  # vLLM before OffloadingConfig
        config = getattr(spec, "vllm_config", None)
        if config is None:
            raise TypeError(f"{type(spec).__name__} has neither config nor vllm_config: this vLLM ({vllm.__version__}) is not one that "
                            "kvcache.integrations.vllm_tier knows; it was tested with 0.33")
        return {"vllm": vllm.__version__, "row_bytes": row_bytes, "weights": weights, **_older(spec, config)}
    parallel = config.parallel
    portable = bool(getattr(parallel, "is_parallelism_agnostic", False) or getattr(config, "replicated_layout", False))
    return {
        "vllm": vllm.__version__,
        "row_bytes": row_bytes,
        "weights": weights,
        "model": config.model.name,
        "dtype": str(config.model.dtype),
        "tokens_per_hash": config.cache.tokens_per_hash,
        "blocks_per_chunk": config.cache.blocks_per_chunk,
        "groups": [[group.tokens_per_block, list(group.layer_names)] for group in config.groups],
        "kv_cache_layout": getattr(config, "kv_cache_layout", None),
        "canonical_layout": bool(getattr(config, "canonical_layout", False)),
        "replicated_layout": bool(getattr(config, "replicated_layout", False)),
        "parallel": None if portable else {name: getattr(parallel, name, 1) for name in _PARALLEL},
    }


def replica_of(spec: Any) -> int:
    """Index of the data parallel replica, 0 without replicas."""
    config = getattr(spec, "config", None)
    parallel = config.parallel if config is not None else getattr(getattr(spec, "vllm_config", None), "parallel_config", None)
    return int(getattr(parallel, "data_parallel_index", 0) or 0)


def _older(spec: Any, config: Any) -> dict[str, Any]:
    parallel, cache = config.parallel_config, config.cache_config
    groups = getattr(getattr(spec, "kv_cache_config", None), "kv_cache_groups", ())
    return {
        "model": config.model_config.model,
        "dtype": [str(config.model_config.dtype), str(cache.cache_dtype)],
        "block_size": [getattr(spec, name, None) for name in ("gpu_block_size", "offloaded_block_size", "block_size_factor")],
        "groups": [[_text(group.kv_cache_spec), list(group.layer_names)] for group in groups],
        "parallel": {name: getattr(parallel, name, 1) for name in ("world_size", "tensor_parallel_size", "pipeline_parallel_size",
                                                                    "prefill_context_parallel_size", "decode_context_parallel_size")},
    }


def _text(spec: Any) -> str:
    return str(dataclasses.asdict(spec)) if dataclasses.is_dataclass(spec) and not isinstance(spec, type) else str(spec)
