# SPDX-License-Identifier: Apache-2.0
"""Greedy generation with our cache beside transformers' DynamicCache, on small models with random weights. Skipped without torch."""

import collections
import random

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import transformers  # noqa: E402
from transformers import (  # noqa: E402
    DynamicCache, Gemma2Config, Gemma2ForCausalLM, GenerationConfig, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM)

from kvcache import NoSpaceError, Plane, Storage, UnsupportedError  # noqa: E402
from kvcache.integrations.transformers import CachePool  # noqa: E402

torch.set_num_threads(1)
SHAPE = dict(vocab_size=211, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=512, pad_token_id=0, bos_token_id=1, eos_token_id=None, initializer_range=0.4)
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE)),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SHAPE, sliding_window=24)),
    "gemma": lambda: Gemma2ForCausalLM(Gemma2Config(**SHAPE, head_dim=16, sliding_window=20, query_pre_attn_scalar=16, tie_word_embeddings=False,
                                                    attn_implementation="eager")),  # "sdpa" leaves out what caps the logits
}
NEW = 60


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    torch.manual_seed(5)
    return MODELS[request.param]().eval()


def prompt(length, seed=0, batch=1):
    return torch.randint(2, 211, (batch, length), generator=torch.Generator().manual_seed(seed))


def expected(model, ids, **options):
    return model.generate(ids, attention_mask=torch.ones_like(ids), past_key_values=DynamicCache(config=model.config), do_sample=False,
                          max_new_tokens=NEW, **options)


def test_greedy_output_is_that_of_dynamic_cache(model):
    pool = CachePool(model.config, 64, 8)
    for ids in (prompt(37), prompt(1, 1), prompt(16, 2), prompt(30, 3, batch=3)):
        reference = expected(model, ids)
        assert len(set(reference[0, ids.shape[1]:].tolist())) >= 20  # or the comparison would say little
        assert torch.equal(pool.generate(model, ids, do_sample=False, max_new_tokens=NEW), reference)
    assert pool.manager.usage == 0
    pool.manager.check()


def test_a_second_call_computes_only_what_is_new(model):
    pool = CachePool(model.config, 64, 8)
    ids = prompt(37)
    first = pool.generate(model, ids, do_sample=False, max_new_tokens=NEW)
    with pool.new_cache(ids) as cache:
        assert cache.get_seq_length() == 32
    more = torch.cat([first, prompt(9, 7)], dim=1)
    computed = []
    hook = model.model.layers[0].register_forward_pre_hook(lambda module, args: computed.append(args[0].shape[1]))
    whole = torch.ones_like(more)  # 0 is a token here, and what was generated may have it
    second = pool.generate(model, more, attention_mask=whole, do_sample=False, max_new_tokens=NEW)
    hook.remove()
    assert computed[0] == more.shape[1] - 96 and computed[1:] == [1] * (NEW - 1)  # 96 of the 96 stored tokens
    assert torch.equal(second, expected(model, more))


def test_rows_of_a_batch_start_where_all_of_them_are_known(model):
    pool = CachePool(model.config, 64, 8, retention_tokens=8)
    ids = prompt(40, 1, batch=2)
    pool.generate(model, ids[:1], do_sample=False, max_new_tokens=2)
    pool.generate(model, ids[1:, :20], do_sample=False, max_new_tokens=2)
    with pool.new_cache(ids) as cache:
        assert cache.get_seq_length() == 16  # a longer prefix of the first row is known, but not of the second
    assert torch.equal(pool.generate(model, ids, do_sample=False, max_new_tokens=NEW), expected(model, ids))


def test_a_corrupted_block_changes_the_output(model):
    pool = CachePool(model.config, 64, 8)
    ids = prompt(37)
    reference = pool.generate(model, ids, do_sample=False, max_new_tokens=NEW)
    for storage in pool.storages:
        for layer in range(storage.num_layers):
            storage.view(Plane.V, layer)[:] *= -3
    assert not torch.equal(pool.generate(model, ids, do_sample=False, max_new_tokens=NEW), reference)
    pool.manager.reset_all()
    assert torch.equal(pool.generate(model, ids, do_sample=False, max_new_tokens=NEW), reference)


