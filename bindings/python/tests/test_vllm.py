# SPDX-License-Identifier: Apache-2.0
"""KVCacheManager as vLLM's scheduler drives it. Side by side with vLLM's own: test_vllm_differential.py."""

import random
from collections import deque

import pytest

from kvcache import BlockState, LimitError, UnsupportedError, _native
from kvcache.integrations.vllm import KVCacheManager
from vllm_doubles import CountedTokens, Request, config, decode, first_read, is_state, run


def make(num_blocks=33, max_model_len=64, block_size=4, kinds=(0,), **options):
    return KVCacheManager(config(num_blocks, block_size, kinds), max_model_len, block_size, block_size, **options)


def test_a_prompt_is_found_again_while_and_after_its_request_runs():
    m = make()
    a, b = Request("a", range(10)), Request("b", range(10))
    assert run(m, a) == 0 and m.get_block_ids("a") == ([1, 2, 3],)
    assert run(m, b) == 8 and m.get_block_ids("b") == ([1, 2, 4],)
    assert m.get_num_common_prefix_blocks("a") == [2]
    assert m.usage == 4 / 32
    m.free(a), m.free(b)
    assert m.usage == 0 and m.get_block_ids("a") == ([],)
    blocks, hit, boundary = m.get_computed_blocks(Request("c", range(10)))
    assert (hit, boundary, blocks.get_block_ids()) == (8, 0, ([1, 2],))
    m.manager.check()


def test_a_lookup_changes_nothing_and_asking_for_its_ids_only_the_order_of_eviction():
    m = make()
    a = Request("a", range(12))
    run(m, a), m.free(a)
    before = m.manager.digest()
    blocks, hit, _ = m.get_computed_blocks(Request("b", range(12)))
    assert hit == 8 and m.manager.digest() == before
    assert blocks.get_block_ids() == ([1, 2],) and m.usage == 0


def test_the_last_token_is_always_computed_and_the_limit_of_a_hit_is_kept():
    m = make()
    run(m, Request("a", range(12)))
    assert m.get_computed_blocks(Request("b", range(12)))[1] == 8
    assert m.get_computed_blocks(Request("b", range(13)))[1] == 12
    assert m.get_computed_blocks(Request("b", range(13)), max_cache_hit_length=11)[1] == 8
    assert m.get_computed_blocks(Request("b", range(13)), max_cache_hit_length=3)[1] == 0
    limited = Request("c", range(13))
    blocks, hit, _ = m.get_computed_blocks(limited, max_cache_hit_length=5)
    m.allocate_slots(limited, 13 - hit, hit, blocks)
    assert m.get_block_ids("c")[0][0] == m.get_block_ids("a")[0][0] and m.get_block_ids("c")[0][1] != m.get_block_ids("a")[0][1]


def test_decoding_takes_a_block_when_one_is_full_and_publishes_what_is_full():
    m = make()
    a = Request("a", range(7))
    run(m, a)
    taken = [decode(m, a, 100 + i).get_block_ids(allow_none=True) for i in range(6)]
    assert taken == [None, ([3],), None, None, None, ([4],)]
    assert m.estimate_cached_tokens(a) == 12
    assert m.get_computed_blocks(Request("b", [*range(7), *range(100, 106)]))[1] == 12
    assert m.manager.block_info(4).state == BlockState.RESERVED
    m.manager.check()


def test_a_block_can_be_found_in_the_step_that_fills_it():
    m = make()
    a = Request("a", range(7))
    run(m, a)
    assert m.estimate_cached_tokens(a) == 4
    decode(m, a, 7)
    assert m.estimate_cached_tokens(a) == 8 and m.get_computed_blocks(Request("b", range(9)))[1] == 8


def test_drafts_are_never_published_but_have_slots():
    m = make()
    a = Request("a", range(6))
    run(m, a)
    a.all_token_ids.append(6)
    assert m.allocate_slots(a, 4, num_lookahead_tokens=3).get_block_ids() == ([3, 4],)  # one token and three drafts
    assert m.estimate_cached_tokens(a) == 4
    a.num_computed_tokens += 2  # one draft was right
    a.all_token_ids.append(7)
    m.allocate_slots(a, 4, num_lookahead_tokens=3)
    assert m.estimate_cached_tokens(a) == 8


def test_asynchronous_scheduling_runs_ahead_of_known_tokens():
    m = make()
    a = Request("a", range(4))
    run(m, a)
    assert m.allocate_slots(a, 1).get_block_ids() == ([2],)
    a.num_computed_tokens += 1
    for i in range(3):
        assert m.allocate_slots(a, 1) is m.empty_kv_cache_blocks
        a.num_computed_tokens += 1
        a.all_token_ids.append(10 + i)
    assert m.estimate_cached_tokens(a) == 4
    m.allocate_slots(a, 1)
    a.all_token_ids.append(13)
    m.allocate_slots(a, 1)
    assert m.estimate_cached_tokens(a) == 8
    assert m.get_computed_blocks(Request("b", [0, 1, 2, 3, 10, 11, 12, 13, 14]))[1] == 8


def test_chunks_take_only_what_they_need_unless_the_whole_must_fit():
    m = make(num_blocks=9)
    a = Request("a", range(30))
    assert m.allocate_slots(a, 6).get_block_ids() == ([1, 2],)
    a.num_computed_tokens = 6
    b = Request("b", range(100, 130))
    before = m.manager.digest()
    assert m.allocate_slots(b, 4, full_sequence_must_fit=True) is None and m.manager.digest() == before
    assert m.allocate_slots(b, 4).get_block_ids() == ([3],)
    assert m.allocate_slots(a, 24) is None
    m.free(b)
    assert len(m.allocate_slots(a, 24).get_block_ids()[0]) == 6
    m.manager.check()


