# SPDX-License-Identifier: Apache-2.0
"""Replacements of vLLM's block managers: KVCacheManager for v1 (the interface of vLLM 0.33), BlockSpaceManager for v0. Scheduler is that of
kvcache.integrations.vllm_scheduler, which plans with kvcache.Scheduler.

    import vllm.v1.core.sched.scheduler as scheduler
    from kvcache.integrations.vllm import KVCacheManager
    scheduler.KVCacheManager = KVCacheManager

or by kvcache.integrations.vllm_plugin, with which an engine that asks for what is not supported gets vLLM's own.

Differences from vLLM: a hit is compared token by token, not only by hash; reset_prefix_cache() succeeds while requests run; of equal cached
blocks one is kept; a hit does not end inside an image. Not supported and refused: Mamba with both prefix caching and speculative decoding,
groups of several block sizes, context parallelism, a look-ahead of prefills by more than one token. `coordinator` has what the scheduler and the
engine core read.

Drafts with keys and values of their own (EAGLE, MTP) compute those of a position from the next token, too, so num_hash_lookahead_tokens = n makes the
n tokens behind a block a part of its identity. The library then gets the tokens of a request from token n on, and the first n as a key: its block i,
with all before it, stands for the tokens up to the end of block i and n more.

Publishing follows vLLM: blocks can be found as soon as they are scheduled, which is correct because the kernels of a step run in order. A state that
a step writes can be read by later steps alone, so a request that finds it waits for the next one. Blocks that a window, a chunk or a state has left are
returned when no step in flight reads them. Connectors see blocks published and returned when vLLM's manager would publish and return them. One
thread calls a manager, as in vLLM.
"""

from __future__ import annotations

import functools
import logging
from types import SimpleNamespace
from typing import Any, Iterable, NamedTuple, Optional, Sequence

from .. import __version__, _native
from ..errors import NeverFitsError, NoSpaceError, UnsupportedError
from ..manager import Manager
from ..request import pack_keys
from ._vllm_blocks import NULL_BLOCK, KVCacheBlock, KVCacheBlocks, NoBlocks, blocks_behind, edges_of, identity_keys, layout_of, media_keys, text_of
from ._vllm_events import EventLog, told_apart
from .block_space import AllocStatus, BlockSpaceManager


_log = logging.getLogger("vllm.kvcache")  # vLLM prints what its own loggers and those below them log


class _Refusal(NamedTuple):
    """An admission that found no space: its tokens with slots, hit, and blocks needed and available."""

    needed: int
    hit: int
    whole: bool
    space: tuple[int, int]

    def holds(self, needed: int, hit: int, whole: bool, space: tuple[int, int]) -> bool:
        """Whether there is no space now either. With full attention who holds a block of a hit holds all before it."""
        return hit == self.hit and whole == self.whole and needed >= self.needed and space[0] >= self.space[0] and space[1] <= self.space[1]


class _Prompt:
    """The prompt of a request that was looked up and is not admitted: its tokens and their extra keys. `id`: of the same as a waiting request of the
    library, which hashes it once; 0 = none. `space`: blocks needed and available, if the whole prompt was looked up since the last try to admit it.
    `refused`: a try that found no space. ahead: of the request's tokens, those before the library's first one. most: tokens that the library takes; an
    input may make a session longer, of which vLLM computes no more than max_model_len."""

    __slots__ = ("request", "length", "tokens", "keys", "shared", "lasts", "id", "space", "refused")

    def __init__(self, request: Any, ahead: int, most: int):
        self.request, self.length = request, request.num_tokens
        # The list behind vLLM's read-only view, if it exists, is read several times faster.
        tokens = getattr(request, "_all_token_ids", request.all_token_ids)
        known = self.length > ahead  # else the library gets some token, and shares nothing
        self.tokens = _native.kvc_pack_tokens((tokens[ahead:] if known else tokens[-1:]) if ahead else tokens)[:most]
        self.keys = identity_keys(request, ahead, most) if known else []
        self.shared = request.prompt_embeds is None and known  # embeddings have no token ids to compare
        self.lasts = not getattr(request, "resumable", True)  # an update of a session changes tokens; otherwise they are only appended
        self.id = 0
        self.space: Optional[tuple[int, int]] = None
        self.refused: Optional[_Refusal] = None

    def belongs_to(self, request: Any) -> bool:
        return self.request is request and self.length == request.num_tokens


