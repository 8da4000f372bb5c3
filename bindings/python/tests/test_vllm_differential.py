# SPDX-License-Identifier: Apache-2.0
"""Our KVCacheManager beside vLLM's own on the same stream of requests. Skipped where vLLM is not installed."""

import inspect
import random
from collections import deque

import pytest

pytest.importorskip("vllm.v1.core.kv_cache_manager", reason="vLLM is not installed", exc_type=ImportError)

from vllm.lora.request import LoRARequest  # noqa: E402
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange  # noqa: E402
from vllm_interface import check_uses  # noqa: E402
from vllm_real import KVCacheManager, VllmManager, hasher, make_request, managers  # noqa: E402

BLOCK = 4
STEP = "allocate_slots", "cache_blocks", "free", "get_computed_blocks"


def test_every_public_method_has_vllms_signature():
    """Fails when vLLM moves on: then look at what has changed there."""
    missing = []
    for name, function in inspect.getmembers(VllmManager, inspect.isfunction):
        if name.startswith("_") and name != "__init__":
            continue
        own = getattr(KVCacheManager, name, None)
        if own is None or list(inspect.signature(own).parameters) != list(inspect.signature(function).parameters):
            missing.append(name)
    assert not missing
    for name in STEP:
        mine, theirs = (inspect.signature(getattr(kind, name)).parameters.values() for kind in (KVCacheManager, VllmManager))
        assert [p.default for p in mine] == [p.default for p in theirs]


def test_what_vllms_scheduler_and_engine_read_and_call_is_there():
    """Every attribute of a manager that their sources name, and every call with the arguments that it has."""
    import vllm.v1.core.sched.async_scheduler
    import vllm.v1.core.sched.scheduler
    import vllm.v1.engine.core

    modules = vllm.v1.core.sched.scheduler, vllm.v1.core.sched.async_scheduler, vllm.v1.engine.core
    seen = check_uses(managers(8, BLOCK, 64)[1], map(inspect.getsource, modules))
    assert {*STEP, "coordinator", "block_pool", "usage", "take_events", "mamba_shared_prefix_checkpoint"} <= seen and len(seen) > 24


