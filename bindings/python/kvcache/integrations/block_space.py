# SPDX-License-Identifier: Apache-2.0
"""BlockSpaceManager, the block manager of vLLM before v1 and of engines with the same interface.

Sequences are objects with seq_id, get_token_ids() and get_len(); a sequence group has get_seqs(). Copies and swaps are returned as pairs
that the engine executes before the step's kernels: swaps in first, then swaps out, then copies.
"""

from __future__ import annotations

import enum
from typing import Any, Optional

from .._arrays import np
from ..errors import NoSpaceError
from ..manager import Group, Manager
from ..request import Request


class AllocStatus(enum.Enum):
    """Whether a prompt fits: now, later, or never."""

    OK = enum.auto()
    LATER = enum.auto()
    NEVER = enum.auto()


class _Sequence:
    """A sequence that holds blocks of the device or, if it is swapped out, blocks of the host: int32 by position, -1 for entries that left a
    window. computed: tokens that the engine has computed, or is computing."""

    __slots__ = ("request", "known", "computed", "host_blocks")

    def __init__(self, request: Request, known: int, computed: int):
        self.request, self.known, self.computed = request, known, computed
        self.host_blocks: Any = None


class BlockSpaceManager:
    """block_size: tokens per block. num_gpu_blocks, num_cpu_blocks: blocks of the device and of the host. watermark: part of the device's
    blocks that an admission must leave available. sliding_window: tokens that a query reads, or None."""

    def __init__(self, block_size: int, num_gpu_blocks: int, num_cpu_blocks: int = 0, watermark: float = 0.01,
                 sliding_window: Optional[int] = None, enable_caching: bool = False) -> None:
        self.block_size, self.num_total_gpu_blocks, self.num_total_cpu_blocks = block_size, num_gpu_blocks, num_cpu_blocks
        self.watermark_blocks = int(watermark * num_gpu_blocks)
        self.device = Manager(num_gpu_blocks, block_size, groups=[Group(sliding_window or 0)], prefix_cache=enable_caching,
                              max_requests=min(max(num_gpu_blocks + num_cpu_blocks, 1024), 262143))
        self.host = Manager(num_cpu_blocks, block_size, prefix_cache=False) if num_cpu_blocks else None
        self._window = bool(sliding_window)
        self._sequences: dict[int, _Sequence] = {}

    # ---- prompts

    def can_allocate(self, seq_group: Any, num_lookahead_slots: int = 0) -> AllocStatus:
        """Says whether the prompt fits now, later, or never. Cached blocks that it would hit are not counted twice."""
        sequence, = _single(seq_group)
        blocks = -(-(sequence.get_len() + num_lookahead_slots) // self.block_size)
        if blocks > self.num_total_gpu_blocks - self.watermark_blocks:
            return AllocStatus.NEVER
        info = self.device.probe(_tokens(sequence))
        more = blocks - -(-sequence.get_len() // self.block_size)
        return AllocStatus.OK if info.blocks_needed + more + self.watermark_blocks <= info.blocks_available else AllocStatus.LATER

    def allocate(self, seq_group: Any) -> None:
        """Takes blocks for the prompt. Raises NoSpaceError. fork() creates further sequences of a group."""
        sequence, = _single(seq_group)
        if sequence.seq_id in self._sequences:
            raise ValueError(f"sequence {sequence.seq_id} has blocks already; free it first")
        request = self.device.allocate(_tokens(sequence))
        self._sequences[sequence.seq_id] = _Sequence(request, sequence.get_len(), request.num_cached)

    def get_num_cached_tokens(self, seq: Any) -> int:
        """Tokens of the prompt that need no compute."""
        return self._held(seq).request.num_cached

    def mark_blocks_as_computed(self, seq_group: Any, token_chunk_size: int) -> None:
        """States that the next token_chunk_size tokens of the group's sequences are being computed. Their full blocks are published; with a window
        only by the next call, because publishing also frees blocks that this step still reads."""
        for seq in self._on_device(seq_group):
            held = self._held(seq)
            computed = min(held.computed + token_chunk_size, held.known)
            held.request.commit(held.computed if self._window else computed)
            held.computed = computed

    # ---- decoding

    def can_append_slots(self, seq_group: Any, num_lookahead_slots: int = 0) -> bool:
        """Whether every sequence of the group can get its next slots, copies of shared blocks included."""
        needed = 0
        for seq in self._on_device(seq_group):
            table = self.get_block_table(seq)
            needed += max(0, -(-(seq.get_len() + num_lookahead_slots) // self.block_size) - len(table))
            needed += self._held(seq).request.info.capacity % self.block_size != 0 and self.device.block_info(table[-1]).requests > 1
        return needed <= self.get_num_free_gpu_blocks()

    def append_slots(self, seq: Any, num_lookahead_slots: int = 0) -> list[tuple[int, int]]:
        """Takes slots for the new tokens of the sequence, of which the last is not computed yet. Returns copies as (source, destination).
        Raises NoSpaceError; then nothing is changed."""
        held = self._held(seq)
        length = seq.get_len()
        held.request.reserve(length + num_lookahead_slots)
        if length > held.known:
            held.request.append(_tokens(seq)[held.known:])
            held.known = length
        held.computed = max(held.computed, length - 1)
        held.request.commit(held.computed)
        return [(int(source), int(destination)) for source, destination in self.device.take_pending().copies]

    def fork(self, parent_seq: Any, child_seq: Any) -> None:
        """Creates the child, which shares all computed blocks of the parent. The first to write to a shared block gets a copy (append_slots)."""
        if child_seq.seq_id in self._sequences:
            raise ValueError(f"sequence {child_seq.seq_id} has blocks already; free it first")
        parent = self._held(parent_seq)
        parent.request.commit(parent.computed)
        self._sequences[child_seq.seq_id] = _Sequence(parent.request.fork(), parent.computed, parent.computed)

    def get_block_table(self, seq: Any) -> list[int]:
        """Returns the block ids; -1 for entries that left a window."""
        ids: list[int] = self._held(seq).request.block_table().tolist()
        return ids

    def free(self, seq: Any) -> None:
        """Frees the blocks of a sequence. Does nothing for a sequence that holds none."""
        held = self._sequences.pop(seq.seq_id, None)
        if held is None:
            return
        if self.host and held.host_blocks is not None:
            self.host.release_blocks(held.host_blocks)
        held.request.free()

    # ---- swapping

    def can_swap_out(self, seq_group: Any) -> bool:
        """Whether the host has room for the computed blocks of the group."""
        return sum(self._host_need(seq) for seq in self._on_device(seq_group)) <= self.get_num_free_cpu_blocks()

    def swap_out(self, seq_group: Any) -> list[tuple[int, int]]:
        """Moves the group to the host. Returns the copies, (device block, host block). Raises NoSpaceError; then nothing is changed."""
        needed = sum(self._host_need(seq) for seq in self._on_device(seq_group))
        if needed > self.get_num_free_cpu_blocks():
            raise NoSpaceError(f"{needed} host blocks are needed, {self.get_num_free_cpu_blocks()} are free; free sequences or give more")
        pairs = []
        for seq in self._on_device(seq_group):
            held, table = self._held(seq), self._computed_blocks(seq)
            held.host_blocks = table.copy()
            if self.host and (table >= 0).any():
                held.host_blocks[table >= 0] = self.host.acquire_blocks(int((table >= 0).sum()))
            held.request.preempt()
            pairs += _pairs(table, held.host_blocks)
        return pairs

    def can_swap_in(self, seq_group: Any, num_lookahead_slots: int = 0) -> AllocStatus:
        """Whether the group fits on the device again."""
        needed = self._device_need(seq_group, num_lookahead_slots)
        if needed > self.num_total_gpu_blocks:
            return AllocStatus.NEVER
        return AllocStatus.OK if needed + self.watermark_blocks <= self.get_num_free_gpu_blocks() else AllocStatus.LATER

    def swap_in(self, seq_group: Any) -> list[tuple[int, int]]:
        """Moves the group back. Returns the copies, (host block, device block); blocks that are still cached on the device are not copied.
        Raises NoSpaceError; then nothing is changed."""
        needed = self._device_need(seq_group, 0)
        if needed > self.get_num_free_gpu_blocks():
            raise NoSpaceError(f"{needed} device blocks are needed, {self.get_num_free_gpu_blocks()} are free; ask can_swap_in() first")
        pairs = []
        for seq in self._swapped(seq_group):
            held = self._held(seq)
            cached = held.request.admit()
            held.computed = max(held.computed, cached)
            count, first = len(held.host_blocks), cached // self.block_size
            fresh = held.request.block_table()[first:count]
            held.request.commit(held.computed)
            table = held.request.block_table()
            # What a window has left, before or by this commit, is not copied: nobody may find these blocks.
            self.device.unpublish_blocks(fresh[(held.host_blocks[first:] < 0) | (table[first:count] < 0)])
            pairs += _pairs(held.host_blocks[first:], table[first:])
            if self.host:
                self.host.release_blocks(held.host_blocks)
            held.host_blocks = None
        return pairs

    # ---- the pools

    def get_num_free_gpu_blocks(self) -> int:
        """Returns the number of blocks of the device that are free or cached."""
        info = self.device.pool_info()
        return info.free + info.cached

    def get_num_free_cpu_blocks(self) -> int:
        return self.host.pool_info().free if self.host else 0

    def reset_prefix_cache(self) -> bool:
        self.device.reset_all()
        return True

    def get_prefix_cache_hit_rate(self) -> float:
        """Returns the part of the blocks of all lookups that were hits, 0 .. 1; -1 before the first lookup."""
        stats = self.device.stats
        return stats.block_hits / stats.block_queries if stats.block_queries else -1.0

    # ---- inside

    def _held(self, seq: Any) -> _Sequence:
        held = self._sequences.get(seq.seq_id)
        if held is None:
            raise KeyError(f"sequence {seq.seq_id} has no blocks; allocate() or fork() it first")
        return held

    def _on_device(self, seq_group: Any) -> list[Any]:
        return [seq for seq in seq_group.get_seqs() if seq.seq_id in self._sequences and self._held(seq).host_blocks is None]

    def _swapped(self, seq_group: Any) -> list[Any]:
        return [seq for seq in seq_group.get_seqs() if seq.seq_id in self._sequences and self._held(seq).host_blocks is not None]

    def _computed_blocks(self, seq: Any) -> Any:
        held = self._held(seq)
        return held.request.block_table()[: -(-held.computed // self.block_size)]

    def _host_need(self, seq: Any) -> int:
        return int((self._computed_blocks(seq) >= 0).sum())

    def _device_need(self, seq_group: Any, num_lookahead_slots: int) -> int:
        return sum(-(-(self._held(seq).known + num_lookahead_slots) // self.block_size) for seq in self._swapped(seq_group))


def _pairs(sources: Any, destinations: Any) -> list[tuple[int, int]]:
    return [(source, destination) for source, destination in zip(sources.tolist(), destinations.tolist()) if source >= 0 and destination >= 0]


def _single(seq_group: Any) -> list[Any]:
    sequences: list[Any] = seq_group.get_seqs()
    if len(sequences) != 1:
        raise ValueError(f"the group has {len(sequences)} sequences; allocate the prompt with one and fork() the others")
    return sequences


def _tokens(seq: Any) -> Any:
    return np.array(seq.get_token_ids(), np.int32)
