# SPDX-License-Identifier: Apache-2.0
"""The package's types by mypy: it has no complaint about the package (options: pyproject.toml), the stubs are what the native layer is, and users
get real types."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import kvcache

pytest.importorskip("mypy")
ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILT = pathlib.Path(kvcache.__file__).parents[1]
# What SWIG's classes have that no stub can say.
OF_SWIG = re.compile(r"metaclass differs|__init__ is inconsistent|\.this(own)? is not present|__all__ is not present")


def run(tool, folder, *arguments):
    """The lines that a tool of mypy prints in a folder that has the package."""
    done = subprocess.run([sys.executable, "-m", tool, *arguments], cwd=folder, capture_output=True, text=True, env={**os.environ, "MYPYPATH": str(BUILT)})
    assert not done.stderr, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return f"--cache-dir={tmp_path_factory.mktemp('mypy')}"


def test_the_package_has_no_fault(cache):
    lines = run("mypy", ROOT / "bindings" / "python", f"--config-file={ROOT / 'pyproject.toml'}", cache)
    assert len(lines) == 1 and re.fullmatch(r"Success: no issues found in \d\d source files", lines[0]), "\n".join(lines)


def test_stubs_and_the_native_layer_have_the_same_names():
    lines = run("mypy.stubtest", BUILT, "kvcache._native", "--concise", "--ignore-disjoint-bases")
    faults = [line for line in lines if not OF_SWIG.search(line)]
    assert not faults, "\n".join(faults)
    assert len(lines) > 50  # those of SWIG: it has looked


def test_users_get_types(cache, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""\
import kvcache
with kvcache.Manager(8) as m, m.allocate([1, 2]) as request:
    reveal_type(m.stats.evictions)
    reveal_type(m.block_info(0).state)
    reveal_type(kvcache.Status.OK)
    reveal_type(request.info)
    reveal_type(request.block_table())
    reveal_type(kvcache.Step(m, 1, 1, 1).status)
    m.stats.evicted
    m.allocate("words")
    kvcache.RequestOptions(slot=1)
    kvcache.Step(m, 1, 1, 1).extend_token
    kvcache.Step(m, 1, 1, 1).num_request = 1
    kvcache.Manager(8, max_request=1)
    m.allocate([1], slot=1)
    kvcache.Step(m, 1, 1, 1).use(extend_token=False)
    storage = kvcache.Storage(8, 1, 1, 8, v_head=8)
    storage.blok_bytes
    table = request.block_table()
    storage.attend(table, table, table, table, casual=True)
    kvcache.Model(layers=1)
    kvcache.find_model("llama-3.1-8b").estimate(token=1)
    kvcache.replay("trace.jsonl", 8, concurrence=1)
    kvcache.manger
    reveal_type(storage.dtype)
    reveal_type(request.num_tokens)
    reveal_type(len(request))
    stats: kvcache.Stats = m.stats
    reveal_type(kvcache.Step(m, 1, 1, 1).errors[0].item)
    reveal_type(m.prefixes().event_cursor)
    reveal_type(m.probe([1]).fits)
    reveal_type(next(iter(m.events())).digest)
""", encoding="utf-8")
    said = run("mypy", tmp_path, "--strict", cache, "program.py")
    lines = [re.sub(r"^program.py:(\d+): \w+: ", r"\1 ", line) for line in said if re.search("error|Revealed|Found", line)]
    wanted = ['3 .*"int"', '4 .*"kvcache.enumerations.BlockState"', r'5 .*kvcache.enumerations.Status\b', '6 .*RequestInfo', '7 .*numpy.ndarray', '8 .*numpy.ndarray',
              '9 "Stats" has no attribute "evicted"', '10 .*"str"', '11 .*"slot"', '12 "Step" has no attribute "extend_token"', '13 "Step" has no attribute "num_request"',
              '14 .*"max_request"', '15 .*"slot"', '16 .*"extend_token"', '17 .*"v_head"', '18 "Storage" has no attribute "blok_bytes"', '20 .*"casual"', '21 .*"layers"',
              '22 .*"token"', '23 .*"concurrence"', '24 Module has no attribute "manger"', '25 .*DType', '26 .*"int"', '27 .*"int"', r'29 .*"tuple\[str, int\] \| None"',
              '30 .*"int"', '31 .*"bool"', '32 .*"bytes"', "Found 15 errors"]
    for want, line in zip(wanted, lines):
        assert re.match(want, line), (want, lines)
    assert len(lines) == len(wanted), lines
