# SPDX-License-Identifier: Apache-2.0
"""Calls of Tier and of pages. Buffers are dropped while jobs that use them are on the way; what comes back must be what was put."""

import asyncio
import contextlib
import os
import select

import numpy as np

import kvcache
from kvcache import PageResult
from world import BLOCK, TIER_PAGE, call, need

COUNT = 5
KEYS = np.arange(COUNT * 32, dtype=np.uint8).reshape(COUNT, 32)
OTHERS = 255 - KEYS  # of pages with hostile contents
PAGES = np.repeat(np.arange(1, COUNT + 1, dtype=np.uint8), TIER_PAGE).reshape(COUNT, TIER_PAGE)


def keys_of(w, base=KEYS):
    count = w.rng.randrange(1, COUNT + 1)
    good = base[:count].copy()
    if w.rng.random() < 0.3:
        return count, w.rng.choice(([bytes(key) for key in good], good.tobytes(), [bytes(31)], [w.array(good[0])], 5, None, "keys"))
    return count, w.array(good)


def buffers_of(w, count, written):
    good = np.zeros((count, TIER_PAGE), np.uint8) if written else PAGES[:count].copy()
    if w.rng.random() < 0.3:
        return [w.array(row.copy(), written) for row in good] if w.rng.random() < 0.7 else w.rng.choice((None, 3, [], [None], "x", [bytearray(9)] * count))
    return w.array(good, written)


def options_of(w, *more):
    options = {}
    for name in ("timeout", "priority", "now_ns", *more):
        if w.rng.random() < 0.15:
            options[name] = {"timeout": lambda: w.h.real(5.0), "priority": lambda: w.number(0), "now_ns": lambda: w.number(1), "lease": lambda: w.h.real(0.001),
                             "generations": lambda: w.array(np.zeros(COUNT, np.uint64)), "page_bytes": lambda: w.number(TIER_PAGE),
                             "runs": lambda: w.array(np.array([[0, 8], [16, 8]], np.uint64))}[name]()
    return options


def checked(done, buffers, options):
    """Of a get that is over: what was found is what was put."""
    if type(buffers) is np.ndarray and buffers.shape == (len(done.results), TIER_PAGE) and buffers.dtype == np.uint8 and "runs" not in options and "page_bytes" not in options:
        for row, result in zip(buffers, done.results.tolist()):
            need(result != PageResult.OK or row[0] and (row == row[0]).all(), "other bytes than were put")
    need(done.num_ok == int((done.results == PageResult.OK).sum()), "num_ok")


def full(w):
    """The tier has the pages, and room for jobs."""
    for done in w.tier.poll():
        need(PageResult.WAITING not in done.results.tolist(), "a job that has not ended")
    if w.rng.random() < 0.3:
        w.tier.put(KEYS, PAGES)


@call("Tier")
@call("Tier.close")
def tier(w):
    """With work on the way."""
    url = w.rng.choice(("memory:?bytes=16KiB", "memory:?bytes=16KiB&threads=0", f"dir:{w.folder}/{w.rng.randrange(4)}?bytes=64KiB", "memory:", "x", "?", "", 3, None, b"memory:", "dir:\0"))
    made = kvcache.Tier(url, w.number(TIER_PAGE), w.rng.choice((b"1" * 32, b"1" * 32, w.array(np.ones(32, np.uint8)), bytes(32), b"x")), max_store_bytes=w.number(0))
    with contextlib.suppress(kvcache.LimitError):  # max_store_bytes
        made.submit_put(KEYS, np.full((COUNT, TIER_PAGE), 170, np.uint8))
    made.submit_get(KEYS, np.zeros((COUNT, TIER_PAGE), np.uint8))
    if w.rng.random() < 0.5:
        made.close()
    del made
    w.later()


@call("Tier.url")
@call("Tier.page_bytes")
@call("Tier.stats")
@call("Tier.fileno")
def state(w):
    need(w.tier.url.startswith("memory:") and w.tier.page_bytes == TIER_PAGE, "what was given")
    need(w.tier.stats().capacity_pages > 0, "a stat")
    repr(w.tier)
    select.select([w.tier], [], [], 0)
    os.fstat(w.tier.fileno())


@call("Tier.submit_get")
def submit_get(w):
    full(w)
    count, keys = keys_of(w)
    buffers, options = buffers_of(w, count, True), options_of(w, "runs", "generations", "page_bytes")
    w.tier.submit_get(keys, buffers, **options, user_data=buffers)
    del buffers, keys, options
    w.later()


@call("Tier.submit_put")
def submit_put(w):
    full(w)
    count, keys = keys_of(w, OTHERS)
    w.tier.submit_put(keys, buffers_of(w, count, False), **options_of(w))


@call("Tier.submit_exists")
@call("Tier.poll")
def submit_exists(w):
    full(w)
    job = w.tier.submit_exists(keys_of(w)[1], **options_of(w, "lease"))
    w.tier.drain()
    need(job in [done.job for done in w.tier.poll()], "a job that was drained")


