# SPDX-License-Identifier: Apache-2.0
"""Calls of checkpoints, files of tiers, and Offload."""

import contextlib
import os
import pathlib
import tempfile

import numpy as np

import kvcache
from kvcache import OffloadState
from world import BLOCK, DIM, HEADS, call, need

NAMES = dict(model=b"m", weights=b"w")
BLOCKS = 12
PROMPT = np.arange(3, 15, dtype=np.int32)


def folder(w):
    return w.rng.choice((f"{w.folder}/c", pathlib.Path(w.folder) / "c", f"{w.folder}/c", f"{w.folder}/{w.rng.randrange(3)}", "", "a\0b", "/nowhere/x", 3, None, b"x"))


def names(w):
    if w.rng.random() < 0.8:
        return dict(NAMES)
    return {"model": w.rng.choice((b"m", w.array(np.zeros(3, np.uint8)), b"", "m", None)), "weights": w.rng.choice((b"w", "w", 3)), "numerics": w.rng.choice((b"", b"x", None, 3))}


def options(w, *of):
    return {name: w.rng.choice((True, False, True, False, None, "x")) if name in ("full", "increment", "requests", "sync", "bytes_elsewhere", "promote") else w.number(0)
            for name in of if w.rng.random() < 0.15}


def made():
    """A manager with something cached, and its storage."""
    m = kvcache.Manager(BLOCKS, BLOCK, event_capacity=64)
    with m.allocate(PROMPT) as request:
        request.commit(len(PROMPT))
    return m, kvcache.Storage(BLOCKS, 1, HEADS, DIM, dtype="float32", block_size=BLOCK)


def storages(w, s):
    return w.rng.choice((s, [s], (s,), s, [s], [None], [], [s, s], None, 3, [3], "s", w.storages))


def ensure(w):
    """There is a checkpoint."""
    m, s = made()
    if not os.path.isdir(f"{w.folder}/c") or not kvcache.list_checkpoints(f"{w.folder}/c"):
        kvcache.save_checkpoint(m, s, f"{w.folder}/c", **NAMES, sync=False)
    return m, s


@call("save_checkpoint")
def save(w):
    m, s = made()
    info = kvcache.save_checkpoint(w.rng.choice((m, m, m, m, None, w.m, 3)), storages(w, s), folder(w), **names(w),
                                   **options(w, "level", "full", "increment", "requests", "interval_ns", "last_ns", "now_ns", "num_layers", "first_head"),
                                   sync=False, keep_last=2, codec=w.rng.choice(("none", "none", "none", "absent", "", None, 3)))
    need(info.id == 0 or info.num_groups > 0, "a checkpoint")


@call("restore_checkpoint")
def restore(w):
    saved, _ = ensure(w)
    m, s = kvcache.Manager(BLOCKS, BLOCK), kvcache.Storage(BLOCKS, 1, HEADS, DIM, dtype="float32", block_size=BLOCK)
    restored = kvcache.restore_checkpoint(w.rng.choice((m, m, m, m, saved, None, w.m)), storages(w, s), folder(w), **names(w),
                                          **options(w, "id", "requests", "bytes_elsewhere", "num_heads", "first_layer"))
    for it in (*restored.requests.values(), *restored.namespaces.values()):
        it.close()
    m.check()


@call("measure_checkpoint")
def measure(w):
    m, s = made()
    needs = kvcache.measure_checkpoint(w.rng.choice((m, m, m, None, w.m, 3)), storages(w, s), folder(w), **names(w),
                                       **options(w, "full", "increment", "requests", "num_layers"))
    need(needs.full_bytes >= needs.new_bytes or needs.new_pages > needs.num_pages, "bytes")


@call("save_stream")
@call("restore_stream")
def stream(w):
    m, s = made()
    with tempfile.TemporaryFile() as file:
        kvcache.save_stream(w.rng.choice((m, m, m, m, None, 3)), storages(w, s), w.rng.choice((file, file, file.fileno(), None, -1, "f", 2**40)),
                            **names(w), **options(w, "level", "requests"))
        file.seek(w.rng.choice((0, 0, 0, 5)))
        new = kvcache.Manager(BLOCKS, BLOCK)
        restored = kvcache.restore_stream(new, storages(w, s), file, **names(w), **options(w, "requests", "bytes_elsewhere", "cache_only"))
        for it in (*restored.requests.values(), *restored.namespaces.values()):
            it.close()
        new.check()


