# SPDX-License-Identifier: Apache-2.0
"""A Tier: what was put comes back, whatever waits for it; buffers live as long as the library uses them; wrong use is refused and named."""

import asyncio
import concurrent.futures
import gc
import multiprocessing
import os
import pathlib
import pickle
import random
import re
import select
import threading
import time
import weakref

import numpy as np
import pytest

import kvcache
from kvcache import PageResult, TierKind, TierPriority, _native
from kvcache._tier_jobs import item_type
from kvcache._tier_waiting import Signal

PAGE, MANY = 4096, 24
FINGERPRINT = b"the pages of a test".ljust(32, b"\0")
rng = np.random.default_rng(7)


def keys_of(count):
    return rng.integers(0, 256, (count, 32), np.uint8)


def pages_of(count, size=PAGE):
    return rng.integers(0, 256, (count, size), np.uint8)


def memory(more="", **options):
    return kvcache.Tier(f"memory:?bytes=1MiB{more}", PAGE, FINGERPRINT, **options)


@pytest.fixture(params=["memory", "dir", "slab"])
def url(request, tmp_path):
    return {"memory": "memory:?bytes=1MiB", "dir": f"dir:{tmp_path}/pages?bytes=8MiB", "slab": f"slab:{tmp_path}/slab?bytes=8MiB"}[request.param]


# ---- what comes back

def test_what_was_put_comes_back_from_each_kind_of_store(url):
    keys, pages, back = keys_of(MANY), pages_of(MANY), np.zeros((MANY, PAGE), np.uint8)
    with kvcache.Tier(url, PAGE, bytes(range(32))) as tier:
        assert tier.get(keys, back).results.tolist() == [PageResult.MISS] * MANY
        put = tier.put(keys, pages)
        assert put.num_ok == MANY and set(put.results) == {PageResult.OK}
        got = tier.get(keys, back)
        assert got.num_ok == MANY and np.array_equal(back, pages)
        assert tier.exists(keys).num_ok == MANY and tier.stats().pages == MANY
        assert tier.remove(keys[:1]).num_ok == 1 and tier.exists(keys).results.tolist() == [PageResult.MISS] + [PageResult.OK] * (MANY - 1)
        counts = tier.counts(TierKind.GET)
        assert (counts.jobs, counts.items, counts.ok, counts.misses, counts.bytes) == (2, 2 * MANY, MANY, MANY, MANY * PAGE)


def test_pages_outlive_the_process_that_wrote_them_on_a_disk(tmp_path):
    keys, pages, back = keys_of(3), pages_of(3), np.zeros((3, PAGE), np.uint8)
    for url in (f"dir:{tmp_path}/d?bytes=8MiB", f"slab:{tmp_path}/s?bytes=8MiB"):
        with kvcache.Tier(url, PAGE, FINGERPRINT) as tier:
            assert tier.put(keys, pages).num_ok == 3
        with kvcache.Tier(url, PAGE, FINGERPRINT) as tier:
            assert tier.get(keys, back).num_ok == 3 and np.array_equal(back, pages)


def test_a_slab_keeps_the_pages_of_several_fingerprints(tmp_path):
    url, keys, pages, back = f"slab:{tmp_path}/s?bytes=8MiB", keys_of(3), {}, np.zeros((3, PAGE), np.uint8)
    for fingerprint in (b"x" * 32, b"y" * 32):
        pages[fingerprint] = pages_of(3)
        with kvcache.Tier(url, PAGE, fingerprint) as tier:
            assert tier.get(keys, back).num_ok == 0 and tier.put(keys, pages[fingerprint]).num_ok == 3
    for fingerprint, right in pages.items():
        with kvcache.Tier(url, PAGE, fingerprint) as tier:
            assert tier.get(keys, back).num_ok == 3 and np.array_equal(back, right) and tier.stats().pages == 6
    with pytest.raises(kvcache.InvalidArgumentError, match="its slots take pages of at most"):
        kvcache.Tier(url, PAGE + 1, b"x" * 32)


