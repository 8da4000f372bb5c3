# SPDX-License-Identifier: Apache-2.0
"""vLLM's plug-in, which the package registers as `kvcache` in the group vllm.general_plugins.

vLLM calls register() in each process that it starts. If the environment has KVCACHE_VLLM=1, vLLM's schedulers get the KVCacheManager of
kvcache.integrations.vllm, which logs a line when it is made. If it does not support the model or an option, the engine gets vLLM's own, with a
warning that says why. The requests of an engine with our manager are not hashed by vLLM, unless a connector reads their hashes.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
from typing import Any, Callable

from ..errors import KvCacheError

VARIABLE = "KVCACHE_VLLM"
_log = logging.getLogger("vllm.kvcache")  # vLLM prints what its own loggers and those below them log


def register() -> None:
    """Replaces vLLM's KVCacheManager in this process if KVCACHE_VLLM is 1. May be called again."""
    value = os.environ.get(VARIABLE, "0")
    if value != "1":
        if value not in ("", "0"):
            _log.warning("kvcache: vLLM's own KVCacheManager runs: %s is %r; 1 switches to that of kvcache", VARIABLE, value)
        return
    import vllm
    import vllm.v1.core.sched.scheduler as scheduling
    import vllm.v1.engine.core as engine

    from .vllm import KVCacheManager

    own = scheduling.KVCacheManager
    if getattr(own, "__wrapped__", own) is KVCacheManager:
        return
    different = differences(own, KVCacheManager)
    if different:
        _log.warning("kvcache: vLLM's own KVCacheManager runs: vLLM %s has other parameters than 0.32 and 0.33 in %s", vllm.__version__, ", ".join(different))
        return
    scheduling.KVCacheManager = _ours_or(own, KVCacheManager)
    engine.EngineCore.preprocess_add_request = _without_hashes(engine.EngineCore.preprocess_add_request)


def _ours_or(own: type, ours: type) -> Callable[..., Any]:
    """Returns a function that makes a manager of `ours`, or of `own` if `ours` refuses the arguments."""

    @functools.wraps(ours, updated=())
    def manager(*args: Any, **options: Any) -> Any:
        try:
            return ours(*args, **options)
        except KvCacheError as error:
            _log.warning("kvcache: vLLM's own KVCacheManager runs: %s", error)
        return own(*args, **options)

    return manager


def differences(theirs: type, ours: type) -> list[str]:
    """Returns the public methods of `theirs` that `ours` lacks, or that can be called as `ours` cannot. Ours may have more parameters, with defaults:
    behind the others, or anywhere in the constructor, which vLLM calls by names. So a release that has not got them yet is accepted."""

    def parameters(kind: type, name: str) -> dict[str, inspect.Parameter]:
        method = getattr(kind, name, None)
        return dict(inspect.signature(method).parameters) if method else {}

    def agrees(name: str) -> bool:
        asked, have = parameters(theirs, name), parameters(ours, name)
        more = [parameter for parameter in have if parameter not in asked]
        common = [parameter for parameter in have if parameter in asked]
        behind = list(have)[len(asked):] == more or name == "__init__"
        return common == list(asked) and behind and all(have[parameter].default is not inspect.Parameter.empty for parameter in more)

    names = [name for name, _ in inspect.getmembers(theirs, inspect.isfunction) if name == "__init__" or not name.startswith("_")]
    return [name for name in names if not agrees(name)]


def reads_hashes(scheduler: Any) -> bool:
    """Whether a part of the scheduler reads request.block_hashes: a KV connector, routed experts, or vLLM's own manager."""
    manager = getattr(scheduler, "kv_cache_manager", None)
    connectors = [getattr(scheduler, name, None) for name in ("connector", "aux_output_connector")]
    return getattr(manager, "reads_hashes", True) or any(connector is not None for connector in connectors)


def _without_hashes(preprocess_add_request: Any) -> Any:
    """EngineCore.preprocess_add_request(), which makes the requests, without the hasher of the engine core if nothing reads its hashes."""

    @functools.wraps(preprocess_add_request)
    def preprocess(core: Any, request: Any) -> Any:
        if core.request_block_hasher is not None and not reads_hashes(core.scheduler):
            core.request_block_hasher = None
            _log.info("kvcache: vLLM does not hash blocks: nothing reads its hashes")
        return preprocess_add_request(core, request)

    return preprocess
