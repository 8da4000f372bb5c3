# SPDX-License-Identifier: Apache-2.0
"""KvCacheTier below vLLM's own TieringOffloadingManager. Needs vLLM, whose manager runs without a GPU."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("vllm.v1.kv_offload.tiering.base", exc_type=ImportError, reason="vLLM is not installed: scripts/integrations tiers installs it")
from vllm.v1.kv_offload.tiering.base import SecondaryTierManager, TieringOffloadingMetrics, TransferJob  # noqa: E402
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec  # noqa: E402
from vllm_tiering import HIT, HIT_PENDING, MISS, RETRY, Engine, content_of, key_of, specification  # noqa: E402

import kvcache  # noqa: E402
from kvcache.integrations.vllm_tier import KvCacheTier  # noqa: E402

KILLS = int(os.environ.get("KVC_TEST_KILLS", "30"))
SEED = int(os.environ.get("KVC_TEST_SEED", "1"))


@pytest.fixture(params=["slab:{}/slab?bytes=8MiB", "slab:{}/slab?bytes=8MiB&direct=1", "dir:{}/pages?bytes=8MiB", "memory:?bytes=8MiB"],
                ids=["slab", "direct", "dir", "memory"])
def url(request, tmp_path):
    (tmp_path / "pages").mkdir(mode=0o700)
    return request.param.format(tmp_path)


@pytest.fixture
def slab(tmp_path):
    return f"slab:{tmp_path}/slab?bytes=8MiB"


def flip(path, content):
    """Flips a bit in the middle of this content, wherever the file has it."""
    with open(path, "r+b") as file:
        data = file.read()
        place = data.index(content.tobytes()) + len(content) // 2
        file.seek(place)
        file.write(bytes([data[place] ^ 1]))


def test_the_interface_is_the_installed_one():
    assert issubclass(KvCacheTier, SecondaryTierManager) and not KvCacheTier.__abstractmethods__


def test_chunks_come_back_after_the_cpu_cache_forgot_them(url):
    with Engine(url) as engine:
        keys = [key_of(i) for i in range(8)]
        request = engine.request()
        assert engine.look_up(keys, request) == [MISS] * 8
        assert engine.store(keys, request) == keys
        engine.settle()
        engine.finish(request)
        engine.forget_primary()
        request = engine.request()
        assert [engine.manager.lookup(key, request) for key in keys] == [RETRY] * 8
        assert engine.look_up(keys, request) == [HIT] * 8
        assert engine.wrong(keys, request) == 0
        engine.finish(request)
        assert not engine.tier._found and not engine.tier._asked_by and not engine.tier._left and not engine.tier._jobs


def test_a_hit_of_the_tier_is_promoted_in_one_job(slab):
    with Engine(slab) as engine:
        keys, request = [key_of(i) for i in range(8)], engine.request()
        engine.store(keys, request)
        engine.settle()
        engine.forget_primary()
        jobs = []
        submit = engine.tier.submit_load
        engine.tier.submit_load = lambda job: (jobs.append(list(job.keys)), submit(job))
        [engine.manager.lookup(key, request) for key in keys]
        engine.step()
        while engine.tier._asked:
            engine.step()
        assert [engine.manager.lookup(key, request) for key in keys] == [HIT_PENDING] * 8
        engine.settle()
        assert jobs == [keys]


def test_evicted_chunks_of_the_cpu_cache_are_loaded_again(slab):
    with Engine(slab, chunks=8) as engine:
        for begin in range(0, 64, 8):
            request = engine.request()
            engine.store([key_of(i) for i in range(begin, begin + 8)], request)
            engine.settle()
            engine.finish(request)
        for begin in range(0, 64, 8):
            request, keys = engine.request(), [key_of(i) for i in range(begin, begin + 8)]
            assert engine.look_up(keys, request) == [HIT] * 8
            assert engine.wrong(keys, request) == 0
            engine.finish(request)
        assert engine.tier._pages.stats().pages == 64


def test_nothing_is_found_under_another_identity(tmp_path):
    """Equal hashes, but another model, dtype, weights, layout of layers or split among workers: different values, so never a hit."""
    url = f"dir:{tmp_path}/pages?bytes=8MiB"
    (tmp_path / "pages").mkdir(mode=0o700)
    keys = [key_of(i, group) for i in range(4) for group in range(2)]
    variants = [{}, {"model": "other"}, {"dtype": "float16"}, {"weights": "2"}, {"groups": 2}, {"tp": 2}]
    for variant in variants:
        with Engine(url, **variant) as engine:
            request = engine.request()
            assert engine.look_up(keys, request) == [MISS] * 8, variant
            engine.store(keys, request)
            engine.settle()
    for variant in variants:
        with Engine(url, **variant) as engine:
            request = engine.request()
            assert engine.look_up(keys, request) == [HIT] * 8, variant
            assert engine.wrong(keys, request) == 0


def test_hashes_of_another_size_are_stored_too(slab):
    with Engine(slab) as engine:  # xxhash: 16 bytes
        keys = [key_of(i)[:16] + bytes(4) for i in range(4)]
        request = engine.request()
        engine.store(keys, request)
        engine.settle()
        engine.forget_primary()
        assert engine.look_up(keys, request) == [HIT] * 4 and engine.wrong(keys, request) == 0


def test_a_chunk_that_does_not_check_fails_alone_and_is_not_asked_for_again(tmp_path):
    with Engine(f"slab:{tmp_path}/slab?bytes=8MiB") as engine:
        keys, request = [key_of(i) for i in range(6)], engine.request()
        engine.store(keys, request)
        engine.settle()
        engine.forget_primary()
        flip(tmp_path / "slab", content_of(keys[2], engine.chunk_bytes))
        results = []
        take = engine.tier.get_finished_jobs
        engine.tier.get_finished_jobs = lambda: [results.append(result) or result for result in take()]
        other = engine.request()  # looks the same key up, and has not asked for it first
        answers = engine.look_up(keys, request)
        assert answers == [HIT, HIT, MISS, HIT, HIT, HIT]
        good = [keys[i] for i in (0, 1, 3, 4, 5)]
        failed, = [result for result in results if not result.success]
        assert sorted(failed.successful_keys) == sorted(good) and engine.wrong(good, request) == 0
        assert engine.look_up(keys, other) == [HIT, HIT, MISS, HIT, HIT, HIT]
        assert engine.tier._pages.stats().bad_payloads == 1
        engine.store([keys[2]], request)  # computed again
        engine.settle()
        engine.finish(request), engine.finish(other)
        engine.forget_primary()
        request = engine.request()
        assert engine.look_up(keys, request) == [HIT] * 6 and engine.wrong(keys, request) == 0


def test_stores_that_the_queue_refuses_are_failed_jobs(tmp_path):
    with Engine(f"slab:{tmp_path}/slab?bytes=8MiB&jobs=2", chunks=64) as engine:
        request, failures = engine.request(), 0
        for i in range(40):
            engine.store([key_of(i)], request)
        engine.settle()
        failures = engine.manager.get_stats().reduce()[f"{TieringOffloadingMetrics.CASCADE_JOB_FAILURES}:('1:KvCacheTier',)"]
        stats = engine.tier._pages.stats()
        assert failures == stats.refused_stores > 0 and stats.pages == 40 - failures
        engine.forget_primary()
        answers = engine.look_up([key_of(i) for i in range(40)], request)
        assert answers.count(HIT) == stats.pages and answers.count(MISS) == failures


def test_rows_outside_the_cpu_cache_fail_without_being_touched(slab):
    with Engine(slab) as engine:
        for rows in ([16], [-1], [0, 1]):
            engine.tier.submit_store(TransferJob(9, [key_of(1)], np.array(rows, np.int32), False, engine.request()))
            result, = engine.tier.get_finished_jobs()
            assert (result.job_id, result.success) == (9, False)
        assert engine.tier._pages.stats().pages == 0


def test_drain_ends_every_job_and_keeps_the_results(slab):
    with Engine(slab, chunk_bytes=1 << 20, chunks=6) as engine:
        request, keys = engine.request(), [key_of(i) for i in range(6)]
        for key in keys:
            engine.store([key], request)
        jobs = set(engine.manager._jobs)
        engine.tier.drain_jobs()
        results = list(engine.tier.get_finished_jobs())
        assert {result.job_id for result in results} == jobs and all(result.success for result in results)
        engine.tier._ended.extend(results)  # for the manager
        engine.settle()


def test_a_restarted_engine_finds_what_was_stored(slab):
    keys = [key_of(i) for i in range(16)]
    with Engine(slab) as engine:
        engine.store(keys, engine.request())
        engine.settle()
    with Engine(slab) as engine:
        request = engine.request()
        assert engine.look_up(keys, request) == [HIT] * 16 and engine.wrong(keys, request) == 0


def test_a_slab_with_an_owner_says_so(slab):
    with Engine(slab), pytest.raises(kvcache.BusyError):
        specification(slab).get_manager()


def test_replicas_have_a_slab_each(tmp_path):
    url = f"slab:{tmp_path}/slab-{{dp}}?bytes=8MiB"
    with Engine(url, dp=0), Engine(url, dp=1):
        assert sorted(os.listdir(tmp_path)) == ["slab-0", "slab-1"]


@pytest.mark.parametrize("tier, text", [({"url": ""}, "needs a url"), ({"url": "slab"}, "the path is missing"), ({"url": "memory:?bytes=8MiB&threads=0"}, "threads=0")])
def test_a_wrong_configuration_says_what_to_write(tier, text):
    with pytest.raises(ValueError, match=text):
        specification(**tier).get_manager()


def test_the_metrics_that_are_reported_are_declared(slab):
    with Engine(slab) as engine:
        declared = TieringOffloadingSpec.build_metric_definitions(engine.tier._offloading_spec.extra_config)
        engine.store([key_of(1)], engine.request())
        engine.settle()
        stats = engine.tier.get_stats().reduce()
        assert {name.partition(":(")[0] for name in stats} <= set(declared)
        assert stats["vllm:kv_offload_kvcache_pages:('KvCacheTier',)"] == 1
        assert engine.tier.get_stats() is None, "once a second"


def test_random_requests_read_what_was_stored_and_leave_nothing(tmp_path):
    """A small CPU cache over a small slab: both evict all the time. Requests overlap, finish with questions open, and share keys."""
    draw = random.Random(SEED)
    with Engine(f"slab:{tmp_path}/slab?bytes=512KiB", chunks=12) as engine:
        live, wrong, hits = [], 0, 0
        for _ in range(10000):
            action = draw.random()
            if action < 0.3 or not live:
                begin = draw.randrange(80)
                live.append((engine.request(), [key_of(i) for i in range(begin, begin + draw.randint(1, 6))]))
            elif action < 0.6:
                request, keys = draw.choice(live)
                answers = []
                while len(answers) < len(keys) and MISS not in answers:
                    answers.append(engine.manager.lookup(keys[len(answers)], request))
                prefix = keys[:answers.count(HIT)]
                if prefix and RETRY not in answers and HIT_PENDING not in answers:  # as the scheduler does: else it waits
                    wrong += engine.wrong(prefix, request)
                    hits += len(prefix)
            elif action < 0.75:
                engine.store(*draw.choice(live)[::-1])
            elif action < 0.9:
                engine.finish(live.pop(draw.randrange(len(live)))[0])
            engine.step()
        for request, _ in live:
            engine.finish(request)
        engine.settle()
        assert wrong == 0 and hits > 100, hits
        assert engine.tier._pages.stats().evictions > 0
        assert not engine.tier._found and not engine.tier._asked_by and not engine.tier._left and not engine.tier._asked


CHILD = """
import itertools, os, sys
from vllm_tiering import Engine, key_of
url, begin = sys.argv[1], 0
os.write(1, b"loaded\\n")
for line in sys.stdin:
    begin = int(line)
    if os.fork() == 0:
        with Engine(url, chunk_bytes=65536, chunks=32) as engine:
            os.write(1, b"%d\\n" % os.getpid())
            for i in itertools.count(begin):
                request = engine.request()
                engine.store([key_of((i * 4 + j) % 64) for j in range(4)], request)
                engine.step()
                engine.finish(request)
    os.wait()