def test_int8_stays_close(model):
    """Logits of one forward pass over stored keys and values; the int8 error is seen, and small."""
    ids = prompt(48)
    with torch.no_grad():
        reference = model(ids[:, :40], past_key_values=DynamicCache(config=model.config), use_cache=True)
        reference = model(ids[:, 40:], past_key_values=reference.past_key_values, use_cache=True).logits
        errors = {}
        for dtype in ("float32", "int8"):
            with CachePool(model.config, 16, 8, dtype).new_cache(ids) as cache:
                model(ids[:, :40], past_key_values=cache, use_cache=True)
                logits = model(ids[:, 40:], past_key_values=cache, use_cache=True).logits
            errors[dtype] = float((logits - reference).norm() / reference.norm())
    assert errors["float32"] < 1e-5 < errors["int8"] < 0.1


def test_bfloat16_models_give_equal_tokens():
    torch.manual_seed(5)
    model = MODELS["llama"]().to(torch.bfloat16).eval()
    model.config.dtype = torch.bfloat16
    pool = CachePool(model.config, 32, 8)
    assert pool.storages[0].dtype == 8
    ids = prompt(37)
    assert torch.equal(pool.generate(model, ids, do_sample=False, max_new_tokens=NEW), expected(model, ids))


def test_windows_hold_only_what_they_need(model):
    pool = CachePool(model.config, 64, 8)
    windows = [group for group in pool._groups if group.window]
    most = []

    def look(ids, scores):
        most.append([pool.manager.pool_info(group.index) for group in pool._groups])
        return torch.zeros(ids.shape[0], dtype=torch.bool)

    pool.generate(model, prompt(37), do_sample=False, max_new_tokens=NEW, stopping_criteria=[look])
    for group in pool._groups:
        held = [infos[group.index].num_blocks - infos[group.index].free - infos[group.index].cached for infos in most[2:]]
        assert max(held) <= -(-group.window // 8) + 1 if group.window else max(held) == 12
    assert bool(windows) == (model.config.model_type != "llama")


def test_padded_prompts_share_nothing_and_are_right(model):
    pool = CachePool(model.config, 64, 8)
    ids = prompt(24, 4, batch=2)
    ids[0, :7] = 0
    mask = (ids != 0).long()
    reference = model.generate(ids, attention_mask=mask, past_key_values=DynamicCache(config=model.config), do_sample=False, max_new_tokens=NEW)
    assert torch.equal(pool.generate(model, ids, attention_mask=mask, do_sample=False, max_new_tokens=NEW), reference)
    with pool.new_cache(ids) as cache:
        assert cache.get_seq_length() == 0


def padded(length, side, pad, lengths, seed=0):
    """Prompts of these lengths in rows of `length` tokens, padded on one side."""
    ids = prompt(length, seed, batch=len(lengths))
    for row, n in zip(ids, lengths):
        if side == "left":
            row[: length - n] = pad
        else:
            row[n:] = pad
    return ids


@pytest.mark.parametrize("side", ["left", "right"])
def test_without_a_mask_transformers_infers_it(model, side):
    pool = CachePool(model.config, 64, 8)
    ids = padded(24, side, 0, [17, 24, 9], seed=4)
    reference = model.generate(ids, do_sample=False, max_new_tokens=NEW)
    assert not torch.equal(reference, expected(model, ids))  # padding makes a difference
    for _ in range(2):
        assert torch.equal(pool.generate(model, ids, do_sample=False, max_new_tokens=NEW), reference)
    with pool.new_cache(ids) as cache:
        assert cache.get_seq_length() == 0
        assert torch.equal(model.generate(ids, past_key_values=cache, do_sample=False, max_new_tokens=NEW), reference)
    whole = torch.ones_like(ids)  # who says that these are tokens like others
    for hit in (0, 24 // 8 * 8 - 8):
        with pool.new_cache(ids, whole) as cache:
            assert cache.get_seq_length() == hit
        assert torch.equal(pool.generate(model, ids, attention_mask=whole, do_sample=False, max_new_tokens=NEW), expected(model, ids))
    assert torch.equal(pool.generate(model, ids, do_sample=False, max_new_tokens=NEW), reference)  # still not of those


def test_padding_that_also_ends_sequences_is_no_padding(model):
    pool = CachePool(model.config, 64, 8)
    ids = padded(24, "left", 7, [17, 24], seed=4)
    options = dict(do_sample=False, max_new_tokens=NEW, pad_token_id=7, eos_token_id=[5, 7])
    reference = model.generate(ids, **options)
    for hit in (0, 16):
        with pool.new_cache(ids, torch.ones_like(ids)) as cache:
            assert cache.get_seq_length() == hit
        assert torch.equal(pool.generate(model, ids, **options), reference)


def test_random_batches_equal_the_models_own_generate(model):
    """Padding on each side, in the middle or none, given masks or none, special tokens from each place that generate() takes them from."""
    pool = CachePool(model.config, 256, 8, retention_tokens=8)
    rng = random.Random(7)
    kept = model.generation_config
    seen = collections.Counter()
    try:
        for _ in range(60):
            pad, eos = rng.choice([0, 3, None]), rng.choice([None, 0, 3, 5, [5, 3], [9, 0]])
            length, batch = rng.randrange(9, 33), rng.randrange(1, 4)
            ids = prompt(32, rng.randrange(2), batch=3)[:batch, :length].clone()  # two families: prefixes are found again
            side, stands = rng.choice(["left", "right", "middle", "none"]), rng.choice([0, 3])
            mask = torch.ones_like(ids)
            for row, ones in zip(ids, mask):
                n = rng.randrange(1, 8)
                where = {"left": slice(0, n), "right": slice(length - n, length), "middle": slice(4, 5), "none": slice(0, 0)}[side]
                row[where] = stands
                if side in ("left", "right"):
                    ones[where] = 0
            options = dict(do_sample=False, max_new_tokens=8)
            given = rng.choice([None, None, "true", "ones"])
            if given:
                options["attention_mask"] = mask if given == "true" else torch.ones_like(ids)
            special = {name: value for name, value in (("pad_token_id", pad), ("eos_token_id", eos)) if value is not None or rng.random() < 0.5}
            model.generation_config = GenerationConfig(pad_token_id=rng.choice([None, 0]), bos_token_id=1)
            place = rng.choice(["options", "config", "model"])
            if place == "options":
                options.update(special)
            elif place == "config":
                options["generation_config"] = GenerationConfig(**special)
            else:
                model.generation_config = GenerationConfig(bos_token_id=1, **special)
            reference = model.generate(ids, **options)
            before = pool.manager.stats.cached_tokens
            assert torch.equal(pool.generate(model, ids, **options), reference), (ids, options, model.generation_config)
            seen[given, side, pool.manager.stats.cached_tokens > before] += 1
    finally:
        model.generation_config = kept
    assert {side for given, side, _ in seen if given is None} == {"left", "right", "middle", "none"}
    assert sum(count for (_, _, hit), count in seen.items() if hit) > 10
    assert any(hit and given is None and side != "none" for given, side, hit in seen)  # padding that ends sequences, too
    pool.manager.check()


def test_inputs_beside_the_ids_are_refused(model):
    pool = CachePool(model.config, 64, 8)
    ids = prompt(9)
    for options in ({"inputs_embeds": model.get_input_embeddings()(ids)}, {"position_ids": torch.arange(9)[None] + 5}):
        with pytest.raises(UnsupportedError, match=next(iter(options))):
            pool.generate(model, ids, max_new_tokens=4, **options)
    assert pool.manager.requests() == []
    reference = model.generate(ids, do_sample=False, max_new_tokens=4)
    assert torch.equal(pool.generate(model, ids, do_sample=False, max_new_tokens=4, inputs_embeds=None, use_cache=True), reference)


def test_tokens_can_be_taken_back():
    torch.manual_seed(5)
    model = MODELS["llama"]().eval()
    ids = prompt(30)
    with torch.no_grad(), CachePool(model.config, 16, 8).new_cache(ids) as cache:
        model(ids, past_key_values=cache, use_cache=True)
        wrong = model(prompt(5, 9), past_key_values=cache, use_cache=True).logits
        cache.crop(-5)
        assert cache.get_seq_length() == 30
        right = model(ids[:, :5], past_key_values=cache, use_cache=True).logits
        cache.crop(-15)
        again = model(torch.cat([ids[:, 20:], ids[:, :5]], 1), past_key_values=cache, use_cache=True).logits[:, 10:]
        assert torch.allclose(right, again, atol=1e-4) and not torch.allclose(right, wrong, atol=1e-1)


def test_what_does_not_work_says_so():
    torch.manual_seed(5)
    model = MODELS["llama"]().eval()
    pool = CachePool(model.config, 8, 8)
    with pytest.raises(NoSpaceError):
        pool.new_cache(prompt(65))
    with pytest.raises(NoSpaceError):
        pool.generate(model, prompt(60), do_sample=False, max_new_tokens=NEW)
    assert pool.manager.usage == 0
    with pytest.raises(UnsupportedError, match="num_beams"):
        pool.generate(model, prompt(8), max_new_tokens=4, num_beams=2)
    with pool.new_cache(prompt(8)) as cache, pytest.raises(UnsupportedError, match="repeat_interleave"):
        model.generate(prompt(8), max_new_tokens=4, past_key_values=cache, num_beams=2)
    with pool.new_cache(prompt(8).repeat_interleave(2, 0)) as cache, pytest.raises(UnsupportedError, match="num_beams"):
        model.generate(prompt(8), max_new_tokens=4, past_key_values=cache, num_beams=2)
    with pool.new_cache(prompt(8, batch=2)) as cache, pytest.raises(ValueError, match="a batch of 3 for a cache of 2"), torch.no_grad():
        model(prompt(8, batch=3), past_key_values=cache, use_cache=True)
    with pool.new_cache(prompt(8)) as cache:
        with pytest.raises(UnsupportedError, match="num_beams"):
            cache.reorder_cache(torch.tensor([0]))
        with pytest.raises(ValueError, match="1 requests"):
            cache.commit(prompt(8, batch=2))
        with pytest.raises(ValueError, match="negative"):
            cache.crop(3)
    model.config.layer_types = ["linear_attention"] * 4
    with pytest.raises(UnsupportedError, match="linear_attention"):
        CachePool(model.config, 8)


def test_what_does_not_go_on_from_a_cached_prefix_is_refused_in_each_call_alike():
    torch.manual_seed(5)
    model, ids = MODELS["llama"]().eval(), prompt(40)
    refused = ({"use_cache": False}, {"penalty_alpha": 0.6, "top_k": 4}, {"dola_layers": "low"}, {"cache_implementation": "static"},
               {"custom_generate": "x"}, {"prefill_chunk_size": 8}, {"num_beams": 2}, {"force_words_ids": [[5]]})
    reference = model.generate(ids, do_sample=False, max_new_tokens=4)
    pool = CachePool(model.config, 64, 8)
    for _ in range(2):  # before the prefix is cached, and after
        for options in refused:
            with pytest.raises(UnsupportedError, match=next(iter(options))):
                pool.generate(model, ids, max_new_tokens=4, **options)
        kept, model.generation_config = model.generation_config, GenerationConfig(**{**model.generation_config.to_dict(), "num_beams": 3})
        try:
            with pytest.raises(UnsupportedError, match="num_beams"):
                pool.generate(model, ids, max_new_tokens=4)
        finally:
            model.generation_config = kept
        assert pool.manager.requests() == []
        options = {"num_beams": 1, "num_return_sequences": 1, "use_cache": True, "prompt_lookup_num_tokens": None}
        assert torch.equal(pool.generate(model, ids, do_sample=False, max_new_tokens=4, **options), reference)
    with pool.new_cache(ids) as cache, torch.no_grad():
        assert cache.get_seq_length() == 32
        with pytest.raises(UnsupportedError, match="holds 32.*cache.reset"):
            model(ids, past_key_values=cache, use_cache=True)
        cache.reset()
        assert torch.allclose(model(ids, past_key_values=cache, use_cache=True).logits, model(ids).logits, atol=1e-4)


@pytest.mark.parametrize("dtype", [None, "int8"])
@pytest.mark.parametrize("length", [1, 33, 40])
def test_tokens_that_come_again_without_use_cache_are_refused(model, dtype, length):
    """generate() without the pool gives the model all tokens again in each step, and most models do not tell the cache."""
    pool, ids, options = CachePool(model.config, 64, 8, dtype, retention_tokens=8), prompt(length, batch=2), dict(do_sample=False, max_new_tokens=2)
    whole = torch.ones_like(ids)
    kept = []
    for _ in range(2):  # before the prefix is cached, and after
        with pool.new_cache(ids, whole) as cache, pytest.raises(UnsupportedError, match="leave use_cache out"):
            kept.append(cache.get_seq_length())
            model.generate(ids, attention_mask=whole, past_key_values=cache, use_cache=False, **options)
    if kept[-1]:  # only the new tokens, and a mask of all
        with pool.new_cache(ids, whole) as cache, pytest.raises(UnsupportedError, match="leave use_cache out"):
            model.generate(ids[:, kept[-1]:], attention_mask=whole, past_key_values=cache, use_cache=False, **options)
    pool.generate(model, ids, attention_mask=whole, **options)
    with pool.new_cache(ids, whole) as cache:
        kept.append(cache.get_seq_length())
    assert kept[-1] == (length - 1) // 8 * 8
    pool.manager.check()


@pytest.mark.skipif(not hasattr(getattr(torch.ao, "quantization", None), "quantize_dynamic") or torch.backends.quantized.engine == "none",
                    reason="this torch does not quantize activations")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("length", [1, 9, 33, 40])
def test_tokens_that_come_again_are_known_by_keys_that_quantized_activations_move(length):
    """Layers that scale activations by the whole call (dynamic int8) compute other keys for the same tokens in a longer call."""
    torch.manual_seed(length)
    model, ids = MODELS["llama"]().eval(), prompt(length)
    with torch.no_grad():
        model.model.embed_tokens.weight[::5, 3] *= 20  # outliers, as large models have them
    model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    pool, whole, options = CachePool(model.config, 64, 8), torch.ones_like(ids), dict(do_sample=False, max_new_tokens=2)
    for _ in range(2):  # before the prefix is cached, and after
        with pool.new_cache(ids, whole) as cache, pytest.raises(UnsupportedError, match="leave use_cache out"):
            model.generate(ids[:, cache.get_seq_length():], attention_mask=whole, past_key_values=cache, use_cache=False, **options)
        pool.generate(model, ids, attention_mask=whole, **options)
    reference = model.generate(ids, attention_mask=whole, **options)
    assert torch.equal(CachePool(model.config, 64, 8).generate(model, ids, attention_mask=whole, **options), reference)


def test_padded_tokens_that_come_again_are_refused():
    torch.manual_seed(5)
    model, ids = MODELS["llama"]().eval(), prompt(40, batch=2)
    ids[0, :30] = 0
    mask = (ids != 0).long()
    assert not model.model.embed_tokens.weight[0].any()  # so their keys are 0
    with CachePool(model.config, 64, 8).new_cache(ids, mask) as cache, pytest.raises(UnsupportedError, match="leave use_cache out"):
        model.generate(ids, attention_mask=mask, past_key_values=cache, use_cache=False, do_sample=False, max_new_tokens=2)


def test_keys_that_a_bias_makes_alike_are_new():
    """As in the first layer of Qwen2."""
    torch.manual_seed(5)
    model, ids = LlamaForCausalLM(LlamaConfig(**SHAPE, attention_bias=True)).eval(), prompt(12)
    with torch.no_grad(), CachePool(model.config, 16, 8).new_cache(ids[:, :9]) as cache:
        model.model.layers[0].self_attn.k_proj.bias.view(2, 16)[:, [6, 7, 14, 15]] = 200.0
        for first, last in ((0, 9), (9, 10), (10, 12)):
            model(ids[:, first:last], past_key_values=cache, use_cache=True)
        assert cache.get_seq_length() == 12


def test_as_many_tokens_as_the_cache_holds_and_one_more_may_be_new(model):
    """Equal tokens at other positions are new as well."""
    ids = prompt(12)
    for more in (prompt(13, 3), torch.cat([ids, ids[:, :1]], 1)):
        sequence = torch.cat([ids, more], 1)
        with torch.no_grad(), CachePool(model.config, 16, 8).new_cache(ids) as cache:
            model(ids, past_key_values=cache, use_cache=True)
            logits = model(more, past_key_values=cache, use_cache=True).logits
            assert torch.allclose(logits, model(sequence, use_cache=False).logits[:, 12:], atol=1e-3)


def test_assisted_decoding_gives_the_tokens_of_each_call_alike():
    torch.manual_seed(5)
    model, draft = MODELS["llama"]().eval(), LlamaForCausalLM(LlamaConfig(**{**SHAPE, "num_hidden_layers": 1})).eval()
    ids = torch.cat([prompt(8)] * 5, 1)  # repeats itself, so that a lookup finds candidates
    whole = torch.ones_like(ids)
    for options in ({"prompt_lookup_num_tokens": 3}, {"assistant_model": draft}, {"assistant_early_exit": 1}):
        options.update(attention_mask=whole, do_sample=False, max_new_tokens=20)
        reference = model.generate(ids, **options)
        pool = CachePool(model.config, 64, 8)
        for _ in range(3):
            assert torch.equal(pool.generate(model, ids, **options), reference)
            with pool.new_cache(ids, whole) as cache:
                assert cache.get_seq_length() == 32
                if "prompt_lookup_num_tokens" in options:
                    assert torch.equal(model.generate(ids, past_key_values=cache, **options), reference)
                    with pytest.raises(UnsupportedError, match="leave use_cache out"):
                        model.generate(reference, past_key_values=cache, use_cache=False, do_sample=False, max_new_tokens=3)
        with pool.new_cache(torch.cat([reference, reference[:, :1]], 1), torch.ones(1, 61)) as cache:
            assert cache.get_seq_length() == 56  # what was generated is found
        assert torch.equal(pool.generate(model, ids, attention_mask=whole, do_sample=False, max_new_tokens=20), reference)
        pool.manager.check()
    windows = MODELS["mistral"]().eval()
    pool = CachePool(windows.config, 64, 8)
    for _ in range(2):
        with pytest.raises(UnsupportedError, match="prompt_lookup_num_tokens"):
            pool.generate(windows, ids, attention_mask=whole, max_new_tokens=4, prompt_lookup_num_tokens=3)
        with pool.new_cache(ids, whole) as cache, pytest.raises(UnsupportedError, match="windows"):
            windows.generate(ids, attention_mask=whole, past_key_values=cache, max_new_tokens=4, prompt_lookup_num_tokens=3)
        pool.generate(windows, ids, attention_mask=whole, do_sample=False, max_new_tokens=2)


def test_several_sequences_of_a_prompt_are_those_of_the_model(model):
    pool = CachePool(model.config, 256, 8)
    ids = prompt(37, batch=2)
    options = dict(attention_mask=torch.ones_like(ids), do_sample=True, num_return_sequences=3, max_new_tokens=NEW)
    torch.manual_seed(9)
    reference = model.generate(ids, **options)
    assert len({tuple(row) for row in reference.tolist()}) == 6
    for _ in range(2):
        torch.manual_seed(9)
        assert torch.equal(pool.generate(model, ids, **options), reference)
    assert pool.manager.usage == 0
    pool.manager.check()


@pytest.fixture
def in_place(model):
    """The model with the attention of the library, which gathers nothing."""
    before = model.config._attn_implementation
    model.set_attn_implementation("kvcache")
    assert model.config._attn_implementation == "kvcache"
    yield model
    model.set_attn_implementation(before)


def without_gather(monkeypatch):
    def gather(*arguments, **options):
        raise AssertionError("gathered")

    monkeypatch.setattr(Storage, "gather", gather)


def test_attention_in_place_gives_the_tokens_of_dynamic_cache(model, monkeypatch):
    prompts = prompt(37), prompt(1, 1), prompt(16, 2), prompt(30, 3, batch=3)
    references = [expected(model, ids) for ids in prompts]
    before = model.config._attn_implementation
    model.set_attn_implementation("kvcache")
    try:
        for ids, reference in zip(prompts, references):  # another cache, under the same name of attention
            assert torch.equal(expected(model, ids), reference)
        without_gather(monkeypatch)
        pool = CachePool(model.config, 64, 8, retention_tokens=8)
        for _ in range(2):  # from nothing, and after a hit
            for ids, reference in zip(prompts, references):
                assert torch.equal(pool.generate(model, ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=NEW), reference)
        assert pool.manager.stats.cached_tokens >= 32 + 8 + 3 * 24
        assert pool.manager.usage == 0
        pool.manager.check()
    finally:
        model.set_attn_implementation(before)


@pytest.mark.parametrize("side", ["left", "right"])
def test_attention_in_place_leaves_padding_to_gathered_keys(in_place, side):
    pool = CachePool(in_place.config, 64, 8)
    ids = padded(24, side, 0, [17, 24, 9], seed=4)
    reference = in_place.generate(ids, do_sample=False, max_new_tokens=NEW)
    assert not torch.equal(reference, expected(in_place, ids))
    for _ in range(2):
        assert torch.equal(pool.generate(in_place, ids, do_sample=False, max_new_tokens=NEW), reference)


def test_a_model_and_a_pool_of_other_attentions_give_no_other_tokens(in_place):
    """Their configurations differ: either the right tokens, or an error."""
    ids = prompt(37)
    reference = expected(in_place, ids)
    other = type(in_place.config)(**{**in_place.config.to_dict(), "attn_implementation": "sdpa"})
    assert torch.equal(CachePool(other, 64, 8).generate(in_place, ids, do_sample=False, max_new_tokens=NEW), reference)
    pool = CachePool(in_place.config, 64, 8)
    torch.manual_seed(5)
    model = type(in_place)(type(in_place.config)(**{**in_place.config.to_dict(), "attn_implementation": "eager"})).eval()
    with pytest.raises(Exception, match="meta"):
        pool.generate(model, ids, do_sample=False, max_new_tokens=NEW)


def test_windows_keep_what_the_last_layer_still_reads(in_place, monkeypatch):
    """Another thread may take blocks behind a window as soon as they are free: none is free before the last layer has read it."""
    pool, seen = CachePool(in_place.config, 64, 8), []
    attend = Storage.attend

    def watched(storage, q, offsets, lens, tables, *arguments, **options):
        group = next(group for group in pool._groups if group.storage is storage)
        length, new = int(lens[0]), len(q)
        first = max(0, length - new + 1 - group.window) if group.window else 0
        read = tables[0, first // 8 : -(-length // 8)] + pool.manager.pool_info(group.index).first_block
        seen.append(all(pool.manager.block_info(int(block)).requests for block in read))
        return attend(storage, q, offsets, lens, tables, *arguments, **options)

    monkeypatch.setattr(Storage, "attend", watched)
    pool.generate(in_place, prompt(70), do_sample=False, max_new_tokens=NEW)
    assert len(seen) == 4 * NEW and all(seen)


def test_attention_in_place_knows_sinks():
    torch.manual_seed(5)
    shape = {**SHAPE, "head_dim": 16, "num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 24}
    model = transformers.GptOssForCausalLM(transformers.GptOssConfig(**shape)).eval()
    for layer in model.model.layers:
        layer.self_attn.sinks.data.normal_(0, 3)
    ids = prompt(37)
    reference = expected(model, ids)
    model.set_attn_implementation("kvcache")
    assert torch.equal(expected(model, ids), reference)
    pool = CachePool(model.config, 64, 8)
    for _ in range(2):
        assert torch.equal(pool.generate(model, ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=NEW), reference)


@pytest.mark.parametrize("name, options", [
    ("GPT2", {}), ("OPT", {"word_embed_proj_dim": 64, "ffn_dim": 96}), ("GPTNeoX", {}), ("GPTJ", {"rotary_dim": 8}), ("Bloom", {}), ("GPTBigCode", {}),
    ("GPTBigCode", {"multi_query": False}), ("Falcon", {}), ("Falcon", {"multi_query": False}), ("Falcon", {"new_decoder_architecture": True, "num_kv_heads": 2}),
    ("Phi", {}), ("StableLm", {"num_key_value_heads": 2})])
def test_models_whose_configuration_names_its_heads_otherwise(name, options):
    torch.manual_seed(5)
    shape = {key: value for key, value in SHAPE.items() if key != "num_key_value_heads"}
    config = getattr(transformers, f"{name}Config")(**shape, **options)
    model = getattr(transformers, {"GPT2": "GPT2LMHeadModel"}.get(name, f"{name}ForCausalLM"))(config).eval()
    pool, ids = CachePool(model.config, 64, 8), prompt(37)
    reference = expected(model, ids)
    for hit in (0, 32):
        with pool.new_cache(ids, torch.ones_like(ids)) as cache:
            assert cache.get_seq_length() == hit
        assert torch.equal(pool.generate(model, ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=NEW), reference)


def test_layers_without_keys_and_values_of_each_token_are_refused_by_the_constructor():
    for config in (transformers.DeepseekV3Config(), transformers.T5Config(), transformers.MllamaTextConfig()):
        with pytest.raises(UnsupportedError, match="kv_lora_rank|is_encoder_decoder|cross_attention_layers"):
            CachePool(config, 8)
    torch.manual_seed(5)
    model = MODELS["llama"]().eval()
    other = CachePool(LlamaConfig(**{**SHAPE, "num_key_value_heads": 4}), 8)
    for _ in range(2):
        with pytest.raises(UnsupportedError, match=r"keys of \[heads, head_dim\] \[2, 16\], the pool of \[4, 16\]"):
            other.generate(model, prompt(40), max_new_tokens=4)
    assert other.manager.usage == 0
