# SPDX-License-Identifier: Apache-2.0
"""The interface of releases of vLLM that are not installed, read from their wheels: those in the folder KVC_ENGINE_WHEELS, which
scripts/integrations releases fills."""

import os
import pathlib
import zipfile

import pytest

from kvcache.integrations import vllm_plugin
from kvcache.integrations.vllm import KVCacheManager
from vllm_doubles import config
from vllm_interface import check_uses, class_of

FOLDER = os.environ.get("KVC_ENGINE_WHEELS")
WHEELS = sorted(pathlib.Path(FOLDER).glob("vllm*.whl")) if FOLDER else []
if not WHEELS:
    pytest.skip("KVC_ENGINE_WHEELS names no folder with wheels of vLLM", allow_module_level=True)


@pytest.fixture(params=WHEELS, ids=lambda wheel: "-".join(wheel.name.split("-")[:2]))
def source(request):
    """Reads a module of the wheel."""
    with zipfile.ZipFile(request.param) as wheel:
        yield lambda module: wheel.read(f"{module.replace('.', '/')}.py").decode()


def test_the_methods_of_its_manager_can_be_called_as_ours(source):
    theirs = class_of(source("vllm.v1.core.kv_cache_manager"), "KVCacheManager")
    assert vllm_plugin.differences(theirs, KVCacheManager) == []
    theirs.free = lambda self, request, later: None
    assert vllm_plugin.differences(theirs, KVCacheManager) == ["free"]


def test_what_its_scheduler_and_engine_read_and_call_is_there(source):
    manager = KVCacheManager(config(8), 64, 4, 4)
    modules = "vllm.v1.core.sched.scheduler", "vllm.v1.core.sched.async_scheduler", "vllm.v1.engine.core"
    assert {"allocate_slots", "free", "get_computed_blocks"} <= check_uses(manager, map(source, modules))