"""


def test_a_process_that_is_killed_leaves_no_wrong_chunk(tmp_path):
    """A process stores all the time and is killed at a random time, again and again. What the next one finds is right, and much is found."""
    url = f"slab:{tmp_path}/slab?bytes=2200KiB"  # fewer slots than keys: slots are written again
    draw, hits = random.Random(SEED), 0
    child = subprocess.Popen([sys.executable, "-c", CHILD, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=os.path.dirname(__file__),
                             env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)})
    try:
        while child.stdout.readline() != "loaded\n":
            assert child.poll() is None
        for kill in range(KILLS):
            child.stdin.write(f"{kill * 7}\n")
            child.stdin.flush()
            writer = int(next(line for line in child.stdout if line.strip().isdigit()))
            time.sleep(draw.uniform(0.0, 0.05))
            os.kill(writer, signal.SIGKILL)
            for _ in range(1000):
                try:
                    engine = Engine(url, chunk_bytes=65536, chunks=32)
                    break
                except kvcache.BusyError:  # it still dies
                    time.sleep(0.01)
            with engine:
                for begin in range(0, 64, 32):
                    request, keys = engine.request(), [key_of(i) for i in range(begin, begin + 32)]
                    found = [key for key, answer in zip(keys, engine.look_up(keys, request)) if answer is HIT]
                    assert engine.wrong(found, request) == 0
                    hits += len(found)
                    engine.finish(request)
        assert hits > KILLS * 8, hits
    finally:
        child.kill()
        child.wait()