def test_a_page_of_another_size_or_another_key_is_a_miss():
    with memory() as tier:
        keys = keys_of(1)
        tier.put(keys, pages_of(1))
        assert tier.get(keys, np.zeros((1, PAGE - 1), np.uint8)).results.tolist() == [PageResult.MISS]
        keys[0, 31] ^= 1
        assert tier.get(keys, np.zeros((1, PAGE), np.uint8)).results.tolist() == [PageResult.MISS]


def test_runs_give_parts_of_pages():
    keys, pages = keys_of(MANY), pages_of(MANY)
    with memory() as tier:
        tier.put(keys, pages)
        for runs in (np.array([[0, 16], [1000, 3], [4090, 6]], np.uint64), [(0, 16), (1000, 3), (4090, 6)]):
            part = np.zeros((MANY, 25), np.uint8)
            assert tier.get(keys, part, runs=runs).num_ok == MANY
            assert np.array_equal(part, np.concatenate([pages[:, :16], pages[:, 1000:1003], pages[:, 4090:]], 1))
        with pytest.raises(ValueError, match="^buffers has 24 bytes for a page; the runs have 25"):
            tier.get(keys, part[:, :24].copy(), runs=runs)
        with pytest.raises(kvcache.InvalidArgumentError, match=r"runs\[0\]"):
            tier.get(keys, part, runs=[(4090, 7)])
        with pytest.raises(ValueError, match="runs is empty"):
            tier.get(keys, part, runs=np.zeros((0, 2), np.uint64))


def test_leases_and_generations_are_promises():
    keys = keys_of(4)
    with memory() as tier:
        put = tier.put(keys, pages_of(4))
        found = tier.exists(keys, lease=2.0, now_ns=1_000)
        assert (found.lease_until >= 2_000_001_000).all() and np.array_equal(found.generations, put.generations)
        assert tier.remove(keys, now_ns=1_001).results.tolist() == [PageResult.PENDING] * 4
        back = np.zeros((4, PAGE), np.uint8)
        assert tier.get(keys, back, generations=found.generations).num_ok == 4
        assert tier.remove(keys, now_ns=10**18).num_ok == 4
        assert tier.put(keys, pages_of(4)).num_ok == 4
        assert tier.get(keys, back, generations=found.generations).results.tolist() == [PageResult.EXPIRED] * 4


# ---- what may be a key, and what a buffer

def test_all_forms_of_keys_and_buffers_mean_the_same():
    keys, pages = keys_of(3), pages_of(3)
    spaced = np.zeros((3, 2 * PAGE), np.uint8)
    spaced[:, :PAGE] = pages
    forms = (keys, keys.tobytes(), bytearray(keys.tobytes()), [bytes(key) for key in keys], tuple(keys), memoryview(keys.reshape(-1)))
    buffers = (pages, spaced[:, :PAGE], pages.view(np.float32), pages.reshape(3, 2, -1), pages.reshape(-1), pages.tobytes(), list(pages),
               [page.tobytes() for page in pages], [memoryview(page) for page in pages])
    for i in range(max(len(forms), len(buffers))):
        with memory() as tier:
            assert tier.put(forms[i % len(forms)], buffers[i % len(buffers)]).num_ok == 3, i
            for back in (np.zeros((3, PAGE), np.uint8), [bytearray(PAGE) for _ in range(3)], np.zeros((3, 3 * PAGE), np.uint8)[:, PAGE : 2 * PAGE]):
                assert tier.get(forms[-1 - i % len(forms)], back).num_ok == 3
                assert all(bytes(row) == bytes(page) for row, page in zip(back, pages))


