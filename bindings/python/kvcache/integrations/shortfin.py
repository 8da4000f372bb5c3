# SPDX-License-Identifier: Apache-2.0
"""Shortfin's page cache: a cache hands out pages, a request locks them, and kernels get their indices.

    cache = AttnPageCache(num_pages=256, page_tokens=16)
    request = InferenceExecRequest(InferencePhase.PREFILL, tokens)
    request.lock_initial_cache_pages(cache, cache.lookup(tokens))          # pages that are cached
    pages = cache.acquire_free_pages(request.num_missing_pages())
    if pages is None: ...                                                  # no room: call request.free_cache_pages(), and try later
    request.lock_new_cache_pages(cache, pages)
    ...                                                                    # prefill from token request.num_cached_tokens on
    request.publish_cache_pages()                                          # their KV is written: other requests may reuse it
    request.reset(InferencePhase.DECODE)                                   # takes one more page if the next token needs it

A page holds page_tokens tokens of all layers. Every page that lookup() and acquire_free_pages() return is held, so it cannot be given
to anybody else before it is released; releasing it twice is an error. A cache may be used by many threads, a request by one.
"""

from __future__ import annotations

import enum
import os
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Sequence

from .. import _native
from ..constants import BlockState, DType, Layout
from ..errors import InvalidArgumentError, NoSpaceError
from ..manager import Manager

if TYPE_CHECKING:
    import numpy


class CacheConfig(NamedTuple):
    """What read_config() returns. One manager serves all devices: a page has the same id in each of their storages.

    manager: arguments of kvcache.Manager. storages: for each device, arguments of kvcache.Storage, to which you add `device`."""

    manager: dict[str, Any]
    storages: list[dict[str, Any]]


def read_config(path: str | os.PathLike[str]) -> CacheConfig:
    """Reads the config.json that sharktank exports for Shortfin, given its path or its folder.

        config = read_config("config.json")
        manager = kvcache.Manager(**config.manager)
        storages = [kvcache.Storage(**shape, device=f"hip:{d}") for d, shape in enumerate(config.storages)]

    Each device has some of the layers, in ascending order. Raises InvalidArgumentError, which names the file, the field, its value and the fix."""
    source = os.path.join(path, "config.json") if os.path.isdir(path) else os.fspath(path)
    with open(source, "rb") as file:
        text = file.read()
    manager, num_devices = _native.kvc_manager_config(), 1
    storages: list[dict[str, Any]] = []
    while len(storages) < num_devices:
        shape = _native.kvc_storage_config()
        try:
            num_devices = _native.kvc_config_from_shortfin(text, len(storages), manager, shape)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{source}: {error}") from None
        storages.append({"num_blocks": shape.num_blocks, "num_layers": shape.num_layers, "num_heads": shape.num_heads, "head_dim": shape.head_dim,
                         "block_size": shape.block_size, "dtype": DType(shape.dtype), "layout": Layout(shape.layout)})
    return CacheConfig({"num_blocks": manager.num_blocks, "block_size": manager.block_size, "max_request_tokens": manager.max_request_tokens}, storages)


class InferencePhase(enum.Enum):
    """The next phase of a request."""

    PREFILL = 1
    DECODE = 2


class AttnPageEntry:
    """One page. index: its place in the page tables, on every device."""

    __slots__ = ("cache", "index")

    def __init__(self, cache: AttnPageCache, index: int):
        self.cache, self.index = cache, index

    @property
    def state(self) -> BlockState:
        """FREE, CACHED (published, not held), LIVE or RESERVED (held)."""
        return self.cache.manager.block_info(self.index).state

    @property
    def in_use(self) -> bool:
        """Whether the page is held."""
        return self.cache.manager.block_info(self.index).external_holds > 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AttnPageEntry) and (self.cache, self.index) == (other.cache, other.index)

    def __hash__(self) -> int:
        return hash((id(self.cache), self.index))

    def __repr__(self) -> str:
        return f"<Page {self.index} {self.state.name}>"


