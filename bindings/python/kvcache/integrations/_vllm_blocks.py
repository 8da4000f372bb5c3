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
_MAMBA = {"MambaSpec"}
_CROSS = {"CrossAttentionSpec"}
_KNOWN = _FULL | _WINDOW | _CHUNK | _MAMBA | _CROSS


class Layout(NamedTuple):
    """The groups of a KVCacheConfig, in vLLM's order. order: the library's group of each. Its last groups, num_fixed, have tables that do not grow:
    they have fixed_blocks entries, or those of the request's encoder if that is 0. num_states: groups that hold recurrent states. stride: the kernels
    can write a state inside a step, at a multiple of so many tokens from the step's first; 0 = only at its end."""

    groups: list[Group]
    order: bytes
    block_size: int
    num_fixed: int
    fixed_blocks: int
    num_states: int
    stride: int

    @property
    def has_windows(self) -> bool:
        return any(group.window_tokens or group.chunk_tokens for group in self.groups)

    def is_fixed(self, group: int) -> bool:
        return self.order[group] >= len(self.groups) - self.num_fixed

    def blocks_for(self, tokens: int, held: int, inside: bool) -> int:
        """Returns the blocks that tables of `held` entries need for so many tokens; `inside`: with a state inside the step."""
        added = max(0, -(-tokens // self.block_size) - held)
        return (len(self.groups) - self.num_fixed - self.num_states) * added + self.num_states * min(added, 1 + inside)

    def inside(self, start: int, end: int) -> int:
        """Returns the tokens after which the kernels write another state in a step from start to end tokens: the last ones before its end that fill a
        block. 0 = none."""
        last = (end - 1) // self.block_size * self.block_size
        if not self.stride or start % self.block_size or last <= start or (last - start) % self.stride:
            return 0
        return last


def layout_of(kv_cache_config: Any, caching: bool, hash_block_size: int, max_model_len: int) -> Layout:
    """Raises UnsupportedError for kinds of layers that the library does not have, and for several block sizes."""
    groups, sizes, strides, fixed = [], set(), [], {}
    for i, entry in enumerate(kv_cache_config.kv_cache_groups):
        spec = entry.kv_cache_spec
        kind = type(spec).__name__
        if kind not in _KNOWN:
            known = ", ".join(sorted(_KNOWN))
            raise UnsupportedError(f"layers with {kind} are not supported, only {known}; use vLLM's own manager for this model (unset KVCACHE_VLLM)")
        special = [name for owner, name in ((entry, "host_resident"), (spec, "prefix_replay_tokens"), (spec, "extra_retained_tokens"))
                   if getattr(owner, name, 0)]
        if special:
            raise UnsupportedError(f"{kind} with {special[0]} is not supported; use vLLM's own manager for this model (unset KVCACHE_VLLM)")
        window = spec.sliding_window if kind in _WINDOW else 0
        chunk = spec.attention_chunk_size if kind in _CHUNK else 0
        state = kind in _MAMBA and spec.mamba_cache_mode == "align"
        if state:
            strides.append(_stride(spec))
        elif kind in _MAMBA:
            fixed[i] = _state_blocks(spec, max_model_len)
        elif kind in _CROSS:
            fixed[i] = 0
        if i in fixed and caching:
            raise UnsupportedError(f"{kind} is supported without prefix caching, as in vLLM (Mamba: with mamba_cache_mode align); turn it off")
        if i not in fixed or kind in _CROSS:
            sizes.add(spec.block_size)
        # As in vLLM, a prefix can be continued at every block, not only where a prompt or a request has ended.
        retention = spec.block_size if window or chunk or state else 0
        groups.append(Group(window_tokens=window, chunk_tokens=chunk, state=state, cross=i in fixed, retention_tokens=retention))
    if len(fixed) == len(groups):
        raise UnsupportedError(f"none of the {len(groups)} groups holds keys and values of tokens; use vLLM's own manager for this model (unset KVCACHE_VLLM)")
    if len(sizes) != 1:
        raise UnsupportedError(f"groups have block sizes {sorted(sizes)}; they must have one, so give all layers the same")
    if len(set(fixed.values())) > 1:
        raise UnsupportedError("Mamba layers beside cross attention, or with several num_speculative_blocks, are not supported; use vLLM's own manager")
    stride = strides[0] if len(set(strides)) == 1 else 0
    if stride and hash_block_size not in sizes:
        raise UnsupportedError(f"prefix_match_unit is {hash_block_size}; Mamba layers are supported with that of a block, {sizes.pop()}")
    first = [i for i in range(len(groups)) if i not in fixed] + list(fixed)
    order = bytes(first.index(i) for i in range(len(groups)))
    return Layout(groups, order, sizes.pop(), len(fixed), next(iter(fixed.values()), 0), len(strides), stride)


def _stride(spec: Any) -> int:
    if spec.num_speculative_blocks:
        raise UnsupportedError("Mamba layers with prefix caching and speculative decoding are not supported; turn one of them off")
    return int(spec.prefill_checkpoint_alignment or 0) if spec.num_prefill_checkpoint_blocks else 0


def _state_blocks(spec: Any, max_model_len: int) -> int:
    if spec.mamba_cache_mode != "none" or spec.block_size < max_model_len:
        raise UnsupportedError(f"Mamba layers with mamba_cache_mode {spec.mamba_cache_mode} and blocks of {spec.block_size} tokens are not supported; use "
                               "align, or none and a block for all tokens")
    return 1 + int(spec.num_speculative_blocks)


def edges_of(group: Group, block_size: int) -> Optional[tuple[int, int]]:
    """Returns (first, period): blocks leave a request's table of this group at each first + n * period computed tokens, n >= 1. None: they never do."""
    if group.window_tokens:
        return group.window_tokens - 1, block_size
    if group.state:
        return 1, block_size
    return (0, group.chunk_tokens) if group.chunk_tokens else None


def blocks_behind(group: Group, block_size: int, tokens: int) -> int:
    """Returns the number of blocks that a table of this group has lost after so many tokens."""
    if group.window_tokens:
        return max(0, tokens - group.window_tokens + 1) // block_size
    return tokens // group.chunk_tokens * group.chunk_tokens // block_size if group.chunk_tokens else 0


def text_of(group: Group) -> str:
    if group.state or group.cross:
        return "state" if group.state else "fixed"
    return f"window {group.window_tokens}" if group.window_tokens else f"chunk {group.chunk_tokens}" if group.chunk_tokens else "full"


def identity_keys(request: Any, ahead: int = 0, most: int = 1 << 62) -> list[ExtraKey]:
    """Returns the extra keys of a request: adapter and salt, as a key of the first token, and its media. ahead: the library gets the request's tokens
    from this one on; those before it are a part of the first key, and media are where their tokens are in the library. most: as in media_keys()."""
    parts: list[tuple[str | int, ...]] = [("first tokens", *request.all_token_ids[:ahead])] if ahead else []
    lora, salt = request.lora_request, request.cache_salt
    if lora is not None:
        parts.append(("lora", lora.name, lora.path))  # a name may come to mean another adapter
    if salt:
        parts.append(("salt", salt))
    return [*([ExtraKey(0, 1, _digest(*parts))] if parts else ()), *media_keys(request.mm_features, ahead, most)]


def media_keys(features: Iterable[Any], ahead: int, most: int = 1 << 62) -> list[ExtraKey]:
    """Returns a key for each range of tokens that media stand for, in whichever order they come. One that has no tokens, or none in the library, counts
    where it stands. A key ends at token `most`, and none begins there or behind. The digest has what `ahead` and `most` cut off."""
    found: dict[tuple[int, int], set[bytes]] = {}
    for feature in features:
        offset, length = feature.mm_position.offset - ahead, feature.mm_position.length
        first = max(0, offset)
        if first < most:
            end = min(most, max(first + 1, offset + length))
            found.setdefault((first, end - first), set()).add(_digest(("media", feature.identifier, offset - first, length)))
    return [ExtraKey(*tokens, _digest(("media", *sorted(digest.hex() for digest in digests))) if len(digests) > 1 else digests.pop())
            for tokens, digests in found.items()]


def _digest(*parts: tuple[str | int, ...]) -> bytes:
    # repr quotes strings, so no two lists of parts have one text.
    return hashlib.sha256(repr([*parts]).encode()).digest()


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
