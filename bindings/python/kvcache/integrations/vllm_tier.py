# SPDX-License-Identifier: Apache-2.0
"""A secondary tier of vLLM's KV offloading (TieringOffloadingSpec) over a kvcache tier: a slab file, a folder, memory, a server.

    {"spec_name": "TieringOffloadingSpec", "cpu_bytes_to_use": 8589934592, "secondary_tiers": [{"type": "KvCacheTier",
     "module_path": "kvcache.integrations.vllm_tier", "url": "slab:/var/cache/kv-{dp}.slab?bytes=1TiB&direct=1", "weights": "2026-11-01"}]}

vLLM calls it on the scheduler's thread. No call waits for I/O, except drain_jobs() and shutdown(), which have to. A lookup is answered from a
table; keys that are not in it are asked for in one job at the end of the step. Loads and stores point into vLLM's CPU cache: nothing is copied
in Python. What is called at each step is in C (tier_calls.c). Bytes are checked after each load. What does not check is a failed key, which vLLM computes again.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from typing import Any, Optional

import vllm.v1.kv_offload.base as _base

from .._native import TierCalls
from .._tier_jobs import lease_of
from ._tier_pages import Pages, digest_of, key_of_hash
from ._vllm_identity import identity_of, replica_of

try:
    from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager
except ImportError as error:
    raise ImportError(f"this vLLM has no SecondaryTierManager ({error}): KvCacheTier was tested with vLLM 0.33") from error

# A lookup of vLLM before LookupResult was True, False, or None for "ask again".
_results = getattr(_base, "LookupResult", None)
HIT, MISS, RETRY = (True, False, None) if _results is None else (_results.HIT, _results.MISS, _results.RETRY)
_TELLS_BYTES = [field.name for field in dataclasses.fields(JobResult)] == ["job_id", "success", "successful_keys", "transfer_time", "transfer_bytes"]
_STATS_SECONDS = 1.0
_STATS = {  # of kvcache.tiers.TierStats
    "pages": "Pages in a kvcache tier.",
    "bytes": "Bytes of pages in a kvcache tier.",
    "evictions": "Pages of a kvcache tier that gave way to others.",
    "bad_headers": "Pages of a kvcache tier that were misses, because their header did not check.",
    "bad_payloads": "Pages of a kvcache tier that were misses, because their checksum did not match.",
    "failures": "Failures of the system or server below a kvcache tier.",
    "refused_stores": "Stores that a kvcache tier refused, because its queue was full.",
    "refused_bytes": "Stores that a kvcache tier refused, because too many bytes waited.",
}


def _metric(name: str) -> str:
    return f"vllm:kv_offload_kvcache_{name}"


class KvCacheTier(TierCalls, SecondaryTierManager):
    """url: of the tier (kvcache/tier.h); {dp} in it stands for the index of the data parallel replica, because a slab has one owner.

    weights: version or digest of the weights, if they can change under one model name. lease: seconds for which a page stays after a lookup
    that hits. locality: "LOCAL" or "REMOTE", for vLLM's filters. The rest of a key comes from vLLM: its hash of tokens, adapter and salt, the
    group, the model, dtype, layers, parallel layout and version. A page that differs in one of them is a miss."""

    medium = getattr(getattr(_base, "Medium", None), "STORAGE", None)

    def __init__(self, offloading_spec: Any, primary_kv_view: memoryview, tier_type: str, backpressure_detector: Any = None, *, url: str = "",
                 weights: str = "", lease: float = 5.0, locality: Optional[str] = None):
        super().__init__(offloading_spec, primary_kv_view, tier_type, *([] if backpressure_detector is None else [backpressure_detector]))
        if not url:
            raise ValueError("KvCacheTier needs a url in its entry of secondary_tiers, such as slab:/path/of/file?bytes=64GiB")
        if locality is not None:
            self.locality = _base.Locality(locality)
        row_bytes = primary_kv_view.strides[0] if primary_kv_view.strides else 0
        if row_bytes <= 0 or primary_kv_view.nbytes % row_bytes != 0:
            raise ValueError(f"the CPU cache has rows of {row_bytes} bytes and {primary_kv_view.nbytes} bytes in all: it must be rows, one after another")
        self._row_bytes = row_bytes
        self._pages = Pages(url.replace("{dp}", str(replica_of(offloading_spec))), row_bytes, digest_of("vLLM chunks", {"bytes": row_bytes}))
        key_of = functools.partial(key_of_hash, digest_of("vLLM", identity_of(offloading_spec, row_bytes, weights)))
        self._open(self._pages._t, primary_kv_view, row_bytes, lease_of(max(0.0, lease)), (HIT, MISS, RETRY), JobResult, _TELLS_BYTES, key_of)
        self._stats_at = 0.0

    def on_new_request(self, req_context: Any) -> Any:
        context = getattr(_base, "RequestOffloadingContext", None)
        return None if context is None else context()

    def drain_jobs(self) -> None:
        self._pages.drain()

    def shutdown(self) -> None:
        self._close(self._pages.close)

    @classmethod
    def build_metric_definitions(cls, extra_config: dict[str, Any]) -> dict[str, Any]:
        gauge = getattr(_base, "OffloadingGaugeMetadata", None)
        return {} if gauge is None else {_metric(name): gauge(documentation=text, labelnames=("tier",)) for name, text in _STATS.items()}

    def get_stats(self) -> Any:
        """Gauges of the tier, once a second."""
        now = time.monotonic()
        if now < self._stats_at or not hasattr(_base, "OffloadingGaugeMetadata"):
            return None
        from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import OffloadingConnectorStats

        self._stats_at = now + _STATS_SECONDS
        stats, state = OffloadingConnectorStats(), self._pages.stats()
        for name in _STATS:
            stats.set_gauge(_metric(name), getattr(state, name), (self.tier_type,))
        return stats

    # Names of older versions.
    get_finished = TierCalls.get_finished_jobs
    drain = drain_jobs

    def _fail(self, job_id: int, keys: list[bytes], good: list[bytes], loads: bool) -> Any:
        """The result of a job of which only `good` was done. Corrects the table, so that a page that cannot be loaded is not asked for again and again."""
        if not loads:
            self._note_stored(good)
        else:
            loaded = set(good)
            for key in keys:
                if key not in loaded and self._found.get(key, RETRY) is not RETRY:
                    self._found[key] = MISS
        if _TELLS_BYTES:
            return JobResult(job_id, False, tuple(good) or None if loads else None, None, len(good) * self._row_bytes)
        result = JobResult(job_id, False)
        if loads and good and hasattr(result, "successful_keys"):
            result.successful_keys = tuple(good)
        return result

    def _refuse(self, text: str) -> None:
        self._pages.refuse(text)

    def _forget_left(self) -> None:
        """Forgets the answers that only finished requests have asked for."""
        found, left = self._found, []
        for keys in self._left:
            waiting = []
            for key in keys:
                if key in found and found[key] is RETRY:
                    waiting.append(key)
                else:
                    found.pop(key, None)
            if waiting:
                left.append(waiting)
        self._left[:] = left
