# SPDX-License-Identifier: Apache-2.0
"""Stand-ins with the attributes of vLLM's objects that its block manager reads."""

import collections.abc
import types

SPECS = {name: type(name, (types.SimpleNamespace,), {}) for name in ("FullAttentionSpec", "SlidingWindowSpec", "ChunkedLocalAttentionSpec", "MambaSpec",
                                                                     "CrossAttentionSpec", "CircularBufferSpec")}


def spec(kind, block_size):
    """The specification of a group: 0 is full attention, a number a window of so many tokens, ("chunk", n) chunked local attention, ("state", n)
    Mamba whose kernels write states inside a step at multiples of n tokens (0 = only at its end), ("cross",) cross attention, ("mamba", n) Mamba without
    prefix caching and with n blocks for drafts, or the name of a class."""
    name, size = (*kind, 0)[:2] if isinstance(kind, tuple) else (kind, 0)
    if name == "chunk":
        return SPECS["ChunkedLocalAttentionSpec"](block_size=block_size, attention_chunk_size=size)
    if name == "state":
        return SPECS["MambaSpec"](block_size=block_size, mamba_cache_mode="align", num_speculative_blocks=0, num_prefill_checkpoint_blocks=int(size > 0),
                                  prefill_checkpoint_alignment=size or None)
    if name == "mamba":
        return SPECS["MambaSpec"](block_size=1 << 20, mamba_cache_mode="none", num_speculative_blocks=size)
    if name == "cross":
        return SPECS["CrossAttentionSpec"](block_size=block_size)
    name = name if isinstance(name, str) else "SlidingWindowSpec" if kind else "FullAttentionSpec"
    return SPECS[name](block_size=block_size, sliding_window=kind or None)


def is_state(kind):
    return isinstance(kind, tuple) and kind[0] == "state"


def first_read(kind, query):
    """The first token that a query reads."""
    if isinstance(kind, tuple):
        return query // kind[1] * kind[1]
    return max(0, query - kind + 1) if kind else 0


def config(num_blocks, block_size=4, kinds=(0,)):
    """A KVCacheConfig with a group per kind."""
    return types.SimpleNamespace(num_blocks=num_blocks, kv_cache_groups=[types.SimpleNamespace(kv_cache_spec=spec(kind, block_size)) for kind in kinds])


class Request:
    def __init__(self, request_id, tokens, lora=None, path="", salt=None, media=(), skip=False):
        self.request_id, self.all_token_ids = request_id, list(tokens)
        self.lora_request = types.SimpleNamespace(name=lora, path=path) if lora else None
        self.cache_salt = salt
        self.mm_features = [types.SimpleNamespace(identifier=identifier, mm_position=types.SimpleNamespace(offset=offset, length=length))
                            for identifier, offset, length in media]
        self.prompt_embeds = None
        self.skip_reading_prefix_cache = skip
        self.num_computed_tokens = self.num_in_flight_tokens = self.num_preemptions = 0
        self.num_prompt_tokens = len(self.all_token_ids)

    @property
    def num_tokens(self):
        return len(self.all_token_ids)


def run(manager, request, chunk=None, **options):
    """Admits a request and computes its prompt, in chunks if one is given: the tokens of the hit, or None if there is no space."""
    manager.new_step_starts()
    blocks, hit, _ = manager.get_computed_blocks(request)
    first = min(chunk or request.num_tokens, request.num_tokens - hit)
    if manager.allocate_slots(request, first, hit, blocks, **options) is None:
        return None
    request.num_computed_tokens = hit + first
    while request.num_computed_tokens < request.num_tokens:
        step = min(chunk, request.num_tokens - request.num_computed_tokens)
        manager.new_step_starts()
        assert manager.allocate_slots(request, step) is not None
        request.num_computed_tokens += step
    return hit


def decode(manager, request, token):
    """One decode step: the token was sampled, its slot is taken. The new blocks, or None."""
    request.all_token_ids.append(token)
    manager.new_step_starts()
    new = manager.allocate_slots(request, 1)
    if new is None:
        request.all_token_ids.pop()
    else:
        request.num_computed_tokens += 1
    return new


class CountedTokens(collections.abc.MutableSequence):
    """A request's token ids that count how many of them are read, whichever way. vLLM's scheduler looks at the last one when it is sampled."""

    def __init__(self, tokens):
        self._tokens, self.read = list(tokens), 0

    def __getitem__(self, index):
        found = self._tokens[index]
        if index != -1:
            self.read += len(found) if isinstance(index, slice) else 1
        return found

    def __len__(self):
        return len(self._tokens)

    def __setitem__(self, index, token):
        self._tokens[index] = token

    def __delitem__(self, index):
        del self._tokens[index]

    def insert(self, index, token):
        self._tokens.insert(index, token)

    def append(self, token):
        self._tokens.append(token)

    def extend(self, tokens):
        self._tokens.extend(tokens)
