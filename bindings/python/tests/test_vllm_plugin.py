# SPDX-License-Identifier: Apache-2.0
"""vLLM's plug-in: with stand-ins of vLLM's modules, and in a process with vLLM's own loader and engine core."""

import functools
import importlib
import importlib.metadata
import inspect
import json
import logging
import os
import pathlib
import re
import subprocess
import sys
import types

import pytest

from kvcache.integrations import vllm_plugin
from kvcache.integrations.vllm import KVCacheManager
from vllm_doubles import config

HERE = pathlib.Path(__file__).resolve().parent
GROUP = "vllm.general_plugins"


def entry_points():
    """The entry points of the plug-in as pyproject.toml has them: {name: value}."""
    text = (HERE.parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    section = re.search(rf'^\[project.entry-points."{re.escape(GROUP)}"\]\n((?:\w.*\n)+)', text, re.M)
    return dict(re.findall(r'^(\w+) = "([^"]+)"$', section[1], re.M))


@pytest.fixture
def vllm(monkeypatch):
    """Modules with what the plug-in replaces: a manager with our methods, and an engine core that makes requests with its hasher."""
    own = type("KVCacheManager", (), {name: method for name, method in vars(KVCacheManager).items() if inspect.isfunction(method)})
    own.__init__ = functools.wraps(KVCacheManager.__init__)(lambda self, *args, **options: None)

    class EngineCore:
        def __init__(self, scheduler):
            self.scheduler, self.request_block_hasher = scheduler, list

        def preprocess_add_request(self, request):
            return request, self.request_block_hasher

    modules = {"vllm": {"__version__": "0"}, "vllm.v1": {}, "vllm.v1.core": {}, "vllm.v1.core.sched": {},
               "vllm.v1.core.sched.scheduler": {"KVCacheManager": own}, "vllm.v1.engine": {}, "vllm.v1.engine.core": {"EngineCore": EngineCore}}
    for name, contents in modules.items():
        module = types.ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    return types.SimpleNamespace(own=own, scheduling=sys.modules["vllm.v1.core.sched.scheduler"], EngineCore=EngineCore)


@pytest.fixture
def said():
    """What is logged, also where vLLM has set up its loggers."""
    texts, handler, logger = [], logging.Handler(), logging.getLogger("vllm.kvcache")
    handler.emit = lambda record: texts.append(record.getMessage())
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield texts
    logger.setLevel(level)
    logger.removeHandler(handler)


def test_the_entry_point_of_the_package_is_the_plug_in():
    (name, value), = entry_points().items()
    module, _, function = value.partition(":")
    assert name == "kvcache" and getattr(importlib.import_module(module), function) is vllm_plugin.register


def test_an_installed_package_has_the_entry_point():
    try:
        files = importlib.metadata.files("kvcache")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("kvcache is not installed in this environment, only on its path")
    text = next(file for file in files if file.name == "entry_points.txt").read_text()
    assert f"[{GROUP}]" in text and "kvcache = kvcache.integrations.vllm_plugin:register" in text.replace("=", " = ").replace("  ", " ")


@pytest.mark.parametrize("value", [None, "", "0"])
def test_without_the_variable_it_does_nothing(vllm, monkeypatch, said, value):
    monkeypatch.delenv("KVCACHE_VLLM", raising=False)
    if value is not None:
        monkeypatch.setenv("KVCACHE_VLLM", value)
    vllm_plugin.register()
    assert vllm.scheduling.KVCacheManager is vllm.own and not said


def test_a_mistyped_value_is_named(vllm, monkeypatch, said):
    monkeypatch.setenv("KVCACHE_VLLM", "yes")
    vllm_plugin.register()
    assert vllm.scheduling.KVCacheManager is vllm.own
    assert "vLLM's own KVCacheManager runs: KVCACHE_VLLM is 'yes'" in said[0]


def test_it_replaces_the_manager_once(vllm, monkeypatch):
    monkeypatch.setenv("KVCACHE_VLLM", "1")
    vllm_plugin.register()
    made = vllm.EngineCore.preprocess_add_request
    vllm_plugin.register()
    assert vllm.scheduling.KVCacheManager.__wrapped__ is KVCacheManager and vllm.EngineCore.preprocess_add_request is made
    assert type(vllm.scheduling.KVCacheManager(config(8), 64, 4, 4)) is KVCacheManager


def replaying(**fields):
    layout = config(8, kinds=(0, 8))
    vars(layout.kv_cache_groups[1].kv_cache_spec).update(fields)
    return layout


@pytest.mark.parametrize("layout, options, text", [
    (config(8), {"num_hash_lookahead_tokens": 3, "num_prefill_lookahead": 3}, "num_prefill_lookahead"),  # MTP of several modules
    (config(8), {"num_hash_lookahead_tokens": 1, "num_prefill_lookahead": 1, "enable_kv_cache_events": True}, "num_hash_lookahead_tokens"),
    (config(8), {"num_prefill_lookahead": 2, "enable_caching": False}, "num_prefill_lookahead"), (config(8), {"dcp_world_size": 2}, "dcp_world_size"),
    (config(8, kinds=["CircularBufferSpec"]), {}, "CircularBufferSpec"), (replaying(prefix_replay_tokens=8), {}, "prefix_replay_tokens"),
    (replaying(extra_retained_tokens=2), {}, "extra_retained_tokens")])
def test_what_is_not_supported_gets_vllms_own_manager_and_one_warning(vllm, monkeypatch, said, layout, options, text):
    monkeypatch.setenv("KVCACHE_VLLM", "1")
    vllm_plugin.register()
    manager = vllm.scheduling.KVCacheManager(layout, 64, 4, 4, **options)
    assert type(manager) is vllm.own and len(said) == 1
    assert "vLLM's own KVCacheManager runs" in said[0] and text in said[0]
    core = vllm.EngineCore(types.SimpleNamespace(kv_cache_manager=manager, connector=None))
    assert core.preprocess_add_request(0) == (0, list)  # whose hashes it reads


@pytest.mark.parametrize("options", [
    {"num_hash_lookahead_tokens": 1, "num_prefill_lookahead": 1}, {"num_prefill_lookahead": 1, "use_eagle": True},  # EAGLE, EAGLE3, MTP
    {"num_prefill_lookahead": 1}, {"num_prefill_lookahead": 1, "enable_caching": False}])  # DFlash, DSpark; without prefix caching
def test_drafts_that_look_one_token_ahead_run_with_our_manager(vllm, monkeypatch, said, options):
    monkeypatch.setenv("KVCACHE_VLLM", "1")
    vllm_plugin.register()
    assert type(vllm.scheduling.KVCacheManager(config(8), 64, 4, 4, **options)) is KVCacheManager and not any("own" in line for line in said)


def test_a_release_that_lacks_parameters_of_ours_is_accepted_where_they_have_defaults():
    class Theirs:
        def __init__(self, kv_cache_config, max_model_len, scheduler_block_size, hash_block_size, num_prefill_lookahead=0, log_stats=False):
            """Called by names: without num_hash_lookahead_tokens, which stands between these (vLLM 0.32)."""

        def get_computed_blocks(self, request):
            """Without max_cache_hit_length, the last one."""

    assert vllm_plugin.differences(Theirs, KVCacheManager) == []
    Theirs.free = lambda self, request: None
    assert vllm_plugin.differences(Theirs, KVCacheManager) == []
    Theirs.truncate_computed_blocks = lambda self, blocks: None  # ours has no default
    Theirs.get_computed_blocks = lambda self, max_cache_hit_length, request: None  # another order
    Theirs.record_prefix_cache_stats = lambda self, num_hits: None  # ours has one more before it
    assert vllm_plugin.differences(Theirs, KVCacheManager) == ["get_computed_blocks", "record_prefix_cache_stats", "truncate_computed_blocks"]


def test_a_vllm_with_other_methods_keeps_its_manager(vllm, monkeypatch, said):
    monkeypatch.setenv("KVCACHE_VLLM", "1")
    vllm.own.free = lambda self, request, later: None
    vllm.own.defragment = lambda self: None
    vllm_plugin.register()
    assert vllm.scheduling.KVCacheManager is vllm.own
    assert "vLLM's own KVCacheManager runs" in said[0] and "defragment" in said[0] and "free" in said[0]


@pytest.mark.parametrize("connector", [None, "connector", "aux_output_connector"])
def test_vllm_hashes_only_for_those_who_read_its_hashes(vllm, monkeypatch, said, connector):
    monkeypatch.setenv("KVCACHE_VLLM", "1")
    vllm_plugin.register()
    scheduler = types.SimpleNamespace(kv_cache_manager=KVCacheManager.__new__(KVCacheManager), connector=None, aux_output_connector=None)
    if connector:
        setattr(scheduler, connector, object())
    core = vllm.EngineCore(scheduler)
    assert [core.preprocess_add_request(i) for i in range(2)] == [(i, list if connector else None) for i in range(2)]
    assert ["does not hash blocks" in text for text in said] == [True] * (connector is None)
    others = vllm.EngineCore(types.SimpleNamespace(kv_cache_manager=object(), connector=None))
    assert others.preprocess_add_request(0) == (0, list)


@pytest.mark.parametrize("switch", ["0", "1"])
def test_a_spawned_engine_core_gets_the_manager_from_vllms_own_loader(tmp_path, switch):
    pytest.importorskip("vllm.v1.engine.core", reason="vLLM is not installed", exc_type=ImportError)
    pytest.importorskip("vllm.model_executor.models.llama", reason="vLLM's models lack a dependency", exc_type=ImportError)
    metadata = tmp_path / "kvcache_plugin-0.dist-info"  # what pip writes
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: kvcache-plugin\nVersion: 0\n")
    lines = [f"{name} = {value}" for name, value in entry_points().items()]
    (metadata / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines, ""]))
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "KVCACHE_VLLM": switch, "VLLM_LOGGING_LEVEL": "INFO"}
    run = subprocess.run([sys.executable, str(HERE / "vllm_engine_core.py")], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
    answer = json.loads(next(line for line in run.stdout.splitlines() if line.startswith("{")))
    log = run.stdout + run.stderr
    assert answer["tokens"] == 140 and answer["scheduler"] == "AsyncScheduler"
    if switch == "1":
        assert answer["manager"] == "kvcache.integrations.vllm.KVCacheManager" and answer["block_hashes"] == 0
        assert "its KVCacheManager runs in place of vLLM's" in log and "vLLM does not hash blocks" in log
    else:
        assert answer["manager"] == "vllm.v1.core.kv_cache_manager.KVCacheManager" and answer["block_hashes"] == 140 // 16
        assert "in place of" not in log and "does not hash" not in log
