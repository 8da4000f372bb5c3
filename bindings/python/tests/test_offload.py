# SPDX-License-Identifier: Apache-2.0
"""Offload: what was computed comes back from tiers, to the manager that evicted it and to one in another life."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import kvcache
from kvcache import OffloadPolicy, OffloadReason, OffloadState, _native

BLOCKS, BLOCK, LAYERS, HEADS, DIM = 16, 4, 2, 2, 8
PROMPT = np.arange(100, 121, dtype=np.int32)
NAMES = (b"a model", b"of May")


def storage_of():
    return kvcache.Storage(BLOCKS, LAYERS, HEADS, DIM, block_size=BLOCK, dtype="float32")


def compute(s, request, rows=None):
    """Commits PROMPT: with rows of its own, or with those that another life has computed, which what is cached must equal. Returns the rows."""
    slots = request.slots(0, len(PROMPT))
    if rows is None:
        rows = np.random.default_rng(7).standard_normal((LAYERS, len(PROMPT), HEADS, DIM), dtype=np.float32)
        s.store(rows, rows, slots)
    assert np.array_equal(s.gather(slots[:20])[0], rows[:, :20])
    request.commit(len(PROMPT))
    return rows


def test_what_is_refused_opens_no_tier(tmp_path):
    place = tmp_path / "kv"
    url, storage = f"slab:{place}?bytes=4MiB", storage_of()
    with pytest.raises(kvcache.UnsupportedError):
        kvcache.Offload(kvcache.Manager(BLOCKS, BLOCK), storage, url, *NAMES)
    with pytest.raises(kvcache.InvalidArgumentError, match="num_pages is 1"):
        kvcache.Offload(kvcache.Manager(BLOCKS, BLOCK, event_capacity=256), storage, url, *NAMES, num_pages=1)
    with pytest.raises(kvcache.UnsupportedError):
        kvcache.Manager(BLOCKS, BLOCK, zero="always", offload=url, storages=storage, model=NAMES[0], weights=NAMES[1])
    assert not place.exists()
    with kvcache.Offload(kvcache.Manager(BLOCKS, BLOCK, event_capacity=256), storage, url, *NAMES):
        assert place.exists()


class Life:
    """A manager, its storage, and an offload to a tier."""

    def __init__(self, url, policy=OffloadPolicy.WRITE_THROUGH, **options):
        self.m = kvcache.Manager(BLOCKS, BLOCK, event_capacity=256)
        self.s = storage_of()
        info = self.s.page_info(*NAMES)
        self.tier = kvcache.Tier(url, info.page_bytes, info.fingerprint)
        self.offload = kvcache.Offload(self.m, self.s, self.tier, *NAMES, policy=policy, **options)

    def compute(self, tokens=PROMPT):
        with self.m.allocate(tokens) as request:
            rows = np.random.default_rng(7).standard_normal((LAYERS, len(tokens), HEADS, DIM), dtype=np.float32)
            self.s.store(rows, rows, request.slots(0, len(tokens)))
            request.commit(len(tokens))
            self.settle()
            return rows

    def until(self, done):
        end = time.monotonic() + 60
        while not done():
            assert time.monotonic() < end
            self.offload.poll()
            time.sleep(0.001)

    def settle(self):
        self.offload.poll()
        self.until(lambda: not self.offload.stats().waiting_blocks and not self.offload.stats().busy_pages)

    def admitted(self, tokens=PROMPT):
        request = self.m.create(tokens)
        self.offload.lookup(request)
        self.until(lambda: self.offload.query(request).state == OffloadState.READY)
        info = self.offload.query(request)
        request.admit()
        return request, info

    def close(self):
        self.offload.close()
        self.tier.close()
        self.s.close()
        self.m.close()


def test_a_url_is_opened_for_the_pages_and_closed_with_the_offload(tmp_path):
    url, rows = f"slab:{tmp_path}/kv?bytes=1MiB", None
    for life in range(3):
        m = kvcache.Manager(BLOCKS, BLOCK, event_capacity=256)
        s = storage_of()
        with kvcache.Offload(m, s, url, *NAMES, policy=OffloadPolicy.WRITE_THROUGH) as offload, m.create(PROMPT) as request:
            with pytest.raises(kvcache.BusyError, match="another process uses it"):
                kvcache.Tier(url, s.page_info(*NAMES).page_bytes, s.page_info(*NAMES).fingerprint)
            info = offload.admit(request, timeout=60)
            assert request.num_cached == info.num_loaded == (20 if life else 0)
            rows = compute(s, request, rows)
            assert offload.flush(60) and offload.tier_stats().stored_pages == (0 if life else 5)
    m = kvcache.Manager(BLOCKS, BLOCK, event_capacity=256)
    with kvcache.Offload(m, s, url, NAMES[0], b"of June") as offload, m.create(PROMPT) as request:
        assert offload.admit(request, timeout=60).num_loaded == 0, "the pages of other weights"


def test_a_manager_has_an_offload_of_its_own(tmp_path):
    url, rows = f"slab:{tmp_path}/kv?bytes=1MiB", None
    for life in range(3):
        s = storage_of()
        with kvcache.Manager(BLOCKS, BLOCK, offload=url, storages=s, model=NAMES[0], weights=NAMES[1]) as m:
            with m.allocate(PROMPT) as request:
                assert request.num_cached == m.offload.stats().loaded_tokens == (20 if life else 0)
                rows = compute(s, request, rows)
        assert repr(m.offload) == "<kvcache.Offload, closed>"  # it has stored what waited, and given the file back
        m.close()


def test_a_manager_frees_what_it_cannot_admit_and_ends_in_any_order():
    gc.collect()
    before = _native.kvc_live_objects()
    s = storage_of()
    m = kvcache.Manager(BLOCKS, BLOCK, offload=["memory:?bytes=64KiB", "memory:?bytes=1MiB"], storages=[s], model=NAMES[0], weights=NAMES[1])
    with pytest.raises(kvcache.NoSpaceError):
        m.allocate(np.arange(BLOCKS * BLOCK + 1, dtype=np.int32))
    assert m.requests() == []
    m.offload.close()
    with pytest.raises(ValueError, match="the offload is closed"):
        m.allocate(PROMPT)
    assert m.requests() == []
    m.close()
    assert kvcache.Manager(BLOCKS, BLOCK).offload is None
    assert kvcache.Manager(BLOCKS, BLOCK, offload="", storages=s, model=NAMES[0], weights=NAMES[1]).offload is None
    with pytest.raises(ValueError, match="storages has 0 storages; it must have one for each of the 1 groups"):
        kvcache.Manager(BLOCKS, BLOCK, offload="memory:?bytes=1MiB", model=NAMES[0], weights=NAMES[1])
    with pytest.raises(kvcache.NotFoundError):
        kvcache.Manager(BLOCKS, BLOCK, offload="nowhere:", storages=s, model=NAMES[0], weights=NAMES[1])
    dropped = kvcache.Manager(BLOCKS, BLOCK, offload="memory:?bytes=1MiB", storages=s, model=NAMES[0], weights=NAMES[1])
    assert dropped.offload is not None
    del m, s, dropped
    gc.collect()
    assert _native.kvc_live_objects() == before


def test_an_admission_gives_back_what_the_load_held():
    s = storage_of()
    with kvcache.Manager(BLOCKS, BLOCK, offload="memory:?bytes=1MiB", storages=s, model=NAMES[0], weights=NAMES[1]) as m:
        m.allocate(PROMPT).close()
        with m.create(PROMPT) as request:
            request.admit()
            request.commit(len(PROMPT))
        assert m.offload.flush()
        m.evict(BLOCKS)
        with m.allocate(PROMPT) as request:
            assert request.num_cached == 20
        m.evict(BLOCKS)  # nobody polls: nothing may be held
        m.allocate(np.arange(BLOCKS * BLOCK, dtype=np.int32)).close()
        with pytest.raises(kvcache.NoSpaceError):
            m.allocate(np.arange(BLOCKS * BLOCK + 1, dtype=np.int32))
        info = m.pool_info()
        assert info.free + info.cached == BLOCKS


def test_the_clock_may_be_the_callers_and_a_stream_does_the_copies_of_a_flush():
    life = Life("memory:?bytes=1MiB", hold_ns=10)
    with kvcache.Stream() as stream, life.m.create(PROMPT) as first, life.m.create(PROMPT) as second:
        life.offload.admit(first, now_ns=1, stream=stream)
        compute(life.s, first)
        assert life.offload.flush(now_ns=2, stream=stream)
        first.close()
        life.m.evict(BLOCKS)
        assert life.offload.admit(second, now_ns=3, stream=stream).num_loaded == 20
        stream.synchronize()
    with life.m.create(PROMPT) as third:
        life.m.evict(BLOCKS)
        life.offload.lookup(third, 4)
        while life.offload.query(third).state != OffloadState.READY:
            life.offload.poll(5)
        life.offload.poll(15)  # the hold is over by this clock, and no other one was told
        assert life.offload.query(third).state == OffloadState.NONE
    life.close()


def test_a_program_may_have_more_descriptors_than_select_knows():
    code = """
        import os, resource
        import numpy as np
        import kvcache
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        kept = [os.dup(0) for _ in range(1100)]
        s = kvcache.Storage(16, 2, 2, 8, block_size=4, dtype="float32")
        with kvcache.Manager(16, 4, offload="memory:?bytes=1MiB", storages=s, model=b"m", weights=b"w") as m:
            assert m.offload.fileno() > 1023
            assert m.offload._wait(float("inf"))
            m.allocate(np.arange(21, dtype=np.int32)).close()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=120)


