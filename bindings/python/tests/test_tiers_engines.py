# SPDX-License-Identifier: Apache-2.0
"""What the tiers for engines share, LMCache's connector, and vLLM's tier with modules of older versions: without any engine installed."""

import dataclasses
import importlib
import os
import select
import sys
import threading
import time
import types

import numpy as np
import pytest

import kvcache
from kvcache import _native
from kvcache.integrations import _tier_pages
from kvcache.integrations._tier_pages import MISS, OK, Pages, address_of, digest_of, key_of_hash, keys_of
from kvcache.integrations.lmcache_tier import KvCacheConnector

PAGE = 4096


def pages_of(numbers):
    return np.stack([np.random.default_rng(number).integers(0, 256, PAGE, np.uint8) for number in numbers])


def addresses_of(rows):
    return rows.ctypes.data + np.arange(len(rows), dtype=np.uint64) * PAGE


def test_importing_kvcache_imports_no_engine():
    import subprocess

    code = "import sys, kvcache, kvcache.integrations.lmcache_tier; print([name for name in sys.modules if name in ('vllm', 'lmcache', 'sglang', 'torch')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(
        path for path in sys.path if path)}).stdout.strip() == "[]"


def test_waiting_works_in_a_process_with_many_descriptors():
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1200:
        pytest.skip(f"a process may have {hard} descriptors here; the test needs 1200")
    if soft < 1200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1200, hard))
    taken = []
    try:
        while not taken or taken[-1] < 1024:
            taken.append(os.dup(0 if not taken else taken[0]))
        pages = Pages("memory:?bytes=1MiB", PAGE, b"1" * 32)
        rows = pages_of([1])
        keys = keys_of(bytes(32), [b"1"])
        assert pages.fileno() >= 1024
        assert pages.wait(pages.put(keys, addresses_of(rows), PAGE, rows), 1).tolist() == [OK]
        pages.close()
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_digests_differ_with_every_field():
    kinds = [digest_of("a", {"x": 1}), digest_of("b", {"x": 1}), digest_of("a", {"x": 2}), digest_of("a", {"x": "1"}), digest_of("a", {"y": 1}), digest_of("a", {"x": [1]})]
    assert len(set(kinds)) == 6 and digest_of("a", {"x": 1, "y": 2}) == digest_of("a", {"y": 2, "x": 1})


def test_keys_of_hashes_differ_with_hash_group_and_prefix():
    hashes, groups = [os.urandom(32) for _ in range(5)], [group.to_bytes(4, "big") for group in range(3)]
    names = [one + group for one in hashes for group in groups] + [one[:16] + group for one in hashes for group in groups] + [b"short", b""]
    keys = [key_of_hash(prefix, name) for prefix in (bytes(32), b"\1" * 32) for name in names]
    assert len(set(keys)) == 2 * len(names) and set(map(len, keys)) == {32}


class Calls(_native.TierCalls):
    """What a scheduler calls, over a tier in memory. key_of: bytes to bytes."""

    @dataclasses.dataclass
    class Result:
        job_id: int
        success: bool
        successful_keys: object
        transfer_time: object
        transfer_bytes: object

    def __init__(self, rows, key_of=lambda name: key_of_hash(bytes(32), name), url="memory:?bytes=4MiB"):
        self.pages, self.failed, self.refused = Pages(url, PAGE, b"1" * 32), [], []
        self._open(self.pages._t, memoryview(rows), PAGE, 0, ("hit", "miss", "retry"), self.Result, True, key_of)

    def _fail(self, *failed):
        self.failed.append(failed)
        return failed

    def _refuse(self, text):
        self.refused.append(text)

    def _forget_left(self):
        pass

    def look_up(self, keys):
        request = types.SimpleNamespace(req_id="1")
        while "retry" in (answers := [self.lookup(key, request) for key in keys]):
            self.on_schedule_end(None)
            self.get_finished_jobs()
        self.on_request_finished(request)
        return answers

    def move(self, call, keys, rows):
        call(types.SimpleNamespace(job_id=7, keys=keys, chunk_ids=rows))
        self.pages.drain()
        result, = self.get_finished_jobs()
        return result


