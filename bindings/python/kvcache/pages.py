# SPDX-License-Identifier: Apache-2.0
"""Pages for engines that keep page tables of their own, in the manner of Shortfin: a cache hands out pages, requests own those that are locked to
them, prefill and decode read their indices. Over the raw blocks of a Manager: a page is a block, its index the block id."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple, Optional, Sequence

from .errors import NoSpaceError
from .manager import Manager


class Phase(enum.Enum):
    """What a request does next."""

    PREFILL = 1
    DECODE = 2


class Page(NamedTuple):
    """A page that somebody holds. Each hold is released once."""

    cache: "PageCache"
    index: int


class PageCache:
    """Pages of tokens_per_page tokens of all layers. Options are those of Manager. Any thread may use it."""

    def __init__(self, num_pages: int, tokens_per_page: int = 16, **options: Any):
        self.manager = Manager(num_pages, tokens_per_page, **options)
        self.tokens_per_page = tokens_per_page

    def close(self) -> None:
        """Ends all use."""
        self.manager.close()

    def __enter__(self) -> "PageCache":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    @property
    def num_free(self) -> int:
        """Pages that nobody holds; cached ones are evicted when they are acquired."""
        info = self.manager.pool_info()
        return info.free + info.cached

    def _pages(self, indices: Any) -> "list[Page]":
        return [Page(self, int(index)) for index in indices]

    def acquire_free_pages(self, count: int) -> "Optional[list[Page]]":
        """`count` pages, or None if there are not so many: then none is taken."""
        try:
            return self._pages(self.manager.acquire_blocks(count))
        except NoSpaceError:
            return None

    def release_pages(self, pages: "Sequence[Page]") -> None:
        """Gives pages back, all or nothing; what was published stays findable. Raises NotHeldError for one given back before."""
        if any(page.cache is not self for page in pages):
            raise ValueError("a page of another cache cannot be released here")
        self.manager.release_blocks([page.index for page in pages])

    def publish(self, tokens: Any, pages: "Sequence[Page]") -> None:
        """The first len(pages) * tokens_per_page tokens are written in these pages: others find them from now on."""
        self.manager.publish_blocks(tokens, [page.index for page in pages])

    def lookup(self, tokens: Any) -> "list[Page]":
        """Holds the pages of the longest published prefix, at most all full pages of the tokens."""
        return self._pages(self.manager.acquire_prefix(tokens))


class PagedRequest:
    """A request that owns pages: first those of its prompt, then new ones as it grows. Driven by one thread at a time."""

    def __init__(self, phase: Phase, input_token_ids: "Sequence[int]"):
        self.phase = phase
        self.input_token_ids = list(input_token_ids)
        self._pages: "list[Page]" = []
        self._locked = False

    def reset(self, phase: Phase) -> None:
        """Goes on to another phase; its pages stay."""
        self.phase = phase

    def lock_initial_cache_pages(self, cache: PageCache, pages: "Sequence[Page]") -> None:
        """Hands the prompt's pages over to the request. Raises RuntimeError if it has some."""
        if self._locked:
            raise RuntimeError(f"the request has {len(self._pages)} pages already; hand over more by lock_new_cache_pages, or free them first")
        self._add(cache, pages)
        self._locked = True

    def lock_new_cache_pages(self, cache: PageCache, pages: "Sequence[Page]") -> None:
        """Hands further pages over. Raises RuntimeError before lock_initial_cache_pages."""
        if not self._locked:
            raise RuntimeError("the request has no pages yet; hand over the first by lock_initial_cache_pages")
        self._add(cache, pages)

    def _add(self, cache: PageCache, pages: "Sequence[Page]") -> None:
        if any(page.cache is not cache for page in (*pages, *self._pages)):
            raise ValueError("all pages of a request must be of one cache")
        self._pages += pages

    def cache_page_indices(self, max_len: int) -> "list[int]":
        """Indices of its first max_len pages: what the prefill or the decode of this request reads and writes."""
        return [page.index for page in self._pages[:max_len]]

    def free_cache_pages(self) -> None:
        """Gives all pages back. Doing so again does nothing."""
        if self._pages:
            self._pages[0].cache.release_pages(self._pages)
        self._pages, self._locked = [], False