def test_short_prefixes_are_not_loaded_and_failing_tiers_are_told():
    life = Life("memory:?bytes=1MiB", min_load_tokens=21, retry_ns=1)
    life.compute()
    life.m.reset_all()
    request, info = life.admitted()
    assert info.reason is OffloadReason.SLOWER and (info.num_found, info.num_loaded) == (20, 0)
    assert life.offload.stats().slower_loads == 1
    assert (life.offload.tier_stats().outages, life.offload.tier_stats().available) == (0, 1)
    request.close()
    life.close()


def test_a_flush_ends_where_the_content_is_still_to_come():
    m = kvcache.Manager(BLOCKS, BLOCK, event_capacity=64, fills=True)
    s = storage_of()
    with kvcache.Offload(m, s, "memory:?bytes=1MiB", *NAMES, policy=OffloadPolicy.WRITE_THROUGH) as offload:
        step = kvcache.Step(m, 1, 1, 8, max_admissions=1)
        step.use(admit_offsets=False)
        request = m.create(PROMPT, flags=kvcache.RequestFlags.PUBLISH_ENQUEUED)
        step.admit_requests[0] = request.id
        step.num_admissions = 1
        step.run()
        assert not offload.flush() and offload.stats().waiting_blocks == 5
        m.retire_step(step.step_id)
        assert offload.flush() and offload.tier_stats().stored_pages == 5