def test_keys_in_c_are_those_of_python():
    rows = pages_of(range(5))
    names = [os.urandom(32) + group.to_bytes(4, "big") for group in (0, 0, 1, 0)] + [os.urandom(20)]
    calls = Calls(rows)
    assert calls.move(calls.submit_store, names, np.arange(5, dtype=np.int32)) == Calls.Result(7, True, None, None, 5 * PAGE)
    keys = np.frombuffer(b"".join(key_of_hash(bytes(32), name) for name in names), np.uint8).reshape(-1, 32)
    assert calls.pages._tier.exists(keys).num_ok == 5
    assert calls.look_up(names + [os.urandom(36)]) == ["hit"] * 5 + ["miss"] and not calls._found
    calls._close(calls.pages.close)


def test_a_job_that_cannot_start_fails_and_touches_nothing():
    rows = pages_of(range(4))
    before, calls, name = rows.copy(), Calls(rows), os.urandom(36)
    for ids in ([4], [-1], [], [0, 1]):
        assert calls.move(calls.submit_load, [name], ids) == (7, [name], [], 1)
    for keys, ids, error in (([1], [0], TypeError), ([name], ["a"], TypeError), (None, [0], TypeError), ([name], None, None)):
        if error is None:
            assert calls.move(calls.submit_load, keys, ids) == (7, keys, [], 1)
        else:
            with pytest.raises(error):
                calls.move(calls.submit_load, keys, ids)
    with pytest.raises(AttributeError):
        calls.submit_load(types.SimpleNamespace(job_id=7, keys=[name]))
    with pytest.raises(TypeError, match="a key is int; it must be bytes"):
        calls.lookup(1, types.SimpleNamespace(req_id="1"))
    assert np.array_equal(rows, before) and calls._jobs == calls._asked == 0
    calls._close(calls.pages.close)


