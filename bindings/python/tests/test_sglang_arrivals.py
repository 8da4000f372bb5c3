# SPDX-License-Identifier: Apache-2.0
"""bench/sglang_arrivals.py: SGLang's own scheduling serves what ours serves. Skipped where SGLang is not installed."""

import importlib.util
import json
import pathlib
import random
import subprocess
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench" / "sglang_arrivals.py"
if importlib.util.find_spec("sglang") is None:
    pytest.skip("SGLang is not installed", allow_module_level=True)


def test_every_request_is_served_and_all_tokens_are_counted(tmp_path):
    rng, trace = random.Random(3), tmp_path / "trace.jsonl"
    with open(trace, "w") as file:
        for number in range(40):
            ids = [rng.randrange(2)] + [1000 * number + i for i in range(rng.randrange(3))]
            request = {"timestamp": 20 * number, "input_length": 512 * len(ids) - rng.randrange(200), "output_length": rng.randint(1, 40), "hash_ids": ids}
            file.write(json.dumps(request) + "\n")
    done = subprocess.run([sys.executable, BENCH, trace, "--requests", "40", "--tokens", "1024", "--running", "16", "--blocks", "400", "--json"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads(done.stdout.splitlines()[-1])["rounds"][0]
    assert set(results) == {"sglang", "sglang_mixed", "ours"}
    for kind, result in results.items():  # a lane that loses a request raises
        assert result["steps"] > 40 and result["hit_rate"] > 0 and result["makespan_s"] > 0.8, kind