def test_waits_end_in_time_and_refusals_admit():
    m = kvcache.Manager(BLOCKS, BLOCK, event_capacity=256)
    s = storage_of()
    with kvcache.Offload(m, s, "memory:?bytes=1MiB", *NAMES, policy=OffloadPolicy.WRITE_THROUGH, max_lookups=1) as offload:
        for bad in (-1, float("nan")):
            with pytest.raises(ValueError, match="it must be 0 or more seconds"):
                offload.flush(bad)
        with m.create(PROMPT) as first, m.create(PROMPT + 1000) as second:
            offload.lookup(first)
            assert offload.admit(second).state in (OffloadState.NONE, OffloadState.READY) and second.num_cached == 0, "no lookup was free"
            with pytest.raises(TypeError, match="request is int; it must be a kvcache.Request"):
                offload.admit(first.id)
            offload.admit(first, timeout=0)
            with pytest.raises(kvcache.BusyError):
                offload.admit(first)
        assert offload.flush()


def test_what_was_evicted_comes_back():
    life = Life("memory:?bytes=1MiB")
    rows = life.compute()
    assert life.offload.tier_stats().stored_pages == 5 and life.offload.stats().published_blocks == 5
    life.m.reset_all()
    life.s.zero_blocks(np.arange(BLOCKS, dtype=np.int32))
    request, info = life.admitted()
    assert info.reason is OffloadReason.LOADED and (info.num_cached, info.num_found, info.num_loaded) == (0, 20, 20)
    assert request.num_cached == 20 and np.array_equal(life.s.gather(request.slots(0, 20))[0], rows[:, :20])
    assert life.offload.stats().loaded_tokens == 20 and life.tier.stats().pages == 5
    request.close()
    life.close()


