# SPDX-License-Identifier: Apache-2.0
"""The objects that calls work on, and their arguments: right ones, of which hostile.py spoils some."""

import gc
import tempfile

import numpy as np

import kvcache

BLOCKS, BLOCK, HEADS, DIM, TOKENS = 48, 4, 2, 8, 24
TIER_PAGE = 256
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
        self.m = kvcache.Manager([BLOCKS, 96], BLOCK, groups=[kvcache.Group(), kvcache.Group(8, pool=1)], event_capacity=32, max_requests=12, hints=True, fills=True, max_quotas=2, max_blocks=[BLOCKS, 120], headroom=True, partial_reuse=True,
                                 max_request_tokens=64, zero="cross_namespace")
        self.step = kvcache.Step(self.m, 8, 32, 16, max_admissions=3, max_prompt_tokens=64, max_frees=4)
        self.namespace = self.m.namespace(model=b"a", tenant=b"b")
        self.requests, self.pins, self.held, self.junk, self.inputs = [], [], [], [], []
        options = dict(block_size=BLOCK, num_threads=1)
        size = kvcache.storage_size(BLOCKS, 2, HEADS, DIM, dtype="float32", **options)[1]
        memory = np.zeros(size + 256, np.uint8)
        first = -memory.ctypes.data % 256
        self.storages = [kvcache.Storage(BLOCKS, 2, HEADS, DIM, dtype="float32", **options),
                         kvcache.Storage(BLOCKS, 2, HEADS, DIM, dtype="float32", memory=memory[first: first + size], **options),
                         kvcache.Storage(BLOCKS, 2, HEADS, DIM, dtype="int8", scale_group=4, **options),
                         kvcache.Storage(BLOCKS, 2, HEADS, DIM, dtype="int4", flags=kvcache.StorageFlags.CHANNEL_KEYS, **options)]
        self.stream, self.event = kvcache.Stream(), kvcache.StreamEvent()
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = self.temporary.name
        self.tier = kvcache.Tier("memory:?bytes=16KiB&jobs=64", TIER_PAGE, b"1" * 32)
        for _ in range(4):
            self.requests.append(self.m.allocate(self.ids(rng.randrange(1, 24))))

    def close(self):
        self.settle()
        for pin in self.pins:
            pin.close()
        for request in self.requests:
            request.close()
        for name in self.m.prompts():
            self.m.unregister_prompt(name)
        self.namespace.close()
        self.step.close()
        self.m.close()
        for s in self.storages:
            s.close()
        self.stream.close()
        self.tier.close()
        self.temporary.cleanup()

    def settle(self):
        """What was enqueued is done. Nobody has written into arrays that were made after those of the calls."""
        self.stream.synchronize()
        self.tier.drain()
        self.tier.poll()
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
        if len(self.held) > 12:
            pools = [self.m.pool_info(p) for p in (0, 1)]
            blocks = [pool.first_block + i for pool in pools for i in range(pool.num_blocks)]
            holds = [block for block in blocks for _ in range(self.m.block_info(block).external_holds)]
            self.m.release_blocks(holds)
            self.held.clear()
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