class KVCacheManager(_native.SlotAllocator):
    """Takes the parameters of vLLM's KVCacheManager. `manager` is the underlying Manager; its block 0 is the null block."""

    reads_hashes = False  # request.block_hashes
    mamba_shared_prefix_checkpoint = False  # vLLM asks for it only with partial hits

    def __init__(self, kv_cache_config: Any, max_model_len: int, scheduler_block_size: int, hash_block_size: int,
                 max_in_flight_tokens: Optional[int] = None, enable_caching: bool = True, use_eagle: bool = False,
                 num_hash_lookahead_tokens: int = 0, num_prefill_lookahead: int = 0, log_stats: bool = False,
                 enable_kv_cache_events: bool = False, dcp_world_size: int = 1, pcp_world_size: int = 1, metrics_collector: Any = None,
                 watermark: float = 0.0, enable_mamba_shared_prefix_checkpoint: bool = False) -> None:
        for name, refused in (("dcp_world_size", dcp_world_size != 1), ("pcp_world_size", pcp_world_size != 1),
                              ("num_prefill_lookahead above 1", num_prefill_lookahead > 1), ("metrics_collector", metrics_collector),
                              ("num_hash_lookahead_tokens with KV cache events", num_hash_lookahead_tokens and enable_kv_cache_events)):
            if refused:
                raise UnsupportedError(f"{name} is not supported by this manager; turn it off, or use vLLM's own (unset KVCACHE_VLLM)")
        self._ahead = num_hash_lookahead_tokens if enable_caching else 0
        layout = self._layout = layout_of(kv_cache_config, enable_caching, hash_block_size, max_model_len)
        if layout.num_states and (use_eagle or self._ahead):
            raise UnsupportedError("drafts of EAGLE, MTP and the like are not supported with Mamba layers and prefix caching; turn one of them off, or use "
                                   "vLLM's own manager (unset KVCACHE_VLLM)")
        groups, self.block_size = layout.groups, layout.block_size
        blocks = kv_cache_config.num_blocks
        self._most_tokens = -(-max_model_len // self.block_size) * self.block_size
        self.max_model_len, self.enable_caching, self.use_eagle, self.log_stats = max_model_len, enable_caching, use_eagle, log_stats
        self.enable_kv_cache_events = enable_kv_cache_events
        self.kv_cache_config, self.groups, self.num_kv_cache_groups = kv_cache_config, groups, len(groups)
        self.manager = Manager(
            blocks, self.block_size, groups=[groups[i] for i in sorted(range(len(groups)), key=layout.order.__getitem__)], null_block=True,
            prefix_cache=enable_caching, max_requests=min(blocks + 1, 262143),
            max_request_tokens=0 if layout.num_fixed else self._most_tokens, watermark_blocks=int(watermark * blocks),
            event_capacity=min(4 * blocks, 1 << 24) if enable_kv_cache_events else 0)
        self.empty_kv_cache_blocks = NoBlocks(len(groups))
        self.block_pool = _BlockPool(self.manager)
        self.coordinator = _Coordinator(self, max_in_flight_tokens or max_model_len)
        self.prefix_cache_stats = _new_stats() if log_stats else None
        edges = [edge for group in groups for edge in [edges_of(group, self.block_size)] if edge is not None]
        self._lossy = bool(edges)  # some table loses blocks
        self._watermark = int(watermark * blocks)
        self._live: dict[str, _native.Admitted] = {}
        self._media: dict[str, int] = {}  # images and the like of a session that the library knows
        self._prompts: dict[str, _Prompt] = {}
        self._never: set[str] = set()  # requests that can never fit, and were told
        self._waiting: Optional[_Prompt] = None  # the one whose prompt the library keeps
        self._info, self._config = _native.kvc_probe_info(), _native.kvc_request_config()
        self._zeroing = bool(getattr(kv_cache_config, "needs_kv_cache_zeroing", False))
        self._new_ids: list[int] = []
        self._events = EventLog(self.manager, kv_cache_config, self.block_size) if enable_kv_cache_events else None
        # Its allocate_slots() handles running requests, and calls _allocate_slots() for all others.
        super().__init__(self._live, self.empty_kv_cache_blocks, KVCacheBlocks, max_model_len,
                         edges, enable_caching, not self._zeroing, bytes(i for i, group in enumerate(groups) if group.state))
        kinds = ", ".join(map(text_of, groups))
        _log.info("kvcache %s: its KVCacheManager runs in place of vLLM's: %d blocks of %d tokens, groups: %s", __version__, blocks, self.block_size, kinds)

    # ---- finding and allocating

    @property
    def usage(self) -> float:
        """Part of the blocks that requests hold, 0 .. 1."""
        return self.manager.usage

    def prefix_cache_lookup_enabled(self, request: Any) -> bool:
        return self.enable_caching and not request.skip_reading_prefix_cache

    def get_computed_blocks(self, request: Any, max_cache_hit_length: Optional[int] = None) -> tuple[KVCacheBlocks, int, int]:
        """Returns the blocks of the longest cached prefix, its tokens, and the tokens that only some group could reuse (or 0). Holds nothing. It
        changes nothing until the ids of the blocks are read, which makes these blocks the most recently used."""
        prompt = self._prompts.get(request.request_id)
        if prompt is None or not prompt.lasts or not prompt.belongs_to(request):
            self._forget(prompt)
            prompt = self._prompts[request.request_id] = _Prompt(request, self._ahead, self._most_tokens)
        prompt.space = None
        if not self.prefix_cache_lookup_enabled(request) or not prompt.shared:
            return self.empty_kv_cache_blocks, 0, 0
        if prompt.refused is not None and not prompt.id:
            self._let_wait(prompt)
        cached, lost = self._probe(prompt, max_cache_hit_length)
        if self.use_eagle and cached:  # the draft head needs the hidden states of the last block
            cached, lost = self._probe(prompt, cached - self.block_size)
        boundary = cached + lost if lost else 0
        if not cached:
            return self.empty_kv_cache_blocks, 0, boundary
        return KVCacheBlocks(lambda: self._peek(prompt, cached)), cached, boundary

    def get_computed_blocks_for_connector(self, request: Any, max_cache_hit_length: Optional[int] = None) -> tuple[KVCacheBlocks, int, int, bool]:
        return *self.get_computed_blocks(request, max_cache_hit_length), False

    def _allocate_slots(self, request: Any, num_new_tokens: int, num_new_computed_tokens: int = 0,
                        new_computed_blocks: Optional[KVCacheBlocks] = None, num_lookahead_tokens: int = 0,
                        num_external_computed_tokens: int = 0, delay_cache_blocks: bool = False, num_encoder_tokens: int = 0,
                        full_sequence_must_fit: bool = False, reserved_blocks: int = 0, has_scheduled_reqs: bool = True,
                        skip_zeroing_group_ids: tuple[int, ...] = ()) -> Optional[KVCacheBlocks]:
        if num_new_tokens + num_new_computed_tokens + num_external_computed_tokens <= 0:
            raise ValueError("num_new_tokens is 0 and no computed tokens are taken over; give at least one token")
        start = request.num_computed_tokens + num_new_computed_tokens + num_external_computed_tokens
        needed = min(start + num_new_tokens + num_lookahead_tokens, self.max_model_len)
        end = min(start + num_new_tokens, self.max_model_len)
        live = self._live.get(request.request_id)
        new: Optional[KVCacheBlocks] = self.empty_kv_cache_blocks
        if live is None:
            inside = 0 if num_external_computed_tokens else self._layout.inside(start, end)
            live = self._admit(request, end, needed, num_new_computed_tokens, full_sequence_must_fit, reserved_blocks,
                               num_external_computed_tokens, inside, num_encoder_tokens)
            if live is None:
                return None
            if inside:
                live.stop_at(inside)
            first = -(-(num_new_computed_tokens + num_external_computed_tokens) // self.block_size)
            new = KVCacheBlocks(functools.partial(live.ids, first, live.num_blocks))
            if self._zeroing:
                self._record_for_zeroing(live, num_new_computed_tokens // self.block_size, first, skip_zeroing_group_ids)
        else:
            if num_encoder_tokens:
                raise UnsupportedError(f"num_encoder_tokens is {num_encoder_tokens} for a request that has blocks; give it when the request gets the first ones")
            if self._lossy:
                self._commit(live, request, 0, self._processed(request))
            if full_sequence_must_fit and self._count_whole(request, 0, start, 0) > self.block_pool.get_num_free_blocks():
                return None
            if reserved_blocks and self._layout.blocks_for(needed, live.num_blocks, False) > self.block_pool.get_num_free_blocks() - reserved_blocks:
                return None
            if needed > live.num_blocks * self.block_size:
                ids = self._grow(live, needed, self._layout.inside(start, end))
                if ids is None:
                    return None
                new = KVCacheBlocks(ids)
                if self._zeroing:
                    self._record(ids)
        if not delay_cache_blocks:
            self._commit(live, request, end, self._processed(request) if self._lossy else 0)
        return new

    def _grow(self, live: _native.Admitted, needed: int, inside: int) -> Optional[list[list[int]]]:
        """Takes slots for `needed` tokens, and with `inside` blocks for the states after as many tokens. Returns the new blocks."""
        if inside <= live.num_blocks * self.block_size:
            return live.grow(needed)
        if self._layout.blocks_for(needed, live.num_blocks, True) > self.block_pool.get_num_free_blocks():
            return None
        if not live.stop_at(inside):
            return live.grow(needed)
        parts = live.grow(inside), live.grow(needed)
        return [ids + more for ids, more in zip(*(part or [] for part in parts))]

    def _probe(self, prompt: _Prompt, limit: Optional[int]) -> tuple[int, int]:
        """Returns the cached tokens (at most `limit`, and at most all tokens but one), and the tokens that only some group has after them."""
        tokens, keys = prompt.tokens, prompt.keys
        if limit is not None and limit + 1 < len(tokens):
            length = limit + 1
            # No hit ends inside a span, so a span that the limit cuts is left out.
            while cut := [key.first_token for key in keys if key.first_token < length < key.first_token + key.num_tokens]:
                length = min(cut)
            tokens, keys = tokens[:length], [key for key in keys if key.first_token < length]
        whole = len(tokens) == len(prompt.tokens)
        if whole and prompt.id:
            _native.kvc_manager_probe_request(self.manager._m, prompt.id, self._info)
        else:
            _native.kvc_manager_probe(self.manager._m, 0, tokens, pack_keys(keys), self._info)
        if whole:
            prompt.space = self._info.blocks_needed, self._info.blocks_available
        return self._info.num_cached, self._info.lost_reuse_tokens

    def _let_wait(self, prompt: _Prompt) -> None:
        """Makes a waiting request of the prompt. There is one at a time: the scheduler tries the first of its queue again and again."""
        self._forget(self._waiting)
        prompt.id = _native.kvc_manager_create_request(self.manager._m, 0, prompt.tokens, pack_keys(prompt.keys), None)
        self._waiting = prompt

    def _forget(self, prompt: Optional[_Prompt]) -> None:
        if prompt is not None and prompt.id:
            _native.kvc_manager_free_request(self.manager._m, prompt.id)
            prompt.id, self._waiting = 0, None

    def _peek(self, prompt: _Prompt, cached: int) -> list[list[int]]:
        return [self._peek_group(prompt, cached, group) for group in range(len(self.groups))]

    def _peek_group(self, prompt: _Prompt, cached: int, group: int) -> list[int]:
        keys = [key for key in prompt.keys if key.first_token < cached]
        held = self.manager.acquire_prefix(prompt.tokens[:cached], keys, group=self._layout.order[group])
        self.manager.release_blocks(held)
        return [NULL_BLOCK if id < 0 else id for id in held.tolist()]

    def _fixed_blocks(self, num_encoder_tokens: int) -> int:
        """Returns the number of blocks in each table that does not grow."""
        if num_encoder_tokens and (not self._layout.num_fixed or self._layout.fixed_blocks):
            raise UnsupportedError(f"num_encoder_tokens is {num_encoder_tokens}; the model has no cross attention")
        return self._layout.fixed_blocks or -(-num_encoder_tokens // self.block_size)

    def _admit(self, request: Any, end: int, needed: int, hit: int, whole: bool, reserved: int, external: int, inside: int,
               num_encoder_tokens: int) -> Optional[_native.Admitted]:
        if self._fresh and hit and self._hits_fresh(request, hit):
            return None
        fixed, computed = self._fixed_blocks(num_encoder_tokens), hit + external
        written = external or max(0, inside - hit)  # states that are written before that of the step's end
        prompt = self._prompts.pop(request.request_id, None)
        if prompt is None or not prompt.belongs_to(request):
            self._forget(prompt)
            prompt = _Prompt(request, self._ahead, self._most_tokens)  # it was not looked up
        if prompt.lasts:  # if there is no space, it is looked up in the next step
            self._prompts[request.request_id] = prompt
        known = len(prompt.tokens)
        space, prompt.space = prompt.space, None
        if space is not None and prompt.refused is not None and not self._lossy and self._live and prompt.refused.holds(needed, hit, whole, space):
            return None
        refused = None if space is None else _Refusal(needed, hit, whole, space)
        # Beside windows whose blocks come and go the library would count other numbers of tokens in flight, and it knows none of the tokens that a
        # hash looks ahead for. And a step through a state may write into all windows: its slots come in two parts, the second of which must not fail.
        counted = whole and (self._lossy or self._ahead > 0)
        parts = inside > hit and self._layout.has_windows
        if counted or parts:
            room = self.block_pool.get_num_free_blocks() - self._idle_hits(prompt, hit, computed) - (self._watermark if self._live else 0)
            count = self._count_whole(request, hit, computed, num_encoder_tokens) if whole else 0
            if parts:
                count = max(count, self.coordinator.num_new_blocks(request.request_id, needed, hit // self.block_size, num_encoder_tokens, computed, end, False))
            if count > room:
                prompt.refused = refused
                return None
        if reserved:
            self._probe(prompt, None)
            blocks = self._layout.blocks_for(needed, hit // self.block_size, bool(written)) + self._layout.num_fixed * fixed
            if hit:  # cached blocks of the hit that nobody holds
                blocks += self._info.blocks_needed - self._layout.blocks_for(known, hit // self.block_size, False)
            if blocks > self._info.blocks_available - reserved:
                return None
        config = self._config
        # The input of a session takes the place of the last sampled token, which may be a part of a block's identity already.
        published = prompt.shared and not (self._ahead and getattr(request, "resumable", False))
        config.flags = ((0 if hit else _native.KVC_REQUEST_NO_READ) | (0 if published else _native.KVC_REQUEST_NO_WRITE)
                        | (_native.KVC_REQUEST_FULL_MUST_FIT if whole and not counted else 0) | (_native.KVC_REQUEST_RESUMED if request.num_preemptions else 0))
        if self._layout.num_fixed:
            config.cross_tokens = fixed * self.block_size
        config.max_cached_tokens, config.lookahead = hit, max(0, needed - known)
        slots = min(-(-needed // self.block_size) * self.block_size, known) - hit  # to the end of the last block
        if parts:
            config.external_tokens, slots = 0, inside - hit
        elif self._layout.num_states:
            config.external_tokens = written = written if written < slots else 0
            slots -= written
        config.slots = max(1, slots)  # 0 means all tokens
        m = self.manager._m
        try:
            id, cached = _native.kvc_manager_allocate_request(m, 0, prompt.tokens, pack_keys(prompt.keys), config)
        except NoSpaceError as error:
            prompt.refused = refused
            if isinstance(error, NeverFitsError):
                self._tell_never(request.request_id, error)
            return None
        if cached != hit:
            _native.kvc_manager_free_request(m, id)
            return None
        self._forget(self._prompts.pop(request.request_id, None))
        live = _native.Admitted(m, id, known, hit, self.block_size, len(self.groups), self._layout.order, self._layout.num_fixed, self._ahead)
        if parts and live.grow(needed) is None:
            _native.kvc_manager_free_request(m, id)
            return None
        self._live[request.request_id] = live
        told = self._events is not None and told_apart(request)
        session = getattr(request, "resumable", False)
        if session and not self._ahead:  # else it publishes nothing
            self._media[request.request_id] = len(request.mm_features)
        live.watched = told or session
        return live

    def _hits_fresh(self, request: Any, hit: int) -> bool:
        """Whether a hit ends with a state that this step writes: its kernels read the states before they write any, so the request waits for the next
        step."""
        prompt = self._prompts.get(request.request_id)
        if prompt is None or not prompt.belongs_to(request):
            prompt = _Prompt(request, self._ahead, self._most_tokens)
        return any(group.state and not self._fresh.isdisjoint(self._peek_group(prompt, hit, i)[-1:]) for i, group in enumerate(self.groups))

    def _tell_never(self, request_id: str, error: NeverFitsError) -> None:
        """vLLM has no word for a request that can never fit: it waits, and so do those behind it, until somebody aborts it."""
        if request_id not in self._never:
            self._never.add(request_id)
            _log.error("request %s can never run, and those behind it wait: abort it, or lower max_model_len. %s", request_id, error)

    def _commit_watched(self, live: _native.Admitted, request: Any, tokens: Any, num_tokens: int, computed: int) -> None:
        """Commits for a session, or for a request whose events are told apart. A session may have got media that the library does not know."""
        known = self._media.get(request.request_id)
        if known is not None and len(request.mm_features) > known:
            _native.kvc_manager_add_keys(self.manager._m, live.id, pack_keys(media_keys(
                request.mm_features[known:], live.ahead, self._most_tokens)))  # an input may end behind what the engine computes
            self._media[request.request_id] = len(request.mm_features)
        if self._events is not None:
            self._events.read()
        live.commit(tokens, num_tokens, computed)
        if self._events is not None:
            self._events.read(request)

    def _count_whole(self, request: Any, hit: int, computed: int, num_encoder_tokens: int) -> int:
        """vLLM's count of the new blocks that must fit before a prompt is begun: of a window or a chunk the most that a request ever holds."""
        length = min(request.num_tokens, self.max_model_len)
        return self.coordinator.num_new_blocks(request.request_id, length, hit // self.block_size, num_encoder_tokens, computed, length, True)

    def _idle_hits(self, prompt: _Prompt, hit: int, computed: int) -> int:
        """Returns the number of cached blocks of a hit that nobody holds, and that the admission takes."""
        if not hit:
            return 0
        self._probe(prompt, hit)
        prompt.space = None
        if self._info.num_cached == hit == computed:
            return self._info.blocks_needed - self._layout.blocks_for(hit + 1, hit // self.block_size, False)
        return self.coordinator.num_idle_blocks(KVCacheBlocks(self._peek(prompt, hit)).blocks, 0, computed)

    def _processed(self, request: Any) -> int:
        """Number of tokens that no step in flight computes."""
        processed: int = max(0, request.num_computed_tokens - request.num_in_flight_tokens)
        return processed

    def _tables(self, live: _native.Admitted) -> list[list[int]]:
        if self._lossy:
            live.refresh()
        return live.ids()

    # ---- publishing and freeing

    def remove_skipped_blocks(self, request_id: str, processed_computed_tokens: int, num_prompt_tokens: Optional[int] = None) -> None:
        """Frees the blocks behind a window or a chunk. Publishes nothing: a connector may not have loaded what counts as computed."""
        live = self._live.get(request_id)
        if self._lossy and live is not None:
            live.commit((), live.committed, processed_computed_tokens)

    def free(self, request: Any) -> None:
        """Frees the request. Its published blocks stay cached; the deepest is evicted first."""
        live = self._pop(request)
        if live is not None:
            _native.kvc_manager_free_request(self.manager._m, live.id)

    def pop_blocks_for_free(self, request: Any) -> list[KVCacheBlock]:
        """Ends a request and returns its blocks. They become free when the engine has passed all of them to block_pool.free_blocks()."""
        live = self._pop(request)
        if live is None:
            return []
        blocks = [KVCacheBlock(id, live) for ids in self._tables(live) for id in ids if id != NULL_BLOCK]
        live.unreturned = len(blocks)
        if not blocks:
            _native.kvc_manager_free_request(self.manager._m, live.id)
        return blocks

    def _pop(self, request: Any) -> Optional[_native.Admitted]:
        self._forget(self._prompts.pop(request.request_id, None))
        live = self._live.pop(request.request_id, None)
        try:
            if live is not None and self._layout.has_windows:  # a state in the table leaves last, as in vLLM
                try:
                    live.commit((), live.committed, self._processed(request))  # as remove_skipped_blocks()
                except BaseException:  # nobody knows it any more
                    _native.kvc_manager_free_request(self.manager._m, live.id)
                    raise
        finally:
            self._media.pop(request.request_id, None)
            self._never.discard(request.request_id)
        return live

    def reset_prefix_cache(self) -> bool:
        """Forgets all cached content. Always succeeds: running requests keep their blocks and publish nothing more."""
        self._forget(self._waiting)
        self.manager.reset_all()
        if self.prefix_cache_stats is not None:
            self.prefix_cache_stats.reset = True
        return True

    def evict_blocks(self, block_ids: set[int]) -> None:
        """Makes blocks unfindable by their ids, for example when a connector failed to load them."""
        self.manager.unpublish_blocks([id for id in sorted(block_ids) if id != NULL_BLOCK])

    # ---- what requests hold

    def get_blocks(self, request_id: str) -> KVCacheBlocks:
        """Returns the block table of a request; empty if it holds nothing. Entries that left a window or a chunk are block 0."""
        live = self._live.get(request_id)
        if live is None:
            return self.empty_kv_cache_blocks
        return KVCacheBlocks(self._tables(live) if self._lossy else functools.partial(live.ids, 0, live.num_blocks))

    def get_block_ids(self, request_id: str) -> tuple[list[int], ...]:
        live = self._live.get(request_id)
        return tuple(self._tables(live)) if live is not None else self.empty_kv_cache_blocks.get_block_ids()

    def get_block_ids_for_computed_tokens(self, request_id: str, num_computed_tokens: int) -> tuple[list[int], ...]:
        blocks = -(-num_computed_tokens // self.block_size)
        return tuple(ids if group.state or group.cross else ids[:blocks] for group, ids in zip(self.groups, self.get_block_ids(request_id)))

    def get_num_common_prefix_blocks(self, running_request_id: str) -> list[int]:
        """Returns, per group, the number of first blocks that the tables of all requests have in common (for cascade attention)."""
        running = [live.id for live in self._live.values()] if running_request_id in self._live else []
        return [self.manager.common_prefix(running, group) for group in self._layout.order]

    def estimate_cached_tokens(self, request: Any) -> int:
        live = self._live.get(request.request_id)
        return live.committed - live.committed % self.block_size if live is not None else 0

    def create_kv_cache_blocks(self, blocks: tuple[list[KVCacheBlock], ...]) -> KVCacheBlocks:
        return KVCacheBlocks([[block.block_id for block in group] for group in blocks])

    def truncate_computed_blocks(self, blocks: KVCacheBlocks, num_computed_tokens: int) -> KVCacheBlocks:
        """Returns the first num_computed_tokens tokens, a multiple of the block size, of the result of a lookup."""
        if num_computed_tokens % self.block_size:
            raise ValueError(f"num_computed_tokens {num_computed_tokens} is not a multiple of the block size {self.block_size}")
        return KVCacheBlocks([ids[: num_computed_tokens // self.block_size] for ids in blocks.get_block_ids()])

    # ---- what the engine collects every step

    def take_new_block_ids(self) -> list[int]:
        """Returns the new blocks to clear before use, if the engine's configuration asks for it."""
        ids, self._new_ids = self._new_ids, []
        return ids

    def record_blocks_for_zeroing(self, request_id: str, start_token: int) -> None:
        """Records the blocks of a request from start_token on again, after a failed load."""
        live = self._live[request_id]
        if self._zeroing:
            self._record_for_zeroing(live, start_token // self.block_size, 0, ())

    def _record_for_zeroing(self, live: _native.Admitted, first: int, first_unloaded: int, loaded_groups: Iterable[int]) -> None:
        begin = [0 if self._layout.is_fixed(group) else max(first, first_unloaded) if group in loaded_groups else first for group in range(len(self.groups))]
        self._record([ids[i:] for i, ids in zip(begin, live.ids())])

    def _record(self, tables: list[list[int]]) -> None:
        for group, ids in zip(self.groups, tables):
            if not group.state and not (group.cross and self._layout.fixed_blocks):  # as in vLLM, states are not cleared
                self._new_ids += [id for id in ids if id != NULL_BLOCK]

    def take_kv_cache_block_copies(self) -> tuple[list[Any], list[Any]]:
        """Empty: without partial hits and forks no block is copied."""
        return [], []

    def take_boundary_state_offloads(self) -> dict[str, list[tuple[int, int, int]]]:
        """Empty: connectors get no Mamba states."""
        return {}

    def finalize_partial_tail_offloads(self, request: Any) -> list[tuple[int, int, int]]:
        """Empty: no state inside a block is cached."""
        return []

    def new_step_starts(self) -> None:
        """The states that the step before has written can be read."""
        self._fresh.clear()

    def take_events(self) -> list[Any]:
        """Returns vLLM's events since the last call. Raises RuntimeError if some were lost: consumers must then read the state anew."""
        return self._events.take() if self._events is not None else []

    def make_prefix_cache_stats(self) -> Any:
        """Returns vLLM's PrefixCacheStats since the last call; None without log_stats."""
        stats, self.prefix_cache_stats = self.prefix_cache_stats, _new_stats() if self.log_stats else None
        return stats

    def record_prefix_cache_stats(self, request: Any, num_hits: int) -> None:
        if self.prefix_cache_stats is not None and self.prefix_cache_lookup_enabled(request):
            self.prefix_cache_stats.record(num_tokens=request.num_tokens, num_hits=num_hits, preempted=request.num_preemptions > 0)


class _BlockPool:
    """The part of vLLM's BlockPool that schedulers use."""

    def __init__(self, manager: Manager):
        self._manager = manager

    def get_num_free_blocks(self) -> int:
        """Returns the number of blocks that are free or cached."""
        info = self._manager.pool_info()
        return info.free + info.cached

    def get_usage(self) -> float:
        return self._manager.usage

    def free_blocks(self, ordered_blocks: Iterable[KVCacheBlock]) -> None:
        """Frees blocks of pop_blocks_for_free()."""
        for block in ordered_blocks:
            live = block.owner
            if live is None or not live.unreturned:
                raise ValueError(f"block {block.block_id} does not come from pop_blocks_for_free(), or was given back before")
            live.unreturned -= 1
            if not live.unreturned:
                _native.kvc_manager_free_request(self._manager._m, live.id)


class _Coordinator:
    """The part of vLLM's KVCacheCoordinator that the scheduler and the engine core read."""

    enable_partial_hash_hits, num_reprefillable_tokens = False, 0

    def __init__(self, owner: KVCacheManager, max_in_flight_tokens: int):
        self._owner = owner
        self._most = [_most_blocks(entry.kv_cache_spec, max_in_flight_tokens, owner.max_model_len) if group.window_tokens or group.chunk_tokens else None
                      for group, entry in zip(owner.groups, owner.kv_cache_config.kv_cache_groups)]
        self.single_type_managers = [
            SimpleNamespace(kv_cache_group_id=i, block_size=entry.kv_cache_spec.block_size, kv_cache_spec=entry.kv_cache_spec, retains_longer_hit=False)
            for i, entry in enumerate(owner.kv_cache_config.kv_cache_groups)]

    def get_num_blocks_to_allocate(self, request_id: str, num_tokens: int, new_computed_blocks: Sequence[Sequence[KVCacheBlock]],
                                   num_encoder_tokens: int, total_computed_tokens: int, num_local_computed_tokens: int,
                                   num_tokens_main_model: int, apply_admission_cap: bool = False, prefill_end: int = 0) -> int:
        """Returns the blocks that become unavailable when the request gets slots for num_tokens in all, of which new_computed_blocks are its
        hit. With apply_admission_cap, a window or a chunk counts with the most blocks that a request ever holds in it."""
        owner = self._owner
        if any(group.state and found and found[-1].block_id in owner._fresh for group, found in zip(owner.groups, new_computed_blocks)):
            return int(owner.kv_cache_config.num_blocks) + 1  # as vLLM says: not in this step
        blocks = self.num_new_blocks(request_id, num_tokens, max(map(len, new_computed_blocks)), num_encoder_tokens, total_computed_tokens,
                                     num_tokens_main_model, apply_admission_cap)
        live = owner._live.get(request_id)
        return blocks + self.num_idle_blocks(new_computed_blocks, live.num_blocks if live is not None else 0, total_computed_tokens)

    def num_new_blocks(self, request_id: str, num_tokens: int, found: int, num_encoder_tokens: int, total_computed_tokens: int,
                       num_tokens_main_model: int, apply_admission_cap: bool) -> int:
        """As get_num_blocks_to_allocate(), but for the blocks of the hit, of which there are `found` in each table."""
        owner, blocks = self._owner, 0
        live = owner._live.get(request_id)
        held = live.num_blocks if live is not None else 0
        inside = owner._layout.inside(total_computed_tokens, num_tokens_main_model)
        if live is None:
            blocks += owner._layout.num_fixed * owner._fixed_blocks(num_encoder_tokens)
        for group, most in zip(owner.groups, self._most):
            if group.cross:
                continue
            if group.state:
                new = -(-num_tokens_main_model // owner.block_size) - found - held
                blocks += min(max(0, new), 1 + bool(inside))
                continue
            needed = -(-num_tokens // owner.block_size)
            if apply_admission_cap and most is not None:
                needed = min(needed, most)
            behind = blocks_behind(group, owner.block_size, total_computed_tokens)
            blocks += max(0, needed - max(behind if live is None else 0, held + found))
        return blocks

    def num_idle_blocks(self, new_computed_blocks: Sequence[Sequence[KVCacheBlock]], held: int, total_computed_tokens: int) -> int:
        """Returns the number of blocks of a hit that nobody holds, those excepted that a window has left after so many tokens."""
        owner = self._owner
        taken = (block.block_id for group, found in zip(owner.groups, new_computed_blocks) if not group.cross
                 for block in found[max(0, blocks_behind(group, owner.block_size, total_computed_tokens) - held):] if not block.is_null)
        return sum(owner.manager.block_info(id).requests == 0 for id in taken)


def _most_blocks(spec: Any, max_in_flight_tokens: int, max_model_len: int) -> Optional[int]:
    most = getattr(spec, "max_admission_blocks_per_request", None)
    return None if most is None else int(most(max_in_flight_tokens, max_model_len))


def _new_stats() -> Any:
    from vllm.v1.metrics.stats import PrefixCacheStats

    return PrefixCacheStats()


def __getattr__(name: str) -> Any:
    if name == "Scheduler":  # it needs vLLM, and this module does not
        from .vllm_scheduler import Scheduler

        return Scheduler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["AllocStatus", "BlockSpaceManager", "KVCacheBlock", "KVCacheBlocks", "KVCacheManager"]