def test_a_second_process_has_what_the_first_one_computed(tmp_path):
    url = f"slab:{tmp_path / 'slab'}?bytes=1MiB"
    program = textwrap.dedent("""\
        import sys
        sys.path.insert(0, sys.argv[1])
        import test_offload
        life = test_offload.Life(sys.argv[2])
        life.compute()
        life.close()
        """)
    subprocess.run([sys.executable, "-c", program, os.path.dirname(__file__), url], check=True)
    life = Life(url)
    request, info = life.admitted()
    assert info.num_loaded == 20 == request.num_cached
    assert np.array_equal(life.s.gather(request.slots(0, 20))[0], np.random.default_rng(7).standard_normal((LAYERS, 21, HEADS, DIM), dtype=np.float32)[:, :20])
    request.close()
    life.close()


def test_a_preempted_request_is_stored_and_comes_back():
    life = Life("memory:?bytes=1MiB", 0)
    request = life.m.allocate(PROMPT)
    request.commit(21)
    assert life.offload.store_request(request) == 5
    life.settle()
    request.preempt()
    life.m.reset_all()
    life.offload.lookup(request.id)
    life.until(lambda: life.offload.query(request.id).state == OffloadState.READY)
    assert request.admit() == 20
    request.close()
    life.close()


def test_a_stream_does_the_copies():
    life = Life("memory:?bytes=1MiB")
    rows = life.compute()
    life.m.reset_all()
    life.s.zero_blocks(np.arange(BLOCKS, dtype=np.int32))
    with kvcache.Stream() as stream:
        request = life.m.create(PROMPT)
        life.offload.lookup(request)
        end = time.monotonic() + 60
        while life.offload.query(request).state != OffloadState.READY:
            assert time.monotonic() < end
            life.offload.poll(stream=stream)
            time.sleep(0.001)
        assert request.admit() == 20
        stream.synchronize()
    assert np.array_equal(life.s.gather(request.slots(0, 20))[0], rows[:, :20])
    request.close()
    life.close()


def test_nothing_is_found_in_an_empty_tier_and_a_lookup_is_cancelled():
    life = Life("memory:?bytes=1MiB")
    request, info = life.admitted()
    assert info.reason is OffloadReason.NOTHING and request.num_cached == 0
    waiting = life.m.create(PROMPT + 5)
    life.offload.lookup(waiting)
    life.offload.cancel(waiting)
    life.offload.cancel(waiting)
    life.until(lambda: not life.offload.stats().busy_lookups)
    assert life.offload.query(waiting).state is OffloadState.NONE
    with pytest.raises(kvcache.BusyError):
        life.offload.lookup(request)
    request.close(), waiting.close()
    life.close()


def test_two_tiers_and_sizes_alone():
    m = kvcache.Manager(BLOCKS, BLOCK, event_capacity=64)
    first, second = kvcache.Tier("memory:?bytes=4KiB", 1024, b"1" * 32), kvcache.Tier("memory:?bytes=64KiB", 1024, b"1" * 32)
    with pytest.raises(ValueError, match="page_bytes has 0 entries; without storages it must have one for each of the 1 groups"):
        kvcache.Offload(m, None, [first, second], *NAMES)
    with pytest.raises(kvcache.KvCacheError):
        kvcache.Offload(m, None, [first, second], *NAMES, page_bytes=1 << 40)
    assert first.put([bytes(32)], np.zeros((1, 8), np.uint8)).num_ok == 1  # given back
    first.close(), second.close()


