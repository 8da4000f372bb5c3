# SPDX-License-Identifier: Apache-2.0
"""config.json files: what the library reads, with the name of the file in errors."""

import json
import os
import random
import re
import subprocess

import config_oracle
import pytest

import kvcache

COMMAND = os.environ.get("KVC_COMMAND")
needs_command = pytest.mark.skipif(not COMMAND, reason="KVC_COMMAND does not name the kvcache command")
LLAMA = {"model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096,
         "vocab_size": 128256, "max_position_embeddings": 131072}


def write(folder, config):
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return folder


def test_a_published_config_is_its_preset(tmp_path):
    model = kvcache.Model.from_config(write(tmp_path, LLAMA))
    assert model.estimate("bf16") == kvcache.find_model("llama-3.1-8b").estimate("bf16")
    assert (model.num_q_heads, model.vocab_size, model.name) == (32, 128256, "llama")
    assert model.rope_theta == 10000 and model.rope()[0].shape == (64,)
    assert kvcache.Model.from_config(tmp_path / "config.json").head_dim == 128


@needs_command
def test_it_says_what_the_command_says(tmp_path):
    for config in (LLAMA, {**LLAMA, "num_hidden_layers": 0}, {"model_type": "nonsense"}, "[", {"text_config": LLAMA}):
        said = subprocess.run([COMMAND, "estimate", str(write(tmp_path, config) / "config.json"), "--dtype", "int8", "--json"], capture_output=True, text=True)
        try:
            own = kvcache.Model.from_config(tmp_path).estimate("int8")
        except kvcache.errors.InvalidArgumentError as error:
            assert (said.returncode, said.stderr) == (2, f"kvcache: {error}\n")
            continue
        answer = json.loads(said.stdout)
        assert (answer["total_bytes"], answer["bytes_per_token"]) == (own.total_bytes, own.bytes_per_token)


def test_random_configs_are_read_or_refused_as_the_oracle_does(tmp_path):
    rng, agreed = random.Random(int(os.environ.get("KVC_TEST_SEED", "1"))), 0
    for _ in range(1000):
        name = rng.choice(list(config_oracle.ARCHITECTURES))
        layers, heads = rng.choice([1, 6, 13, 40]), rng.choice([1, 4, 32])
        config = {"num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": rng.choice([1, 1, heads, heads, 3]), "vocab_size": 1000,
                  "hidden_size": heads * 96, "head_dim": rng.choice([64, None]), "max_position_embeddings": rng.choice([3000, 100000]),
                  "sliding_window": rng.choice([None, 512, 512, 4096, 4096, 0]), "use_sliding_window": rng.choice([True, False]),
                  "max_window_layers": rng.randrange(50), "sliding_window_pattern": rng.choice([None, 1, 5]), "kv_lora_rank": 512,
                  "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
                  "layer_types": rng.choice([None, None, [rng.choice(["full_attention", "sliding_attention"]) for _ in range(layers)]])}
        for key in rng.sample(list(config), rng.randrange(4)):
            del config[key]
        if rng.random() < 0.5:
            config["model_type"] = name
        outer = {"text_config": config} if rng.random() < 0.3 else config
        if "model_type" not in config:
            outer["architectures"] = [config_oracle.ARCHITECTURES[name].class_name]
        try:
            expected = config_oracle.read(outer)
        except ValueError:
            with pytest.raises(kvcache.errors.InvalidArgumentError):
                kvcache.Model.from_config(write(tmp_path, outer))
            continue
        model = kvcache.Model.from_config(write(tmp_path, outer))
        assert {name: getattr(model, name) for name in expected} == expected, outer
        agreed += 1
    assert agreed > 100


@pytest.mark.parametrize("config, text", [
    ("[1]", "not an object"), ("{", "config.json: "), ({**LLAMA, "num_hidden_layers": 0}, '"num_hidden_layers" is 0; give a whole number from 1 to 512'),
    ({**LLAMA, "num_key_value_heads": 5}, "must divide"), ({**LLAMA, "hidden_size": 4097}, "4097"), ({**LLAMA, "model_type": "bert"}, "known are llama")])
def test_what_is_wrong_is_named(tmp_path, config, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        kvcache.Model.from_config(write(tmp_path, config))
