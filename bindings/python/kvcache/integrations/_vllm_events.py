# SPDX-License-Identifier: Apache-2.0
"""The library's events as those of vLLM, converted by columns."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Iterator

from .._arrays import np
from ..constants import EventKind
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

    def __init__(self, manager: "Manager", kv_cache_config: Any, block_size: int):
        self._reader = EventReader(manager)
        self._specs = [group.kv_cache_spec for group in kv_cache_config.kv_cache_groups]
        self._block_size = block_size
        self._read: "list[tuple[numpy.ndarray, numpy.ndarray, Any]]" = []

    def read(self, request: Any = None) -> None:
        """Reads the events so far; those that are new belong to this request, if it is given."""
        while True:
            records, tokens = self._reader.poll()
            if not len(records):
                return
            self._read.append((records, tokens, request))

    def take(self) -> "list[Any]":
        """Returns vLLM's events since the last call. Raises RuntimeError if some were lost."""
        self.read()
        parts, self._read = self._read, []
        lost, self._reader.lost = self._reader.lost, 0
        if lost:
            raise RuntimeError(f"{lost} events were lost; call take_events() every step")
        events: "list[Any]" = []
        for _, group in itertools.groupby(parts, key=lambda part: id(part[2])):
            same = list(group)
            records, tokens = (np.concatenate([part[i] for part in same]) if len(same) > 1 else same[0][i] for i in (0, 1))
            events.extend(self._converted(records, tokens, same[0][2]))
        return events

    def _converted(self, records: "numpy.ndarray", tokens: "numpy.ndarray", request: Any) -> "Iterator[Any]":
        """Yields the events of a request (or None). A chain of stored blocks becomes one BlockStored, and blocks that are removed one after
        the other one BlockRemoved."""
        from vllm.distributed.kv_events import MEDIUM_GPU, AllBlocksCleared, BlockRemoved, BlockStored
        from vllm.v1.kv_cache_interface import get_kv_cache_spec_kind, get_kv_cache_spec_sliding_window

        kind, group = records["kind"], records["group"]
        chained = (kind[1:] == EventKind.REMOVED) | ((kind[1:] == EventKind.STORED) & (records["parent_node"][1:] == records["node"][:-1]))
        firsts = [0, *(np.flatnonzero(~(chained & (kind[1:] == kind[:-1]) & (group[1:] == group[:-1]))) + 1).tolist()]
        hashes, parents = _hashes(records["digest"]), _hashes(records["parent_digest"][firsts])
        offsets, ends = records["token_offset"][firsts].tolist(), np.cumsum(records["num_tokens"])
        begins = (ends[firsts] - records["num_tokens"][firsts]).tolist()
        lasts = [*firsts[1:], len(records)]
        runs = zip(firsts, lasts, kind[firsts].tolist(), group[firsts].tolist(), offsets, parents, begins, ends[np.array(lasts) - 1].tolist())
        lora = request.lora_request if request is not None else None
        for first, last, what, index, offset, parent, begin, end in runs:
            if what == EventKind.STORED:
                spec = self._specs[index]
                yield BlockStored(
                    block_hashes=hashes[first:last], parent_block_hash=parent if offset else None, token_ids=tokens[begin:end].tolist(),
                    block_size=self._block_size, lora_id=lora.adapter_id if lora else None, medium=MEDIUM_GPU,
                    lora_name=lora.name if lora else None, extra_keys=self._extra_keys(request, offset, last - first), group_idx=index,
                    kv_cache_spec_kind=get_kv_cache_spec_kind(spec).value,
                    kv_cache_spec_sliding_window=get_kv_cache_spec_sliding_window(spec),
                    session_id=request.session_id if request is not None else None)
            elif what == EventKind.REMOVED:
                yield BlockRemoved(block_hashes=hashes[first:last], medium=MEDIUM_GPU, group_idx=index)
            else:
                yield AllBlocksCleared()

    def _extra_keys(self, request: Any, offset: int, count: int) -> "list[Any]":
        if request is None:
            return [None] * count
        from vllm.v1.core.kv_cache_utils import generate_block_hash_extra_keys, to_event_extra_keys

        size = self._block_size
        starts = range(offset, offset + count * size, size)
        keys: "list[Any]" = to_event_extra_keys([generate_block_hash_extra_keys(request, start, start + size, 0)[0] for start in starts])
        return keys


def _hashes(digests: "numpy.ndarray") -> "list[Any]":
    """Digests as vLLM publishes hashes: 32 bytes, or with VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES (its default) the last 8 as an int."""
    import vllm.envs as envs

    octets = np.ascontiguousarray(digests)
    if envs.VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES:
        hashes: "list[Any]" = octets.view(">u8")[3::4].tolist()
    else:
        hashes = octets.tolist()
    return hashes
