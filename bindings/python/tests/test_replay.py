# SPDX-License-Identifier: Apache-2.0
"""The replay in Python counts what the C++ program counts."""

import io
import itertools
import json
import os
import re
import subprocess
import sys

import pytest

import kvcache
from kvcache.__main__ import main
from kvcache._replay import MAX_BLOCKS, MAX_CONCURRENCY
from kvcache.trace import TraceRequest, read_trace

COMMAND = os.environ.get("KVC_COMMAND")


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.jsonl"
    if not COMMAND:
        pytest.skip("KVC_COMMAND does not name the kvcache command")
    subprocess.run([COMMAND, "generate", "--requests", "120", "-o", str(path)], check=True, capture_output=True)
    return path


@pytest.mark.parametrize("blocks, concurrency", [(2000, 4), (9000, 16), (60000, 40)])
def test_counts_equal_those_of_the_command(trace, blocks, concurrency):
    out = subprocess.run([COMMAND, "replay", str(trace), "--num-blocks", str(blocks), "--concurrency", str(concurrency), "--json"], check=True,
                         capture_output=True, text=True)
    said = json.loads(out.stdout)
    own = kvcache.replay(trace, blocks, concurrency=concurrency)
    for name in ("requests", "rejected", "rejected_tokens", "preemptions", "prompt_tokens", "cached_tokens", "output_tokens", "block_queries",
                 "block_hits", "evictions", "failed_allocations"):
        assert getattr(own, name) == said[name], name
    assert own.occupancy and own.step_ns and len(own.admit_ns) >= own.requests - own.rejected


def test_the_command_line(trace, tmp_path):
    def run(*arguments):
        return subprocess.run([sys.executable, "-m", "kvcache", *arguments], capture_output=True, text=True)

    info = json.loads(run("info", "--json").stdout)
    assert info["version"] == kvcache.__version__
    replayed = run("replay", str(trace), "--num-blocks", "9000", "--json")
    assert json.loads(replayed.stdout)["requests"] == 120
    assert "1,073,741,824" in run("estimate", "llama-3.1-8b", "--context", "8192").stdout
    assert json.loads(run("estimate", "llama-3.1-8b", "--context", "8192", "--budget", "1.5GiB", "--json").stdout)["max_sequences"] == 1
    bad = run("estimate", "no such model")
    assert bad.returncode == 2 and "no such model" in bad.stderr
    pytest.importorskip("matplotlib")
    png = tmp_path / "x.png"
    plotted = run("plot", str(trace), "--requests", "30", "--num-blocks", "5000", "20000", "-o", str(png), "--json")
    assert png.read_bytes()[:4] == b"\x89PNG" and plotted.stderr == f"kvcache: wrote {png}\n"
    assert list(json.loads(plotted.stdout)) == ["5000", "20000"]


@pytest.mark.parametrize("command, option, value, says", [
    ("replay", "--num-blocks", "-4", "from 1 to 2147483582"), ("replay", "--num-blocks", "2147483583", "from 1 to 2147483582"),
    ("replay", "--block-size", "0", "from 1 to 1024"), ("replay", "--concurrency", "0", "from 1 to 262142"), ("replay", "--requests", "-1", "from 1 to"),
    ("plot", "--num-blocks", "x", "from 1 to"), ("estimate", "--context", "-1", "from 1 to"), ("estimate", "--batch", "9" * 40, "from 1 to"),
    ("estimate", "--block-size", "1025", "from 1 to 1024"), ("estimate", "--budget", "-1", "such as 24GiB"), ("estimate", "--budget", "16EiB", "such as 24GiB"),
    ("estimate", "--budget", "99999999TiB", "such as 24GiB")])
def test_numbers_out_of_range_are_refused(command, option, value, says, capsys):
    with pytest.raises(SystemExit) as end:
        main([command, "trace.jsonl", f"{option}={value}"])
    said = capsys.readouterr()
    assert end.value.code == 2 and not said.out and f"argument {option}: {value[:40]} is no " in said.err and says in said.err