def test_the_tier_is_the_offloads_until_it_is_closed():
    life = Life("memory:?bytes=1MiB")
    for call in (life.tier.poll, life.tier.drain, life.tier.fileno, lambda: life.tier.exists(bytes(32)), life.tier.run_one):
        with pytest.raises(kvcache.BusyError, match="the tier is an Offload's"):
            call()
    with pytest.raises(kvcache.BusyError):
        kvcache.Offload(life.m, life.s, life.tier, *NAMES)
    assert life.tier.stats().capacity_pages > 0
    life.offload.close()
    assert life.tier.exists(bytes(32)).num_ok == 0
    job = life.tier.submit_exists(bytes(32))
    with pytest.raises(kvcache.BusyError, match="jobs of its own"):
        kvcache.Offload(life.m, life.s, life.tier, *NAMES)
    life.tier.wait(job)
    kvcache.Offload(life.m, life.s, life.tier, *NAMES).close()
    life.close()


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 3, 2), (2, 3, 0, 1)])
def test_any_order_of_closing_is_safe(order):
    gc.collect()
    before = _native.kvc_live_objects()
    for work in (False, True):
        life = Life("memory:?bytes=1MiB")
        with life.m.allocate(PROMPT) as request:
            request.commit(21)
        if work:
            life.offload.poll()  # stores are on the way
        for i in order:
            (life.m, life.s, life.tier, life.offload)[i].close()
        assert repr(life.offload) == "<kvcache.Offload, closed>"
        with pytest.raises(ValueError, match="the offload is closed"):
            life.offload.poll()
    del life, request
    gc.collect()
    assert _native.kvc_live_objects() == before


def test_an_error_that_is_kept_does_not_keep_the_offload():
    gc.collect()
    before = _native.kvc_live_objects()
    life = Life("memory:?bytes=1MiB")
    with life.m.allocate(PROMPT) as request:
        request.commit(21)
    with kvcache.Stream() as stream:
        for call in (lambda: life.offload.poll("now"), lambda: life.offload.poll("now", stream=stream), lambda: life.offload.lookup("x"), lambda: life.offload.tier_stats(9)):
            with pytest.raises((TypeError, ValueError)) as kept:
                call()
    life.offload.poll()
    life.close()
    del stream
    assert _native.kvc_live_objects() == before and kept is not None


def test_an_offload_that_is_dropped_closes_itself():
    gc.collect()
    before = _native.kvc_live_objects()
    life = Life("memory:?bytes=1MiB")
    with life.m.allocate(PROMPT) as request:
        request.commit(21)
    life.offload.poll()
    tier = life.tier
    del life, request
    gc.collect()
    assert tier.exists(bytes(32)).num_ok == 0
    tier.close()
    del tier
    gc.collect()
    assert _native.kvc_live_objects() == before


def test_any_thread_may_call_it_also_while_another_one_closes_it():
    for _ in range(10):
        life = Life("memory:?bytes=1MiB")
        faults = []

        def work():
            try:
                while True:
                    life.offload.poll()
                    life.offload.stats()
            except ValueError as error:
                faults.append(str(error))

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        life.compute()
        life.close()
        for thread in threads:
            thread.join(60)
        assert faults == ["the offload is closed"] * 3


def test_a_fork_leaves_it_alone():
    life = Life("memory:?bytes=1MiB")
    child = os.fork()
    if child == 0:
        try:
            life.offload.poll()
        except ValueError:
            life.offload.close()
            life.tier.close()
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    life.compute()
    life.close()


@pytest.mark.parametrize("change, error, text", [
    (dict(manager=3), TypeError, "manager is int; it must be a kvcache.Manager"),
    (dict(storages=[]), ValueError, "storages has 0 storages; it must have one for each of the 1 groups"),
    (dict(storages=[None]), ValueError, "storages has 0 storages"),
    (dict(storages=7), TypeError, "storages is 7; it must be a kvcache.Storage"),
    (dict(tiers=()), ValueError, "tiers has 0 entries; it must have 1 to 8"),
    (dict(tiers=[3]), TypeError, r"tiers\[0\] is int; it must be a kvcache.Tier or a URL"),
    (dict(tiers="nowhere:"), kvcache.NotFoundError, "built in are memory, slab and dir"),
    (dict(policy=64), ValueError, r"policy is 64; it is a sum of OffloadPolicy.WRITE_THROUGH"),
    (dict(num_pages=1), ValueError, "num_pages is 1; it is 4 to 65536, or 0 for 64"),
    (dict(num_pages=-1), OverflowError, "num_pages is -1; it must be at least 0"),
    (dict(model="x"), TypeError, "model is str; it must be bytes"),
    (dict(compute_ns_per_token=-1.0), ValueError, "compute_ns_per_token is -1"),
    (dict(manager=kvcache.Manager(BLOCKS, BLOCK)), kvcache.UnsupportedError, "event_capacity"),
    (dict(manager=kvcache.Manager(BLOCKS, BLOCK, event_capacity=8, prefix_cache=False)), kvcache.KvCacheError, "prefix_cache=False"),
])
def test_errors_name_the_argument_and_give_the_tier_back(change, error, text):
    s = storage_of()
    info = s.page_info(*NAMES)
    tier = kvcache.Tier("memory:?bytes=1MiB", info.page_bytes, info.fingerprint)
    arguments = {"manager": kvcache.Manager(BLOCKS, BLOCK, event_capacity=64), "storages": s, "tiers": tier, "model": NAMES[0], "weights": NAMES[1], **change}
    with pytest.raises(error, match=text):
        kvcache.Offload(**arguments)
    assert tier.exists(bytes(32)).num_ok == 0
    tier.close()


