# SPDX-License-Identifier: Apache-2.0
"""Calls of Manager, Request, Pin and Namespace."""

import contextlib

import numpy as np

import kvcache
from kvcache import _native
from kvcache.events import EventReader
from hostile import mischief
from world import BLOCKS, Wrong, call, need


@call("Manager")
def manager(w):
    groups = w.rng.choice(((), [kvcache.Group()], [kvcache.Group(w.number(8), w.number(0))], iter([kvcache.Group()]), 5, [3]))
    pools = w.rng.choice((w.number(8), [w.number(8)], np.array([8, 8]), "x", Pools()))
    if any(isinstance(n, int) and not -1 <= n < 1 << 16 for n in (pools if isinstance(pools, list) else [pools])):
        pools = 4
    with kvcache.Manager(pools, w.rng.choice((4, w.number(4))), groups=groups, max_requests=w.rng.choice((4, 0, -1)), vocab_size=w.number(9)) as m:
        m.check()


class Pools:
    """Claims one pool, and has more."""

    def __len__(self):
        return 1

    def __iter__(self):
        return iter([4] * 100)

    def __getitem__(self, i):
        return [4] * 100


@call("Manager.close")
def close_manager(w):
    m = kvcache.Manager(4)
    m.close(), m.close()
    with contextlib.suppress(ValueError):
        m.check()
        raise Wrong("a closed manager answers")


@call("Manager.request")
def request(w):
    w.m.request(w.any_request_id())


@call("Manager.requests")
def requests(w):
    need(sorted(w.m.requests()) == sorted(r.id for r in w.requests), "other requests")


@call("Manager.block_tables")
def block_tables(w):
    known = [r for r in w.requests if r.info.admitted]
    if not known:
        w.added(w.m.allocate([1, 2]))
        known = w.requests[-1:]
    some = [w.rng.choice(known) for _ in range(3)]
    out = w.array(np.full((3, 20), -7, np.int32), True)
    w.m.block_tables(w.array(np.array([r.id for r in some], np.uint64)), out, w.number(0), w.number(-1))
    if isinstance(out, np.ndarray) and type(out) is np.ndarray:
        need(not (out == -7).any(), "entries were not written")


@call("Manager.admit_batch")
def admit_batch(w):
    batch = [w.request() for _ in range(w.rng.randrange(4))]
    statuses = w.rng.choice((None, w.array(np.full(len(batch), -7, np.int32), True)))
    hits = w.m.admit_batch(w.rng.choice((batch, tuple(batch), [w.number(3)], w.number(3))) if w.rng.random() < 0.1 else batch, statuses)
    need(len(hits) == len(batch) and all(r.info.admitted for r in batch), "not all were admitted")


@call("Manager.allocate_batch")
def allocate_batch(w):
    prompts = [w.tokens(20) for _ in range(w.rng.randrange(4))]
    before = sorted(w.m.requests())
    try:
        made = w.m.allocate_batch(prompts, **w.options())
    except Exception:
        need(sorted(w.m.requests()) == before, "a failed call left requests")
        raise
    for request in made:
        w.added(request)


@call("Manager.common_prefix")
def common_prefix(w):
    some = [w.request() for _ in range(w.rng.randrange(4))]
    w.m.common_prefix(w.array(np.array([r.id for r in some], np.uint64)), w.number(0))


@call("Manager.rebuild")
def rebuild(w):
    m = w.rng.choice((w.m, kvcache.Manager(4, 4)))  # the first one mostly has requests
    made = m.rebuild(w.rng.choice((4, 8, 0, -1)), w.rng.choice((0, 1, 6, 1024, w.number(4))))
    made.manager.check()
    for namespace in made.namespaces.values():
        namespace.close()
    made.manager.close()


@call("Manager.resize")
def resize(w):
    w.m.resize(w.rng.choice((BLOCKS, BLOCKS, 96, 100, w.number(90))), w.number(1))


@call("Manager.namespace")
def namespace(w):
    part = w.rng.choice((None, b"", b"abc", bytearray(3), "text", 4, np.zeros(3), np.zeros((3, 2))[:, 0], memoryview(b"abcd")[::2]))
    w.m.namespace(part, adapter=b"x").close()


@call("Manager.probe_request")
def probe_request(w):
    with contextlib.closing(w.m.create(w.ids(9), lookahead=2)) as r:
        need(w.m.probe_request(r) == w.m.probe_request(r.id), "two answers")
        w.m.probe_request(w.rng.choice((r.id, w.number(1))))


@call("Manager.pins")
def pins(w):
    need(len(w.m.pins()) >= len(w.pins), "pins are missing")


@call("Manager.open_curve")
@call("Manager.close_curve")
@call("Manager.hit_rates")
@call("Manager.curve")
def curve(w):
    namespace = w.any_namespace()
    try:
        w.m.open_curve(namespace, sample_rate=w.rng.choice((0.0, 0.5, 1.0, -1.0, float("nan"), None)), max_samples=w.rng.choice((0, 1, 64, 1 << 40, -1)),
                       max_blocks=w.rng.choice((0, 1, 64, 1 << 40)), half_life=w.number(9))
    except kvcache.BusyError:
        pass
    rates = w.m.hit_rates(w.array(np.array([0, 1, 1], np.uint64)), namespace)
    need(rates.tolist() == sorted(rates.tolist()), "a curve that falls")
    need(w.m.curve(namespace).queries >= 0, "queries")
    if w.rng.random() < 0.5:
        w.m.close_curve(namespace)


@call("Manager.prefixes")
@call("Prefixes.__iter__")
def prefixes(w):
    for event in w.m.prefixes():
        need(len(event.tokens) == event.num_tokens, "tokens are missing")