def test_every_option_has_a_help(capsys):
    for command in ("info", "estimate", "replay", "plot"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        for line in re.sub(r"\n {10,}", "  ", capsys.readouterr().out.split("options:")[-1]).splitlines()[1:]:
            assert re.search(r"\S  +\S", line.strip()), line


@pytest.mark.parametrize("name, value", [("num_blocks", -4), ("num_blocks", 0), ("block_size", 0), ("block_size", 1025), ("concurrency", 0),
                                         ("concurrency", 1 << 18), ("max_requests", -1), ("sample_steps", 0)])
def test_the_call_refuses_numbers_out_of_range(name, value):
    with pytest.raises(ValueError, match=f"^{name} is {value}; it must be from "):
        kvcache.replay([TraceRequest(5, 1, (1,))], **{"num_blocks": 10, name: value})


def test_the_limits_of_the_commands_are_those_of_the_library():
    with pytest.raises(kvcache.InvalidArgumentError, match=f"at most {MAX_BLOCKS}$"):
        kvcache.Manager(MAX_BLOCKS + 1)
    with pytest.raises(kvcache.InvalidArgumentError, match=f"at most {MAX_CONCURRENCY + 1}$"):
        kvcache.Manager(10, max_requests=MAX_CONCURRENCY + 2)
    if not COMMAND:
        pytest.skip("KVC_COMMAND does not name the kvcache command")
    for option, limit in (("--num-blocks", MAX_BLOCKS), ("--concurrency", MAX_CONCURRENCY)):
        said = subprocess.run([COMMAND, "replay", "--generate", option, str(limit + 1)], capture_output=True, text=True).stderr
        assert f"it must be from 1 to {limit}\n" in said


def test_prompts_that_do_not_fit_count_as_not_cached():
    """Otherwise the hit rate falls when a larger pool takes them."""
    short = [TraceRequest(600, 1, (1, 2))] * 4
    requests = [*short, TraceRequest(6000, 1, tuple(range(10, 22)))]
    rates = []
    for blocks, rejected in ((100, 1), (1000, 0)):
        result = kvcache.replay(requests, blocks, concurrency=1)
        assert (result.rejected, result.rejected_tokens) == (rejected, 6000 * rejected) and result.prompt_tokens + result.rejected_tokens == 8400
        rates.append(result.hit_rate)
    assert rates[0] == rates[1] == 3 * 592 / 8400
    assert result.summary()["rejected_tokens"] == 0


def test_plot_says_what_to_install(tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError('it is not there')\n")
    path = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    said = subprocess.run([sys.executable, "-m", "kvcache", "plot", "trace.jsonl"], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert said.returncode == 2 and said.stderr == "kvcache: plot needs matplotlib (it is not there): pip install 'kvcache[plot]'\n"


def test_a_terminal_shows_how_long_a_replay_takes(tmp_path, monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    path = tmp_path / "trace.jsonl"
    path.write_text('{"input_length": 40, "output_length": 1, "hash_ids": [1]}\n' * 20)
    clock = itertools.count()
    monkeypatch.setattr("kvcache.__main__.time.monotonic", lambda: float(next(clock)))  # a second between two looks
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert main(["replay", str(path), "--num-blocks", "9000", "--concurrency", "1"]) == 0
    lines = sys.stderr.getvalue().split("\r\033[K")
    assert lines[1] == "9,000 blocks: 1 of 20 requests, 0:19 left" and lines[10] == "9,000 blocks: 10 of 20 requests, 0:10 left" and lines[-1] == ""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    main(["replay", str(path), "--num-blocks", "9000"])
    assert sys.stderr.getvalue() == ""


@pytest.mark.parametrize("line, text", [("nonsense", "not JSON"), ("[1]", "not a JSON object"), ('{"input_length": 5}', "output_length is None"),
                                        ('{"input_length": 600, "output_length": 1, "hash_ids": [1]}', "must be 2 whole numbers")])
def test_bad_traces_name_file_and_line(tmp_path, line, text):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"input_length": 5, "output_length": 1, "hash_ids": [1]}\n' + line + "\n")
    assert read_trace(path, 1) == [TraceRequest(5, 1, (1,))]
    with pytest.raises(ValueError, match=f"bad.jsonl:2: .*{text}"):
        read_trace(path)
