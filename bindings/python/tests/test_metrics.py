# SPDX-License-Identifier: Apache-2.0
"""Metrics: the text of all objects, latencies and memory."""

import threading

import numpy as np
import pytest

import kvcache
from kvcache import Latency

NAMES = (b"a model", b"of May")


@pytest.fixture
def world():
    m = kvcache.Manager(16, 4, event_capacity=256)
    s = kvcache.Storage(16, 1, 2, 8, block_size=4, dtype="float32")
    info = s.page_info(*NAMES)
    tier = kvcache.Tier("memory:?bytes=1MiB", info.page_bytes, info.fingerprint)
    offload = kvcache.Offload(m, s, tier, *NAMES, policy=kvcache.OffloadPolicy.WRITE_THROUGH)
    other = kvcache.Manager(8, 4)
    scheduler = kvcache.Scheduler(other)
    yield m, s, tier, offload, other, scheduler
    scheduler.close()
    offload.close()
    for each in (tier, s, m, other):
        each.close()


def compute(m, s, tokens=(1, 2, 3, 4, 5)):
    with m.allocate(tokens) as request:
        rows = np.ones((1, len(tokens), 2, 8), np.float32)
        s.store(rows, rows, request.slots(0, len(tokens)))
        request.commit(len(tokens))


def test_the_text_has_all_objects_with_their_labels(world):
    m, s, tier, offload, other, scheduler = world
    kvcache.enable_latencies(world)
    compute(m, s)
    offload.poll()
    first, second = {"model": 'a "b"\\\n\u00e9'}, {"model": "c", "rank": "1"}
    text = kvcache.render_metrics([(scheduler, second), (m, first), (s, first), (tier, first), (offload, first), (other, second)], vllm_names=True)
    lines = text.split("\n")
    assert lines[-2:] == ["# EOF", ""] and lines.count("# TYPE kvcache_blocks gauge") == 1
    for line in (r'kvcache_admissions_total{model="a \"b\"\\\né",order="first"} 1', 'kvcache_scheduler_requests{model="c",rank="1",state="running"} 0',
                 r'vllm:prefix_cache_queries_total{model="a \"b\"\\\né"} 5', 'vllm:num_requests_waiting{model="c",rank="1"} 0',
                 r'kvcache_call_duration_seconds_count{model="a \"b\"\\\né",call="admit"} 1'):
        assert line in lines, line
    assert "vllm:" not in kvcache.render_metrics([m])
    assert kvcache.render_metrics([]) == "# EOF\n"


def test_latencies_count_calls(world):
    m, s, tier, offload, other, scheduler = world
    with pytest.raises(kvcache.BusyError, match="enable its latencies"):
        kvcache.read_latency(m, Latency.ADMIT)
    kvcache.enable_latencies(world)
    for _ in range(3):
        compute(m, s)
    scheduler.plan()
    admit = kvcache.read_latency(m, Latency.ADMIT)
    assert admit.count == 3 and 0 < admit.p50_ns <= admit.p99_ns <= admit.p999_ns <= admit.max_ns <= admit.sum_ns
    assert kvcache.read_latency(s, Latency.STORE).count == 3 and kvcache.read_latency(s, Latency.GATHER) == (0,) * 7
    assert kvcache.read_latency(scheduler, Latency.PLAN).count == 1
    with pytest.raises(kvcache.InvalidArgumentError, match="a manager has 1 to 2"):
        kvcache.read_latency(m, Latency.PLAN)


def test_memory_by_kind(world):
    m, s, tier, offload, other, scheduler = world
    profile = kvcache.read_memory(world)
    assert profile.slab_bytes == kvcache.storage_size(16, 1, 2, 8, block_size=4, dtype="float32")[1]
    assert profile.metadata_bytes > m.stats.metadata_bytes + other.stats.metadata_bytes
    assert profile.tier_bytes >= 1 << 20 and profile.offload_bytes and profile.scheduler_bytes and profile.workspace_bytes
    assert all(peak >= now for now, peak in zip(profile[::2], profile[1::2]))
    assert kvcache.read_memory([]) == (0,) * 12
    assert kvcache.read_memory(tier).slab_bytes == 0


def test_bad_sources_are_refused(world):
    m, other = world[0], world[4]
    for sources, error, words in (([m, other], ValueError, "equal labels"), ([(m, {"state": "x"})], ValueError, "choose another"), ([(m, {"a": "\udcff"})], ValueError, "not UTF-8"),
                                  ([(m, {"a": "\0"})], TypeError, "NUL"), ([(m, {"a": 1})], TypeError, "must be str"), ([(m, 3)], TypeError, "mapping"), ([m, 3], TypeError, "int has no metrics"),
                                  ([None], TypeError, "NoneType"), ([(m,)], TypeError, "a pair")):
        with pytest.raises(error, match=words):
            kvcache.render_metrics(sources)
    with pytest.raises(TypeError):
        kvcache.read_memory("m")
    closed = kvcache.Manager(8, 4)
    closed.close()
    for function in (kvcache.render_metrics, kvcache.read_memory, kvcache.enable_latencies):
        with pytest.raises(ValueError, match="the manager is closed"):
            function([closed])


def test_beside_work_and_close(world):
    m, s, tier, offload, _, _ = world
    faults = []

    def read(sources):
        try:
            for _ in range(50):
                kvcache.render_metrics(sources)
                kvcache.read_memory(sources)
        except ValueError as error:
            if "closed" not in str(error):
                faults.append(error)

    threads = [threading.Thread(target=read, args=(order,)) for order in ([m, s, tier, offload], [offload, tier, s, m])]
    for thread in threads:
        thread.start()
    for _ in range(20):
        compute(m, s)
        offload.poll()
    offload.close()
    for thread in threads:
        thread.join()
    assert not faults
