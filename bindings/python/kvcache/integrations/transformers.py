# SPDX-License-Identifier: Apache-2.0
"""A transformers.Cache with keys and values in the library: paged, shared between calls of generate(), of any stored type.

    pool = CachePool(model.config, num_blocks=1024)              # blocks of 16 tokens, for all calls
    sequences = pool.generate(model, input_ids, max_new_tokens=64)   # cached prefixes of input_ids are not computed again

or, step by step, with any caller of the model:

    with pool.new_cache(input_ids) as cache:
        sequences = model.generate(input_ids, past_key_values=cache, max_new_tokens=64)
        cache.commit(sequences)                                  # publishes the generated tokens too

model.set_attn_implementation("kvcache") lets the model read keys and values in their blocks. Otherwise each layer gathers all that its new
tokens see, in each step.

For models on the CPU whose layers have full or sliding-window attention. A pool belongs to one model, because equal tokens must have equal keys
and values; give each adapter a `namespace`. One thread uses a cache; any thread may use a pool.
"""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple, Optional, Sequence

import numpy as np
import torch
from transformers.cache_utils import Cache, CacheLayerMixin
from transformers.generation import GenerationMixin, StoppingCriteria, StoppingCriteriaList

from ..constants import RequestFlags
from ..errors import UnsupportedError
from ..manager import Group, Manager
from ..request import Request
from ..storage import Storage
from ._transformers_attention import NAME, paged

# Parameters of forward() that change no keys and values, or that generate() here takes itself.
_NOT_INPUTS = {"input_ids", "attention_mask", "cache", "past_key_values", "use_cache", "logits_to_keep", "output_attentions", "output_hidden_states",
               "output_router_logits", "return_dict", "self", "args", "kwargs"}
_UNSHARED = RequestFlags.NO_READ | RequestFlags.NO_WRITE
# What generate() calls a cache: transformers renamed it.
_CACHE = "cache" if "cache" in inspect.signature(GenerationMixin.prepare_inputs_for_generation).parameters else "past_key_values"
# With these, generate() gives the model all of the prompt in its first step, whatever the cache holds, and takes tokens back later.
_ASSISTED = ("prompt_lookup_num_tokens", "assistant_model", "assistant_early_exit")
_COMPARED = 16  # tokens by which a cache knows that they come again
_APART = 0.1  # of the length of a key: quantized activations move it by up to 0.05, a shift by one position by about 0.2


def _layer_windows(config: Any) -> list[int]:
    """Returns the window of each layer; 0 = full attention."""
    window: int = getattr(config, "sliding_window", None) or 0
    types: list[str] = getattr(config, "layer_types", None) or ["sliding_attention" if window else "full_attention"] * config.num_hidden_layers
    unknown = sorted(set(types) - {"full_attention", "sliding_attention"})
    unknown += [name for name in ("num_kv_shared_layers", "kv_lora_rank", "cross_attention_layers", "is_encoder_decoder", "add_cross_attention")
                if getattr(config, name, None)]  # layers without keys of their own, latent keys (MLA), keys that other inputs decide
    if unknown:
        raise UnsupportedError(f"layers of kind {', '.join(unknown)} are not supported; use the model's own cache")
    return [window if kind == "sliding_attention" else 0 for kind in types]


def _num_kv_heads(config: Any) -> int:
    """Returns the heads of the keys that a layer gives to its cache, whatever its configuration calls them."""
    if getattr(config, "new_decoder_architecture", False):  # Falcon copies its few heads before
        return int(config.num_attention_heads)
    queries = getattr(config, "multi_query", None)
    if queries:
        return 1
    name = "num_key_value_heads" if queries is None else "num_kv_heads"
    return int(getattr(config, name, None) or config.num_attention_heads)


def _setting(name: str, options: dict[str, Any], defaults: Any) -> Any:
    """Returns a parameter of generate(): an option, else one of its generation_config, else a default of the model."""
    found = [getattr(config, name, None) for config in (options.get("generation_config"), defaults)]
    return options[name] if name in options else next((value for value in found if value is not None), None)


