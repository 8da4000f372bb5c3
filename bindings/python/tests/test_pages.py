# SPDX-License-Identifier: Apache-2.0
"""Pages in the manner of Shortfin."""

import pytest

import kvcache
from kvcache.pages import PageCache, PagedRequest, Phase


def serve(cache, prompt, new_tokens):
    """Prefill and decode of one request as an engine does it; returns (request, pages that were found)."""
    request = PagedRequest(Phase.PREFILL, prompt)
    found = cache.lookup(prompt)
    needed = -(-len(prompt) // cache.tokens_per_page)
    fresh = cache.acquire_free_pages(needed - len(found))
    request.lock_initial_cache_pages(cache, found + fresh)
    assert len(request.cache_page_indices(99)) == needed
    cache.publish(prompt, (found + fresh)[: len(prompt) // cache.tokens_per_page])
    request.reset(Phase.DECODE)
    grown = -(-(len(prompt) + new_tokens) // cache.tokens_per_page) - needed
    request.lock_new_cache_pages(cache, cache.acquire_free_pages(grown))
    return request, len(found)


def test_requests_share_published_pages_and_give_them_back():
    with PageCache(16, tokens_per_page=4) as cache:
        first, found = serve(cache, list(range(10)), 5)
        assert found == 0 and first.cache_page_indices(2) == first.cache_page_indices(99)[:2] and len(first.cache_page_indices(99)) == 4
        second, found = serve(cache, [*range(8), 77], 0)
        assert found == 2 and second.cache_page_indices(2) == first.cache_page_indices(2)
        assert second.cache_page_indices(99)[2] not in first.cache_page_indices(99)
        assert cache.num_free == 16 - 5
        first.free_cache_pages()
        first.free_cache_pages()
        second.free_cache_pages()
        assert cache.num_free == 16 and first.cache_page_indices(9) == []
        assert len(cache.lookup(list(range(8)))) == 2
        cache.manager.check()


def test_acquiring_is_all_or_nothing_and_evicts_what_nobody_holds():
    with PageCache(4, tokens_per_page=4) as cache:
        request, _ = serve(cache, list(range(8)), 0)
        before = cache.manager.digest()
        assert cache.acquire_free_pages(3) is None
        assert cache.manager.digest() == before
        request.free_cache_pages()
        pages = cache.acquire_free_pages(4)
        assert sorted(page.index for page in pages) == [0, 1, 2, 3]
        assert cache.lookup(list(range(8))) == []
        cache.release_pages(pages)
        with pytest.raises(kvcache.errors.NotHeldError):
            cache.release_pages(pages[:1])
        assert cache.num_free == 4


def test_wrong_orders_are_refused():
    with PageCache(8, 4) as cache, PageCache(8, 4) as other:
        request = PagedRequest(Phase.PREFILL, [1, 2])
        pages = cache.acquire_free_pages(2)
        with pytest.raises(RuntimeError, match="lock_initial"):
            request.lock_new_cache_pages(cache, pages)
        request.lock_initial_cache_pages(cache, pages)
        with pytest.raises(RuntimeError, match="2 pages already"):
            request.lock_initial_cache_pages(cache, pages)
        foreign = other.acquire_free_pages(1)
        with pytest.raises(ValueError):
            request.lock_new_cache_pages(cache, foreign)
        with pytest.raises(ValueError):
            cache.release_pages(foreign)
        request.free_cache_pages()
        assert cache.num_free == 8