@call("Prefixes.event_cursor")
def event_cursor(w):
    found = w.m.prefixes()
    if w.rng.random() < 0.5:
        list(found)
    need(found.event_cursor >= 0, "a cursor")


@call("Manager.pin")
def pin(w):
    prompt = w.ids(9)
    with contextlib.closing(w.m.allocate(prompt)) as r:
        r.commit(9)
    w.pins.append(w.m.pin(w.array(prompt), w.keys(), w.any_namespace()))
    if len(w.pins) > 3:
        w.pins.pop(0).close()


def name(w):
    return w.rng.choice(("a", "a", "b", "", "n" * 256, "a\0b", "\udcff", b"a", 5, None))


@call("Manager.allocate_from_prompt")
def allocate_from_prompt(w):
    options = w.options()
    options.pop("namespace", None)
    w.added(w.m.allocate_from_prompt(name(w), w.tokens(), **options))


@call("Manager.acquire_blocks")
def acquire_blocks(w):
    w.held += w.m.acquire_blocks(w.number(2), w.number(0)).tolist()


@call("Manager.acquire_prefix")
def acquire_prefix(w):
    w.held += [b for b in w.m.acquire_prefix(w.tokens(), w.keys(), w.any_namespace(), w.number(0)).tolist() if b >= 0]


@call("Manager.publish_blocks")
def publish_blocks(w):
    blocks = w.m.acquire_blocks(2)
    w.held += blocks.tolist()
    w.m.publish_blocks(w.array(w.ids(8)), w.array(blocks), w.keys(), w.any_namespace())


@call("Manager.release_blocks")
def release_blocks(w):
    count = w.rng.randrange(len(w.held) + 1)
    given, w.held = np.array(w.held[:count], np.int32), w.held[count:]
    w.m.release_blocks(w.array(given))


@call("Manager.stats")
def stats(w):
    need(w.m.stats.blocks_total == w.m.pool_info(0).num_blocks + w.m.pool_info(1).num_blocks, "blocks_total")


@call("Manager.take_log")
def take_log(w):
    try:
        log = w.m.take_log()
    except kvcache.UnsupportedError:
        return
    need(isinstance(log, bytes), "bytes")


@call("Manager.events")
def events(w):
    for event in w.m.events(w.number(0)):
        need(len(event.tokens) == event.num_tokens and repr(event), "tokens of an event")


@call("EventReader.__iter__")
def iterate_events(w):
    list(EventReader(w.m, 0, w.rng.choice((1, 3, 0))))


@call("EventReader.poll")
def poll_events(w):
    reader = EventReader(w.m, w.number(0), w.rng.choice((1, 3, 0)))
    records, tokens = reader.poll()
    need(len(tokens) == records["num_tokens"].sum(), "tokens of events")


@call("native.runs_of_events")
def runs_of_events(w):
    records, tokens = EventReader(w.m).poll()
    for name in ("kind", "group", "num_tokens", "parent_node"):
        if len(records) and w.rng.random() < 0.2:
            records[name][w.rng.randrange(len(records))] = w.rng.choice((0, 1, 2, 3, 2**31, 2**32 - 1))
    act = w.rng.choice((lambda *unused: None, lambda *unused: None, mischief, lambda *unused: records.fill(0)))
    ends = w.rng.choice((((), ()), (("x",) * 3,) * 9, (7,), ()))
    _native.runs_of_events(w.rng.choice((records, records, records.tobytes(), None)), w.h.array(tokens),
                           w.rng.random() < 0.5, act, act, act, (1, 2), ends, w.rng.choice((None, act)))


@call("Request.commit")
def commit(w):
    r = w.request()
    r.commit(w.number(r.info.num_tokens))


@call("Request.commit_ahead")
def commit_ahead(w):
    r = w.request()
    committed = w.number(r.info.num_tokens)
    r.commit_ahead(committed, w.number(committed))


@call("Request.truncate")
def truncate(w):
    r = w.request()
    r.truncate(w.number(max(1, r.info.num_tokens - w.rng.randrange(3))))


@call("Request.free")
def free(w):
    r = w.request()
    r.free()
    w.requests.remove(r)


@call("Request.num_tokens")
def num_tokens(w):
    request = w.request()
    repr((request, w.m))
    need(request.num_tokens == len(request) == request.info.num_tokens, "the number of tokens")


@call("Request.block_table")
def block_table(w):
    r, group = w.request(), w.number(0)
    table = r.block_table()
    out = w.array(np.full(len(table) + 2, -7, np.int32), True)
    if w.rng.random() < 0.8:
        need(r.block_table(group, w.number(-1), out) is out or out is None, "out is not what comes back")
        if type(group) is int and group == 0 and type(out) is np.ndarray and len(out) > len(table):
            need(out[: len(table)].tolist() == table.tolist(), "another table")


@call("Request.close")
def close_request(w):
    r = w.request()
    r.close(), r.close()
    w.requests.remove(r)


@call("Request.forget")
def forget(w):
    w.m.request(w.request().id).forget()


@call("Pin.close")
def close_pin(w):
    if w.pins:
        w.pins.pop().close()


@call("Pin.forget")
def forget_pin(w):
    if w.pins:
        pin = w.pins.pop()
        _native.kvc_manager_unpin_prefix(w.m._m, pin.id)
        pin.forget()


@call("Namespace.close")
def close_namespace(w):
    w.m.namespace(model=b"other").close()


@call("Namespace.forget")
def forget_namespace(w):
    n = w.m.namespace(model=b"a", tenant=b"b")
    _native.kvc_manager_close_namespace(w.m._m, n.id)
    n.forget()