def _refused(options: dict[str, Any], defaults: Any, windows: bool) -> list[str]:
    """Returns the parameters that ask generate() for what a PagedCache cannot do: rows that change places, tokens taken back behind a window, and
    what does not go on from a cache with tokens."""
    single = ("num_beams", "num_beam_groups")
    others = (*(_ASSISTED if windows else ()), "use_mtp", "penalty_alpha", "dola_layers", "constraints", "force_words_ids", "custom_generate",
              "cache_implementation", "prefill_chunk_size")
    return [*(name for name in single if (_setting(name, options, defaults) or 1) != 1), *(name for name in others if _setting(name, options, defaults)),
            *(["use_cache=False"] if _setting("use_cache", options, defaults) is False else [])]


def _inputs_beside_ids(model: Any) -> set[str]:
    """Returns the inputs of a model other than input_ids, their mask and a cache."""
    return set(inspect.signature(model.forward).parameters) - _NOT_INPUTS


def _is_padded(input_ids: torch.Tensor, attention_mask: Optional[torch.Tensor], defaults: Any, options: dict[str, Any]) -> bool:
    """Whether generate() treats tokens of the prompts as padding. Without a mask, every pad_token_id is padding, unless that id is also an
    end-of-sequence id. options and their generation_config take precedence over the defaults."""
    if attention_mask is not None:
        return not bool(attention_mask.all())

    def ids(name: str) -> torch.Tensor:
        value = _setting(name, options, defaults)
        return torch.as_tensor([] if value is None else value, dtype=torch.long).reshape(-1)

    pad = ids("pad_token_id")
    return bool(torch.isin(input_ids.cpu(), pad).any()) and not bool(torch.isin(pad, ids("eos_token_id")).any())