def test_a_key_function_that_misbehaves_is_an_error():
    for key_of in (lambda name: b"short", lambda name: 1, lambda name: 1 // 0):
        calls = Calls(pages_of([1]), key_of)
        with pytest.raises((TypeError, ZeroDivisionError)):
            calls.submit_store(types.SimpleNamespace(job_id=1, keys=[os.urandom(36)], chunk_ids=[0]))
        assert calls._jobs == 0
        calls._close(calls.pages.close)


def test_refused_questions_are_misses_and_refused_jobs_fail():
    rows = pages_of(range(2))
    calls, name = Calls(rows, url="memory:?bytes=4MiB&jobs=1"), os.urandom(36)
    calls.submit_load(types.SimpleNamespace(job_id=1, keys=[name], chunk_ids=[0]))  # takes the only place until it is polled
    request = types.SimpleNamespace(req_id="1")
    assert calls.lookup(name, request) == "retry"
    calls.on_schedule_end()
    assert calls.lookup(name, request) == "miss" and len(calls.refused) == 1 and "max_jobs is 1" in calls.refused[0]
    calls.submit_load(types.SimpleNamespace(job_id=2, keys=[name], chunk_ids=[1]))
    calls.pages.drain()
    assert sorted(calls.get_finished_jobs()) == [(1, [name], [], 1), (2, [name], [], 1)] and len(calls.refused) == 2
    calls._close(calls.pages.close)


def test_an_exception_loses_no_result():
    rows = pages_of(range(4))
    calls, names = Calls(rows), [os.urandom(36) for _ in range(4)]
    calls._fail = lambda *failed: 1 // 0
    for i, name in enumerate(names):
        calls.submit_store(types.SimpleNamespace(job_id=i, keys=[name], chunk_ids=[i]))
    calls.submit_load(types.SimpleNamespace(job_id=9, keys=[os.urandom(36)], chunk_ids=[0]))
    calls.pages.drain()
    with pytest.raises(ZeroDivisionError):
        calls.get_finished_jobs()
    assert sorted(result.job_id for result in calls.get_finished_jobs()) == [0, 1, 2, 3] and calls._jobs == 0
    calls._close(calls.pages.close)


def test_a_result_may_close_the_tier():
    """What was polled with it is returned, too."""
    calls = Calls(pages_of(range(4)))

    def close(*failed):
        calls._close(calls.pages.close)
        return failed

    calls._fail = close
    names = [os.urandom(36) for _ in range(4)]
    for i, name in enumerate(names):
        calls.submit_load(types.SimpleNamespace(job_id=i, keys=[name], chunk_ids=[i]))
    calls.pages.drain()
    assert sorted(calls.get_finished_jobs()) == [(i, [name], [], 1) for i, name in enumerate(names)] and calls._jobs == 0
    assert calls.get_finished_jobs() == []


def test_a_close_that_is_interrupted_keeps_the_memory():
    """The tier may still work on it."""
    memory = bytearray(PAGE)
    calls = Calls(np.frombuffer(memory, np.uint8).reshape(1, PAGE))
    pages = calls.pages
    calls.submit_store(types.SimpleNamespace(job_id=1, keys=[os.urandom(36)], chunk_ids=[0]))

    def interrupted():
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            calls._close(interrupted)
    del calls
    with pytest.raises(BufferError):
        memory.append(1)
    pages.close()


def test_a_fork_uses_no_tier_of_its_parent():
    calls = Calls(pages_of([1]))
    calls.submit_store(types.SimpleNamespace(job_id=1, keys=[os.urandom(36)], chunk_ids=[0]))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for call in (calls.get_finished_jobs, lambda: calls.submit_store(types.SimpleNamespace(job_id=2, keys=[b"a" * 36], chunk_ids=[0]))):
                with pytest.raises(ValueError, match="of which this is a fork"):
                    call()
            del call, calls
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    calls.pages.drain()
    assert [result.job_id for result in calls.get_finished_jobs()] == [1]
    calls._close(calls.pages.close)


def test_an_interrupt_after_a_poll_loses_nothing(monkeypatch):
    pages = Pages("memory:?bytes=4MiB", PAGE, b"1" * 32)
    keys, rows = keys_of(bytes(32), [b"a", b"b"]), pages_of(range(2))
    first, second = (pages.put(keys[i: i + 1], addresses_of(rows)[i: i + 1], PAGE) for i in range(2))
    pages.drain()
    real = _native.kvc_tier_poll

    def interrupted(*arguments):
        monkeypatch.setattr(_native, "kvc_tier_poll", real)
        real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(_native, "kvc_tier_poll", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pages.wait(first, 1)
    assert [ended[0] for ended in pages.poll()] == [second] and not pages._jobs
    pages.close()


def test_a_lease_without_end_is_one():
    pages = Pages("memory:?bytes=4KiB", PAGE, b"1" * 32)  # of one page
    keys, rows = keys_of(bytes(32), [b"a", b"b"]), pages_of(range(2))
    assert pages.wait(pages.put(keys[:1], addresses_of(rows)[:1], PAGE), 1).tolist() == [OK]
    assert pages.wait(pages.exists(keys[:1], float("inf")), 1).tolist() == [OK]
    assert pages.wait(pages.put(keys[1:], addresses_of(rows)[1:], PAGE), 1).tolist() == [int(kvcache.PageResult.NO_SPACE)]
    pages.close()


def test_calls_without_a_tier_are_errors(tmp_path):
    calls, job = _native.TierCalls(), types.SimpleNamespace(job_id=1, keys=[b"a"], chunk_ids=[0], req_id="1")
    for call in (lambda: calls.lookup(b"a", job), lambda: calls.submit_load(job)):
        with pytest.raises(ValueError, match="the tier is closed"):
            call()
    assert calls.get_finished_jobs() == [] and calls.on_schedule_end() is None and calls.on_request_finished(job) is None
    closed = Calls(pages_of([1]))
    closed._close(closed.pages.close)
    with pytest.raises(ValueError, match="the tier is closed"):
        closed.submit_load(types.SimpleNamespace(job_id=1, keys=[os.urandom(36)], chunk_ids=[0]))


def test_a_tier_that_is_dropped_while_it_works_ends_first(tmp_path):
    """The memory is unmapped with its last user: a thread that still wrote there would end the process."""
    import gc
    import mmap

    for number in range(5):
        memory = mmap.mmap(-1, 64 * PAGE)
        calls = Calls(np.frombuffer(memory, np.uint8).reshape(64, PAGE), url=f"slab:{tmp_path}/slab{number}?bytes=4MiB")
        pages = calls.pages
        for i in range(64):
            calls.submit_store(types.SimpleNamespace(job_id=i, keys=[os.urandom(36)], chunk_ids=[i]))
        del calls, memory
        gc.collect()
        assert pages.stats().waiting_jobs == pages.stats().running_jobs == 0
        pages.close()


def test_threads_that_wait_get_their_own_results():
    pages = Pages("memory:?bytes=4MiB", PAGE, b"1" * 32)
    wrong = []

    def work(number):
        keys, rows = keys_of(bytes(32), [b"%d-%d" % (number, i) for i in range(number + 1)]), pages_of(range(number + 1))
        for _ in range(50):
            results = [pages.wait(pages.put(keys, addresses_of(rows), PAGE), 0), pages.wait(pages.exists(keys), 0)]
            found = np.zeros_like(rows)
            results.append(pages.wait(pages.get(keys, addresses_of(found), PAGE), 0))
            if any(len(result) != number + 1 or (result != OK).any() for result in results) or not np.array_equal(found, rows):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    [thread.start() for thread in threads], [thread.join(60) for thread in threads]
    assert not wrong and not pages._jobs and not pages._awaited
    pages.close()
    pages.close()


def test_a_tier_without_threads_is_refused():
    with pytest.raises(ValueError, match="write threads=1 or more"):
        Pages("memory:?bytes=4MiB&threads=0", PAGE, b"1" * 32)


class Connector:
    """The calls of LMCache's adapter: it waits for the descriptor, then drains."""

    def __init__(self, url, **parameters):
        self.connector = KvCacheConnector(url, PAGE, **parameters)
        self.ended = {}

    def wait(self, own):
        until = time.monotonic() + 20
        while own not in self.ended:
            assert select.select([self.connector.event_fd()], [], [], until - time.monotonic())[0], "the descriptor is not readable"
            for completion in self.connector.drain_completions():
                self.ended[completion[0]] = completion[1:]
        return self.ended.pop(own)


def test_the_connector_stores_finds_loads_and_deletes():
    lmcache, keys = Connector("memory:?bytes=4MiB", lease=0), [f"model@0@0@{i:x}" for i in range(4)]
    connector, rows = lmcache.connector, pages_of(range(4))
    assert lmcache.wait(connector.submit_batch_exists(keys)) == (True, "", [False] * 4)
    assert lmcache.wait(connector.submit_batch_set(keys[:3], [memoryview(row) for row in rows[:3]])) == (True, "", None)
    assert lmcache.wait(connector.submit_batch_exists(keys)) == (True, "", [True, True, True, False])
    found = np.zeros_like(rows)
    done, error, each = lmcache.wait(connector.submit_batch_get(keys, [memoryview(row) for row in found]))
    assert (done, each) == (False, [True, True, True, False]) and "1 of 4" in error
    assert np.array_equal(found[:3], rows[:3])
    assert lmcache.wait(connector.submit_batch_delete(keys)) == (True, "", [True] * 4), "what is not there is deleted"
    assert lmcache.wait(connector.submit_batch_exists(keys)) == (True, "", [False] * 4)
    assert not select.select([connector.event_fd()], [], [], 0)[0]
    connector.close()
    connector.close()


def test_a_chunk_is_not_deleted_while_it_is_leased():
    lmcache = Connector("memory:?bytes=4MiB", lease=60)
    lmcache.wait(lmcache.connector.submit_batch_set(["a", "b"], list(pages_of([1, 2]))))
    lmcache.wait(lmcache.connector.submit_batch_exists(["a"]))
    assert lmcache.wait(lmcache.connector.submit_batch_delete(["a", "b"]))[::2] == (False, [False, True])
    lmcache.connector.close()


def test_the_connector_ends_what_cannot_start():
    lmcache = Connector("memory:?bytes=4MiB")
    big = [memoryview(np.zeros(PAGE + 1, np.uint8))]
    assert lmcache.wait(lmcache.connector.submit_batch_set(["a"], big))[0] is False
    assert lmcache.wait(lmcache.connector.submit_batch_get(["a"], big))[::2] == (False, [False])
    assert lmcache.wait(lmcache.connector.submit_batch_exists([])) == (True, "", [])
    with pytest.raises(ValueError, match="as many"):
        lmcache.connector.submit_batch_set(["a", "b"], big)
    lmcache.connector.close()
    with pytest.raises(ValueError, match="closed"):
        lmcache.connector.submit_batch_exists(["a"])


def test_buffers_of_the_connector_live_until_their_job_has_ended():
    lmcache = Connector("memory:?bytes=4MiB&threads=1")
    rows = pages_of(range(64))
    jobs = [lmcache.connector.submit_batch_set([str(i)], [memoryview(bytearray(row.tobytes()))]) for i, row in enumerate(rows)]
    assert all(lmcache.wait(job)[0] for job in jobs)
    found = np.zeros_like(rows)
    assert lmcache.wait(lmcache.connector.submit_batch_get([str(i) for i in range(64)], list(found)))[0]
    assert np.array_equal(found, rows)
    assert not lmcache.connector._pages._jobs
    lmcache.connector.close()


@pytest.fixture
def old_vllm(monkeypatch):
    """Modules of a vLLM before LookupResult, OffloadingConfig and chunk_ids: lookups are True, False or None."""

    @dataclasses.dataclass
    class JobResult:
        job_id: int
        success: bool

    class SecondaryTierManager:
        def __init__(self, offloading_spec, primary_kv_view, tier_type):
            self.tier_type = tier_type

    modules = {"vllm": {"__version__": "0.22"}, "vllm.v1": {}, "vllm.v1.kv_offload": {}, "vllm.v1.kv_offload.base": {}, "vllm.v1.kv_offload.tiering": {},
               "vllm.v1.kv_offload.tiering.base": {"JobResult": JobResult, "SecondaryTierManager": SecondaryTierManager}}
    for name, contents in modules.items():
        module = types.ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    monkeypatch.delitem(sys.modules, "kvcache.integrations.vllm_tier", raising=False)
    yield importlib.import_module("kvcache.integrations.vllm_tier")
    sys.modules.pop("kvcache.integrations.vllm_tier", None)


def test_a_vllm_with_the_older_names_is_served(old_vllm):
    parallel = types.SimpleNamespace(world_size=1, tensor_parallel_size=1, pipeline_parallel_size=1)
    config = types.SimpleNamespace(parallel_config=parallel, cache_config=types.SimpleNamespace(cache_dtype="auto"),
                                   model_config=types.SimpleNamespace(model="model", dtype="bfloat16"))
    spec, memory = types.SimpleNamespace(vllm_config=config, gpu_block_size=16), pages_of(range(4))
    tier = old_vllm.KvCacheTier(spec, memoryview(memory), "KvCacheTier", url="memory:?bytes=4MiB")
    request, keys = types.SimpleNamespace(req_id="1"), [os.urandom(32) + bytes(4) for _ in range(4)]

    def look_up():
        while None in (answers := [tier.lookup(key, request) for key in keys]):
            tier.on_schedule_end()
            tier.get_finished()
        return answers

    def move(call):
        call(types.SimpleNamespace(job_id=7, keys=keys, block_ids=[3, 2, 1, 0]))
        tier.drain_jobs()
        result, = tier.get_finished()
        return result.job_id, result.success

    assert look_up() == [False] * 4
    assert move(tier.submit_store) == (7, True)
    before, memory[:] = memory.copy(), 0
    assert look_up() == [True] * 4 and move(tier.submit_load) == (7, True)
    assert np.array_equal(memory, before)
    tier.on_request_finished(request)
    assert not tier._found and tier.build_metric_definitions({}) == {} and tier.get_stats() is None
    tier.shutdown()


def test_a_vllm_of_another_kind_is_named(old_vllm):
    with pytest.raises(TypeError, match="neither config nor vllm_config.*0.22"):
        old_vllm.KvCacheTier(types.SimpleNamespace(), memoryview(pages_of([1])), "KvCacheTier", url="memory:?bytes=4MiB")


@pytest.mark.parametrize("module, missing, text", [("vllm_tier", "vllm.v1.kv_offload.tiering.base", "SecondaryTierManager"),
                                                   ("sglang_tier", "sglang.srt.mem_cache", "HiCacheStorage")])
def test_an_engine_without_the_interface_is_told_so(monkeypatch, module, missing, text):
    names = missing.split(".")
    for depth in range(1, len(names)):
        name = ".".join(names[:depth])
        package = types.ModuleType(name)
        package.__path__ = []
        monkeypatch.setitem(sys.modules, name, package)
        if depth > 1:
            setattr(sys.modules[".".join(names[:depth - 1])], names[depth - 1], package)
    if module == "vllm_tier":
        base = types.ModuleType("vllm.v1.kv_offload.base")
        monkeypatch.setitem(sys.modules, "vllm.v1.kv_offload.base", base)
        sys.modules["vllm.v1.kv_offload"].base = base
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, f"kvcache.integrations.{module}", raising=False)
    with pytest.raises(ImportError, match=f"has no {text}.*was tested with"):
        importlib.import_module(f"kvcache.integrations.{module}")


def test_results_have_the_numbers_of_the_library():
    assert (OK, MISS) == (kvcache.tiers.PageResult.OK, kvcache.tiers.PageResult.MISS) and _tier_pages.REFUSED == kvcache.tiers.PageResult.FAILED


def test_an_address_is_that_of_the_buffer():
    array = np.zeros((3, 8), np.int64)
    assert address_of(memoryview(array)) == address_of(memoryview(array), written=True) == (array.ctypes.data, array.nbytes)
    assert address_of(bytes(8))[1] == 8
    with pytest.raises(ValueError, match="read-only"):
        address_of(bytes(8), written=True)
    with pytest.raises((ValueError, BufferError)):
        address_of(array[:, ::2])