@pytest.mark.parametrize("kind", [1024, ("chunk", 1024)])
def test_a_prompt_longer_than_its_windows_have_blocks_is_begun_by_vllms_count_and_goes_on(kind):
    """vLLM asks by default that the whole prompt fits, and counts a window with the most blocks that it ever holds."""
    tokens, chunk, block = 20000, 2048, 16
    layout = config(1444, block, (0, kind))
    layout.kv_cache_groups[1].kv_cache_spec.max_admission_blocks_per_request = lambda in_flight, length: -(-(1024 - 1 + in_flight) // block) + 1
    m = KVCacheManager(layout, tokens + 100, block, block, max_in_flight_tokens=chunk)
    assert m.coordinator.get_num_blocks_to_allocate("r", tokens, ((), ()), 0, 0, 0, tokens, apply_admission_cap=True) == m.block_pool.get_num_free_blocks()
    request = Request("r", range(tokens))
    assert run(m, request, chunk, full_sequence_must_fit=True) == 0
    for token in range(50):
        assert decode(m, request, token) is not None
    before = m.manager.digest()
    assert run(m, Request("s", range(1, 3000)), chunk, full_sequence_must_fit=True) is None and m.manager.digest() == before
    m.manager.check()


def test_a_chunk_may_end_inside_a_block_that_the_next_one_fills():
    m = make()
    a = Request("a", range(9))
    assert run(m, a, chunk=7) == 0
    assert m.get_block_ids("a") == ([1, 2, 3],) and m.estimate_cached_tokens(a) == 8


def test_no_space_is_none_and_changes_nothing():
    m = make(num_blocks=5)
    a = Request("a", range(15))
    run(m, a)
    before = m.manager.digest()
    assert run(m, Request("b", range(20, 24))) is None and m.manager.digest() == before
    assert decode(m, a, 1) is m.empty_kv_cache_blocks
    before = m.manager.digest()
    assert decode(m, a, 2) is None and m.manager.digest() == before
    m.free(a)
    assert run(m, Request("b", range(20, 24))) == 0


def test_a_request_that_can_never_fit_is_told_once(caplog):
    m = make(num_blocks=5)
    never = Request("never", range(17))
    for _ in range(3):
        assert run(m, never) is None
    messages = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(messages) == 1 and "request never can never run" in messages[0] and "more than 4 of its 4" in messages[0]
    assert run(m, Request("a", range(16))) == 0
    m.free(never)
    assert run(m, never) is None and len(caplog.records) > len(messages)


def test_a_preempted_request_finds_its_blocks_again():
    m = make()
    a = Request("a", range(9))
    run(m, a)
    for i in range(4):
        decode(m, a, i)
    m.free(a)
    a.num_computed_tokens, a.num_preemptions = 0, 1
    assert run(m, a) == 12
    assert m.manager.stats.readmissions == 1


def test_a_hit_that_is_gone_since_the_lookup_is_not_taken():
    m = make()
    a, b = Request("a", range(12)), Request("b", range(12))
    run(m, a), m.free(a)
    blocks, hit, _ = m.get_computed_blocks(b)
    m.reset_prefix_cache()
    assert m.allocate_slots(b, 12 - hit, hit, blocks) is None and m.usage == 0
    assert run(m, b) == 0


def test_a_request_that_is_looked_up_again_is_looked_at_again():
    m = make()
    run(m, Request("a", range(12)))
    b = Request("b", range(9))
    assert m.get_computed_blocks(b)[1] == 8
    b.all_token_ids[5] = 99
    assert m.get_computed_blocks(b)[1] == 4
    other = Request("b", range(100, 109))
    assert m.allocate_slots(other, 9) is not None
    assert m.get_computed_blocks(Request("c", [*range(100, 109)]))[1] == 8
    for name in "ab":
        m.free(Request(name, []))
    assert m.usage == 0


def test_adapters_salts_and_images_never_share():
    m = make(num_blocks=200)
    image = [("cat", 0, 6)]
    kinds = [{}, {"lora": "x"}, {"lora": "x", "path": "/other"}, {"salt": "x"}, {"lora": "x", "salt": "x"}, {"media": image}, {"media": image, "salt": "x"},
             {"media": [("dog", 0, 6)]}, {"media": [("cat", 1, 6)]}]
    for i, kind in enumerate(kinds):
        assert run(m, Request(f"a{i}", range(17), **kind)) == 0
    for i, kind in enumerate(kinds):
        assert run(m, Request(f"b{i}", range(17), **kind)) == 16
    inside = Request("c", range(17), media=[("cat", 0, 6)])
    assert m.get_computed_blocks(inside, max_cache_hit_length=5)[1] == 0  # a hit of 4 would end inside the image
    assert m.get_computed_blocks(inside, max_cache_hit_length=8)[1] == 8


@pytest.mark.parametrize("kinds", [(0,), (0, 8), (0, ("chunk", 8)), (0, ("state", 0))])
def test_what_a_session_appends_with_an_image_is_found_with_the_image_alone(kinds):
    m = make(num_blocks=200, max_model_len=200, kinds=kinds)
    text, image, end = list(range(16)), [500] * 6, list(range(1000, 1018))
    session = Request("session", text)
    session.resumable = True
    run(m, session)
    session.all_token_ids += end
    m.allocate_slots(session, len(end))
    session.num_computed_tokens = session.num_tokens
    session.mm_features = Request("", [], media=[("cat", 34, 6)]).mm_features
    session.all_token_ids += image + end
    m.allocate_slots(session, len(image + end))
    session.num_computed_tokens = session.num_tokens
    for token in range(20):
        decode(m, session, token)
    m.remove_skipped_blocks("session", session.num_computed_tokens)
    m.cache_blocks(session, session.num_computed_tokens)
    known = list(session.all_token_ids)
    asked = {"without": Request("x", [*known, 1]), "same": Request("y", [*known, 1], media=[("cat", 34, 6)])}
    while_it_runs = {name: m.get_computed_blocks(request)[1] for name, request in asked.items()}
    m.manager.check()
    m.free(session)
    assert while_it_runs["without"] <= 32 and m.get_computed_blocks(asked["without"])[1] <= 32
    assert kinds != (0,) or while_it_runs == {"without": 32, "same": 76}
    again = Request("session", known, media=[("cat", 34, 6)])
    again.resumable = True
    hit = run(m, again)  # a preempted session comes back with its image
    assert hit >= 72 if kinds == (0,) else hit <= 76
    assert m.get_computed_blocks(Request("z", [*known, 1], media=[("cat", 34, 6)]))[1] >= (76 if kinds == (0,) else 0)
    assert m.get_computed_blocks(Request("x", [*known, 1]))[1] <= 32
    m.free(again)
    assert m.usage == 0
    m.manager.check()


def test_an_image_that_ends_behind_the_last_token_of_a_request_is_cut():
    """An input may end behind max_model_len: the engine computes what is before it."""
    def session(name, media):
        session = Request(name, range(40))
        session.resumable = True
        run(m, session, chunk=16)
        session.all_token_ids += [500] * 40
        session.mm_features = Request("", [], media=media).mm_features
        for step in (16, 8):
            assert m.allocate_slots(session, step) is not None
            session.num_computed_tokens += step
        m.cache_blocks(session, 64)
        return m.get_block_ids(name)[0][3]

    m = make(num_blocks=65, block_size=16)
    cat = [("cat", 60, 16)]
    last = [session(str(i), media) for i, media in enumerate([cat, [("dog", 60, 16)], [("cat", 60, 4)], [("cat", 60, 17)], [*cat, ("dog", 70, 2)], [], cat])]
    assert [m.manager.block_info(block).num_copies for block in last] == [3, 1, 1, 1, 3, 1, 3]
    m.manager.check()


@pytest.mark.parametrize("kinds", [(0,), (0, 8)])
def test_a_session_longer_than_max_model_len_is_cut_there(kinds):
    """vLLM gives it slots for max_model_len tokens, and ends it after the next one."""
    def session(name, media=()):
        session = Request(name, range(80), media=media)
        session.resumable = True
        hit = run(m, session)
        m.remove_skipped_blocks(name, session.num_computed_tokens)
        m.cache_blocks(session, session.num_computed_tokens)
        assert len(m.get_block_ids(name)[0]) == 16
        m.free(session)
        return hit

    m = make(num_blocks=200, kinds=kinds)
    assert session("a") == 0
    assert session("b") >= 56
    assert session("c", media=[("cat", 50, 30)]) <= 48
    assert session("d", media=[("cat", 50, 30)]) <= 48
    assert session("e", media=[("cat", 70, 6)]) >= 56
    assert m.usage == 0
    m.manager.check()


def test_any_number_of_media_may_stand_for_one_range():
    m, tokens = make(num_blocks=200), [7] * 20
    media = [(f"view {i}", 4, 6) for i in range(40)]
    assert run(m, Request("a", tokens, media=media)) == 0
    assert run(m, Request("b", tokens, media=[*media[::-1], media[3]])) == 16  # in whichever order, and of equal ones one counts
    assert run(m, Request("c", tokens, media=media[1:])) == 4
    assert run(m, Request("d", tokens, media=[*media, ("one more", 4, 6)])) == 4
    with pytest.raises(LimitError):
        m.get_computed_blocks(Request("e", tokens, media=[("cat", 1, 2 + i) for i in range(17)]))
    m.manager.check()


def test_media_that_share_tokens_all_count():
    m = make(num_blocks=1000, max_model_len=100)
    both = [("video", 4, 20), ("audio", 4, 20)]
    kinds = [[], both, both[:1], both[1:], [("video", 4, 20), ("voice", 4, 20)], [("video", 4, 20), ("audio", 6, 4)], [("audio", 6, 4), ("video", 4, 20)][::-1],
             [("video", 4, 10), ("audio", 10, 14)], [("video", 4, 10), ("audio", 14, 10)], [("video", 4, 20), ("audio", 20, 20)],
             [("video", 4, 20), ("audio", 8, 4), ("audio", 8, 5)], [("a", 0, 9), ("b", 4, 9), ("c", 12, 9)]]
    tokens, seen = [7] * 60, {}
    for i, media in enumerate(kinds):
        key = tuple(sorted(media))
        hit = run(m, Request(f"a{i}", tokens, media=media))
        first = min((offset for _, offset, _ in media), default=60) // 4 * 4
        assert hit == 56 if key in seen else hit <= first, (media, hit)
        seen[key] = i
        assert run(m, Request(f"b{i}", tokens, media=media[::-1], salt="")) == 56  # in whichever order they come
    assert len(seen) == len(kinds) - 1
    for hit in (28, 56):  # one of no tokens counts where it stands
        assert run(m, Request(f"mark{hit}", tokens, media=[("video", 4, 20), ("mark", 30, 0)])) == hit
    m.manager.check()


def test_a_common_prefix_is_one_of_the_tables_whoever_else_holds_the_blocks():
    m = make(num_blocks=400)
    requests = [Request(str(i), [*range(12), i] if i < 8 else [1000 * i + j for j in range(13)]) for i in range(15)]
    for request in requests:
        run(m, request)
    popped = [block for request in requests[:7] for block in m.pop_blocks_for_free(request)]
    assert m.get_num_common_prefix_blocks("7") == [0]  # seven requests hold its blocks, and none of them runs
    for request in requests[8:]:
        m.free(request)
    assert m.get_num_common_prefix_blocks("7") == [4]  # it is alone
    run(m, requests[0])
    assert m.get_num_common_prefix_blocks("7") == m.get_num_common_prefix_blocks("0") == [3]
    assert m.get_num_common_prefix_blocks("unknown") == [0]
    m.block_pool.free_blocks(popped)
    assert m.get_num_common_prefix_blocks("7") == [3]


def test_embeddings_are_neither_found_nor_shared():
    m = make()
    for name in "ab":
        request = Request(name, [0] * 12)
        request.prompt_embeds = object()
        assert run(m, request) == 0
    assert m.get_computed_blocks(Request("c", [0] * 12))[1] == 0


def test_a_request_may_refuse_to_read_the_cache():
    m = make()
    run(m, Request("a", range(12)))
    assert run(m, Request("b", range(12), skip=True)) == 0
    assert not make(enable_caching=False).prefix_cache_lookup_enabled(Request("a", [1]))


def test_a_draft_head_computes_the_last_block_of_a_hit_again():
    m = make(use_eagle=True)
    run(m, Request("a", range(13)))
    assert run(m, Request("b", range(13))) == 8
    assert run(m, Request("c", range(5))) == 0


@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_with_lookahead_a_block_is_found_by_its_tokens_and_those_behind_it(ahead):
    """Random prompts and decodes of few tokens beside a set of what was published: every prefix with the tokens behind it."""
    m, rng, published, prompts, hits, ended = make(4000, num_hash_lookahead_tokens=ahead, num_prefill_lookahead=1), random.Random(ahead), set(), [], 0, 0
    for number in range(600):
        shared = rng.choice(prompts)[: rng.randint(1, 40)] if prompts and rng.random() < 0.8 else []
        request = Request(str(number), (shared + [rng.randrange(2) for _ in range(rng.randint(1, 12))])[:50])
        tokens = request.all_token_ids
        expected = 0
        while expected + 4 + ahead < len(tokens) and tuple(tokens[: expected + 4 + ahead]) in published:
            expected += 4
        ended += expected < len(tokens) - 8
        assert m.get_computed_blocks(request)[1] == expected
        assert run(m, request, chunk=rng.choice([None, 3, 8])) == expected
        hits += expected > 0
        for _ in range(rng.randint(0, 10)):
            assert decode(m, request, rng.randrange(2)) is not None
        prompts.append(list(tokens))
        if request.num_prompt_tokens > ahead:  # else the first tokens are not known when it is admitted
            published |= {tuple(tokens[: end + ahead]) for end in range(4, request.num_computed_tokens + 1, 4) if end + ahead <= len(tokens)}
        m.free(request)
    m.manager.check()
    assert hits > 200 and ended > 50 and m.usage == 0


def test_with_lookahead_an_image_right_behind_a_block_is_a_part_of_it():
    def hit(m, media, salt=None, tokens=24):
        return m.get_computed_blocks(Request("x", range(tokens), media=media, salt=salt))[1]

    m = make(num_hash_lookahead_tokens=1, num_prefill_lookahead=1)
    run(m, Request("a", range(24), media=[("cat", 8, 4), ("dog", 17, 1)]))
    assert hit(m, [("cat", 8, 4), ("dog", 17, 1)]) == 20
    assert hit(m, [("dog", 8, 4), ("dog", 17, 1)]) == 4  # block 1 (tokens 4 to 7) is followed by the image
    assert hit(m, [("cat", 8, 4), ("cat", 17, 1)]) == 16 and hit(m, []) == 4 and hit(m, [("cat", 8, 4)], salt="s") == 0
    run(m, Request("b", range(100, 124), media=[("cat", 0, 1), ("cat", 3, 2)]))  # before the library's first token, and across a block
    for media, expected in (([("cat", 0, 1), ("cat", 3, 2)], 20), ([("dog", 0, 1), ("cat", 3, 2)], 0), ([("cat", 3, 2)], 0), ([("cat", 0, 1), ("dog", 3, 2)], 0)):
        assert m.get_computed_blocks(Request("y", range(100, 124), media=media))[1] == expected
    m.manager.check()


def test_with_lookahead_sessions_publish_nothing():
    """Their next input takes the place of the last sampled token, which a block before it would have in its identity."""
    m = make(num_hash_lookahead_tokens=1, num_prefill_lookahead=1)
    session = Request("a", range(24))
    session.resumable = True
    run(m, session)
    assert m.get_computed_blocks(Request("b", range(24)))[1] == 0
    run(m, Request("c", range(24)))
    again = Request("d", range(24))
    again.resumable = True
    assert run(m, again) == 20  # they read
    m.manager.check()


def test_reset_succeeds_while_requests_run():
    m = make(log_stats=False)
    a = Request("a", range(12))
    run(m, a)
    assert m.reset_prefix_cache()
    assert m.get_computed_blocks(Request("b", range(12)))[1] == 0
    for i in range(8):
        decode(m, a, i)
    m.free(a)
    assert m.get_computed_blocks(Request("b", range(12)))[1] == 0
    m.manager.check()


def test_loaded_tokens_are_published_when_they_have_arrived():
    m = make()
    a = Request("a", range(13))
    assert m.allocate_slots(a, 0, num_external_computed_tokens=12, delay_cache_blocks=True) is not None
    assert len(m.get_block_ids("a")[0]) == 3
    assert m.get_computed_blocks(Request("b", range(13)))[1] == 0
    a.num_computed_tokens = 12
    m.cache_blocks(a, 12)
    assert m.get_computed_blocks(Request("b", range(13)))[1] == 12
    assert m.allocate_slots(a, 1).get_block_ids() == ([4],)


@pytest.mark.parametrize("ends", ["free", "pop"])
def test_a_load_that_never_arrived_is_not_published(ends):
    m = make(kinds=(0, 8))
    a = Request("a", range(13))
    assert m.allocate_slots(a, 0, num_external_computed_tokens=12, delay_cache_blocks=True) is not None
    a.num_computed_tokens = 12  # vLLM counts a load when it begins
    m.remove_skipped_blocks("a", 12)
    assert m.get_computed_blocks(Request("b", range(13)))[1] == 0
    if ends == "free":
        m.free(a)
    else:
        m.block_pool.free_blocks(m.pop_blocks_for_free(a))
    assert m.get_computed_blocks(Request("b", range(13)))[1] == 0
    m.manager.check()


def test_reserved_blocks_are_left_alone():
    m = make(num_blocks=9)
    run(m, Request("a", range(8)))
    b = Request("b", [*range(8), *range(50, 58)])
    blocks, hit, _ = m.get_computed_blocks(b)
    assert m.allocate_slots(b, 8, hit, blocks, reserved_blocks=5) is None
    assert m.allocate_slots(b, 8, hit, blocks, reserved_blocks=4) is not None
    b.num_computed_tokens = 16
    assert m.allocate_slots(b, 1, reserved_blocks=4) is None
    assert m.allocate_slots(b, 1, reserved_blocks=3) is not None


def test_the_watermark_holds_back_admissions_and_not_running_requests():
    m = make(num_blocks=10, watermark=0.2)
    a = Request("a", range(24))
    assert run(m, a) == 0
    assert run(m, Request("b", range(50, 58))) is None
    assert run(m, Request("c", range(60, 64))) == 0
    assert decode(m, a, 1) is not None
    m.free(a)


def test_blocks_whose_load_has_failed_are_forgotten_by_their_ids():
    m = make()
    a = Request("a", range(13))
    run(m, a)
    m.evict_blocks({0, 2, 31})  # the null block and one that nobody has published are no error
    assert m.get_computed_blocks(Request("b", range(13)))[1] == 4
    decode(m, a, 13), m.free(a)
    assert m.manager.block_info(2).state == BlockState.FREE and m.manager.block_info(3).state == BlockState.CACHED
    assert run(m, Request("c", range(13))) == 4
    assert m.get_computed_blocks(Request("d", range(13)))[1] == 12
    with pytest.raises(ValueError, match="33"):
        m.evict_blocks({1, 33})
    m.manager.check()


def test_popped_blocks_come_free_with_the_last_of_them():
    m = make()
    a = Request("a", range(12))
    run(m, a)
    blocks = m.pop_blocks_for_free(a)
    assert [block.block_id for block in blocks] == [1, 2, 3] and m.usage == 3 / 32
    m.block_pool.free_blocks(blocks[:1])
    assert m.usage == 3 / 32
    m.block_pool.free_blocks(reversed(blocks[1:]))
    assert m.usage == 0 and m.block_pool.get_num_free_blocks() == 32
    with pytest.raises(ValueError, match="given back"):
        m.block_pool.free_blocks(blocks[:1])


def test_windows_return_blocks_when_their_readers_are_done():
    m = make(kinds=(0, 8))
    a = Request("a", range(20))
    assert run(m, a, chunk=4) == 0
    full, window = m.get_block_ids("a")
    assert 0 not in full and window[:2] == [0, 0] and 0 not in window[2:]  # 16 tokens are computed for sure: 9 .. 15 are read again
    for i in range(9):
        assert decode(m, a, i) is not None
    full, window = m.get_block_ids("a")
    assert len(full) == 8 and window[:5] == [0] * 5 and 0 not in window[5:]
    m.free(a)
    assert m.usage == 0
    assert run(m, Request("b", [*range(20), *range(9)])) == 28
    m.manager.check()


def test_chunks_return_blocks_when_a_request_has_passed_them():
    m = make(kinds=(0, ("chunk", 8)))
    a = Request("a", range(20))
    assert run(m, a, chunk=4) == 0
    full, chunks = m.get_block_ids("a")
    assert 0 not in full and chunks[:4] == [0] * 4 and len(chunks) == 5 and chunks[4]  # 16 tokens are computed for sure: the third chunk begins
    for i in range(9):
        assert decode(m, a, i) is not None
    assert m.get_block_ids("a")[1][:6] == [0] * 6 and m.usage == (8 + 2) / 32
    m.free(a)
    assert m.usage == 0
    for length, hit in (29, 28), (25, 24), (22, 20), (8, 4):
        blocks, found, _ = m.get_computed_blocks(Request("b", [*range(20), *range(9)][:length]))
        chunk = blocks.get_block_ids()[1]
        assert found == hit and [id != 0 for id in chunk] == [4 * i >= hit // 8 * 8 for i in range(hit // 4)]
    m.manager.check()


def test_a_state_is_found_where_a_step_has_ended_with_a_block():
    layout = config(33, kinds=(0, ("state", 0)))
    layout.needs_kv_cache_zeroing = True
    m = KVCacheManager(layout, 64, 4, 4)
    a = Request("a", range(22))
    blocks, hit, _ = m.get_computed_blocks(a)
    new = m.allocate_slots(a, 12, hit, blocks).get_block_ids()  # 0 .. 11
    assert len(new[0]) == 3 and new[1][:2] == [0, 0] and new[1][2] and m.take_new_block_ids() == new[0]
    a.num_computed_tokens = 12
    assert m.allocate_slots(a, 10).get_block_ids()[1][:2] == [0, 0]  # 12 .. 21
    a.num_computed_tokens = 22
    before = m.get_block_ids("a")[1]
    decode(m, a, 7)
    assert [id != 0 for id in before] == [False, False, True, False, False, True]
    assert [id != 0 for id in m.get_block_ids("a")[1]] == [False] * 5 + [True]
    assert m.get_block_ids_for_computed_tokens("a", 4)[1] == m.get_block_ids("a")[1] and len(m.get_block_ids_for_computed_tokens("a", 4)[0]) == 1
    decode(m, a, 8), decode(m, a, 9)
    m.free(a)
    assert m.usage == 0
    for length, expected in (25, 24), (24, 12), (13, 12), (12, 0):
        blocks, hit, junction = m.get_computed_blocks(Request("b", [*range(22), 7, 8, 9][:length]))
        assert hit == expected and [id != 0 for id in blocks.get_block_ids()[1]] == [False] * (hit // 4 - 1) + [True] * (hit > 0)
        assert junction == (0 if length in (25, 13) else (length - 1) // 4 * 4)  # full attention has so many
    m.manager.check()


@pytest.mark.parametrize("external", [12, 10])
def test_a_load_ends_with_a_state(external):
    m = make(kinds=(("state", 0), 0))
    a, b = Request("a", range(30)), Request("b", range(100, 130))
    assert m.allocate_slots(a, 0, num_external_computed_tokens=external, delay_cache_blocks=True) is not None
    states, keys = m.get_block_ids("a")
    assert [id != 0 for id in states] == [False, False, True] and len(keys) == 3
    a.num_computed_tokens = external
    m.cache_blocks(a, external)
    assert m.get_computed_blocks(Request("c", range(30)))[1] == (12 if external == 12 else 0)
    assert m.allocate_slots(b, 12, num_external_computed_tokens=external) is not None  # loaded and continued in one step
    assert [id != 0 for id in m.get_block_ids("b")[0]] == [False, False, True, False, False, True]
    b.num_computed_tokens, b.num_in_flight_tokens = external + 12, 12
    assert m.allocate_slots(b, 2) is not None
    m.free(a), m.free(b)
    m.manager.check()


def test_the_states_of_a_preempted_request_are_evicted_after_its_keys_and_values():
    m = make(kinds=(0, ("state", 0)))
    a = Request("a", range(14))
    run(m, a, 4)
    keys, states = m.get_block_ids("a")
    assert [id != 0 for id in states] == [False, False, True, True]  # the last one is of a block that is not full
    m.free(a)
    assert m.manager.evict(5) == 5  # first the states that left the table before
    assert [m.manager.block_info(id).state for id in [*keys[:3], states[2]]] == [BlockState.FREE] * 3 + [BlockState.CACHED]


@pytest.mark.parametrize("kinds", [(("state", 0),), (0, ("state", 0))])
def test_a_load_that_fails_in_part_leaves_no_state_and_publishes_nothing_more(kinds):
    m = make(kinds=kinds)
    a = Request("a", range(30))
    assert m.allocate_slots(a, 0, num_external_computed_tokens=12, delay_cache_blocks=True) is not None
    a.num_computed_tokens = 8  # vLLM counts the tokens before the first block that is missing
    m.cache_blocks(a, 8)
    for step in 4, 16, 2:
        m.new_step_starts()
        assert m.allocate_slots(a, step) is not None
        a.num_computed_tokens += step
        m.cache_blocks(a, a.num_computed_tokens)
    for token in range(8):
        decode(m, a, token)
    b = Request("b", a.all_token_ids)
    assert m.get_computed_blocks(b)[1] == 0
    m.free(a)
    assert m.usage == 0 and m.get_computed_blocks(b)[1] == 0
    m.manager.check()


def test_kernels_may_write_a_state_inside_a_step():
    m = make(kinds=(("state", 4), 0), num_blocks=17)
    a = Request("a", range(22))
    m.allocate_slots(a, 22)
    a.num_computed_tokens = 22
    assert [id != 0 for id in m.get_block_ids("a")[0]] == [False] * 4 + [True] * 2
    m.free(a)
    m.new_step_starts()
    blocks, hit, _ = m.get_computed_blocks(Request("b", range(40)))
    assert hit == 20
    b = Request("b", range(40))
    assert [m.coordinator.get_num_blocks_to_allocate("b", 40, blocks.blocks, 0, 20, 20, 40)] == [5 + 1 + 5 + 2]  # what is found is held, and new ones
    assert m.allocate_slots(b, 4, hit, m.get_computed_blocks(b)[0]) is not None
    b.num_computed_tokens = 24
    before = m.manager.digest()
    other = Request("c", [5] * 8)
    assert run(m, other) == 0
    assert m.allocate_slots(b, 16) is None  # 4 + 2 blocks, of which 5 are there
    m.free(other)
    assert len(m.allocate_slots(b, 16).get_block_ids()[1]) == 4
    b.num_computed_tokens = 40
    m.free(b)
    assert m.get_computed_blocks(Request("d", range(40)))[1] == 36 and m.get_computed_blocks(Request("d", range(41)))[1] == 40
    m.manager.check()


@pytest.mark.parametrize("kinds", [(("cross",), 0), (0, ("cross",))])
def test_an_encoder_has_blocks_of_its_own_as_long_as_its_request(kinds):
    m = make(num_blocks=17, kinds=kinds, enable_caching=False)
    decoder, encoder = kinds.index(0), kinds.index(("cross",))
    a, b = Request("a", range(6)), Request("b", range(6))
    new = m.allocate_slots(a, 6, num_encoder_tokens=30).get_block_ids()
    assert (len(new[decoder]), len(new[encoder])) == (2, 8) and m.usage == 10 / 16
    assert m.get_block_ids("a") == new and 0 not in new[0] + new[1]
    before = m.manager.digest()
    assert m.allocate_slots(b, 6, num_encoder_tokens=30) is None and m.manager.digest() == before
    assert m.allocate_slots(b, 6).get_block_ids()[encoder] == []
    a.num_computed_tokens = 6
    grown = [decode(m, a, i).get_block_ids(allow_none=True) for i in range(3)]
    assert grown[:2] == [None, None] and (len(grown[2][decoder]), grown[2][encoder]) == (1, [])
    assert m.get_block_ids("a")[encoder] == new[encoder]
    assert [len(ids) for ids in m.get_block_ids_for_computed_tokens("a", 4)] == ([8, 1] if encoder == 0 else [1, 8])
    assert len(m.pop_blocks_for_free(a)) == 11
    m.free(b)
    m.manager.check()


def test_a_state_that_is_not_cached_stays_in_its_block():
    layout = config(33, kinds=(("mamba", 1), 0))
    layout.needs_kv_cache_zeroing = True
    m = KVCacheManager(layout, 64, 4, 4, enable_caching=False)
    a = Request("a", range(10))
    assert run(m, a) == 0
    states, keys = m.get_block_ids("a")
    assert (len(states), len(keys)) == (2, 3) and m.take_new_block_ids() == keys
    for i in range(20):
        decode(m, a, i)
    assert m.get_block_ids("a")[0] == states and m.usage == (2 + 8) / 32
    assert [m.coordinator.get_num_blocks_to_allocate(id, 8, ((), ()), 0, 0, 0, 8) for id in "ab"] == [0, 4]
    m.free(a)
    assert m.usage == 0


@pytest.mark.parametrize("kinds", [(8,), (0, 8), (0, ("chunk", 8)), (0, ("state", 0))])
def test_what_steps_in_flight_compute_is_found_at_once_and_what_they_read_stays(kinds):
    """Kernels run in the order of their steps: a step finds what it and the steps before it compute."""
    m = make(kinds=kinds)
    a = Request("a", range(24))
    m.allocate_slots(a, 12)
    assert m.get_computed_blocks(Request("b", range(24)))[1] == 12
    a.num_computed_tokens = a.num_in_flight_tokens = 12
    m.allocate_slots(a, 12)
    a.num_computed_tokens = a.num_in_flight_tokens = 24
    assert m.get_computed_blocks(Request("b", range(25)))[1] == 24
    states = [False, False, True] * 2
    assert [[id != 0 for id in table] for table in m.get_block_ids("a")] == [states if is_state(kind) else [True] * 6 for kind in kinds]
    a.num_in_flight_tokens = 12  # the outputs of the first step have come
    a.all_token_ids.append(24)
    m.allocate_slots(a, 1)
    kept = {8: 1, ("chunk", 8): 2, ("state", 0): 2}.get(kinds[-1])
    assert [id != 0 for id in m.get_block_ids("a")[-1]] == [j >= kept and (not is_state(kinds[-1]) or j in (2, 5, 6)) for j in range(7)]
    m.free(a)  # preempted while steps are in flight
    assert m.get_computed_blocks(Request("b", range(25)))[1] == 24 and m.usage == 0
    m.manager.check()


def test_a_state_that_a_step_writes_is_read_by_later_steps():
    m = make(kinds=(0, ("state", 0)))
    a, b = Request("a", range(24)), Request("b", [*range(12), *range(9)])
    m.allocate_slots(a, 12)
    blocks, hit, _ = m.get_computed_blocks(b)
    assert hit == 12
    numbers = dict(num_tokens=21, num_encoder_tokens=0, total_computed_tokens=12, num_local_computed_tokens=12, num_tokens_main_model=21)
    assert m.coordinator.get_num_blocks_to_allocate("b", new_computed_blocks=blocks.blocks, **numbers) == m.kv_cache_config.num_blocks + 1
    before = m.manager.digest()
    assert m.allocate_slots(b, 9, hit, blocks) is None and m.manager.digest() == before
    assert m.allocate_slots(Request("c", range(50, 60)), 10) is not None  # others are admitted
    m.new_step_starts()
    assert m.coordinator.get_num_blocks_to_allocate("b", new_computed_blocks=blocks.blocks, **numbers) == 3 + 1
    assert m.allocate_slots(b, 9, hit, blocks) is not None
    m.manager.check()


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("kinds", [(0,), (6,), (0, 6), (0, ("chunk", 8)), (("chunk", 10),), (0, 6, ("chunk", 10)), (0, ("state", 0)),
                                   (("state", 4), 6, 0, ("state", 4)), (("state", 0),)])
def test_random_schedules_always_read_what_was_written(kinds, depth):
    """Steps of admissions, chunks and decoding. `depth` steps later their kernels write all new tokens, then read what each query sees; tokens
    that are sampled are known only then."""
    rng = random.Random(repr((kinds, depth)))
    m = make(num_blocks={(0,): 50, (("state", 0),): 14}.get(kinds, 20 if len(kinds) == 1 else 25 * len(kinds)), kinds=kinds)
    written, live, flying, counts = {}, [], deque(), {"hits": 0, "refused": 0, "reads": 0, "ahead": 0, "states": 0, "inside": 0}

    def tokens_of_step(request, start, left):
        """With states most steps end with a block, as in vLLM."""
        end = start + rng.randint(1, left)
        full = end // 4 * 4
        return (full if any(map(is_state, kinds)) and full > start and rng.random() < 0.9 else end) - start

    def plan_of(request, new):
        return request, request.num_computed_tokens, new, m.get_block_ids(request.request_id)

    def states(plan):
        """(block, tokens) of the states that the kernels read, and of those that they write."""
        read, write = [], []
        for request, first, new, table in plan:
            for kind, ids in zip(kinds, table):
                if is_state(kind):
                    ends = [first + new]
                    last = (first + new - 1) // 4 * 4
                    if kind[1] and first % 4 == 0 and last > first and (last - first) % kind[1] == 0 and ids[last // 4 - 1]:
                        ends.append(last)
                        counts["inside"] += 1
                    read += [(ids[(first - 1) // 4], tuple(request.all_token_ids[:first]))] if first else []
                    write += [(ids[(end - 1) // 4], tuple(request.all_token_ids[:end])) for end in ends]
        return read, write

    def execute(plan):
        read, write = states(plan)
        assert all(block and written[block, "state"] == tokens for block, tokens in read)
        assert all(block for block, _ in write) and len({block for block, _ in write}) == len(write)
        for block, tokens in write:
            written[block, "state"] = tokens
        counts["states"] += len(read)
        for request, first, new, table in plan:
            for position in range(first, first + new):
                for kind, ids in zip(kinds, table):
                    if not is_state(kind):
                        written[ids[position // 4], position % 4] = tuple(request.all_token_ids[: position + 1])
        for request, first, new, table in plan:
            for query in range(first, first + new):
                for kind, ids in zip(kinds, table):
                    if is_state(kind):
                        continue
                    for position in range(first_read(kind, query), query + 1):
                        assert ids[position // 4] != 0
                        assert written[ids[position // 4], position % 4] == tuple(request.all_token_ids[: position + 1])
                        counts["reads"] += 1
        for request, first, new, _ in plan:
            request.num_in_flight_tokens -= new
            if first + new == request.num_tokens and request.placeholders:
                request.placeholders -= 1
                request.all_token_ids.append(rng.randrange(2))
                if request in live:
                    m.cache_blocks(request, request.num_computed_tokens - request.num_in_flight_tokens)

    for step in range(700):
        m.new_step_starts()
        plan = []
        for request in list(live):
            if rng.random() < 0.1:
                m.free(request)
                live.remove(request)
                continue
            left = request.num_tokens + request.placeholders - request.num_computed_tokens
            if not left and request.num_tokens < 60:
                left = 1
                if request.num_in_flight_tokens:  # sampled by a step in flight
                    request.placeholders += 1
                    counts["ahead"] += 1
                else:
                    request.all_token_ids.append(rng.randrange(2))
            if left and rng.random() < 0.8:
                new = tokens_of_step(request, request.num_computed_tokens, left)
                if m.allocate_slots(request, new) is None:
                    counts["refused"] += 1
                    continue
                plan.append(plan_of(request, new))
        if rng.random() < 0.7:
            request = Request(str(step), [rng.randrange(2) for _ in range(rng.randint(1, 40))])
            request.placeholders = 0
            blocks, hit, _ = m.get_computed_blocks(request)
            new = tokens_of_step(request, hit, request.num_tokens - hit)
            if m.allocate_slots(request, new, hit, blocks) is None:
                counts["refused"] += 1
            else:
                counts["hits"] += hit > 0
                request.num_computed_tokens = hit
                live.append(request)
                plan.append(plan_of(request, new))
        for request, _, new, _ in plan:
            request.num_computed_tokens += new
            request.num_in_flight_tokens += new
        flying.append(plan)
        while len(flying) > depth:
            execute(flying.popleft())
        m.manager.check()
    assert counts["hits"] > 5 and counts["refused"] > 30 and (counts["ahead"] > 100 or not depth)
    assert counts["reads"] > 5000 or not any(not is_state(kind) for kind in kinds)
    assert counts["states"] > 500 or not any(is_state(kind) for kind in kinds)
    assert counts["inside"] > 50 or ("state", 4) not in kinds


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("kinds", [(0,), (0, 8), (0, ("chunk", 6))])
@pytest.mark.parametrize("drafts", [0, 3])
def test_decoding_reads_each_token_once(kinds, depth, drafts):
    """Whatever the context, a step may read the tokens that are new, not those before them."""
    context, steps = 4000, 300
    m = make(num_blocks=3000, max_model_len=8000, kinds=kinds)
    a = Request("a", range(context))
    run(m, a)
    a.all_token_ids = tokens = CountedTokens(a.all_token_ids)
    for step in range(steps):
        scheduled = 1 + drafts
        assert m.allocate_slots(a, scheduled, num_lookahead_tokens=drafts) is not None
        a.num_computed_tokens += scheduled
        a.num_in_flight_tokens += scheduled
        if step >= depth:  # the output of a step: one token, of `drafts` none is right
            a.num_in_flight_tokens -= scheduled
            a.num_computed_tokens -= drafts
            tokens.append(step)
            m.cache_blocks(a, a.num_computed_tokens - a.num_in_flight_tokens)
    assert steps - depth - 8 <= tokens.read <= steps and m.estimate_cached_tokens(a) >= context + steps - 12
    m.manager.check()
    m.free(a)
    assert m.usage == 0


def test_a_request_that_waits_is_read_once():
    m = make(num_blocks=9)
    run(m, Request("a", range(20)))
    b = Request("b", range(100, 130))
    b.resumable, b.all_token_ids = False, CountedTokens(b.all_token_ids)
    for _ in range(5):  # it finds no room
        blocks, hit, _ = m.get_computed_blocks(b)
        assert m.allocate_slots(b, 30, hit, blocks) is None
    assert b.all_token_ids.read == 30
    b.all_token_ids.append(7)  # the output of a step from which it was preempted
    assert m.get_computed_blocks(b)[1] == 0 and b.all_token_ids.read == 61
    c = Request("c", range(30))
    c.resumable, c.all_token_ids = True, CountedTokens(c.all_token_ids)  # an update of its session may change tokens
    for i in range(1, 3):
        m.get_computed_blocks(c)
        assert c.all_token_ids.read == 30 * i


def test_blocks_to_clear_are_reported_once():
    layout = config(33)
    layout.needs_kv_cache_zeroing = True
    m = KVCacheManager(layout, 64, 4, 4)
    a, b = Request("a", range(8)), Request("b", [*range(8), 9])
    run(m, a)
    assert m.take_new_block_ids() == [1, 2] and m.take_new_block_ids() == []
    run(m, b)
    assert m.take_new_block_ids() == [3]
    m.record_blocks_for_zeroing("b", 4)
    assert m.take_new_block_ids() == [2, 3]
    assert make().take_new_block_ids() == []


def test_what_is_not_supported_is_refused():
    def mamba(**fields):
        states = config(8, kinds=(0, ("state", 4)))
        vars(states.kv_cache_groups[1].kv_cache_spec).update(fields)
        return states

    for layout, text, options in ((config(8, kinds=["CircularBufferSpec"]), "CircularBufferSpec", {}), (mamba(mamba_cache_mode="none"), "mode none", {}),
                                  (mamba(mamba_cache_mode="all"), "mode all", {}), (mamba(num_speculative_blocks=2), "speculative", {}),
                                  (mamba(), "EAGLE", {"use_eagle": True}),
                                  (mamba(), "EAGLE", {"num_hash_lookahead_tokens": 1, "num_prefill_lookahead": 1})):
        with pytest.raises(UnsupportedError, match=text):
            KVCacheManager(layout, 64, 4, 4, **options)
    with pytest.raises(UnsupportedError, match="prefix_match_unit is 2"):
        KVCacheManager(mamba(), 64, 4, 2)
    KVCacheManager(mamba(num_prefill_checkpoint_blocks=0), 64, 4, 2)
    for kinds, caching, text in (([0, ("mamba", 0)], True, "without prefix caching"), ([0, ("cross",)], True, "without prefix caching"),
                                 ([("mamba", 0)], False, "none of the 1 groups"), ([0, ("mamba", 0), ("cross",)], False, "beside cross"),
                                 ([0, ("mamba", 0), ("mamba", 1)], False, "num_speculative_blocks")):
        with pytest.raises(UnsupportedError, match=text):
            KVCacheManager(config(8, kinds=kinds), 64, 4, 4, enable_caching=caching)
    mixed = config(8, kinds=(0, 8))
    mixed.kv_cache_groups[1].kv_cache_spec.block_size = 8
    with pytest.raises(UnsupportedError, match=r"\[4, 8\]"):
        KVCacheManager(mixed, 64, 4, 4)
    with pytest.raises(UnsupportedError, match="dcp_world_size"):
        make(dcp_world_size=2)
    m = make()
    for other in m, make(kinds=(0, ("mamba", 0)), enable_caching=False):
        with pytest.raises(UnsupportedError, match="no cross attention"):
            other.allocate_slots(Request("a", [1]), 1, num_encoder_tokens=4)
    other, a = make(kinds=(0, ("cross",)), enable_caching=False), Request("a", [1])
    assert other.allocate_slots(a, 1, num_encoder_tokens=4) is not None
    with pytest.raises(UnsupportedError, match="num_encoder_tokens is 4"):
        other.allocate_slots(a, 1, num_encoder_tokens=4)
    with pytest.raises(ValueError, match="num_new_tokens"):
        m.allocate_slots(Request("a", [1]), 0)


def test_ids_that_are_no_tokens_are_refused():
    m = make()
    for bad in ([1, 1 << 31], [-(1 << 31) - 1], [-1]):
        with pytest.raises(ValueError, match="token|int32"):
            m.get_computed_blocks(Request("a", bad))
    with pytest.raises(OverflowError):
        m.get_computed_blocks(Request("a", [1 << 80]))
    with pytest.raises(TypeError):
        m.get_computed_blocks(Request("a", ["x"]))
    assert not m.manager.requests()


def test_blocks_add_and_are_cut():
    m = make()
    a = Request("a", range(10))
    run(m, a)
    one = m.get_blocks("a")
    assert (one + one).get_block_ids() == ([1, 2, 3] * 2,) and one.new_empty().get_block_ids(allow_none=True) is None
    assert m.truncate_computed_blocks(one, 8).get_block_ids() == ([1, 2],)
    with pytest.raises(ValueError, match="6"):
        m.truncate_computed_blocks(one, 6)
    assert m.get_block_ids_for_computed_tokens("a", 5) == ([1, 2],)
    assert m.create_kv_cache_blocks(one.blocks).get_block_ids() == one.get_block_ids()
    assert [block.is_null for block in one.blocks[0]] == [False] * 3


@pytest.mark.parametrize("kinds", [(0,), (0, 8), (0, ("chunk", 8))])
def test_a_request_that_waits_is_hashed_three_times_at_most_and_admitted_when_there_is_room(kinds, monkeypatch):
    m = make(num_blocks=1 + 24 * len(kinds), kinds=kinds)
    running, waiting, other = Request("a", range(100, 164)), Request("w", range(12, 60)), Request("o", range(40))
    waiting.resumable = other.resumable = False
    seen = Request("s", range(12, 21))
    run(m, seen), m.free(seen)  # cached: 8 tokens of what waits
    run(m, running)
    calls = []
    for name in ("kvc_manager_probe", "kvc_manager_allocate_request", "kvc_manager_create_request"):
        monkeypatch.setattr(f"kvcache._native.{name}", lambda *arguments, call=getattr(_native, name): (calls.append(len(arguments[2])), call(*arguments))[1])
    for _ in range(20):
        assert run(m, waiting, full_sequence_must_fit=True) is None
    most = 3 if kinds == (0,) else 22  # a window's blocks that a hit needs are known by trying
    assert calls.count(48) <= most and m.manager.stats.waiting_requests == 1
    assert run(m, other, full_sequence_must_fit=True) is None and run(m, other, full_sequence_must_fit=True) is None
    assert m.manager.stats.waiting_requests == 1  # the last one that was tried twice
    m.reset_prefix_cache()
    assert m.manager.stats.waiting_requests == 0
    m.free(running)
    assert run(m, waiting, full_sequence_must_fit=True) == 0 and m.manager.stats.waiting_requests == 0
    m.free(waiting)
    assert run(m, other, full_sequence_must_fit=True) == 0  # what it would have shared was forgotten
    m.free(other)
    assert m.manager.stats.waiting_requests == m.manager.stats.live_requests == 0
    m.manager.check()


def test_random_requests_that_wait_are_admitted_as_by_a_manager_that_tries_each_time():
    """The shortcuts of waiting requests, beside a manager whose requests might change and are looked up anew each time."""
    rng = random.Random(3)
    managers = [make(num_blocks=40, max_model_len=100, watermark=0.1) for _ in range(2)]
    running, queue, refused, hits = [], [], 0, 0
    for number in range(2500):
        if len(queue) < 3:
            tokens = [rng.randrange(2) for _ in range(rng.randrange(1, 6) * 4)] + [number] * rng.randrange(1, 60)
            queue.append([Request(str(number), tokens) for _ in managers])
            queue[-1][0].resumable = False
        pair, chunk, whole, reserved = queue[0], rng.choice([None, 4, 16]), rng.random() < 0.5, rng.choice([0, 0, 0, 4])
        results = []
        for m, request in zip(managers, pair):
            blocks, hit, _ = m.get_computed_blocks(request)
            new = m.allocate_slots(request, min(chunk or 1000, request.num_tokens - hit), hit, blocks, full_sequence_must_fit=whole, reserved_blocks=reserved)
            results.append((hit, None if new is None else new.get_block_ids()))
        assert results[0] == results[1]
        refused, hits = refused + (results[0][1] is None), hits + (results[0][0] > 0)
        if results[0][1] is None:
            if rng.random() < 0.1:
                rng.shuffle(queue)
            if rng.random() < 0.05:
                for m, request in zip(managers, queue.pop(0)):
                    m.free(request)
        else:
            running.append(queue.pop(0))
        if running and rng.random() < 0.2:
            for m, request in zip(managers, running.pop(rng.randrange(len(running)))):
                m.free(request)
        if rng.random() < 0.01:
            for m in managers:
                m.reset_prefix_cache()
    assert refused > 500 and hits > 300 and [m.manager.stats.evictions for m in managers][0] > 300
    for m in managers:
        m.manager.check()