def test_an_admission_keeps_no_hold_beside_that_of_the_request():
    s = storage_of()
    with kvcache.Manager(BLOCKS, BLOCK, offload="memory:?bytes=1MiB", storages=s, model=NAMES[0], weights=NAMES[1]) as m:
        with m.allocate(PROMPT) as request:
            compute(s, request)
        m.offload.flush()
        m.evict(BLOCKS)
        with m.allocate(PROMPT) as request:
            assert request.num_cached == 20
        with m.create(np.arange(1000, 1000 + BLOCKS * BLOCK, dtype=np.int32)) as whole:  # needs every block, and nobody polls
            whole.admit()
        m.offload.flush()
        m.evict(BLOCKS)
        with pytest.raises(kvcache.NoSpaceError):
            m.allocate(np.concatenate([PROMPT, np.arange(BLOCKS * BLOCK, dtype=np.int32)]))
        with m.create(np.arange(2000, 2000 + BLOCKS * BLOCK, dtype=np.int32)) as whole:
            whole.admit()


def test_it_waits_with_descriptors_above_1023():
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1200:
        pytest.skip("no descriptors above 1023")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1030)]
    try:
        with kvcache.Manager(BLOCKS, BLOCK, event_capacity=64) as m, kvcache.Offload(m, storage_of(), "memory:?bytes=1MiB", *NAMES) as offload:
            assert offload.fileno() > 1023
            assert offload._wait(time.monotonic() + 60)
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_time_is_the_callers(tmp_path):
    s = storage_of()
    with kvcache.Manager(BLOCKS, BLOCK, event_capacity=256) as m, kvcache.Offload(m, s, "memory:?bytes=1MiB", *NAMES, hold_ns=100) as offload:
        with m.create(PROMPT) as request:
            offload.admit(request, now_ns=1)
            compute(s, request, None)
            offload.store_request(request)
        assert offload.flush(now_ns=2)
        m.evict(BLOCKS)
        with m.create(PROMPT) as request:
            offload.lookup(request, 3)
            while offload.query(request).state != OffloadState.READY:
                offload.poll(4)
            offload.poll(1000)  # its hold is over, by that clock
            assert offload.stats().busy_lookups == 0


def test_a_load_has_the_bound_of_its_caller():
    s = storage_of()
    with kvcache.Manager(BLOCKS, BLOCK, event_capacity=256) as m, kvcache.Offload(m, s, "memory:?bytes=1MiB", *NAMES) as offload:
        with m.create(PROMPT) as request:
            offload.admit(request)
            compute(s, request)
            offload.store_request(request)
        offload.flush()
        for most, loaded in ((0, 20), (9, 8), (3, 0)):
            m.evict(BLOCKS)
            with m.create(PROMPT) as request:
                assert offload.admit(request, max_tokens=most).num_loaded == request.num_cached == loaded


def test_what_differs_is_named(tmp_path):
    for place in ("slab", "dir"):
        url = f"{place}:{tmp_path}/{place}?bytes=1MiB"
        s = storage_of()
        with kvcache.Manager(BLOCKS, BLOCK, offload=url, storages=s, model=NAMES[0], weights=NAMES[1]) as m:
            with m.allocate(PROMPT) as request:
                compute(s, request)
            assert m.offload.tier_stats().difference == ""
        with kvcache.Manager(BLOCKS, BLOCK, offload=url, storages=storage_of(), model=NAMES[0], weights=b"of June") as m:
            assert m.allocate(PROMPT).num_cached == 0
            assert m.offload.tier_stats().difference == f'weights is "{NAMES[1].decode()}" there and "of June" here'
