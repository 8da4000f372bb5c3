# SPDX-License-Identifier: Apache-2.0
"""The library's events as those of vLLM."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

from .. import _native
from .._arrays import np
from ..events import EventReader

if TYPE_CHECKING:
    import numpy

    from ..manager import Manager


def told_apart(request: Any) -> bool:
    """Whether vLLM's events say more about the blocks of this request than their tokens."""
    return bool(request.lora_request or request.cache_salt or request.mm_features or getattr(request, "session_id", None))


class EventLog:
    """Reads the events of a manager for take_events(). The library does not know who stores a block, so the events of requests that are
    told apart are read right after their commits."""

    def __init__(self, manager: Manager, kv_cache_config: Any, block_size: int):
        import vllm.envs as envs
        from vllm.distributed import kv_events
        from vllm.v1.core import kv_cache_utils
        from vllm.v1.kv_cache_interface import get_kv_cache_spec_kind, get_kv_cache_spec_sliding_window

        self._reader = EventReader(manager, batch=4096)
        self._block_size = block_size
        self._read: list[tuple[numpy.ndarray, numpy.ndarray, Any]] = []
        self._vllm, self._utils, self._int_hashes = kv_events, kv_cache_utils, bool(envs.VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES)
        specs = [group.kv_cache_spec for group in kv_cache_config.kv_cache_groups]
        self._of_group = [(i, get_kv_cache_spec_kind(spec).value, get_kv_cache_spec_sliding_window(spec)) for i, spec in enumerate(specs)]
        self._ends = tuple((*group, None, None, None) for group in self._of_group)

    def read(self, request: Any = None) -> None:
        """Reads the events so far; those that are new belong to this request, if it is given."""
        while True:
            records, tokens = self._reader.poll()
            if not len(records):
                return
            self._read.append((records, tokens, request))

    def take(self) -> list[Any]:
        """Returns vLLM's events since the last call. Raises RuntimeError if some were lost."""
        self.read()
        parts, self._read = self._read, []
        lost, self._reader.lost = self._reader.lost, 0
        if lost:
            raise RuntimeError(f"{lost} events were lost; call take_events() every step")
        events: list[Any] = []
        for _, group in itertools.groupby(parts, key=lambda part: id(part[2])):
            same = list(group)
            records, tokens = (np.concatenate([part[i] for part in same]) if len(same) > 1 else same[0][i] for i in (0, 1))
            events.extend(self._converted(records, tokens, same[0][2]))
        return events

    def _converted(self, records: numpy.ndarray, tokens: numpy.ndarray, request: Any) -> list[Any]:
        """Returns the events of a request (or None). A chain of stored blocks becomes one BlockStored, and blocks that are removed one after
        the other one BlockRemoved."""
        lora = request.lora_request if request is not None else None
        # By position, which takes a tenth of the time: block_hashes, parent_block_hash, token_ids, block_size, lora_id, medium, lora_name,
        # extra_keys, group_idx, kv_cache_spec_kind, kv_cache_spec_sliding_window, locality, ownership, session_id.
        middle = (self._block_size, lora.adapter_id if lora else None, self._vllm.MEDIUM_GPU, lora.name if lora else None)
        ends = self._ends if request is None else tuple((*group, None, None, request.session_id) for group in self._of_group)
        keys = None if request is None else functools.partial(self._extra_keys, request)
        return _native.runs_of_events(records, tokens, self._int_hashes, self._vllm.BlockStored, self._removed, self._vllm.AllBlocksCleared, middle,
                                      ends, keys)

    def _removed(self, hashes: list[Any], group: int) -> Any:
        return self._vllm.BlockRemoved(hashes, self._vllm.MEDIUM_GPU, group)

    def _extra_keys(self, request: Any, offset: int, count: int) -> list[Any]:
        size, keys_of = self._block_size, self._utils.generate_block_hash_extra_keys
        starts = range(offset, offset + count * size, size)
        keys: list[Any] = self._utils.to_event_extra_keys([keys_of(request, start, start + size, 0)[0] for start in starts])
        return keys