class _GroupStore:
    """The layers of one group: their storage, and its first block id."""

    def __init__(self, manager: Manager, index: int, window: int, storage: Storage):
        self.manager, self.index, self.window, self.storage = manager, index, window, storage
        self.first_slot = manager.pool_info(index).first_block * storage.block_size

    def slots(self, requests: Sequence[Request], first: int, last: int) -> Any:
        """Returns the slots in the storage of tokens first .. last - 1 of each request: int64 [requests * tokens]."""
        slots = np.concatenate([request.slots(first, last - first, self.index) for request in requests])
        if (slots < 0).any():
            raise RuntimeError(f"tokens {first} .. {last - 1} are partly behind the window of {self.window}; they cannot be read again")
        return slots - self.first_slot

    def tables(self, requests: Sequence[Request], capacity: int) -> Any:
        """Returns the block tables in the storage: int32 [requests, entries]. Entries behind the window are 0."""
        first = self.first_slot // self.storage.block_size
        tables = np.empty((len(requests), -(-capacity // self.storage.block_size)), np.int32)
        return self.manager.block_tables(np.array([request.id for request in requests], np.uint64), tables, self.index, first) - np.int32(first)


class _Step(NamedTuple):
    """A call of the model as the layers of a group see it: tokens first .. last - 1 of each request are new."""

    first: int
    last: int
    slots: Any  # int64 [requests * tokens], of the new tokens
    tables: Any  # int32 [requests, entries], block ids in the storage
    lens: Any  # uint64 [requests]
    offsets: Any  # uint64 [requests + 1], of queries


class CachePool:
    """Blocks for the keys and values of one model.

    num_blocks: blocks of each kind of layer (full attention, sliding window). dtype: "float32", "bfloat16", "float16", "int8", or any other of
    kvcache.Storage; default: that of the configuration. retention_tokens: also keep the windows before every multiple of it reusable, besides
    those at the ends of prompts and sequences. num_threads: of one call; default: torch.get_num_threads(). Other options are those of
    kvcache.Storage (scale_group, flags, ...)."""

    def __init__(self, config: Any, num_blocks: int, block_size: int = 16, dtype: Optional[str] = None, retention_tokens: int = 0,
                 **storage_options: Any):
        config = self._config = config.get_text_config(decoder=True)
        windows = _layer_windows(config)
        kinds = sorted(set(windows))
        if len(kinds) > 2 or (len(kinds) == 2 and kinds[0]):
            raise UnsupportedError(f"layers have windows of {kinds} tokens; one size of window is supported")
        heads = _num_kv_heads(config)
        dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        stored = dtype or str(getattr(config, "dtype", None) or torch.float32).removeprefix("torch.")
        groups = [Group(window, retention_tokens=retention_tokens if window else 0, pool=i) for i, window in enumerate(kinds)]
        storage_options.setdefault("num_threads", torch.get_num_threads())
        self.manager = Manager([num_blocks] * len(kinds), block_size, groups=groups)
        self._groups = [
            _GroupStore(self.manager, i, window, Storage(num_blocks, windows.count(window), heads, dim, dtype=stored,
                                                         block_size=block_size, **storage_options))
            for i, window in enumerate(kinds)]
        # For each layer of the model: its group, and its index in the group.
        self._places = [(self._groups[kinds.index(window)], windows[:layer].count(window)) for layer, window in enumerate(windows)]

    @property
    def storages(self) -> list[Storage]:
        """The storages, one per kind of layer; full attention first."""
        return [group.storage for group in self._groups]

    @property
    def reads_in_place(self) -> bool:
        """Whether the model's attention is "kvcache", as its configuration says."""
        return getattr(self._config, "_attn_implementation", None) == NAME

    def new_cache(self, input_ids: torch.Tensor, attention_mask: Optional[torch.Tensor] = None, namespace: Any = 0) -> PagedCache:
        """Returns a cache for prompts [batch, tokens]. It holds the longest prefix that is cached for all of them. Padded prompts share nothing:
        prompts whose mask has a 0 and, without a mask, prompts in which transformers finds padding (see generate()). Give the model the same
        mask, or none if there is none here. Raises NoSpaceError; then nothing is held."""
        return self._new_cache(input_ids, _is_padded(input_ids, attention_mask, self._config, {}), namespace)

    def _new_cache(self, input_ids: torch.Tensor, padded: bool, namespace: Any) -> PagedCache:
        prompts = [np.ascontiguousarray(row, np.int32) for row in input_ids.cpu().numpy()]
        hit = 0 if padded else min(self.manager.probe(prompt, namespace=namespace).num_cached for prompt in prompts)
        while True:
            flags = _UNSHARED if padded else RequestFlags(0) if hit else RequestFlags.NO_READ
            requests: list[Request] = []
            try:
                for prompt in prompts:
                    requests.append(self.manager.allocate(prompt, namespace=namespace, max_cached_tokens=hit, flags=flags))
                least = min(request.num_cached for request in requests)
                if least == hit:
                    return PagedCache(self, requests, len(prompts[0]), hit)
                hit = least  # the admission of one prompt evicted blocks of another
            except BaseException:
                _close(requests)
                raise
            _close(requests)

    def generate(self, model: Any, input_ids: torch.Tensor, *, attention_mask: Optional[torch.Tensor] = None, namespace: Any = 0,
                 stopping_criteria: Any = None, **options: Any) -> Any:
        """Calls model.generate() with a cache of this pool. Blocks behind a window are freed while it runs.

        Without attention_mask, transformers infers one, as in model.generate(): every pad_token_id in input_ids is padding, unless that id is
        also an end-of-sequence id. Prompts with padding share nothing. Give the mask if they are not padded.

        With assisted decoding (assistant_model, prompt_lookup_num_tokens) all of the prompt is computed, because transformers gives it to the model
        anyway; what is generated can be found as always.

        The pool finds keys and values by token ids alone, so other inputs (inputs_embeds, position_ids, images, ...) raise
        UnsupportedError, and so do beam search, assisted decoding of models with windows, and whatever else does not go on from a cache with
        tokens."""
        others = sorted(name for name in _inputs_beside_ids(model) & options.keys() if options[name] is not None)
        if others:
            raise UnsupportedError(f"{others[0]} is given: keys and values would depend on it, but are found by token ids alone; call "
                                   "model.generate() with the model's own cache")
        refused = _refused(options, model.generation_config, any(group.window for group in self._groups))
        if refused:
            raise UnsupportedError(f"{refused[0]} does not work with a cached prefix; leave it out, or call model.generate() with the model's own cache")
        padded = _is_padded(input_ids, attention_mask, model.generation_config, options)
        rows = input_ids.repeat_interleave(_setting("num_return_sequences", options, model.generation_config) or 1, 0)
        with self._new_cache(rows, padded, namespace) as cache:
            if any(_setting(name, options, model.generation_config) for name in _ASSISTED):
                cache.activate_past_recording()
            criteria = StoppingCriteriaList([*(stopping_criteria or ()), _Committer(cache)])
            return model.generate(input_ids, attention_mask=attention_mask, stopping_criteria=criteria, **{_CACHE: cache}, **options)


class PagedCache(Cache):
    """The cache of one call. It has a row for each sequence: num_return_sequences = n needs the cache of input_ids.repeat_interleave(n, 0). Beam
    search is not supported. Committed tokens stay cached after close()."""

    def __init__(self, pool: CachePool, requests: list[Request], num_known: int, num_cached: int):
        self._pool, self._requests = pool, requests
        self._known, self._committed, self._capacity = num_known, num_cached, num_known
        self._prompt = num_known if num_cached else 0  # tokens of the prompts until the first of them are computed after a hit
        self._steps: dict[int, _Step] = {}  # the latest of each group
        self._latest: Optional[torch.Tensor] = None  # keys of the first layer, of the last tokens that the latest call brought
        self._num_latest = 0  # tokens that it brought
        super().__init__(layers=[PagedLayer(self, *place, num_cached) for place in pool._places])

    def close(self) -> None:
        """Frees the blocks. Closing again does nothing."""
        _close(self._requests)
        self._requests = []

    def __enter__(self) -> PagedCache:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def commit(self, sequences: torch.Tensor) -> None:
        """Publishes all tokens whose keys and values are stored. sequences [batch, tokens]: the prompts with the generated tokens."""
        stored = min(layer.length for layer in self.layers)
        if sequences.shape[0] != len(self._requests):
            raise ValueError(f"sequences has {sequences.shape[0]} rows; the cache has {len(self._requests)} requests")
        if stored > self._known:
            ids = np.ascontiguousarray(sequences[:, self._known:stored].cpu().numpy(), np.int32)
            if ids.shape[1] != stored - self._known:
                raise ValueError(f"sequences has {sequences.shape[1]} tokens; keys and values of {stored} are stored")
            for request, row in zip(self._requests, ids):
                request.append(row)
            self._known = stored
        self._commit_stored(stored)

    def _commit_stored(self, stored: int) -> None:
        stored = min(stored, self._known)
        if stored > self._committed:
            for request in self._requests:
                request.commit(stored)
            self._committed = stored

    def _reserve(self, capacity: int) -> None:
        if capacity > self._capacity:
            for request in self._requests:
                request.reserve(capacity)
            self._capacity = capacity

    def _begin(self, group: _GroupStore, first: int, last: int) -> _Step:
        """Returns the step in which tokens first .. last - 1 are new. All layers of a group have the same."""
        step = self._steps.get(group.index)
        if step is None or (step.first, step.last) != (first, last):
            self._reserve(last)
            step = self._steps[group.index] = _Step(first, last, group.slots(self._requests, first, last), group.tables(self._requests, self._capacity),
                                                    np.full(len(self._requests), last, np.uint64),
                                                    np.arange(len(self._requests) + 1, dtype=np.uint64) * np.uint64(last - first))
        return step

    def _is_repeated(self, keys: torch.Tensor) -> bool:
        """Whether a call brings the tokens of the latest calls again and one more, as generate() does with use_cache=False. keys: of the first
        layer. They depend on a token and its position alone, so a token that comes again at its old position has nearly the key of before:
        rounding and quantized activations move it far less than the next token's key lies away. (A large bias makes all keys alike.)"""
        before = keys.shape[2] - 1
        if self._latest is None or before not in (self.layers[0].length, self._num_latest):
            return False
        latest, first = self._latest.float(), before - self._latest.shape[2]
        again, behind = keys[:, :, first:before].float(), keys[:, :, first + 1 :].float()
        moved, step, size = (x.square().sum((1, 3)) for x in (again - latest, behind - again, latest))
        told = step > 1e-6 * size  # others are like the next one: padding
        return bool((moved < torch.minimum(_APART**2 * size, step / 4))[told].float().mean() > 0.5)  # of none: NaN

    def _note(self, keys: torch.Tensor) -> None:
        self._latest, self._num_latest = keys[:, :, -_COMPARED:].detach().clone(), keys.shape[2]

    def activate_past_recording(self) -> None:
        """Assisted decoding calls this before it gives the model all of the prompt and takes tokens back. So a cache that begins with a hit becomes
        empty. Raises UnsupportedError for models with windows."""
        if any(layer.is_sliding for layer in self.layers):
            raise UnsupportedError("assisted decoding takes back tokens whose windows a PagedCache has freed; leave out assistant_model and "
                                   "prompt_lookup_num_tokens, or use the model's own cache")
        if self._prompt:
            self.reset()

    def crop(self, tokens_to_remove: int) -> None:
        """Removes the last -tokens_to_remove tokens. Raises UnsupportedError if a window that is needed then is gone."""
        if tokens_to_remove > 0:
            raise ValueError(f"tokens_to_remove is {tokens_to_remove}; give the negative number of tokens to remove")
        length = max(0, self.get_seq_length() + tokens_to_remove)
        if length < self._known:
            for request in self._requests:
                request.truncate(length)
            self._known = self._capacity = length
            self._committed = min(self._committed, length)
        for layer in self.layers:
            layer.length = min(layer.length, length)
        self._steps.clear()
        self._latest = None  # also of assisted decoding, which ends each of its calls here
        if not length:
            self._prompt = 0

    def reset(self) -> None:
        self.crop(-self.get_seq_length())

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        raise UnsupportedError("beam search is not supported by PagedCache; use num_beams=1, or the model's own cache")

    batch_repeat_interleave = batch_select_indices = reorder_cache


class PagedLayer(CacheLayerMixin):
    """A layer of a cache. length: tokens whose keys and values it holds."""

    is_compileable = False
    is_croppable = True
    supports_early_init = False

    def __init__(self, cache: PagedCache, group: _GroupStore, index: int, length: int):
        super().__init__()
        self.is_initialized = True
        self.is_sliding = group.window > 0
        self.length = length
        self._cache, self._group, self._index = cache, group, index

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Stores keys and values [batch, heads, tokens, head_dim]. Returns those that the new tokens may see, as get_mask_sizes() says, or with the
        attention "kvcache" what stands for them."""
        cache, group = self._cache, self._group
        batch, _, tokens, _ = key_states.shape
        if batch != len(cache._requests):
            rows = len(cache._requests)
            raise (UnsupportedError if batch % rows == 0 else ValueError)(
                f"a batch of {batch} for a cache of {rows}; give a cache for each sequence (num_return_sequences=n: of input_ids.repeat_interleave(n, 0)), and "
                "num_beams=1: beam search is not supported")
        is_first = self is cache.layers[0]
        if (kwargs.get("kwargs") or {}).get("use_cache") is False or (is_first and cache._is_repeated(key_states)):  # few models pass it on
            raise UnsupportedError("the model is given tokens again that the cache holds, as with use_cache=False; leave use_cache out and give the model new "
                                   "tokens only, or call it without this cache")
        made = group.storage.num_heads, group.storage.head_dim
        for what, states in (("keys", key_states), ("values", value_states)):
            if (states.shape[1], states.shape[3]) != made:
                raise UnsupportedError(f"a layer has {what} of [heads, head_dim] {[states.shape[1], states.shape[3]]}, the pool of {list(made)} as its "
                                       "configuration says; use the model's own cache")
        if 0 < cache._prompt <= tokens:
            raise UnsupportedError(f"the model was given {tokens} tokens, all of the prompt, and the cache holds {self.length} of them; give those behind "
                                   "them, or call cache.reset() before")
        step = cache._begin(group, self.length, self.length + tokens)
        group.storage.store(_rows(key_states), _rows(value_states), step.slots, self._index)
        self.length = step.last
        if is_first:
            cache._note(key_states)
        if cache._pool.reads_in_place:
            stand_in = paged(self, key_states)
            return stand_in, stand_in
        return self.gather(key_states)

    def gather(self, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the keys and values that the new tokens may see, [batch, heads, tokens, head_dim], in the type of `like`, and ends the layer's
        step."""
        step, requests = self._cache._steps[self._group.index], self._cache._requests
        kind = "uint16" if like.dtype == torch.bfloat16 else str(like.dtype).removeprefix("torch.")
        slots = self._group.slots(requests, step.first - self._num_visible(step.first), step.last)
        keys, values = self._group.storage.gather(slots, 1, self._index, kind)
        self._end()
        return _states(keys, len(requests), like), _states(values, len(requests), like)

    def attend(self, query: torch.Tensor, scale: float, soft_cap: float, sink_logits: Optional[torch.Tensor]) -> torch.Tensor:
        """Computes the attention of the new tokens' queries [batch, heads, tokens, head_dim], and ends the layer's step. Returns [batch, tokens,
        heads, head_dim]."""
        step = self._cache._steps[self._group.index]
        batch, heads, tokens, dim = query.shape
        sinks = None if sink_logits is None else sink_logits.detach().float().numpy()
        out = query.new_empty((batch, tokens, heads, dim))
        self._group.storage.attend(_rows(query), step.offsets, step.lens, step.tables, self._index, out=_bits(out.view(-1, heads, dim)), scale=scale,
                                   soft_cap=soft_cap, window=self._group.window, sink_logits=sinks)
        self._end()
        return out

    def _end(self) -> None:
        """After the last layer has read what it needs, blocks behind windows may go."""
        if self is self._cache.layers[-1]:
            self._cache._prompt = 0
            self._cache._commit_stored(self.length)

    def _num_visible(self, length: int) -> int:
        """Returns how many of the first `length` tokens the token behind them may see."""
        return min(length, self._group.window - 1) if self.is_sliding else length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        visible = self._num_visible(self.length)
        return visible + query_length, self.length - visible

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return self._group.window if self.is_sliding else -1

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Does nothing: the pool has initialised the layer."""

    def offload(self) -> None:
        raise UnsupportedError("a PagedCache is in host memory; turn offloading off")

    prefetch = offload


class _Committer(StoppingCriteria):
    """Passes every generated token to a cache. Never stops."""

    def __init__(self, cache: PagedCache):
        self._cache = cache

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        self._cache.commit(input_ids)
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)


def _rows(states: torch.Tensor) -> Any:
    """Converts [batch, heads, tokens, dim] to rows of the storage, [batch * tokens, heads, dim]."""
    return _bits(states.detach().transpose(1, 2).reshape(-1, states.shape[1], states.shape[3]).contiguous())


def _bits(rows: torch.Tensor) -> Any:
    """Returns a tensor as an array in place; NumPy has no bfloat16."""
    return rows.view(torch.int16).numpy().view(np.uint16) if rows.dtype == torch.bfloat16 else rows.numpy()


def _states(rows: Any, batch: int, like: torch.Tensor) -> torch.Tensor:
    """Converts rows of one layer of a gather, [1, batch * tokens, heads, dim], back."""
    states = torch.from_numpy(rows.view(np.int16)).view(torch.bfloat16) if like.dtype == torch.bfloat16 else torch.from_numpy(rows)
    return states.reshape(batch, -1, *states.shape[2:]).transpose(1, 2)


def _close(requests: list[Request]) -> None:
    for request in requests:
        request.close()


__all__ = ["CachePool", "PagedCache", "PagedLayer"]
