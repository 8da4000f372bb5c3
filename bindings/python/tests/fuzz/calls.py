# SPDX-License-Identifier: Apache-2.0
"""Every public callable of the package, called with arguments that are right but for what hostile.py makes of them. A function that is not
here, or never succeeds, fails the fuzz."""

import contextlib
import enum
import gc
import inspect

import numpy as np

import kvcache
from hostile import Clears, mischief
from kvcache import _native, errors
from kvcache.events import EventReader
from kvcache.storage import DLPack

BLOCKS, BLOCK, HEADS, DIM, TOKENS = 48, 4, 2, 8, 24
CALLS = {}  # name: function(world)


class Wrong(Exception):
    """A call gave a wrong result."""


def call(name):
    def add(function):
        CALLS[name] = function
        return function
    return add


def need(condition, text):
    if not condition:
        raise Wrong(text)


class World:
    """Objects that calls work on, made anew from time to time."""

    def __init__(self, rng, hostile):
        self.rng, self.h = rng, hostile
        self.m = kvcache.Manager([BLOCKS, 96], BLOCK, groups=[kvcache.Group(), kvcache.Group(8, pool=1)], event_capacity=32, max_requests=12,
                                 max_request_tokens=64, zero="foreign")
        self.step = kvcache.Step(self.m, 8, 32, 16, max_admissions=3, max_prompt_tokens=64, max_frees=4)
        self.namespace = self.m.namespace(model=b"a", tenant=b"b")
        self.requests, self.pins, self.raw, self.junk, self.inputs = [], [], [], [], []
        options = dict(block_size=BLOCK, num_threads=1)
        size = kvcache.storage_size(BLOCKS, 2, HEADS, DIM, dtype="float32", **options)[1]
        memory = np.zeros(size + 256, np.uint8)
        first = -memory.ctypes.data % 256
        self.storages = [kvcache.Storage(BLOCKS, 2, HEADS, DIM, dtype="float32", **options),
                         kvcache.Storage(BLOCKS, 2, HEADS, DIM, dtype="float32", memory=memory[first: first + size], **options),
                         kvcache.Storage(BLOCKS, 2, HEADS, DIM, dtype="int8", scale_group=4, **options),
                         kvcache.Storage(BLOCKS, 2, HEADS, DIM, dtype="int4", flags=kvcache.StorageFlags.CHANNEL_KEYS, **options)]
        self.stream, self.event = kvcache.Stream(), kvcache.StreamEvent()
        for _ in range(4):
            self.requests.append(self.m.allocate(self.ids(rng.randrange(1, 24))))

    def close(self):
        self.settle()
        for pin in self.pins:
            pin.close()
        for request in self.requests:
            request.close()
        self.namespace.close()
        self.step.close()
        self.m.close()
        for s in self.storages:
            s.close()
        self.stream.close()

    def settle(self):
        """What was enqueued is done. Nobody has written into arrays that were made after those of the calls."""
        self.stream.synchronize()
        need(not any(array.any() for array in self.junk), "an array of somebody else was written")
        self.junk.clear()

    def later(self):
        """After a call that was enqueued its arrays are forgotten, and others may be made in their place."""
        if self.rng.random() < 0.3:
            gc.collect(0)
        self.junk += [np.zeros(n, np.uint8) for n in (4096, 3072, BLOCKS * HEADS * 2 * DIM * 2, 24 * 2 * HEADS * DIM * 4)]
        if self.rng.random() < 0.4:
            self.settle()

    # ---- arguments

    def array(self, good, written=False):
        value = self.h.array(good)
        if not written and isinstance(value, np.ndarray) and type(value) is np.ndarray and value.size < 1 << 16:
            self.inputs.append((value, value.copy()))
        return value

    def ids(self, count, below=4):
        return np.array([self.rng.randrange(below) for _ in range(count)], np.int32)

    def sequence(self, good):
        """For what iterates over its argument: Python itself reads freed memory if that is a released memoryview."""
        value = self.array(good)
        return good.tolist() if isinstance(value, memoryview) else value

    def tokens(self, most=40):
        good = self.ids(self.rng.randrange(1, most))
        return self.rng.randrange(5) if self.rng.random() < 0.02 else self.array(good)

    def floats(self, *shape, dtype=np.float32):
        return np.frombuffer(self.rng.randbytes(int(np.prod(shape))), np.int8).reshape(shape).astype(dtype) / 16

    def number(self, good):
        return self.h.number(good)

    def keys(self):
        rng = self.rng
        if rng.random() < 0.7:
            return None
        digest = rng.choice((bytes(32), bytes(32), bytes(31), bytearray(32), np.zeros(32, np.uint8), np.zeros(32, np.int32), np.zeros(4), "x" * 32, 32, None))
        one = (self.number(0), self.number(4), digest)
        return rng.choice(([one], [kvcache.ExtraKey(*one), one], iter([one]), [1], [(1, 2)], "ab", 7, [kvcache.ExtraKey(0, 4, bytes(32))] * 2))

    def any_namespace(self):
        return self.rng.choice((0, 0, self.namespace, self.number(self.namespace.id)))

    def refill(self):
        """What every call finds: a request, and blocks that nobody holds."""
        if len(self.raw) > 12:
            holds = [block for block in range(BLOCKS + 96) for _ in range(self.m.block_info(block).raw_holds)]
            self.m.release_blocks(holds)
            self.raw.clear()
        if not self.requests:
            self.requests.append(self.m.create([1, 2, 3]))

    def request(self):
        return self.rng.choice(self.requests)

    def any_request_id(self):
        return self.rng.choice((self.request().id, self.request().id, self.number(self.request().id)))

    def options(self):
        names = ("lookahead", "slots", "external_tokens", "max_cached_tokens", "drop_tail_blocks", "user_data", "flags")
        options = {name: self.number(self.rng.randrange(4)) for name in names if self.rng.random() < 0.1}
        return {**options, "namespace": self.any_namespace()} if self.rng.random() < 0.2 else options

    def blocks(self, written=False):
        return self.array(np.array([self.rng.randrange(BLOCKS) for _ in range(self.rng.randrange(1, 6))], np.int32), written)

    def storage(self):
        return self.rng.choice(self.storages)

    def any_stream(self):
        return self.rng.choice((None, self.stream, self.stream))

    def added(self, request):
        self.requests.append(request)
        while len(self.requests) > 9:
            self.requests.pop(self.rng.randrange(len(self.requests))).close()


