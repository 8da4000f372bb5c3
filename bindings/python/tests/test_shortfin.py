# SPDX-License-Identifier: Apache-2.0
"""Pages in Shortfin's manner, and what went wrong with them elsewhere: pages shared without a hold, freed twice, lost on failure."""

import json
import random

import pytest

import kvcache
from kvcache import BlockState
from kvcache.errors import NotHeldError
from kvcache.integrations.shortfin import AttnPageCache, InferenceExecRequest, InferencePhase, read_config


CONFIG = {  # as sharktank writes it for Llama 3.1 8B on two devices
    "module_name": "module", "module_abi_version": 1, "max_seq_len": 131072, "attn_head_dim": 128, "prefill_batch_sizes": [1, 2], "decode_batch_sizes": [4],
    "transformer_block_count": 32, "logits_normalization": "none", "top_k": None, "has_prefill_position": False,
    "paged_kv_cache": {"attention_head_count_kv": 8, "block_seq_stride": 32, "device_block_count": 256, "kv_cache_dtype": "float16",
                       "paged_kv_block_size_elements_per_device": [1310720, 786432]}}


def test_a_config_gives_a_manager_and_a_storage_for_each_device(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    config = read_config(tmp_path)
    assert config.manager == {"num_blocks": 256, "block_size": 32, "max_request_tokens": 131072} and [s["num_layers"] for s in config.storages] == [20, 12]
    with kvcache.Manager(**config.manager) as manager:
        assert manager.properties.max_request_tokens == 131072
    for shape, elements in zip(config.storages, CONFIG["paged_kv_cache"]["paged_kv_block_size_elements_per_device"]):
        with kvcache.Storage(**{**shape, "num_blocks": 2}) as storage:
            assert storage.block_bytes == elements * 2 and storage.dtype == kvcache.DType.FLOAT16 and storage.block_size == 32
    model = kvcache.Model.from_config(path)
    assert model.num_layers == 32 and model.max_context == 131072 and model.estimate("fp16").bytes_per_token == 2 * sum(
        CONFIG["paged_kv_cache"]["paged_kv_block_size_elements_per_device"]) // 32
    path.write_text(json.dumps(CONFIG).replace('"float16"', '"float8_e4m3fnuz"'))
    with pytest.raises(kvcache.InvalidArgumentError, match="config.json.*paged_kv_cache.kv_cache_dtype.*fnuz.*bfloat16"):
        read_config(path)
    path.write_text(json.dumps(CONFIG)[:-1])
    with pytest.raises(kvcache.InvalidArgumentError, match="not JSON"):
        read_config(path)


def prefill(cache, tokens):
    """A request that has been prefilled and published, or None."""
    request = InferenceExecRequest(InferencePhase.PREFILL, tokens)
    request.lock_initial_cache_pages(cache, cache.lookup(request.input_token_ids))
    pages = cache.acquire_free_pages(request.num_missing_pages())
    if pages is None:
        request.free_cache_pages()
        return None
    request.lock_new_cache_pages(cache, pages)
    request.publish_cache_pages()
    return request


def test_pages_are_given_all_or_none_and_know_their_state():
    cache = AttnPageCache(4, 4)
    pages = cache.acquire_free_pages(3)
    assert [page.index for page in pages] == [0, 1, 2] and all(page.in_use for page in pages)
    before = cache.manager.digest()
    assert cache.acquire_free_pages(2) is None and cache.manager.digest() == before
    cache.publish(range(9), pages)
    assert [page.state for page in pages] == [BlockState.LIVE, BlockState.LIVE, BlockState.RESERVED]
    assert repr(pages[2]) == "<Page 2 RESERVED>"
    cache.release_pages(pages)
    assert [page.state for page in pages] == [BlockState.CACHED, BlockState.CACHED, BlockState.FREE] and not pages[0].in_use
    assert cache.num_free_pages == 4 and cache.acquire_free_pages(0) == []


def test_a_double_release_is_an_error_and_changes_nothing():
    cache = AttnPageCache(4, 4)
    pages = cache.acquire_free_pages(2)
    cache.release_pages(pages[:1])
    before = cache.manager.digest()
    with pytest.raises(NotHeldError):
        cache.release_pages(pages)
    assert cache.manager.digest() == before
    with pytest.raises(ValueError, match="another cache"):
        AttnPageCache(4, 4).release_pages(pages)
    cache.release_pages(pages[1:])


def test_a_shared_page_belongs_to_all_who_hold_it():
    cache = AttnPageCache(6, 4)
    a, b = prefill(cache, range(9)), prefill(cache, range(9))
    assert b.num_cached_tokens == 8 and a.cache_page_indices()[:2] == b.cache_page_indices()[:2]
    a.free_cache_pages()
    others = cache.acquire_free_pages(cache.num_free_pages)
    assert not {page.index for page in others} & set(b.cache_page_indices())
    b.free_cache_pages()
    cache.manager.check()


def test_what_lookup_returns_cannot_be_evicted_before_it_is_locked():
    cache = AttnPageCache(3, 4)
    prefill(cache, range(9)).free_cache_pages()
    found = cache.lookup(list(range(9)))
    assert len(found) == 2 and len(cache.acquire_free_pages(1)) == 1 and cache.acquire_free_pages(1) is None
    cache.release_pages(found)


def test_the_last_token_is_computed_even_if_all_are_known():
    cache = AttnPageCache(8, 4)
    prefill(cache, range(8))
    assert len(cache.lookup(list(range(8)))) == 1 and cache.lookup([]) == []


def test_page_indices_follow_the_phase():
    cache = AttnPageCache(8, 4)
    request = prefill(cache, range(8))
    assert request.cache_page_indices() == [0, 1] and request.cache_page_indices(2) == [0, 1]
    with pytest.raises(ValueError, match="at least 2"):
        request.cache_page_indices(1)
    request.reset(InferencePhase.DECODE)
    assert request.num_missing_pages() == 1
    with pytest.raises(ValueError, match="needs 3 pages, 2 are locked"):
        request.cache_page_indices()
    request.lock_new_cache_pages(cache, cache.acquire_free_pages(1))
    assert request.cache_page_indices() == [0, 1, 2]
    request.input_token_ids += [8, 9, 10]
    assert request.num_missing_pages() == 0
    request.input_token_ids.append(11)
    assert request.num_missing_pages() == 1 and request.publish_cache_pages() == 3


def test_initial_pages_are_locked_once_and_freed_once():
    cache = AttnPageCache(8, 4)
    request = InferenceExecRequest(InferencePhase.PREFILL, range(5), rid="r")
    with pytest.raises(ValueError, match="lock_initial_cache_pages"):
        request.num_needed_pages()
    with pytest.raises(ValueError, match="lock_initial_cache_pages"):
        request.lock_new_cache_pages(cache, [])
    request.lock_initial_cache_pages(cache, [])
    with pytest.raises(ValueError, match="free_cache_pages"):
        request.lock_initial_cache_pages(cache, [])
    request.lock_new_cache_pages(cache, cache.acquire_free_pages(2))
    request.free_cache_pages(), request.free_cache_pages()
    assert cache.num_free_pages == 8 and request.locked_pages is None


def test_without_prefix_sharing_nothing_is_found():
    cache = AttnPageCache(8, 4, prefix_sharing=False)
    prefill(cache, range(8))
    assert cache.lookup(list(range(8))) == []


def test_random_lives_read_what_they_wrote_and_leak_nothing():
    rng = random.Random(3)
    cache = AttnPageCache(20, 4)
    written, live, hits = {}, [], 0
    for _ in range(3000):
        if rng.random() < 0.4:
            request = prefill(cache, [rng.randrange(2) for _ in range(rng.randint(1, 20))])
            if request is None:
                continue
            live.append(request)
            hits += request.num_cached_tokens > 0
            first = request.num_cached_tokens
        elif live and rng.random() < 0.6:
            request = rng.choice(live)
            request.reset(InferencePhase.DECODE)
            pages = cache.acquire_free_pages(request.num_missing_pages())
            if pages is None:
                continue
            request.lock_new_cache_pages(cache, pages)
            first = len(request.input_token_ids)
            request.input_token_ids.append(rng.randrange(2))
            request.reset(InferencePhase.PREFILL)
        elif live:
            live.pop(rng.randrange(len(live))).free_cache_pages()
            continue
        else:
            continue
        tokens, table = request.input_token_ids, request.cache_page_indices()
        for position in range(first, len(tokens)):
            written[table[position // 4], position % 4] = tuple(tokens[: position + 1])
        request.publish_cache_pages()
        for position in range(len(tokens)):
            assert written[table[position // 4], position % 4] == tuple(tokens[: position + 1])
    assert hits > 100
    for request in live:
        request.free_cache_pages()
    assert cache.num_free_pages == 20
    cache.manager.check()