@call("Tier.submit_remove")
def submit_remove(w):
    full(w)
    w.tier.submit_remove(keys_of(w)[1], **options_of(w))


@call("Tier.wait")
def wait(w):
    full(w)
    count, keys = keys_of(w)
    buffers = buffers_of(w, count, True)
    job = w.tier.submit_get(keys, buffers)
    with contextlib.suppress(TimeoutError):
        checked(w.tier.wait(w.number(job), w.rng.choice((None, None, 60.0, w.h.real(60.0)))), buffers, {})


@call("Tier.cancel")
def cancel(w):
    full(w)
    count, keys = keys_of(w)
    w.tier.cancel(w.number(w.tier.submit_get(keys, buffers_of(w, count, True))))


@call("Tier.drain")
@call("Tier.run_one")
def run_one(w):
    with kvcache.Tier("memory:?bytes=16KiB&threads=0", TIER_PAGE, b"1" * 32) as own:
        own.submit_exists(keys_of(w)[1])
        need(own.run_one() and not own.run_one(), "one call")
        own.submit_exists(KEYS)
        own.drain()
        need(own.poll()[-1].num_ok == 0, "nothing is there")


@call("Tier.get")
def get(w):
    full(w)
    count, keys = keys_of(w)
    buffers, options = buffers_of(w, count, True), options_of(w, "runs", "generations", "page_bytes")
    checked(w.tier.get(keys, buffers, **options), buffers, options)


@call("Tier.put")
def put(w):
    full(w)
    count, keys = keys_of(w, OTHERS)
    w.tier.put(keys, buffers_of(w, count, False), **options_of(w))


@call("Tier.exists")
def exists(w):
    w.tier.exists(keys_of(w)[1], **options_of(w, "lease"))


@call("Tier.remove")
def remove(w):
    w.tier.remove(keys_of(w)[1], **options_of(w))


@call("Tier.aget")
@call("Tier.aput")
@call("Tier.aexists")
@call("Tier.aremove")
def coroutines(w):
    full(w)
    count, keys = keys_of(w)
    buffers, options = buffers_of(w, count, True), options_of(w, "runs", "generations")

    async def all_of_them():
        await w.tier.aput(KEYS, PAGES)
        checked(await w.tier.aget(keys, buffers, **options), buffers, options)
        await w.tier.aexists(keys, **options_of(w, "lease"))
        await w.tier.aremove(keys, **options_of(w))

    async def cut_off():
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(all_of_them(), w.rng.choice((0, 0.0001, 60)))

    asyncio.run(w.rng.choice((all_of_them, cut_off))())


@call("open_plugin")
def open_plugin(w):
    with contextlib.suppress(kvcache.NotFoundError):
        kvcache.open_plugin(w.rng.choice(("absent", "absent", "No", "", 3, None, "x" * 99, "a/b", "a\0b")), w.rng.choice((None, "/nowhere", "/dev/null", 3, "")))


@call("page_key")
@call("page_keys")
def page_keys(w):
    digests, fingerprint = w.array(KEYS.copy()), w.array(np.zeros(32, np.uint8))
    keys = kvcache.page_keys(digests, w.number(0), fingerprint)
    if digests is KEYS:
        need(kvcache.page_key(bytes(KEYS[1]), 0, fingerprint) == bytes(keys[1]), "one of them")
    kvcache.page_key(w.array(np.zeros(32, np.uint8)), 0, bytes(32))


def text(w):
    return w.rng.choice((b"name", b"name", b"name", w.array(np.zeros(7, np.uint8)), b"", "text", None, 3))


@call("Storage.page_info")
@call("Storage.page_runs")
def page_info(w):
    s, arguments = w.storage(), (text(w), text(w), text(w) or b"")
    place = {name: w.number(0) for name in ("num_layers", "num_heads", "first_layer", "first_head") if w.rng.random() < 0.2}
    info, runs = s.page_info(*arguments, **place), s.page_runs(*arguments, **place)
    need(int(runs[:, 1].sum()) == info.part_bytes <= info.page_bytes, "runs are the part")


@call("Storage.pack_pages")
@call("Storage.unpack_pages")
def pack_pages(w):
    s, blocks = w.storages[0], np.array(w.rng.sample(range(12), 3), np.int32)
    size = s.page_info(b"m", b"w").part_bytes
    w.stream.synchronize()
    given, pages, stride = w.array(blocks), w.array(np.full((3, size), 5, np.uint8), True), w.number(0)
    s.pack_pages(given, pages, stride)
    s.unpack_pages(given, pages, stride)
    slots = blocks[0] * BLOCK + np.arange(BLOCK)
    before = s.gather(slots)[0]
    s.pack_pages(given, pages, stride)
    need(np.array_equal(before, s.gather(slots)[0], equal_nan=True), "packing changed a block")