# ---- functions

@call("apply_rope")
def apply_rope(w):
    n, heads = w.rng.randrange(1, 6), w.rng.randrange(1, 4)
    table = kvcache.rope_table(w.floats(3, dtype=np.float64), 8)
    x, rows = w.floats(n, heads, DIM), np.arange(n, dtype=np.int64)
    given, first, interleaved = w.array(x, True), w.number(0), w.rng.random() < 0.2
    more = w.array(table), w.rng.choice((None, w.array(rows)))
    before = given.astype(given.dtype.newbyteorder("=")) if type(given) is np.ndarray and given.size < 1 << 16 else None
    need(kvcache.apply_rope(given, *more, first_element=first, interleaved=interleaved) is given, "x is not what comes back")
    if before is not None and type(first) is int:
        expected = kvcache.apply_rope(before, *more, first_element=first, interleaved=interleaved)
        need(np.array_equal(given, expected, equal_nan=True), "other rows than of a copy")


@call("build_info")
def build_info(w):
    kvcache.build_info()


@call("supports")
def supports(w):
    kvcache.supports(w.number(0))


@call("device_info")
def device_info(w):
    kvcache.device_info(w.rng.choice((None, "cpu", "?", "", 3, b"cpu")))


@call("open_backend")
def open_backend(w):
    kvcache.open_backend(w.rng.choice(("cpu", "?", None, 5)), w.rng.choice((None, None, "/nowhere")))


@call("find_model")
def find_model(w):
    kvcache.find_model(w.rng.choice(("llama-3.1-8b", "", "x" * 300, None, 4)))


@call("models")
def models(w):
    need(len(list(kvcache.models())) > 3, "models are missing")


@call("merge_attention")
def merge_attention(w):
    rows = w.rng.choice(((3,), (2, 3), ()))
    outs, lses = w.floats(2, *rows, DIM, dtype=w.rng.choice((np.float32, np.float16))), w.floats(2, *rows)
    out, lse = kvcache.merge_attention(w.array(outs), w.array(lses))
    need(out.shape[:-1] == lse.shape, "shapes of a merge")