@call("Manager.save")
@call("Manager.restore")
def of_manager(w):
    m, s = made()
    m.save(f"{w.folder}/m", storages(w, s), **names(w), sync=False)
    new = kvcache.Manager(BLOCKS, BLOCK)
    new.restore(f"{w.folder}/m", storages(w, s), **names(w))
    new.check()


@call("collect_checkpoints")
def collect(w):
    ensure(w)
    kvcache.collect_checkpoints(folder(w), w.number(0))


@call("list_checkpoints")
@call("checkpoint_info")
@call("validate_checkpoint")
def info(w):
    ensure(w)
    need(kvcache.checkpoint_info(folder(w), w.number(0)).num_groups > 0, "a group")
    need(kvcache.validate_checkpoint(folder(w), w.number(0)).num_groups > 0, "a group")
    kvcache.list_checkpoints(folder(w))


@call("remove_checkpoint")
@call("compact_checkpoint")
def remove(w):
    ensure(w)
    new = kvcache.compact_checkpoint(folder(w), w.number(0), sync=False, **options(w, "level", "keep_last"))
    kvcache.remove_checkpoint(folder(w), w.number(new.id))


@call("page_file_info")
def page_file_info(w):
    path = f"{w.folder}/slab"
    with kvcache.Tier(f"slab:{path}?bytes=64KiB", 256, b"1" * 32) as tier:
        tier.put([bytes(32)], np.ones((1, 256), np.uint8))
    need(kvcache.page_file_info(path, True).num_pages == 1, "a page")
    kvcache.page_file_info(w.rng.choice((path, pathlib.Path(path), __file__, "", None, 3, b"x", "a\0b", "/dev/null", w.folder)), w.rng.choice((0, 1, None)))


@call("page_file_parts")
def page_file_parts(w):
    path = f"{w.folder}/parts"
    for number in range(2):
        with kvcache.Tier(f"slab:{path}?bytes=64KiB", 256, bytes([number + 1]) * 32) as tier:
            tier.put([bytes(32)], np.ones((1, 256), np.uint8))
    parts = kvcache.page_file_parts(path, True)
    need([p.fingerprint[0] for p in parts] == [1, 2] and all(p.num_pages == 1 for p in parts), "two parts")
    kvcache.page_file_parts(w.rng.choice((path, __file__, "", None, 3, "/dev/null", w.folder)), w.rng.choice((0, 1, None)))


@call("purge_page_file")
def purge_page_file(w):
    path = f"{w.folder}/purged"
    with kvcache.Tier(f"slab:{path}?bytes=64KiB", 256, bytes(31) + b"1") as tier:
        tier.put([bytes(32)], np.ones((1, 256), np.uint8))
    need(kvcache.purge_page_file(path, bytes(31) + b"1").num_pages == 1 and kvcache.page_file_info(path).num_pages == 0, "it is gone")
    kvcache.purge_page_file(w.rng.choice((path, __file__, "", None, 3, "/dev/null", w.folder)), w.rng.choice((bytes(32), b"", None, 3)))


def offload_of(w):
    m, s = made()
    page = s.page_info(b"m", b"w")
    tier = kvcache.Tier("memory:?bytes=64KiB", page.page_bytes, page.fingerprint)
    return m, s, tier, kvcache.Offload(m, s, tier, b"m", b"w", policy=w.rng.randrange(8))


@call("Offload")
@call("Offload.close")
def offload(w):
    """With work on the way, closed in any order."""
    m, s = made()
    page = s.page_info(b"m", b"w")
    tier = kvcache.Tier("memory:?bytes=64KiB", page.page_bytes, page.fingerprint)
    one = kvcache.Offload(w.rng.choice((m, m, m, m, None, w.m)), storages(w, s), w.rng.choice((tier, [tier], (tier,), [tier], [tier, tier], [], [3], 3, None, "memory:?bytes=64KiB", ["memory:?bytes=64KiB", tier], "nowhere:")), **names(w),
                          **options(w, "policy", "promote", "num_pages", "max_lookups", "max_lookup_blocks", "clean_blocks", "timeout_ns", "hold_ns", "compute_ns_per_token",
                                    "min_load_tokens", "retry_ns"))
    with m.allocate(PROMPT + 20) as request:
        request.commit(len(PROMPT))
    one.poll()
    things = [m, s, tier, one]
    w.rng.shuffle(things)
    for it in things[: w.rng.randrange(5)]:
        it.close()
    del m, s, tier, one, things, request
    w.later()


