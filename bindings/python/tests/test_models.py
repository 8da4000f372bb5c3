# SPDX-License-Identifier: Apache-2.0
"""Presets and estimates, against known numbers and against the command."""

import json
import os
import subprocess

import pytest

import kvcache


def test_known_sizes():
    assert kvcache.find_model("llama-3.1-8b").estimate("fp16", tokens=8192).total_bytes == 1_073_741_824
    assert kvcache.find_model("deepseek-v3").estimate("bf16").bytes_per_token == 61 * 576 * 2
    assert kvcache.find_model("phi-3-mini-4k").num_kv_heads == 32
    by_hand = kvcache.Model(num_layers=32, num_kv_heads=8, head_dim=128, max_context=8192)
    assert by_hand.estimate().total_bytes == 1_073_741_824


def test_windows_are_said_layer_by_layer():
    gemma = kvcache.find_model("gemma-3-1b")
    assert gemma.window_tokens == 512 and 5 not in gemma.window_layers and 4 in gemma.window_layers
    copy = kvcache.Model(gemma.window_layers, **{name: getattr(gemma, name) for name in
                                                 ("num_layers", "num_kv_heads", "head_dim", "max_context", "window_tokens")})
    assert copy.estimate() == gemma.estimate()


def test_unknown_names_are_an_error():
    with pytest.raises(kvcache.NotFoundError, match="lama"):
        kvcache.find_model("lama")
    with pytest.raises(ValueError, match="float17.*bfloat16"):
        kvcache.find_model("llama-3.1-8b").estimate("float17")
    with pytest.raises(TypeError, match="scal"):
        kvcache.find_model("llama-3.1-8b").estimate(scal=1)
    with pytest.raises(TypeError, match="heads"):
        kvcache.Model(heads=3)


def test_estimates_leave_no_memory_behind():
    def resident():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096

    before = 0
    for i in range(500_000):
        kvcache.find_model("llama-3.1-8b").estimate()
        if i == 1000:
            before = resident()
    assert resident() - before < 8 << 20  # what is lost in each would be 32 bytes at least, 15 MiB in all


@pytest.mark.skipif("KVC_COMMAND" not in os.environ, reason="KVC_COMMAND does not name the kvcache command")
def test_all_presets_estimate_as_the_command_does():
    for model in list(kvcache.models()):
        out = subprocess.run([os.environ["KVC_COMMAND"], "estimate", model.name, "--dtype", "int8", "--context", "5000", "--json"], check=True,
                             capture_output=True, text=True)
        said = json.loads(out.stdout)
        own = model.estimate("int8", tokens=5000)
        assert said["total_bytes"] == own.total_bytes and said["bytes_per_token"] == own.bytes_per_token