@call("tree_mask")
def tree_mask(w):
    n = w.rng.randrange(1, 30)
    mask, depths = kvcache.tree_mask(w.array(np.array([w.rng.randrange(-1, i) for i in range(n)], np.int32)))
    need(mask.size == -(-len(depths) ** 2 // 8), "bits of a tree")


def quantized(w):
    dtype = w.rng.choice(("int8", "int4", "float8_e4m3", "float8_e5m2", "float32"))
    options = dict(group=w.rng.choice((0, 0, w.number(2))), asymmetric=w.rng.choice((False, False, True, Clears(1, mischief))),
                   channels=w.rng.random() < 0.2, scale=w.rng.choice((0.0, 0.0, 0.0, w.h.real(0.5))))
    return dtype, options


@call("quantize")
def quantize(w):
    dtype, options = quantized(w)
    kvcache.quantize(w.array(w.floats(w.rng.randrange(1, 6), 6)), dtype, **options)


@call("dequantize")
def dequantize(w):
    dtype, options = quantized(w)
    values = w.floats(w.rng.randrange(1, 6), 6)
    try:
        codes, scales = kvcache.quantize(values, dtype, **options)
    except (TypeError, ValueError, OverflowError):
        codes, scales, options = *kvcache.quantize(values, "int8"), {}
    kvcache.dequantize(w.array(codes), None if scales is None else w.array(scales), w.number(6), w.rng.choice((dtype, "int8")), **options)


@call("rope_frequencies")
def rope_frequencies(w):
    model = kvcache.find_model(w.rng.choice(("llama-3.1-8b", "phi-3.5-mini")))
    factors = np.ones((model.rope_dim or model.head_dim) // 2)
    kvcache.rope_frequencies(model, w.number(0), w.number(100), w.rng.choice((None, w.array(factors))))


@call("rope_table")
def rope_table(w):
    positions = w.rng.choice((w.number(5), w.array(np.arange(4, dtype=np.int64))))
    if isinstance(positions, int) and positions > 1 << 20:
        positions = -1
    kvcache.rope_table(w.array(w.floats(3, dtype=np.float64)), positions, w.h.real(1.0))


@call("storage_size")
def storage_size(w):
    kvcache.storage_size(w.number(4), w.number(2), w.number(2), w.number(8), dtype=w.rng.choice(("int8", "int9", None)), block_size=w.number(4))


@call("replay")
def replay(w):
    if w.rng.random() < 0.9:
        w.number(1)
        return
    kvcache.replay([kvcache.trace.TraceRequest(600, 3, (1, 2))], 64, block_size=w.rng.choice((16, 32)))


# ---- Manager

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


@call("Manager.allocate")
def allocate(w):
    w.added(w.m.allocate(w.tokens(), w.keys(), **w.options()))


@call("Manager.create")
def create(w):
    w.added(w.m.create(w.tokens(), w.keys(), **w.options()))


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


@call("Manager.take_copies")
def take_copies(w):
    w.m.take_copies()


@call("Manager.take_zero_blocks")
def take_zero_blocks(w):
    w.m.take_zero_blocks()


@call("Manager.compact")
def compact(w):
    w.m.compact(w.number(0), w.number(16))


@call("Manager.namespace")
def namespace(w):
    part = w.rng.choice((None, b"", b"abc", bytearray(3), "text", 4, np.zeros(3), np.zeros((3, 2))[:, 0], memoryview(b"abcd")[::2]))
    w.m.namespace(part, adapter=b"x").close()


@call("Manager.reset")
def reset(w):
    w.m.reset(w.any_namespace())


@call("Manager.probe")
def probe(w):
    w.m.probe(w.tokens(), w.keys(), w.any_namespace())


@call("Manager.pin")
def pin(w):
    prompt = w.ids(9)
    with contextlib.closing(w.m.allocate(prompt)) as r:
        r.commit(9)
    w.pins.append(w.m.pin(w.array(prompt), w.keys(), w.any_namespace()))
    if len(w.pins) > 3:
        w.pins.pop(0).close()


@call("Manager.drop")
def drop(w):
    w.m.drop(w.tokens(), w.keys(), w.any_namespace())


@call("Manager.evict")
def evict(w):
    w.m.evict(w.number(3))


@call("Manager.acquire_blocks")
def acquire_blocks(w):
    w.raw += w.m.acquire_blocks(w.number(2), w.number(0)).tolist()


@call("Manager.acquire_prefix")
def acquire_prefix(w):
    w.raw += [b for b in w.m.acquire_prefix(w.tokens(), w.keys(), w.any_namespace(), w.number(0)).tolist() if b >= 0]


@call("Manager.publish_blocks")
def publish_blocks(w):
    blocks = w.m.acquire_blocks(2)
    w.raw += blocks.tolist()
    w.m.publish_blocks(w.array(w.ids(8)), w.array(blocks), w.keys(), w.any_namespace())


@call("Manager.release_blocks")
def release_blocks(w):
    count = w.rng.randrange(len(w.raw) + 1)
    given, w.raw = np.array(w.raw[:count], np.int32), w.raw[count:]
    w.m.release_blocks(w.array(given))


@call("Manager.unpublish_blocks")
def unpublish_blocks(w):
    w.m.unpublish_blocks(w.blocks())


@call("Manager.stats")
def stats(w):
    need(w.m.stats.blocks_total == BLOCKS + 96, "blocks_total")


@call("Manager.usage")
def usage(w):
    need(0 <= w.m.usage <= 1, "usage")


@call("Manager.properties")
def properties(w):
    need(w.m.properties.block_size == BLOCK, "block_size")


@call("Manager.pool_info")
def pool_info(w):
    w.m.pool_info(w.number(1))


@call("Manager.block_info")
def block_info(w):
    w.m.block_info(w.number(3))


@call("Manager.digest")
def digest(w):
    need(w.m.digest() == w.m.digest(), "digests")


@call("Manager.check")
def check(w):
    w.m.check()


@call("Manager.retire_step")
def retire_step(w):
    w.m.retire_step(w.rng.choice((w.step.step_id, w.number(0))))


@call("Manager.events")
def events(w):
    for event in w.m.events(w.number(0)):
        need(len(event.tokens) == event.num_tokens and repr(event), "tokens of an event")


@call("EventReader")
def event_reader(w):
    EventReader(w.m, w.number(0), w.number(4))


@call("EventReader.__iter__")
def iterate_events(w):
    list(EventReader(w.m, 0, w.rng.choice((1, 3, 0))))


# ---- Request, Pin, Namespace

@call("Request.admit")
def admit(w):
    w.request().admit()


@call("Request.append")
def append(w):
    w.request().append(w.rng.choice((w.tokens(3), w.number(1))))


@call("Request.reserve")
def reserve(w):
    r = w.request()
    r.reserve(w.number(r.info.capacity + w.rng.randrange(3)))


@call("Request.commit")
def commit(w):
    r = w.request()
    r.commit(w.number(r.info.num_tokens))


@call("Request.truncate")
def truncate(w):
    r = w.request()
    r.truncate(w.number(max(1, r.info.num_tokens - w.rng.randrange(3))))


@call("Request.preempt")
def preempt(w):
    w.request().preempt()


@call("Request.free")
def free(w):
    r = w.request()
    r.free()
    w.requests.remove(r)


@call("Request.fork")
def fork(w):
    w.added(w.request().fork())


@call("Request.info")
def info(w):
    w.request().info


@call("Request.block_table")
def block_table(w):
    r, group = w.request(), w.number(0)
    table = r.block_table()
    out = w.array(np.full(len(table) + 2, -7, np.int32), True)
    if w.rng.random() < 0.8:
        need(r.block_table(group, w.number(-1), out) is out or out is None, "out is not what comes back")
        if type(group) is int and group == 0 and type(out) is np.ndarray and len(out) > len(table):
            need(out[: len(table)].tolist() == table.tolist(), "another table")


@call("Request.slots")
def slots(w):
    w.request().slots(w.number(0), w.number(1), w.number(0))


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


# ---- Step

@call("Step")
def step(w):
    numbers = [w.number(n) for n in (4, 8, 4)]
    if any(isinstance(n, int) and n > 1 << 20 for n in numbers):
        numbers[0] = -1
    kvcache.Step(w.m, *numbers, max_admissions=w.rng.choice((0, 2, -1)), max_frees=w.rng.choice((0, 3))).close()


@call("Step.use")
def use(w):
    name = w.rng.choice(("committed", "commit_offsets", "extend_offsets", "extend_tokens", "rows", "block_tables", "slots", "changes"))
    w.step.use(**{w.rng.choice((name, name, "status")): w.rng.choice((True, True, False, w.number(1)))})


STEP_COUNTS = ("num_requests", "num_admissions", "num_frees", "num_preempts", "num_truncates", "retired_step", "flags", "fill_id")


@call("Step.run")
def run(w):
    """Right counts and ids, of which a few are spoilt."""
    s, rng = w.step, w.rng
    known = [r for r in w.requests]
    rng.shuffle(known)
    running = known[: rng.randrange(len(known) + 1)][:8]
    freed = known[len(running):][: rng.randrange(3)] if rng.random() < 0.5 else []
    infos = [r.info for r in running]
    for name in STEP_COUNTS:
        setattr(s, name, 0)
    s.num_requests, s.num_frees, s.fill_id, s.retired_step = len(running), len(freed), -1, s.step_id
    s.requests[: len(running)] = [r.id for r in running]
    s.frees[: len(freed)] = [r.id for r in freed]
    s.committed[: len(running)] = [i.num_tokens for i in infos]
    s.extend_offsets[: len(running) + 1] = np.arange(len(running) + 1)
    s.commit_offsets[:], s.extend_tokens[:], s.admit_requests[:] = 0, 1, 0
    s.num_admissions = rng.choice((0, 0, 1, 2)) if len(known) < 8 else 0
    s.admit_offsets[:] = np.arange(4) * 5
    s.admit_tokens[:] = 2
    s.rows[:] = np.arange(s.rows.size)
    if rng.random() < 0.5:
        array = getattr(s, rng.choice(("requests", "committed", "extend_offsets", "commit_offsets", "extend_tokens", "frees", "admit_offsets", "admit_requests",
                                       "admit_tokens", "rows", "truncates", "truncate_lengths", "preempts")))
        spoilt = w.h.as_extremes(array)
        array[:] = spoilt
    if rng.random() < 0.3:
        name = rng.choice(STEP_COUNTS)
        setattr(s, name, w.number(getattr(s, name)))
    none = [None] * s.num_admissions if s.num_admissions < 9 else []
    options = rng.choice(([], none, none, [kvcache.RequestOptions(slots=w.number(3), keys=w.keys() or ())] * len(none), Growing(len(none))))
    before = set(w.m.requests())
    try:
        s.run(options)
    finally:
        known = {r.id: r for r in w.requests}
        now = w.m.requests()
        for id in before - set(now):
            known.pop(id).forget()
        w.requests = [known.get(id) or w.m.request(id) for id in now]
        for r in w.requests:
            r._owned = True
    s.num_failed


class Growing:
    """As many options as there are admissions, says its length; and gives more."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __iter__(self):
        return iter([None] * (self.length + 50))


@call("Step.num_failed")
def num_failed(w):
    name = w.rng.choice(STEP_COUNTS[:5])
    before = getattr(w.step, name)
    setattr(w.step, name, w.number(before))
    w.step.num_failed


@call("Step.close")
def close_step(w):
    s = kvcache.Step(w.m, 2, 2, 2)
    array = s.status
    s.close(), s.close()
    array[:] = 3


# ---- Storage

def rows_of(w, s, written=False):
    n = w.rng.randrange(1, TOKENS)
    shape = w.rng.choice(((n,), (n,), (1, n), (2, n), (2, n), (0, n)))
    dtype = w.rng.choice((np.float32, np.float32, np.float16, np.uint16))
    k, v = w.floats(*shape, HEADS, DIM, dtype=dtype).astype(dtype), w.floats(*shape, HEADS, DIM, dtype=dtype).astype(dtype)
    slots = np.array(w.rng.sample(range(-1, BLOCKS * BLOCK), n), np.int64)
    return w.array(k, written), w.array(v, written), w.array(slots)


@call("Storage")
def storage(w):
    size = kvcache.storage_size(2, 1, 1, 8, dtype="float32", block_size=4)[1]
    memory = w.rng.choice((None, w.array(np.zeros(size + 64, np.uint8), True)))
    with kvcache.Storage(w.number(2), w.number(1), 1, 8, dtype=w.rng.choice(("float32", "int8")), block_size=4, memory=memory) as s:
        plane = s.view(kvcache.Plane.K) if s.num_blocks < 1000 else None
    del s, memory, plane


@call("Storage.close")
def close_storage(w):
    """While its work is on the way: the memory lives as long as that."""
    size = kvcache.storage_size(4, 1, HEADS, DIM, dtype="float32", block_size=BLOCK)[1]
    memory = np.zeros(size + 256, np.uint8)
    first = -memory.ctypes.data % 256
    s = kvcache.Storage(4, 1, HEADS, DIM, dtype="float32", block_size=BLOCK, memory=memory[first: first + size])
    del memory
    for _ in range(8):
        s.zero_blocks(np.arange(4, dtype=np.int32), stream=w.stream)
    if w.rng.random() < 0.5:
        s.close()
    del s
    w.later()


@call("Storage.__getattr__")
def attribute(w):
    getattr(w.storage(), w.rng.choice(("block_bytes", "num_blocks", "none", "_none")))


@call("Storage.view")
def view(w):
    w.storage().view(w.number(0), w.number(0)).size


@call("Storage.dlpack")
def dlpack(w):
    tensor = np.from_dlpack(w.storages[0].dlpack(w.number(0), w.number(0)))
    tensor.sum()


@call("DLPack.__dlpack__")
def capsule(w):
    w.storage().dlpack(kvcache.Plane.K).__dlpack__(stream=None)


@call("DLPack.__dlpack_device__")
def capsule_device(w):
    w.storage().dlpack(kvcache.Plane.K).__dlpack_device__()


@call("Storage.runs")
def runs(w):
    w.storage().runs(w.number(1))


@call("Storage.store")
def store(w):
    s, stream = w.storage(), w.any_stream()
    k, v, slots = rows_of(w, s)
    table = kvcache.rope_table(w.floats(2, dtype=np.float64), TOKENS)
    options = {}
    if w.rng.random() < 0.3:
        rows = np.arange(len(slots) if isinstance(slots, np.ndarray) and type(slots) is np.ndarray and slots.ndim and len(slots) < 99 else 3, dtype=np.int64)
        options = dict(rope_table=w.array(table), rope_rows=w.rng.choice((None, w.array(rows))), rope_first_element=w.number(0))
    layer = w.number(0)
    s.store(k, v, slots, layer, **options, stream=stream)
    if not stream and not options and s in w.storages[:2] and type(k) is np.ndarray and type(slots) is np.ndarray:
        got, _ = s.gather(slots, k.shape[0] if k.ndim == 4 else 1, layer)
        stored = ((k.astype(np.uint32) << 16).view(np.float32) if k.dtype == np.uint16 else k.astype(np.float32)).reshape(got.shape)
        stored[:, slots < 0] = 0
        need(np.array_equal(got, stored, equal_nan=True), "other keys than were stored")
    del k, v, slots, options
    if stream:
        w.later()


@call("Storage.gather")
def gather(w):
    s, stream = w.storage(), w.any_stream()
    k, v, slots = rows_of(w, s, True)
    if w.rng.random() < 0.3:
        layers = w.number(1)
        s.gather(slots, layers, w.number(0), w.rng.choice(("float32", "float16", "int8", None)), stream=stream)
    else:
        s.gather(slots, first_layer=w.number(0), out=w.rng.choice(((k, v), (k, v), (k, None), (k,), k)), stream=stream)
        w.stream.synchronize()
        shape = np.shape(k)
        if type(k) is np.ndarray and len(shape) == 4 and type(slots) is np.ndarray and slots.dtype == np.int64 and k.dtype == np.float32 and shape[0] == 2:
            expected, _ = s.gather(slots)
            need((k[:, slots >= 0] == expected[:, slots >= 0]).all() or np.isnan(expected).any(), "other keys than without out")
    del k, v, slots
    if stream:
        w.later()


@call("Storage.measure")
def measure(w):
    s = w.storage()
    k, v, slots = rows_of(w, s)
    s.measure(k, v, slots, w.number(0))


@call("Storage.seal_blocks")
def seal_blocks(w):
    w.storages[3].seal_blocks(w.blocks(), stream=w.any_stream())


@call("Storage.zero_blocks")
def zero_blocks(w):
    w.storage().zero_blocks(w.blocks(), stream=w.any_stream())


def pairs(w, most):
    n = w.rng.randrange(1, 5)
    return np.stack([np.array([w.rng.randrange(most) for _ in range(n)], np.int32), np.array(w.rng.sample(range(most), n), np.int32)], 1)


@call("Storage.copy_blocks")
def copy_blocks(w):
    w.storage().copy_blocks(w.array(pairs(w, BLOCKS)), stream=w.any_stream())


def aligned_pages(s):
    memory = np.zeros(8 * s.block_bytes + 16, np.uint8)
    first = -memory.ctypes.data % 16
    return memory[first: first + 8 * s.block_bytes].reshape(8, -1)


@call("Storage.swap_out")
def swap_out(w):
    s, stream, copies = w.storages[0], w.any_stream(), pairs(w, 8)
    good = aligned_pages(s)
    pages = w.h.array(good) if w.rng.random() < 0.5 else good
    given = w.array(copies)
    s.store(np.full((BLOCK, HEADS, DIM), 3, np.float32), np.full((BLOCK, HEADS, DIM), 3, np.float32), copies[0, 0] * BLOCK + np.arange(BLOCK), stream=stream)
    s.swap_out(given, pages, w.rng.choice((0, w.number(s.block_bytes))), stream=stream)
    if w.rng.random() < 0.5:
        w.stream.synchronize()
        if given is copies and type(pages) is np.ndarray and pages.dtype == np.uint8 and pages.shape == good.shape:
            need(pages[copies[0, 1]].any(), "a page was not filled")
    del pages, good
    if stream:
        w.later()


@call("Storage.swap_in")
def swap_in(w):
    s, stream = w.storage(), w.any_stream()
    pages = w.array(aligned_pages(s))
    s.swap_in(w.array(pairs(w, 8)), pages, w.rng.choice((0, w.number(s.block_bytes))), stream=stream)
    del pages
    if stream:
        w.later()


def attention_of(w, hostile=True):
    """q, q_offsets, kv_lens, block_tables and options, right as a whole."""
    rng = w.rng
    take = w.array if hostile else lambda good, written=False: good
    n = rng.randrange(1, 4)
    lens = np.array([rng.randrange(1, 17) for _ in range(n)], np.uint64)
    queries = [rng.randrange(1, int(x) + 1) for x in lens]
    offsets = np.cumsum([0, *queries]).astype(np.uint64)
    q = w.floats(int(offsets[-1]), 4, DIM, dtype=rng.choice((np.float32, np.float16)))
    tables = np.array([rng.randrange(BLOCKS) for _ in range(n * 4)], np.int32).reshape(n, 4)
    options = {}
    if rng.random() < 0.5:
        bits = [a * int(b) for a, b in zip(queries, lens)]
        options.update(mask=take(np.full(-(-sum(bits) // 8), 255, np.uint8)), mask_offsets=take(np.cumsum([0, *bits[:-1]]).astype(np.uint64)))
        if rng.random() < 0.3:
            options["mask_starts"] = take(np.zeros(n, np.uint64))
    for name, good in (("q_starts", lens - np.array(queries, np.uint64)), ("alibi_slopes", w.floats(4)), ("schedule", np.zeros(64, np.uint8)),
                       ("block_mask", np.full((n, HEADS, 1), 255, np.uint8))):
        if rng.random() < 0.15:
            options[name] = take(good, name == "schedule")
    for name, good in (("window", 4), ("sinks", 1), ("shared_tokens", 0)):
        if rng.random() < 0.1:
            options[name] = w.number(good)
    for name in ("scale", "soft_cap"):
        if rng.random() < 0.1:
            options[name] = w.h.real(1.0)
    if rng.random() < 0.1:
        options["causal"] = False
    return q, [take(q), take(offsets), take(lens), take(tables)], options


@call("Storage.attend")
def attend(w):
    s, stream = w.storage(), w.any_stream()
    q, arguments, options = attention_of(w)
    if w.rng.random() < 0.5:
        options["out"] = w.array(np.full(q.shape, 77, q.dtype), True)
    if w.rng.random() < 0.3:
        options["lse"] = w.array(np.zeros(q.shape[:2], np.float32), True)
    layer = w.number(0)
    out = s.attend(*arguments, layer, **options, stream=stream)
    if "out" in options and w.rng.random() < 0.5:
        w.stream.synchronize()
        given = options.pop("out")
        need(out is given or given is None, "out is not what comes back")
        options.pop("lse", None)
        again = s.attend(*arguments, layer, **options)
        if not isinstance(arguments[2], list) and type(given) is np.ndarray:
            need(np.array_equal(np.asarray(given).view(np.uint8), again.view(np.uint8)), "other results than without out")
    del out, arguments, options, q
    if stream:
        w.later()


@call("Storage.explain")
def explain(w):
    _, arguments, options = attention_of(w)
    w.storage().explain(*arguments, w.number(0), **options)


@call("Storage.key_bounds")
def key_bounds(w):
    s, stream = w.storages[0], w.any_stream()
    out = w.rng.choice((None, w.array(np.zeros((BLOCKS, HEADS, 2, DIM), np.float16), True)))
    s.key_bounds(w.blocks(), w.number(0), out, stream=stream)
    del out
    if stream:
        w.later()


@call("Storage.select_blocks")
def select_blocks(w):
    s, stream = w.storages[0], w.any_stream()
    _, arguments, options = attention_of(w)
    options.pop("block_mask", None)
    bounds = w.array(np.zeros((BLOCKS, HEADS, 2, DIM), np.float16))
    s.select_blocks(*arguments, bounds, w.number(2), sink_blocks=w.number(1), recent_blocks=w.number(1), **options, stream=stream)
    del bounds, arguments, options
    if stream:
        w.later()


# ---- Stream, StreamEvent, Model

@call("Stream")
def stream(w):
    kvcache.Stream(w.rng.choice((None, "cpu", "?", 4))).close()


@call("Stream.close")
def close_stream(w):
    """While its work is on the way."""
    s = kvcache.Stream()
    k = np.ones((BLOCK, HEADS, DIM), np.float32)
    w.storages[0].store(k, k, np.arange(BLOCK), stream=s)
    pages = aligned_pages(w.storages[0])
    w.storages[0].swap_out(np.array([[0, 0]], np.int32), pages, stream=s)
    del k, pages
    w.junk += [np.zeros(4096, np.uint8)]
    s.close(), s.close()


@call("Stream.synchronize")
def synchronize(w):
    w.settle()


@call("Stream.wait")
def wait(w):
    w.stream.wait(w.event)


@call("Stream.handle")
def handle(w):
    with contextlib.suppress(kvcache.UnsupportedError):
        w.stream.handle


@call("StreamEvent")
def stream_event(w):
    kvcache.StreamEvent(w.rng.choice((None, "cpu", "?", 4)))


@call("StreamEvent.record")
def record(w):
    w.event.record(w.stream)


@call("StreamEvent.done")
def done(w):
    w.event.done


@call("StreamEvent.synchronize")
def synchronize_event(w):
    w.event.synchronize()
    need(w.event.done, "an event that was waited for")


@call("Model")
def model(w):
    kvcache.Model(w.rng.choice(((), (0, 1), (w.number(5),), 3)), num_layers=w.number(4), num_kv_heads=w.number(2), head_dim=w.number(8), max_context=64)


@call("Model.from_config")
def from_config(w):
    with contextlib.suppress(OSError):
        kvcache.Model.from_config("/nowhere")


@call("Model.__getattr__")
def field(w):
    getattr(kvcache.find_model("llama-3.1-8b"), w.rng.choice(("num_layers", "none", "_none")))


@call("Model.window_layers")
def window_layers(w):
    kvcache.find_model("llama-3.1-8b").window_layers


@call("Model.estimate")
def estimate(w):
    kvcache.find_model("llama-3.1-8b").estimate(w.rng.choice(("float16", "int9")), tokens=w.number(100), num_sequences=w.number(1), block_size=w.number(16))


@call("Model.rope")
def rope(w):
    kvcache.find_model("llama-3.1-8b").rope(w.number(0), w.number(100))


# ---- what only the integrations call

@call("native.pack_tokens")
def pack_tokens(w):
    _native.kvc_pack_tokens(w.sequence(w.ids(9)))


def admitted_of(w):
    r = w.request()
    if not r.info.admitted:
        r.admit()
    return r, _native.Admitted(w.m._m, r.id, r.info.num_tokens, r.info.num_committed, w.number(BLOCK), w.number(2))


@call("native.Admitted")
def admitted(w):
    _, live = admitted_of(w)
    need(live.num_blocks >= 0, "blocks")
    live.ids(w.number(0), w.number(5)), live.refresh(), live.grow(w.number(4))


@call("native.Admitted.commit")
def admitted_commit(w):
    r, live = admitted_of(w)
    tokens = [1] * (r.info.num_tokens + 6)
    changing = w.h.as_changing_list(np.array(tokens)) if w.rng.random() < 0.5 else tokens
    live.commit(w.rng.choice((changing, w.sequence(np.array(tokens)))), w.number(r.info.num_tokens + w.rng.randrange(3)))


class Scheduled(_native.SlotAllocator):
    def _allocate_slots(self, *unused, **more):
        return "general"


class Wanted:
    """A request of a scheduler, whose attributes are code."""

    def __init__(self, live, tokens, act):
        self.live, self._all_token_ids, self.act, self.request_id = live, tokens, act, "r"

    @property
    def num_computed_tokens(self):
        self.act()
        return len(self._all_token_ids)


@call("native.SlotAllocator.allocate_slots")
def allocate_slots(w):
    r, live = admitted_of(w)
    table = {"r": live}
    del live
    allocator = Scheduled(table, "empty", tuple, 64, True)
    act = w.rng.choice((lambda: None, lambda: None, table.clear, mischief))
    request = Wanted(table, [1] * r.info.num_tokens, act)
    allocator.allocate_slots(request, w.number(1), **w.rng.choice(({}, {"num_lookahead_tokens": w.number(1)})))


# ---- which there are

def public():
    """Names of all callables and properties of the package that could go wrong: not of enumerations, tuples and exceptions."""
    names, more = [], [EventReader, DLPack]
    for name in kvcache.__all__:
        value = getattr(kvcache, name)
        if inspect.ismodule(value):
            continue
        if not inspect.isclass(value):
            names.append(name)
        elif not issubclass(value, (enum.Enum, tuple, BaseException)):
            more.append(value)
    for cls in more:
        if cls not in (kvcache.Request, kvcache.Pin, kvcache.Namespace, DLPack):  # which a Manager, or a Storage, makes
            names.append(cls.__name__)
        for base in cls.__mro__[:-1]:
            for member, value in vars(base).items():
                is_ours = not member.startswith("_") or member in ("__iter__", "__getattr__", "__dlpack__", "__dlpack_device__")
                if is_ours and (callable(value) or isinstance(value, (property, classmethod, staticmethod))) and not is_field(cls, member):
                    names.append(f"{cls.__name__}.{member}")
    return set(names)


def is_field(cls, member):
    """A count of a Step: Step.run and Step.num_failed set them."""
    return cls is kvcache.Step and (member in STEP_COUNTS or member in ("step_id", "num_slots", "num_copies", "num_changes", "num_refused", "shortage_blocks"))


EXPECTED = (errors.KvCacheError, TypeError, ValueError, OverflowError, MemoryError, AttributeError, BufferError)
