# SPDX-License-Identifier: Apache-2.0
"""config.json files read as the kvcache command reads them."""

import json
import os
import random
import re
import subprocess

import pytest

import kvcache
from kvcache.hf_config import _ARCHITECTURES, read_hf_config

COMMAND = os.environ.get("KVC_COMMAND")
needs_command = pytest.mark.skipif(not COMMAND, reason="KVC_COMMAND does not name the kvcache command")
LLAMA = {"model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096,
         "vocab_size": 128256, "max_position_embeddings": 131072}


def write(folder, config):
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return folder


def asked(path):
    return subprocess.run([COMMAND, "estimate", str(path / "config.json"), "--dtype", "int8", "--json"], capture_output=True, text=True)


def test_a_published_config_is_its_preset(tmp_path):
    model = read_hf_config(write(tmp_path, LLAMA))
    assert model.estimate("bf16") == kvcache.find_model("llama-3.1-8b").estimate("bf16")
    assert (model.num_q_heads, model.vocab_size, model.name) == (32, 128256, "llama")
    assert kvcache.Model.from_config(tmp_path / "config.json").head_dim == 128


@needs_command
def test_the_same_architectures_are_known(tmp_path):
    said = asked(write(tmp_path, {"model_type": "nonsense"})).stderr
    assert set(re.search(r"known are (.*)", said).group(1).split()) == set(_ARCHITECTURES)


@needs_command
def test_random_configs_are_read_or_refused_as_the_command_does(tmp_path):
    rng, agreed = random.Random(), 0
    for _ in range(150):
        name = rng.choice(list(_ARCHITECTURES))
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
            outer["architectures"] = [_ARCHITECTURES[name].class_name]
        said = asked(write(tmp_path, outer))
        try:
            own = read_hf_config(tmp_path).estimate("int8")
        except ValueError:
            assert said.returncode == 2, (outer, said.stdout)
            continue
        assert said.returncode == 0, (outer, said.stderr)
        answer = json.loads(said.stdout)
        assert (answer["total_bytes"], answer["bytes_per_token"]) == (own.total_bytes, own.bytes_per_token), outer
        agreed += 1
    assert agreed > 20


@pytest.mark.parametrize("config, text", [
    ("[1]", "not an object"), ("{", "config.json: "), ({**LLAMA, "num_hidden_layers": 0}, '"num_hidden_layers" is 0; give a whole number from 1 to 512'),
    ({**LLAMA, "num_key_value_heads": 5}, "must divide"), ({**LLAMA, "hidden_size": 4097}, "4097"), ({**LLAMA, "model_type": "bert"}, "known are llama")])
def test_what_is_wrong_is_named(tmp_path, config, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        read_hf_config(write(tmp_path, config))