def test_tensors_of_pytorch_are_buffers():
    torch = pytest.importorskip("torch")
    pages = torch.randn(3, PAGE // 2, dtype=torch.float32).to(torch.bfloat16)
    back = torch.zeros(3, PAGE // 2, dtype=torch.bfloat16)
    keys = keys_of(3)
    with memory() as tier:
        assert tier.put(keys, pages).num_ok == 3 and tier.get(keys, back).num_ok == 3
        assert torch.equal(pages, back)
        assert tier.get(keys, list(back.unbind())).num_ok == 3
        with pytest.raises(ValueError, match="contiguous"):
            tier.get(keys, torch.zeros(PAGE, 3, dtype=torch.uint8).T)


@pytest.mark.parametrize("call, error, text", [
    (lambda t: t.get(b"x" * 31, bytearray(9)), ValueError, r"keys is uint8 \[31\]; it must be uint8 \[pages, 32\]"),
    (lambda t: t.get([b"x" * 31], bytearray(9)), ValueError, r"keys\[0\] has 31 bytes; it needs 32"),
    (lambda t: t.get(["x"], bytearray(9)), TypeError, r"keys\[0\] is str; it must be 32 bytes"),
    (lambda t: t.get(3, bytearray(9)), TypeError, "keys is int"),
    (lambda t: t.get(np.zeros((2, 32), np.int8), bytearray(8)), TypeError, "keys is int8"),
    (lambda t: t.get(bytes(64), np.zeros((3, 8), np.uint8)), ValueError, r"buffers is uint8 \[3, 8\]; it must have a row for each of the 2 keys"),
    (lambda t: t.get(bytes(64), [bytearray(8)]), ValueError, "buffers has 1 buffers for 2 keys"),
    (lambda t: t.get(bytes(64), bytearray(9)), ValueError, r"buffers is uint8 \[9\], 9 bytes; .* for each of the 2 pages"),
    (lambda t: t.get(bytes(32), bytes(8)), ValueError, "buffers is read-only; pages are read into it: pass a writable buffer"),
    (lambda t: t.get(bytes(32), [bytes(8)]), ValueError, r"buffers\[0\] is read-only"),
    (lambda t: t.get(bytes(64), np.zeros((8, 2), np.uint8).T), ValueError, "its rows must be contiguous"),
    (lambda t: t.get(bytes(64), np.broadcast_to(np.zeros(8, np.uint8), (2, 8))), ValueError, "buffers is read-only"),
    (lambda t: t.put(bytes(64), np.zeros((2, 8), np.uint8)[::-1]), ValueError, "its rows must be contiguous and apart"),
    (lambda t: t.put(bytes(32), np.zeros((1, 8), object)), TypeError, "buffers has Python objects"),
    (lambda t: t.put(bytes(32), 3), TypeError, "buffers is int; it must be an array or another buffer"),
    (lambda t: t.put(bytes(32), None), TypeError, "buffers is NoneType"),
    (lambda t: t.get(bytes(32), bytearray(8), page_bytes=9), ValueError, "buffers has 8 bytes for a page; a page has 9"),
    (lambda t: t.get(bytes(32), bytearray(8), page_bytes=0), ValueError, "page_bytes is 0; it must be from 1"),
    (lambda t: t.get(bytes(32), bytearray(8), generations=[1, 2]), ValueError, r"generations is int64 \[2\]; it must be .*pages = 1"),
    (lambda t: t.get(bytes(32), bytearray(8), timeout=-1), ValueError, "timeout is -1.0; it must be at least 0 seconds"),
    (lambda t: t.get(bytes(32), bytearray(8), timeout="x"), TypeError, "timeout is 'x'; it must be a number of seconds"),
    (lambda t: t.exists(bytes(32), lease=float("nan")), ValueError, "lease is nan"),
    (lambda t: t.exists(bytes(32), priority=7), kvcache.InvalidArgumentError, r"priority is 7; priorities are TierPriority.LOAD \(0\)"),
    (lambda t: t.exists(bytes(32), now_ns=-1), OverflowError, "now_ns is -1"),
    (lambda t: t.exists([]), kvcache.InvalidArgumentError, "a job without items"),
    (lambda t: t.counts(9), kvcache.InvalidArgumentError, "kind is 9"),
    (lambda t: t.wait(99), kvcache.NotFoundError, "there is no job 99 of this tier"),
    (lambda t: t.run_one(), kvcache.UnsupportedError, "threads"),
    (lambda t: pickle.dumps(t), TypeError, "a Tier cannot be pickled"),
    (lambda t: kvcache.Tier("memory:?bytes=1MiB", PAGE, b"x"), ValueError, "fingerprint has 1 bytes; it needs 32"),
    (lambda t: kvcache.Tier("memory:?bytes=1MiB", 0), kvcache.InvalidArgumentError, "page_bytes is 0"),
    (lambda t: kvcache.Tier(3, PAGE), TypeError, "url is 3; it must be a str"),
    (lambda t: kvcache.Tier("nowhere:x", PAGE, FINGERPRINT), kvcache.NotFoundError, "nowhere"),
    (lambda t: kvcache.Tier("memory:?bytes=1MiB", PAGE), kvcache.InvalidArgumentError, "the fingerprint is 32 zero bytes"),
    (lambda t: kvcache.Tier("slab:/nowhere/s?bytes=1MiB", PAGE, bytes(32)), kvcache.InvalidArgumentError, r"that of Storage.page_info\(\) \(model"),
    (lambda t: kvcache.Tier("memory:?bytes=much", PAGE), kvcache.InvalidArgumentError, "bytes"),
    (lambda t: kvcache.open_plugin("nowhere"), kvcache.NotFoundError, "Looked for"),
    (lambda t: kvcache.open_plugin("No Where"), kvcache.InvalidArgumentError, "No Where"),
])
def test_wrong_use_is_named_and_changes_nothing(call, error, text):
    with memory() as tier:
        with pytest.raises(error, match=text):
            call(tier)
        assert tier.poll() == [] and not tier._jobs and tier.stats().pages == 0


def test_a_closed_tier_says_so():
    tier = memory()
    job = tier.submit_exists(bytes(32))
    tier.close()
    tier.close()
    assert repr(tier) == "<kvcache.Tier, closed>"
    for call in (tier.poll, tier.fileno, tier.drain, tier.stats, lambda: tier.wait(job), lambda: tier.cancel(job), lambda: tier.exists(bytes(32)),
                 lambda: asyncio.run(tier.aexists(bytes(32)))):
        with pytest.raises(ValueError, match="closed"):
            call()


# ---- jobs

def test_a_completion_says_whose_it_is():
    with memory() as tier:
        mark = object()
        jobs = [tier.submit_put(keys_of(2), pages_of(2), user_data=mark), tier.submit_exists(keys_of(1)), tier.submit_remove(bytes(32))]
        tier.drain()
        done = tier.poll()
        assert sorted(it.job for it in done) == sorted(jobs) and tier.poll() == []
        first = next(it for it in done if it.job == jobs[0])
        assert first.user_data is mark and first.num_ok == 2 and first.results.dtype == np.int32 and (first.generations > 0).all()


def test_the_descriptor_is_readable_as_long_as_there_is_something_to_poll():
    def ready():
        return bool(select.select([tier], [], [], 0)[0])

    with memory() as tier:
        assert not ready()
        mine, other = tier.submit_exists(bytes(32)), tier.submit_exists(bytes(32))
        tier.drain()
        assert ready()
        tier.wait(mine)  # takes both completions
        assert ready()
        assert [it.job for it in tier.poll()] == [other] and not ready()
        third = tier.submit_exists(bytes(32))
        tier.exists(bytes(32))
        tier.wait(third)
        assert not ready()


def test_without_threads_the_caller_does_the_work():
    keys, pages, back = keys_of(3), pages_of(3), np.zeros((3, PAGE), np.uint8)
    with memory("&threads=0") as tier:
        job = tier.submit_put(keys, pages)
        assert tier.poll() == []
        assert [tier.run_one() for _ in range(4)] == [True, True, True, False]
        assert tier.poll()[0].job == job
        assert tier.get(keys, back).num_ok == 3 and np.array_equal(back, pages)
        assert asyncio.run(tier.aexists(keys)).num_ok == 3
        job = tier.submit_exists(keys)
        assert tier.cancel(job) and not tier.cancel(job) and not tier.cancel(10**6)
        assert tier.wait(job).results.tolist() == [PageResult.CANCELLED] * 3
        with pytest.raises(kvcache.NotFoundError):
            tier.wait(job)


def test_what_is_not_begun_in_time_ends_with_timeout():
    with memory("&threads=0") as tier:
        job = tier.submit_exists(keys_of(5), timeout=0.0)
        time.sleep(0.001)
        assert tier.poll()[0].results.tolist() == [PageResult.TIMEOUT] * 5
        job = tier.submit_exists(keys_of(5), timeout=1e-6)
        time.sleep(0.001)
        assert tier.wait(job).results.tolist() == [PageResult.TIMEOUT] * 5


def test_a_wait_that_is_over_leaves_the_job():
    with memory("&threads=0") as tier:
        keys = keys_of(3)
        job = tier.submit_put(keys, pages_of(3))
        with pytest.raises(TimeoutError, match=f"job {job} has not ended yet; it goes on"):
            tier.wait(job, timeout=0.0)
        tier.drain()
        assert tier.wait(job).num_ok == 3


def test_a_full_queue_refuses_and_counts():
    with memory("&threads=0&jobs=4", max_store_bytes=PAGE) as tier:
        with pytest.raises(kvcache.LimitError, match="max_store_bytes"):
            tier.submit_put(keys_of(2), pages_of(2))
        for _ in range(2):
            tier.submit_exists(bytes(32))
        with pytest.raises(kvcache.LimitError, match="max_jobs"):
            tier.submit_put(keys_of(1), pages_of(1))
        tier.submit_exists(bytes(32), priority=TierPriority.PREFETCH)
        stats = tier.stats()
        assert (stats.refused_bytes, stats.refused_stores, stats.waiting_jobs, stats.max_jobs) == (1, 1, 3, 4) and len(tier._jobs) == 3


# ---- who waits

def test_coroutines_get_their_own_results():
    keys, pages = keys_of(40), pages_of(40)

    async def one(tier, i):
        back = np.zeros((1, PAGE), np.uint8)
        done = await tier.aget(keys[i : i + 1], back, timeout=60)
        return done.num_ok == 1 and np.array_equal(back[0], pages[i])

    async def main(tier):
        assert (await tier.aput(keys, pages)).num_ok == 40
        assert all(await asyncio.gather(*(one(tier, i) for i in range(40))))
        assert (await tier.aexists(keys, lease=0.001)).num_ok == 40
        assert (await tier.aremove(keys, now_ns=2**62)).num_ok == 40

    with memory() as tier:
        asyncio.run(main(tier))
        asyncio.run(main(tier))  # in another loop
        assert not tier._watches


def test_a_loop_may_watch_the_descriptor_itself():
    async def main(tier):
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(tier, ended.set)
        job = tier.submit_put(keys_of(2), pages_of(2))
        await tier.aexists(bytes(32))  # whose reader may take both
        done = []
        while not done:  # the descriptor is readable for a moment for the jobs of others
            await ended.wait()
            ended.clear()
            done = tier.poll()
        loop.remove_reader(tier)
        return [it.job for it in done] == [job]

    with memory() as tier:
        for _ in range(20):
            assert asyncio.run(main(tier))


def test_a_cancelled_task_cancels_its_job_and_keeps_the_buffer():
    async def main(tier):
        back = np.zeros((3, PAGE), np.uint8)
        watched = weakref.ref(back)
        task = asyncio.ensure_future(tier.aget(keys_of(3), back))
        del back
        await asyncio.sleep(0)
        assert watched() is not None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
        await tier.aexists(bytes(32))
        tier.drain()
        tier._take_there()
        await asyncio.sleep(0)
        assert not tier._jobs and tier.poll() == []
        gc.collect()
        assert watched() is None

    with memory() as tier:
        asyncio.run(main(tier))


def test_closing_a_tier_wakes_its_coroutines():
    async def main():
        tier = memory()
        tier._has_threads = True
        with tier._lock:  # as long as the loop has not begun to wait
            task = asyncio.ensure_future(tier.aget(keys_of(3), np.zeros((3, PAGE), np.uint8)))
        await asyncio.sleep(0)
        closer = threading.Thread(target=tier.close)
        closer.start()
        try:
            done = await task
            assert done.results.tolist() == [PageResult.MISS] * 3  # it had ended before
        except ValueError as error:
            assert "closed" in str(error)
        closer.join()

    for _ in range(30):
        asyncio.run(main())


def test_each_of_two_polling_threads_gets_what_is_there_once():
    seen, stop = [[], []], threading.Event()

    def work(mine):
        while not stop.is_set() or tier._jobs:
            mine += [it.job for it in tier.poll()]
            select.select([tier], [], [], 0.01)

    with memory() as tier:
        threads = [threading.Thread(target=work, args=(mine,)) for mine in seen]
        for thread in threads:
            thread.start()
        jobs = []
        for _ in range(400):
            try:
                jobs.append(tier.submit_exists(keys_of(3)))
            except kvcache.LimitError:
                time.sleep(0.001)
        stop.set()
        for thread in threads:
            thread.join()
        assert sorted(seen[0] + seen[1]) == jobs


def test_waiting_polling_and_awaiting_at_once_lose_nothing():
    keys, pages = keys_of(64), pages_of(64)
    faults, polled, submitted = [], [], []

    def blocking(seed):
        draw = random.Random(seed)
        for _ in range(60):
            i = draw.randrange(60)
            back = np.zeros((4, PAGE), np.uint8)
            if tier.get(keys[i : i + 4], back).num_ok != 4 or not np.array_equal(back, pages[i : i + 4]):
                faults.append(("get", i))
            if tier.exists(keys[i : i + 2], timeout=60).num_ok != 2:
                faults.append(("exists", i))

    def polling():
        for _ in range(100):
            submitted.append(tier.submit_exists(keys[:3]))
            polled.extend(it.job for it in tier.poll())

    async def awaiting():
        for i in range(60):
            back = np.zeros((4, PAGE), np.uint8)
            if (await tier.aget(keys[i : i + 4], back)).num_ok != 4 or not np.array_equal(back, pages[i : i + 4]):
                faults.append(("aget", i))

    with memory() as tier:
        tier.put(keys, pages)
        threads = [threading.Thread(target=blocking, args=(seed,)) for seed in range(4)]
        threads += [threading.Thread(target=polling), *(threading.Thread(target=lambda: asyncio.run(awaiting())) for _ in range(2))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert not any(thread.is_alive() for thread in threads) and faults == []
        tier.drain()
        polled += [it.job for it in tier.poll()]
        assert sorted(polled) == submitted and not tier._jobs


def test_threads_wait_for_jobs_of_their_own():
    keys, pages = keys_of(8), pages_of(8)

    def work(_):
        jobs = [tier.submit_exists(keys) for _ in range(10)]
        return [tier.wait(job, timeout=60).job for job in reversed(jobs)] == jobs[::-1]

    with memory() as tier, concurrent.futures.ThreadPoolExecutor(6) as threads:
        tier.put(keys, pages)
        assert all(threads.map(work, range(60))) and tier.poll() == []


def test_several_threads_may_close_at_once():
    for _ in range(20):
        tier = memory()
        buffers = [np.zeros((4, PAGE), np.uint8) for _ in range(8)]
        for buffer in buffers:
            tier.submit_put(keys_of(4), buffer)
        with concurrent.futures.ThreadPoolExecutor(3) as threads:
            for closed in [threads.submit(tier.close) for _ in range(3)]:
                closed.result(60)
        assert not tier._jobs and repr(tier) == "<kvcache.Tier, closed>"


def test_closing_wakes_a_thread_that_waits():
    for _ in range(20):
        tier = memory()
        errors = []

        def work():
            try:
                while True:
                    tier.get(keys_of(2), np.zeros((2, PAGE), np.uint8))
            except ValueError as error:
                errors.append(str(error))

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        tier.close()
        for thread in threads:
            thread.join(60)
        assert errors == ["the tier is closed"] * 3


# ---- lives

def test_buffers_live_until_the_job_was_taken_and_no_longer():
    with memory("&threads=0") as tier:
        keys, back = keys_of(3), np.zeros((3, PAGE), np.uint8)
        tier.put(keys, pages_of(3))
        watched = weakref.ref(back)
        tier.submit_get(keys, back)
        del back, keys
        gc.collect()
        assert watched() is not None
        tier.drain()
        assert watched() is not None
        done = tier.poll()
        assert done[0].num_ok == 3 and watched() is None


def test_a_bytearray_cannot_be_resized_while_the_library_uses_it():
    with memory("&threads=0") as tier:
        buffer = bytearray(PAGE)
        tier.submit_get(bytes(32), buffer)
        with pytest.raises(BufferError):
            buffer.extend(b"x" * 10**6)
        tier.drain()
        tier.poll()
        buffer.extend(b"x")


def test_a_tier_that_is_dropped_ends_its_jobs_before_its_buffers():
    for turn in range(50):
        tier = memory(f"&threads={turn % 5}")
        watched = []
        for _ in range(8):
            buffer = np.zeros((4, PAGE), np.uint8)
            watched.append(weakref.ref(buffer))
            tier.submit_put(keys_of(4), pages_of(4))
            tier.submit_get(keys_of(4), buffer)
        del buffer
        if turn % 2:
            tier.close()
        del tier
        assert not any(ref() is not None for ref in watched)


def test_objects_and_descriptors_are_left_to_nobody():
    def life():
        with memory() as tier:
            tier.fileno()
            tier.put(keys_of(2), pages_of(2))
            asyncio.run(tier.aget(keys_of(2), np.zeros((2, PAGE), np.uint8)))

    life()
    gc.collect()
    objects, open_files = _native.kvc_live_objects(), len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        life()
    gc.collect()
    assert _native.kvc_live_objects() == objects and len(os.listdir("/proc/self/fd")) == open_files


def test_garbage_is_collected_while_jobs_run():
    keys, pages = keys_of(8), pages_of(8)
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        with memory() as tier:
            tier.put(keys, pages)
            for _ in range(100):
                buffer = np.zeros((8, PAGE), np.uint8)
                cycle = [buffer]
                cycle.append(cycle)
                tier.submit_get(keys, buffer)
                del buffer, cycle
                [np.full(PAGE, 255, np.uint8) for _ in range(8)]  # in the place of what was freed too early
                for done in tier.poll():
                    assert done.num_ok == 8
            tier.drain()
    finally:
        gc.set_threshold(*before)


def in_a_fork(tier, results):
    try:
        tier.stats()
    except ValueError as error:
        results.put(str(error))
    del tier
    gc.collect()


def test_a_fork_may_not_use_the_tier_and_ends():
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    with memory() as tier:
        child = context.Process(target=in_a_fork, args=(tier, results))
        child.start()
        assert "of which this is a fork: open it after the fork" in results.get()
        child.join(60)
        assert child.exitcode == 0
        assert tier.exists(bytes(32)).num_ok == 0


def test_an_interrupt_after_a_poll_loses_nothing(monkeypatch):
    real = _native.kvc_tier_poll

    def interrupted(*arguments):
        monkeypatch.setattr(_native, "kvc_tier_poll", real)
        real(*arguments)
        raise KeyboardInterrupt

    with memory() as tier:
        job = tier.submit_put(keys_of(1), pages_of(1))
        tier.drain()
        monkeypatch.setattr(_native, "kvc_tier_poll", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tier.poll()
        assert [done.job for done in tier.poll()] == [job]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", ["write", "read"])
def test_an_interrupt_in_a_signal_leaves_it_usable(monkeypatch, call, when):
    signal, real = Signal(), getattr(os, call)
    assert not os.get_blocking(signal.reader), "it would wait with the tier's lock"

    def interrupted(*arguments):
        if when == "after":
            real(*arguments)
        raise KeyboardInterrupt

    def is_set():
        return bool(select.select([signal.reader], [], [], 0)[0])

    for wanted in (False, True):
        signal.set(call == "read")
        with monkeypatch.context() as patch:
            patch.setattr(os, call, interrupted)
            with pytest.raises(KeyboardInterrupt):
                signal.set(call == "write")
        signal.set(wanted)
        assert is_set() == wanted
        signal.set(not wanted)
        assert is_set() != wanted
    signal.close()


def in_another_process(url, keys, results):
    with kvcache.Tier(url, PAGE, FINGERPRINT) as tier:
        back = np.zeros((len(keys), PAGE), np.uint8)
        results.put((tier.get(keys, back).num_ok, back.tobytes()))


def test_a_spawned_process_opens_the_folder_itself(tmp_path):
    context = multiprocessing.get_context("spawn")
    results, keys, pages = context.SimpleQueue(), keys_of(2), pages_of(2)
    url = f"dir:{tmp_path}/pages?bytes=1MiB"
    with kvcache.Tier(url, PAGE, FINGERPRINT) as tier:
        tier.put(keys, pages)
        child = context.Process(target=in_another_process, args=(url, keys, results))
        child.start()
        assert results.get() == (2, pages.tobytes())
        child.join(60)
        with pytest.raises(TypeError, match="pickled"):
            context.Process(target=in_another_process, args=(tier, keys, results)).start()


def test_the_item_of_numpy_is_that_of_c():
    wanted = {"key": 0, "data": 32, "bytes": 40, "runs": 48, "num_runs": 56, "generation": 64, "lease_until_ns": 72, "result": 80, "reserved": 84}
    assert {name: item_type().fields[name][1] for name in item_type().names} == wanted and item_type().itemsize == 88
    with memory("&threads=0") as tier, pytest.raises(ValueError, match="items has 87 bytes; it must be whole records of 88 bytes"):
        _native.kvc_tier_submit(tier._t, np.zeros(87, np.uint8), 0, 0, 0, 0, 0, 0)


def test_the_example_of_the_manual_runs():
    text = (pathlib.Path(__file__).parents[3] / "docs" / "PYTHON.md").read_text(encoding="utf-8")
    section = re.search(r"^## Tiers\n(.*?)^## What to keep", text, re.M | re.S)[1]
    tiers, offload, checkpoints = re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)
    names = {}
    exec(compile(tiers, "PYTHON.md", "exec"), names)
    assert names["found"].tolist() == [True] * 6 and names["storage"].gather(np.array([names["blocks"][5] * 16 + 3], np.int64))[0].min() == 1
    exec(compile(offload, "PYTHON.md", "exec"), names)
    assert repr(names["offload"]) == "<kvcache.Offload, closed>"
    with names["manager"].allocate(names["prompt"]) as request:
        request.commit(100)
    exec(compile(checkpoints, "PYTHON.md", "exec"), names)
    assert names["restored"].info.num_blocks == 6 and names["new"].probe(names["prompt"]).num_cached == 96


def test_passwords_of_a_url_are_not_shown():
    from kvcache._tier_jobs import shown_url
    for url, shown in (("redis://user:secret@host:6379/0?prefix=a", "redis://...@host:6379/0?prefix=a"), ("redis://:se?cret@host/0", "redis://...@host/0"),
                       ("slab:/path?bytes=1MiB", "slab:/path?bytes=1MiB"), ("redis://host/0", "redis://host/0"), ("redis://a@b:c@host", "redis://...@host")):
        assert shown_url(url) == shown


def test_a_lease_without_end_is_a_lease():
    with kvcache.Tier("memory:?bytes=1MiB&threads=0", 64, b"f" * 32) as tier:
        keys = [b"k" * 32]
        tier.put(keys, [bytearray(64)])
        for lease in (float("inf"), 2e9, 1):
            assert tier.exists(keys, lease=lease, now_ns=5).lease_until[0] > 5 + 10**8
        assert tier.exists(keys, now_ns=5).lease_until[0] == 0