class Stream:
    """Random scheduling of one stream of requests by both managers, with every answer compared. Ids are compared, too, if `exact`."""

    def __init__(self, num_blocks, seed, exact, kinds=(0,), **options):
        self.ahead = options.get("num_hash_lookahead_tokens", 0)
        self.rng, self.hasher = random.Random(seed), hasher(BLOCK, ahead=self.ahead)
        self.theirs, self.ours = self.both = managers(num_blocks, BLOCK, 64, kinds, **options)
        self.exact, self.kinds, self.live = exact, kinds, []
        self.states = any(isinstance(kind, tuple) and kind[0] == "state" for kind in kinds)
        self.stride = max((kind[1] for kind in kinds if isinstance(kind, tuple) and kind[0] == "state"), default=0)
        self.hits = self.refused = self.ended = self.unique = self.asked = 0
        self.steps = deque()  # of a request, with so many tokens

    def allocate(self, request, new, hit=0, found=(None, None), **options):
        answers = [m.allocate_slots(request, new, hit, blocks, **options) for m, blocks in zip(self.both, found)]
        ids = [answer and answer.get_block_ids() for answer in answers]
        if self.exact:
            assert ids[0] == ids[1]
        else:
            assert [len(group) for group in ids[0] or ()] == [len(group) for group in ids[1] or ()]
        assert (ids[0] is None) == (ids[1] is None)
        if ids[0] is None:
            self.refused += 1
            return False
        request.num_computed_tokens += hit + new
        self.steps.append((request, new))
        return True

    def tokens_of_step(self, request, start, new):
        """With states, steps end where vLLM's scheduler cuts them (_mamba_block_aligned_split)."""
        end, last = start + new, (request.num_tokens - 1) // BLOCK * BLOCK
        if not self.states or start >= max(request.num_prompt_tokens, request.num_tokens - 1):
            return new
        if end < request.num_tokens and end // BLOCK * BLOCK > start:
            end = end // BLOCK * BLOCK
        inside = self.stride and end == request.num_tokens and start % BLOCK == 0 and last > start and (last - start) % self.stride == 0
        stops = [] if inside else [last] + [(start // BLOCK + 1) * BLOCK] * (start % BLOCK != 0)
        return min([end] + [stop for stop in stops if start < stop < end]) - start

    def admit(self, tokens, chunk=0, whole=None, **options):
        for manager in self.both:
            manager.new_step_starts()
        request = make_request(str(self.unique), tokens, self.hasher, **options)
        self.unique += 1
        # vLLM finds the block that ends right before the tokens that its hash looks ahead for; ours needs one token more.
        found = [m.get_computed_blocks(request, max(0, request.num_tokens - 1 - self.ahead)) for m in self.both]
        assert found[0][1:] == found[1][1:]
        if self.exact:
            assert found[0][0].get_block_ids() == found[1][0].get_block_ids() or not found[0][1]
        null = [[[id == 0 for id in group] for group in f[0].get_block_ids()] for f in found]
        assert null[0] == null[1] or not found[0][1]
        hit = found[0][1]
        encoder = self.rng.randint(0, 40) if ("cross",) in self.kinds else 0
        self.ask(request, request.num_tokens, hit, [f[0].blocks for f in found], encoder)
        new = self.tokens_of_step(request, hit, min(chunk or request.num_tokens, request.num_tokens - hit))
        if self.allocate(request, new, hit, [f[0] for f in found], full_sequence_must_fit=bool(self.unique % 2) if whole is None else whole, num_encoder_tokens=encoder):
            self.live.append(request)
            self.hits += hit > 0

    def ask(self, request, num_tokens, computed, found, encoder=0):
        """What the scheduler asks for asynchronous loads. Ours keeps one of equal blocks, so with copies a hit may be held in one only."""
        if not self.exact and not any(self.kinds):
            return
        numbers = dict(num_tokens=num_tokens, num_encoder_tokens=encoder, total_computed_tokens=computed, num_local_computed_tokens=computed,
                       num_tokens_main_model=num_tokens, prefill_end=request.num_tokens - 1)
        for cap in False, True:
            theirs, ours = (m.coordinator.get_num_blocks_to_allocate(request_id=request.request_id, new_computed_blocks=blocks,
                                                                     apply_admission_cap=cap, **numbers) for m, blocks in zip(self.both, found))
            assert theirs == ours
            self.asked += theirs > 0

    def decode(self, token, chunk=64):
        request = self.rng.choice(self.live)
        self.ask(request, min(request.num_tokens + self.rng.randint(0, 20), 64), request.num_computed_tokens, [m.empty_kv_cache_blocks.blocks for m in self.both])
        if request.num_computed_tokens == request.num_tokens and request.num_tokens < 60:
            request.append_output_token_ids(token)
        if request.num_computed_tokens < request.num_tokens:
            self.allocate(request, self.tokens_of_step(request, request.num_computed_tokens,
                                                        min(chunk, request.num_tokens - request.num_computed_tokens)))

    def end(self):
        request = self.live.pop(self.rng.randrange(len(self.live)))
        for manager in self.both:
            manager.free(request)
        self.ended += 1

    def evict(self):
        request = self.rng.choice(self.live)
        positions = [self.rng.randrange(-(-request.num_computed_tokens // BLOCK)) for _ in range(2)]
        for manager in self.both:
            table = manager.get_block_ids(request.request_id)[0]
            manager.evict_blocks({table[position] for position in positions})

    def compare(self):
        self.ours.manager.check()
        assert self.theirs.block_pool.get_num_free_blocks() == self.ours.block_pool.get_num_free_blocks()
        assert self.theirs.usage == pytest.approx(self.ours.usage)
        for request in self.live:
            theirs, ours = (m.get_block_ids(request.request_id) for m in self.both)
            if self.states:  # a state that is not cached is free again, and the two managers take free blocks in other orders
                theirs, ours = ([[id == 0 for id in group] for group in tables] for tables in (theirs, ours))
            assert theirs == ours


@pytest.mark.parametrize("num_blocks", [40, 80, 4000])
def test_while_no_content_is_computed_twice_every_block_id_is_that_of_vllm(num_blocks):
    """Prompts share their first blocks and have tails of their own, so no block has a copy: evictions included, both are one."""
    s = Stream(num_blocks, num_blocks, exact=True)
    for number in range(2500):
        action, tail = s.rng.random(), 1000 + number
        if action < 0.3:
            shared = [s.rng.randrange(2) for _ in range(BLOCK * s.rng.randint(0, 6))]
            s.admit(shared + [tail] * s.rng.randint(1, 9), salt=s.rng.choice([None, "salt"]))
        elif s.live and action < 0.8:
            s.decode(tail)
        elif s.live:
            s.end()
        s.compare()
    assert s.ours.manager.stats.duplicates == 0 and s.hits > 50 and s.ended > 100 and s.asked > 1000
    assert (s.ours.manager.stats.evictions > 100 and s.refused > 20) == (num_blocks < 100)


def test_when_blocks_are_forgotten_by_their_ids_hits_are_those_of_vllm():
    s, evicted = Stream(20000, 4, exact=False), 0
    for number in range(2000):
        action = s.rng.random()
        if action < 0.3:
            shared = [s.rng.randrange(2) for _ in range(BLOCK * s.rng.randint(0, 6))]
            s.admit(shared + [1000 + number] * s.rng.randint(1, 9))
        elif s.live and action < 0.6:
            s.decode(1000 + number)
        elif s.live and action < 0.7:
            s.evict()
            evicted += 1
        elif s.live:
            s.end()
        s.ours.manager.check()
        assert s.theirs.block_pool.get_num_free_blocks() == s.ours.block_pool.get_num_free_blocks()
    assert evicted > 100 and s.hits > 100


@pytest.mark.parametrize("ahead", [1, 3])
@pytest.mark.parametrize("kinds", [(0,), (0, 8), (0, ("chunk", 8))])
def test_with_hashes_that_look_ahead_every_hit_is_that_of_vllm(kinds, ahead):
    """As for EAGLE and MTP: blocks are equal if the tokens behind them are, too. Prompts of few tokens, of which many differ right behind a block."""
    s, prompts = Stream(4000, 0, exact=False, kinds=kinds, num_hash_lookahead_tokens=ahead, num_prefill_lookahead=1), []
    for _ in range(400):
        shared = s.rng.choice(prompts)[: s.rng.randint(1, 40)] if prompts and s.rng.random() < 0.7 else []
        prompts.append((shared + [s.rng.randrange(3) for _ in range(s.rng.randint(ahead + 1, 20))])[:50])  # ours shares no shorter ones
        s.admit(prompts[-1])  # compares the hits
        for _ in range(s.rng.randint(0, 8)):
            s.decode(s.rng.randrange(3))
        prompts.append(list(s.live[0].all_token_ids))
        s.end()
        s.compare()
    assert s.hits > 200


@pytest.mark.parametrize("seed", range(3))
def test_with_copies_and_chunks_hits_and_counts_are_those_of_vllm(seed):
    """Of equal blocks vLLM takes the oldest and we the lowest id, so tables may differ; what is found and how much is taken may not."""
    s = Stream(20000, seed, exact=False)
    for _ in range(2000):
        action = s.rng.random()
        if action < 0.3:
            s.admit([s.rng.randrange(2) for _ in range(s.rng.randint(1, 40))], chunk=s.rng.choice([0, 3, 8]))
        elif s.live and action < 0.8:
            s.decode(s.rng.randrange(2))
        elif s.live:
            s.end()
        s.ours.manager.check()
    assert s.ours.manager.stats.duplicates > 30 and s.hits > 100


@pytest.mark.parametrize("kinds", [(8,), (0, 8), (0, 10), (0, ("chunk", 8)), (0, ("chunk", 12)), (0, ("chunk", 4)), (0, 10, ("chunk", 16))])
def test_with_windows_and_chunks_every_hit_is_that_of_vllm(kinds):
    """One request after another; prompts continue parts of earlier ones."""
    s, prompts = Stream(4000, 0, exact=False, kinds=kinds), []
    for _ in range(300):
        shared = s.rng.choice(prompts)[: s.rng.randint(1, 40)] if prompts and s.rng.random() < 0.7 else []
        prompts.append((shared + [s.rng.randrange(50) for _ in range(s.rng.randint(1, 20))])[:50])
        s.admit(prompts[-1])  # compares the hits
        for token in range(5):
            s.decode(token)
        s.end()
        s.compare()
    assert s.hits > 100 and s.asked > 1000


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("kinds", [(0, 8), (0, ("chunk", 8)), (0, 10, ("chunk", 16)), (0, ("state", 0)), (0, 8, ("state", 4))])
def test_while_steps_are_in_flight_every_hit_is_that_of_vllm(kinds, depth):
    """Requests run at once, each call is a step, and its outputs come `depth` steps later. Tokens that are sampled are known at once, so that more is
    published while it is in flight."""
    s, prompts, begun = Stream(6000, depth, exact=False, kinds=kinds), [], 0
    for number in range(1200):
        action = s.rng.random()
        if action < 0.2:
            shared = s.rng.choice(prompts)[: s.rng.randint(1, 40)] if prompts and s.rng.random() < 0.7 else []
            prompts.append((shared + [s.rng.randrange(50) for _ in range(s.rng.randint(1, 20))])[:50])
            s.admit(prompts[-1], chunk=s.rng.choice([0, 6, 12]))  # compares the hits
        elif s.live and action < 0.9:
            s.decode(number)
        elif s.live:
            s.end()
        for request, new in list(s.steps)[begun:]:
            request.num_in_flight_tokens += new
        while len(s.steps) > depth:
            request, new = s.steps.popleft()
            request.num_in_flight_tokens -= new
        begun = len(s.steps)
        s.ours.manager.check()
        null = [[[[id == 0 for id in group] for group in m.get_block_ids(request.request_id)] for request in s.live] for m in s.both]
        assert null[0] == null[1]
    assert s.hits > 50 and s.ended > 50


@pytest.mark.parametrize("kinds", [(8,), (0, 8), (0, 10), (0, ("chunk", 8)), (0, ("chunk", 12)), (0, 10, ("chunk", 16)), (0, ("state", 0)), (0, 8, ("state", 4))])
def test_a_prompt_that_must_fit_is_begun_when_vllm_begins_it(kinds):
    """As by default (scheduler_reserve_full_isl), in pools that some prompts fill, chunk by chunk. No prompt shares anything, so both have as many free blocks."""
    s, begun = Stream(12 + 14 * len(kinds), len(kinds), exact=False, kinds=kinds, max_in_flight_tokens=8), 0
    for number in range(1500):
        action = s.rng.random()
        if action < 0.25:
            before = len(s.live)
            s.admit([1000 + number] * s.rng.randint(1, 60), chunk=8, whole=True)  # compares the answers
            begun += len(s.live) > before
        elif s.live and action < 0.93:
            s.decode(number, chunk=8)
        elif s.live:
            s.end()
        s.ours.manager.check()
        assert s.theirs.block_pool.get_num_free_blocks() == s.ours.block_pool.get_num_free_blocks()
    assert s.refused > 100 and begun > 50 and s.ended > 50


@pytest.mark.parametrize("kinds", [(0, ("state", 0)), (("state", 0), 0), (("state", 0),), (0, ("state", 4)), (("state", 8), 0, 8, ("state", 8))])
def test_with_states_every_hit_is_that_of_vllm(kinds):
    """As with windows."""
    s, prompts = Stream(4000, 0, exact=False, kinds=kinds), []
    for _ in range(300):
        shared = s.rng.choice(prompts)[: s.rng.randint(1, 40)] if prompts and s.rng.random() < 0.7 else []
        prompts.append((shared + [s.rng.randrange(50) for _ in range(s.rng.randint(1, 20))])[:50])
        s.admit(prompts[-1], chunk=s.rng.choice([0, 6, 12]))  # compares the hits
        for token in range(12):
            s.decode(token)
            s.compare()
        s.end()
    assert s.hits > 100 and s.asked > 1000


@pytest.mark.parametrize("kinds", [(0, ("cross",)), (("cross",), 0), (("cross",), 0, 8, ("cross",)), (0, ("mamba", 64, 0)), (("mamba", 64, 2), 0, ("chunk", 8), ("mamba", 64, 2))])
def test_blocks_of_encoders_and_states_that_are_not_shared_are_those_of_vllm(kinds):
    s = Stream(120, len(kinds), exact=False, kinds=kinds, enable_caching=False)
    for number in range(1500):
        action = s.rng.random()
        if action < 0.3:
            s.admit([s.rng.randrange(2) for _ in range(s.rng.randint(1, 40))], chunk=s.rng.choice([0, 3, 8]))
        elif s.live and action < 0.8:
            s.decode(number)
        elif s.live:
            s.end()
        s.ours.manager.check()
        assert s.theirs.block_pool.get_num_free_blocks() == s.ours.block_pool.get_num_free_blocks()
        for request in s.live:
            theirs, ours = (m.get_block_ids(request.request_id) for m in s.both)
            assert [[id == 0 for id in group] for group in theirs] == [[id == 0 for id in group] for group in ours]
            theirs, ours = (m.get_block_ids_for_computed_tokens(request.request_id, request.num_computed_tokens // 2) for m in s.both)
            assert [len(group) for group in theirs] == [len(group) for group in ours]
    assert s.refused > 20 and s.ended > 50 and s.asked > 100
    while s.live:
        s.end()
    assert s.ours.usage == s.theirs.usage == 0


def test_events_tell_what_those_of_vllm_tell():
    s = Stream(40, 1, exact=True, enable_kv_cache_events=True)
    known = {}  # our hash of a block -> its tokens
    seen = {"stored": 0, "removed": 0}
    for number in range(600):
        action, tail = s.rng.random(), 1000 + number
        if action < 0.3:
            s.admit([s.rng.randrange(2) for _ in range(BLOCK * s.rng.randint(0, 6))] + [tail] * s.rng.randint(1, 9))
        elif s.live and action < 0.8:
            s.decode(tail)
        elif s.live:
            s.end()
        if number == 300:
            while s.live:
                s.end()
            assert all(m.reset_prefix_cache() for m in s.both)
        theirs, ours = (m.take_events() for m in s.both)
        for events in theirs, ours:
            events[:] = [(type(event).__name__, event) for event in events]
        assert sum(name == "AllBlocksCleared" for name, _ in theirs) == sum(name == "AllBlocksCleared" for name, _ in ours) == (number == 300)
        stored = [[], []]
        for which, events in enumerate((theirs, ours)):
            for name, event in events:
                if name == "BlockStored":
                    assert event.block_size == BLOCK and event.group_idx == 0 and event.kv_cache_spec_kind == "full_attention"
                    assert len(event.token_ids) == BLOCK * len(event.block_hashes)
                    stored[which] += [tuple(event.token_ids[i:i + BLOCK]) for i in range(0, len(event.token_ids), BLOCK)]
        assert sorted(stored[0]) == sorted(stored[1])
        removed = [sum(len(event.block_hashes) for name, event in events if name == "BlockRemoved") for events in (theirs, ours)]
        assert removed[0] == removed[1]
        for name, event in ours:  # the hashes are a chain
            if name == "BlockStored":
                parent = event.parent_block_hash
                assert parent is None or parent in known
                for i, block_hash in enumerate(event.block_hashes):
                    assert block_hash not in known
                    known[block_hash] = event.token_ids[i * BLOCK:(i + 1) * BLOCK]
            elif name == "BlockRemoved":
                for block_hash in event.block_hashes:
                    del known[block_hash]
            else:
                known.clear()
        seen["stored"] += len(stored[1])
        seen["removed"] += removed[1]
    assert seen["stored"] > 300 and seen["removed"] > 200


def test_events_of_adapters_salts_images_and_sessions_are_filled_as_by_vllm():
    s = Stream(4000, 0, exact=True, enable_kv_cache_events=True)
    adapters = [LoRARequest("one", 1, "/one"), LoRARequest("two", 2, "/two")]

    def blocks_of(events):
        """What the events say about each block."""
        for event in events:
            for i in range(len(event.block_hashes)):
                yield (tuple(event.token_ids[i * BLOCK:(i + 1) * BLOCK]), event.lora_id, event.lora_name, event.extra_keys[i], event.session_id,
                       event.group_idx, event.kv_cache_spec_kind, event.kv_cache_spec_sliding_window, event.block_size, event.medium)

    told = set()
    for number in range(200):
        rng, length = s.rng, s.rng.randint(1, 45)
        images = [MultiModalFeatureSpec(None, "image", f"image {number}.{i}", PlaceholderRange(offset=first, length=6))
                  for i, first in enumerate(rng.sample([0, 6, 13, 20, 30], rng.randint(0, 2))) if first + 6 <= length]
        s.admit([1000 + number] * length, chunk=rng.choice([0, 7]), salt=rng.choice([None, f"salt {number}"]),
                lora_request=rng.choice([None, *adapters]), session_id=rng.choice([None, "session"]),
                mm_features=sorted(images, key=lambda image: image.mm_position.offset))
        for _ in range(10):
            s.decode(1000 + number)
        while len(s.live) > 3:
            s.end()
        theirs, ours = (sorted(blocks_of(m.take_events()), key=repr) for m in s.both)
        assert theirs == ours
        told.update((name, bool(keys), session) for _, _, name, keys, session, *_ in ours)
    assert len(told) == 8  # an adapter's name is always a key: 2 * 2 with adapters, 4 without
    assert s.ours.manager.stats.duplicates == 0


def test_a_salt_in_one_request_says_nothing_about_the_events_of_others():
    s = Stream(400, 0, exact=True, enable_kv_cache_events=True)
    for salt in None, "salt", None:
        s.admit([s.unique] * 9, salt=salt)
        s.live[-1].append_output_token_ids([7] * 4)
    for request in s.live:  # in one step, before the events are taken
        s.allocate(request, 4)
    keys = [event.extra_keys for event in s.ours.take_events()]
    assert keys == [event.extra_keys for event in s.theirs.take_events()] and [("salt",), None] in keys
