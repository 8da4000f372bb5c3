# SPDX-License-Identifier: Apache-2.0
"""Conversions between vLLM and the library: groups of a KVCacheConfig, extra keys of requests, blocks."""

from __future__ import annotations

import hashlib
from typing import Any, Callable, Iterable, Literal, NamedTuple, Optional, Sequence, overload

from ..errors import UnsupportedError
from ..manager import Group
from ..request import ExtraKey

NULL_BLOCK = 0

_FULL = {"FullAttentionSpec", "MLAAttentionSpec"}
_WINDOW = {"SlidingWindowSpec", "SlidingWindowMLASpec"}
_CHUNK = {"ChunkedLocalAttentionSpec"}
_KNOWN = _FULL | _WINDOW | _CHUNK


def groups_of(kv_cache_config: Any) -> tuple[list[Group], int]:
    """Returns the groups of a KVCacheConfig and their block size. Raises UnsupportedError for kinds of layers that the library does not have,
    and for several block sizes."""
    groups, sizes = [], set()
    for entry in kv_cache_config.kv_cache_groups:
        spec = entry.kv_cache_spec
        kind = type(spec).__name__
        if kind not in _KNOWN:
            known = ", ".join(sorted(_KNOWN))
            raise UnsupportedError(f"layers with {kind} are not supported, only {known}; use vLLM's own manager for this model (unset KVCACHE_VLLM)")
        window = spec.sliding_window if kind in _WINDOW else 0
        chunk = spec.attention_chunk_size if kind in _CHUNK else 0
        # As in vLLM, a prefix can be continued at every block, not only where a prompt or a request has ended.
        groups.append(Group(window_tokens=window, chunk_tokens=chunk, retention_tokens=spec.block_size if window or chunk else 0))
        sizes.add(spec.block_size)
    if len(sizes) != 1:
        raise UnsupportedError(f"groups have block sizes {sorted(sizes)}; they must have one, so give all layers the same")
    return groups, sizes.pop()


def edges_of(group: Group, block_size: int) -> Optional[tuple[int, int]]:
    """Returns (first, period): a request's table of this group loses a block at each first + n * period tokens, n >= 1. None: it loses none."""
    if group.window_tokens:
        return group.window_tokens - 1, block_size
    return (0, group.chunk_tokens) if group.chunk_tokens else None


def blocks_behind(group: Group, block_size: int, tokens: int) -> int:
    """Returns the number of blocks that a table of this group has lost after so many tokens."""
    if group.window_tokens:
        return max(0, tokens - group.window_tokens + 1) // block_size
    return tokens // group.chunk_tokens * group.chunk_tokens // block_size if group.chunk_tokens else 0


def text_of(group: Group) -> str:
    return f"window {group.window_tokens}" if group.window_tokens else f"chunk {group.chunk_tokens}" if group.chunk_tokens else "full"


def identity_keys(request: Any) -> list[ExtraKey]:
    """Returns the extra keys of a request: adapter and salt, as a key of the first token, and multimodal spans."""
    parts: list[tuple[str, ...]] = []
    lora, salt = request.lora_request, request.cache_salt
    if lora is not None:
        parts.append(("lora", lora.name, lora.path))  # a name may come to mean another adapter
    if salt:
        parts.append(("salt", salt))
    spans: list[tuple[int, int, tuple[str, ...]]] = [(f.mm_position.offset, f.mm_position.length, ("media", f.identifier)) for f in request.mm_features]
    if parts and not (spans and spans[0][0] == 0):
        spans.insert(0, (0, 1, ()))
    return [ExtraKey(first, length, _digest((parts if first == 0 else []) + [media])) for first, length, media in spans]


def _digest(parts: Iterable[tuple[str, ...]]) -> bytes:
    # repr quotes strings, so no two lists of parts have one text.
    return hashlib.sha256(repr(list(parts)).encode()).digest()


class KVCacheBlock(NamedTuple):
    """A block of a table. `owner` is set from pop_blocks_for_free() until free_blocks()."""

    block_id: int
    owner: Any = None

    @property
    def is_null(self) -> bool:
        return self.block_id == NULL_BLOCK


class KVCacheBlocks:
    """Block ids per group, from lists of ids or from a function that is called when they are first read."""

    __slots__ = ("_ids",)

    def __init__(self, ids: Sequence[Sequence[int]] | Callable[[], Sequence[Sequence[int]]]):
        self._ids = ids

    def _found(self) -> Sequence[Sequence[int]]:
        if callable(self._ids):
            self._ids = self._ids()
        return self._ids

    @property
    def blocks(self) -> tuple[list[KVCacheBlock], ...]:
        return tuple([KVCacheBlock(id) for id in group] for group in self._found())

    @overload
    def get_block_ids(self, allow_none: Literal[False] = False, *, group_ids: Optional[Sequence[int]] = None) -> tuple[list[int], ...]: ...
    @overload
    def get_block_ids(self, allow_none: bool, *, group_ids: Optional[Sequence[int]] = None) -> Optional[tuple[list[int], ...]]: ...

    def get_block_ids(self, allow_none: bool = False, *, group_ids: Optional[Sequence[int]] = None) -> Optional[tuple[list[int], ...]]:
        """Returns the ids, a list per group (of group_ids, or of all). With allow_none, returns None if all are empty."""
        ids = self._found()
        if group_ids is not None:
            ids = [ids[group] for group in group_ids]
        if allow_none and not any(ids):
            return None
        return tuple(list(group) for group in ids)

    def __add__(self, other: KVCacheBlocks) -> KVCacheBlocks:
        return KVCacheBlocks([[*a, *b] for a, b in zip(self._found(), other._found())])

    def new_empty(self) -> KVCacheBlocks:
        return KVCacheBlocks([[] for _ in self._found()])

    def __repr__(self) -> str:
        return f"KVCacheBlocks({[list(group) for group in self._found()]})"


class NoBlocks(KVCacheBlocks):
    """No block in any group: what most calls of a decoding request return."""

    __slots__ = ()

    def __init__(self, num_groups: int):
        super().__init__(((),) * num_groups)

    def get_block_ids(self, allow_none: bool = False, *, group_ids: Optional[Sequence[int]] = None) -> Any:
        return None if allow_none else super().get_block_ids(group_ids=group_ids)