class AttnPageCache:
    """num_pages pages of page_tokens tokens each. prefix_sharing: whether published pages are found again."""

    def __init__(self, num_pages: int, page_tokens: int = 16, prefix_sharing: bool = True):
        self.manager = Manager(num_pages, page_tokens, prefix_cache=prefix_sharing)
        self.page_tokens = page_tokens

    def acquire_free_pages(self, count: int) -> Optional[list[AttnPageEntry]]:
        """Takes `count` pages and returns them; None if there are too few. Evicts cached pages if needed."""
        try:
            return self._pages(self.manager.acquire_blocks(count)) if count else []
        except NoSpaceError:
            return None

    def release_pages(self, pages: Sequence[AttnPageEntry]) -> None:
        """Releases one hold of each page, all or nothing. Published pages stay cached; the last is evicted first. Raises NotHeldError."""
        for page in pages:
            if page.cache is not self:
                raise ValueError(f"page {page.index} is of another cache; release it there")
        self.manager.release_blocks([page.index for page in pages])

    def lookup(self, tokens: Any) -> list[AttnPageEntry]:
        """Returns the pages of the longest published prefix, without the last token. They are held until they are released."""
        return self._pages(self.manager.acquire_prefix(tokens[: max(0, len(tokens) - 1)]))

    def publish(self, tokens: Any, pages: Sequence[AttnPageEntry]) -> int:
        """Publishes the full pages among `pages` as the KV of `tokens`. Returns their number. A page with the same tokens as a published one
        becomes a copy of it; no table changes."""
        full = min(len(tokens) // self.page_tokens, len(pages))
        self.manager.publish_blocks(tokens[: full * self.page_tokens], [page.index for page in pages[:full]])
        return full

    @property
    def num_free_pages(self) -> int:
        """Returns the number of pages that acquire_free_pages() can take."""
        info = self.manager.pool_info()
        return info.free + info.cached

    def _pages(self, indices: numpy.ndarray) -> list[AttnPageEntry]:
        return [AttnPageEntry(self, index) for index in indices.tolist()]


class InferenceExecRequest:
    """A request and its locked pages. tokens: the known tokens. start_position: the first token that the phase computes."""

    def __init__(self, phase: InferencePhase, input_token_ids: Sequence[int], rid: Optional[str] = None):
        self.phase, self.rid = phase, rid
        self.input_token_ids = list(input_token_ids)
        self.locked_pages: Optional[list[AttnPageEntry]] = None
        self.num_cached_tokens = 0
        self._cache: Optional[AttnPageCache] = None

    def reset(self, phase: InferencePhase) -> None:
        """Begins the next phase. Locked pages stay."""
        self.phase = phase

    def lock_initial_cache_pages(self, cache: AttnPageCache, pages: Sequence[AttnPageEntry]) -> None:
        """Locks the pages of lookup(), which hold the first tokens. Raises ValueError if pages are locked already."""
        if self.locked_pages is not None:
            raise ValueError(f"{len(self.locked_pages)} pages are locked already; call free_cache_pages() first")
        self._cache, self.locked_pages = cache, list(pages)
        self.num_cached_tokens = len(pages) * cache.page_tokens

    def lock_new_cache_pages(self, cache: AttnPageCache, pages: Sequence[AttnPageEntry]) -> None:
        """Locks pages of acquire_free_pages(), after the pages that are locked already."""
        if self.locked_pages is None or cache is not self._cache:
            raise ValueError("no pages of this cache are locked; call lock_initial_cache_pages() first, with [] if nothing was found")
        self.locked_pages += pages

    def num_needed_pages(self) -> int:
        """Returns the number of pages that the phase needs: for the tokens (prefill), or for the tokens and the next one (decode)."""
        if self._cache is None:
            raise ValueError("no cache yet; call lock_initial_cache_pages() first")
        tokens = len(self.input_token_ids) + (self.phase == InferencePhase.DECODE)
        return -(-tokens // self._cache.page_tokens)

    def num_missing_pages(self) -> int:
        """Returns the number of pages that must still be locked before the phase can run."""
        return max(0, self.num_needed_pages() - len(self.locked_pages or ()))

    def cache_page_indices(self, max_len: Optional[int] = None) -> list[int]:
        """Returns the indices of the pages that the phase reads and writes, in order. Raises ValueError if pages are missing or exceed max_len."""
        needed = self.num_needed_pages()
        if self.num_missing_pages():
            raise ValueError(f"{self.phase.name} needs {needed} pages, {len(self.locked_pages or ())} are locked; lock_new_cache_pages() first")
        if max_len is not None and needed > max_len:
            raise ValueError(f"{needed} page indices do not fit max_len {max_len}; give at least {needed}")
        return [page.index for page in (self.locked_pages or [])[:needed]]

    def publish_cache_pages(self) -> int:
        """Publishes the full pages of all known tokens, which must be written. Returns the number of published pages."""
        return self._cache.publish(self.input_token_ids, self.locked_pages) if self._cache and self.locked_pages else 0

    def free_cache_pages(self) -> None:
        """Releases all pages. Calling it again does nothing."""
        pages, self.locked_pages, cache, self._cache = self.locked_pages, None, self._cache, None
        self.num_cached_tokens = 0
        if cache and pages:
            cache.release_pages(pages)


__all__ = ["AttnPageCache", "AttnPageEntry", "InferenceExecRequest", "InferencePhase"]