@call("Manager")
def manager_with_offload(w):
    m, s = made()
    m.close()
    place = w.rng.choice(("memory:?bytes=64KiB", ["memory:?bytes=64KiB"] * 2, "nowhere:", [], "", 3, [3], None))
    with kvcache.Manager(8, 4, offload=place, storages=w.rng.choice((s, [s], [], None, 3, [3], w.number(0))), **names(w)) as own:
        with own.allocate(PROMPT) as request:
            request.commit(len(PROMPT))
        need(own.offload is None or own.offload.flush(), "a flush without a limit")


@call("Offload.poll")
@call("Offload.lookup")
@call("Offload.query")
@call("Offload.cancel")
def lookup(w):
    m, s, tier, one = offload_of(w)
    request = m.create(PROMPT + w.rng.randrange(3))
    with contextlib.ExitStack() as ends:
        for it in (m, s, tier, one):
            ends.callback(it.close)
        one.lookup(request)
        one.lookup(w.number(request.id), w.rng.choice((None, w.number(0))))
        for _ in range(w.rng.randrange(20)):
            one.poll(stream=w.rng.choice((None, w.stream)))
        need(one.query(request).state in OffloadState, "a state")
        one.query(w.number(request.id))
        one.cancel(w.number(request.id))
        one.poll(w.number(0), stream=None)
        request.close()


@call("Offload.store_request")
@call("Offload.stats")
@call("Offload.tier_stats")
@call("Offload.fileno")
def store_request(w):
    m, s, tier, one = offload_of(w)
    with contextlib.ExitStack() as ends:
        for it in (one, tier, s, m):
            ends.callback(it.close)
        with m.allocate(PROMPT) as request:
            request.commit(len(PROMPT))
            need(one.store_request(request) == 3, "three blocks")
            one.poll()
            os.fstat(one.fileno())
            need(one.stats().waiting_blocks <= 3 and one.tier_stats().misses >= 0, "counters")
            repr(one)
            one.tier_stats(w.number(0))
            one.store_request(w.number(request.id))


@call("Offload.admit")
@call("Offload.flush")
def admit(w):
    m, s = made()
    with kvcache.Offload(m, s, "memory:?bytes=64KiB", b"m", b"w", policy=w.rng.randrange(8)) as one:
        with m.create(PROMPT) as request:
            one.admit(w.rng.choice((request, request, request, w.number(1))), w.rng.choice((None, 0, 10, w.number(1))))
            request.commit(len(PROMPT))
        need(one.flush(), "a flush without a limit")
        one.flush(w.rng.choice((0, 10, w.number(1))))


@call("Publisher")
@call("Publisher.close")
@call("Publisher.poll")
@call("Publisher.resync")
@call("Publisher.read")
@call("Publisher.name_namespace")
@call("Publisher.stats")
def publisher(w):
    def mostly(good, *bad):
        return w.rng.choice((*good, *good, *good, *good, *bad))

    m = kvcache.Manager(16, 4, event_capacity=mostly((64, 64, 8), 0))
    texts = ("", "kv@pod"), "x" * 300, None, 3
    names = texts[0] * 4 + texts[1:]
    one = kvcache.Publisher(
        mostly((m, m), None, w.m), mostly((None, None), "", "nothere:x", ":", 3), topic=mostly(*texts), medium=mostly(*texts),
        hash=mostly(("digest", "vllm", "sglang"), "?", None), hash_seed=mostly(*texts), thread=w.rng.random() < 0.3,
        arrays=w.rng.random() < 0.5, bytes_hashes=w.rng.random() < 0.5, rank=mostly((0, None), w.number(1)), name_groups=w.rng.random() < 0.8,
        groups=mostly(((), (0,)), (1,), (64,), (-1,), 3), max_blocks=mostly((0, 1, 5), w.number(1)), interval_ns=mostly((0, 1), w.number(0)),
        replay_batches=mostly((0, 1, 3), w.number(1)), replay_bytes=mostly((0, 1 << 20), w.number(0)), resync_interval_ns=mostly((0, 1), w.number(0)))
    with m.allocate(PROMPT) as request:
        request.commit(len(PROMPT))
    if w.rng.random() < 0.5:
        one.name_namespace(w.number(0), lora_name=w.rng.choice(names), lora_path=w.rng.choice(names), cache_salt=w.rng.choice(names))
    need(one.poll() <= 64, "a few batches")
    if w.rng.random() < 0.5:
        one.resync()
        one.poll()
    number, batch = one.read()
    need(number < one.stats().next_sequence and batch, "a batch")
    one.read(w.number(0))
    if w.rng.random() < 0.5:
        m.close()
    one.close()
    one.close()
