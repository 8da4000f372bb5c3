# SPDX-License-Identifier: Apache-2.0
"""Calls of functions, of Model and streams, and of what only the integrations use."""

import contextlib
import math

import numpy as np

import kvcache
from hostile import Clears, mischief
from kvcache import _native
from kvcache.trace import TraceRequest
from world import BLOCK, DIM, call, need


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


@call("Workload")
@call("Workload.record")
@call("Workload.predict")
@call("Workload.info")
def workload(w):
    made = kvcache.Workload(half_life_ns=w.number(9), window=w.rng.choice((0, 2, 65536, 1, -1, 1 << 40)))
    made.record(w.number(5), w.rng.choice((0.0, -3.5, 1e15, 1e300, float("nan"), "x", None, w.number(3))))
    need(math.isfinite(made.predict(w.number(7))), "a forecast")
    need(made.info.num_observations == 1, "one observation")


@call("Sizer")
@call("Sizer.decide")
@call("Sizer.read_log")
def sizer(w):
    def mostly(*good, bad):  # each of many must be good
        return w.rng.choice(good if w.rng.random() < 0.9 else bad)

    made = kvcache.Sizer(mostly("reactive", "predictive", "hybrid", bad=("?", None)), min_blocks=w.number(1), max_blocks=w.rng.choice((0, 9, 1 << 40)),
                         headroom=mostly(0.0, 0.5, bad=(-1.0, float("nan"))), window=mostly(0, 2, bad=(1,)), log_capacity=mostly(0, 1, bad=(1 << 31,)))
    decision = made.decide(w.number(5), mostly(0, 5.0, bad=(-1, 1e300, "x", w.number(3))))
    need(made.read_log(0) == decision, "another decision")


@call("open_backend")
def open_backend(w):
    kvcache.open_backend(w.rng.choice(("cpu", "?", None, 5)), w.rng.choice((None, None, "/nowhere")))


@call("replay_log")
def replay_log(w):
    with kvcache.Manager(8, 4, record_bytes=4096) as m:
        m.allocate([1, 2, 3], namespace=0)
        log = bytearray(m.take_log())
    if w.rng.random() < 0.8:
        log[w.rng.randrange(len(log))] ^= 1 << w.rng.randrange(8)
    need(kvcache.replay_log(bytes(log)).mismatches == 0, "mismatches")


@call("find_model")
def find_model(w):
    kvcache.find_model(w.rng.choice(("llama-3.1-8b", "", "x" * 300, None, 4)))


@call("Model.register")
def register(w):
    model = w.rng.choice((kvcache.find_model("gemma-3-1b"), kvcache.Model(name="fuzz/own", num_layers=w.number(2), num_kv_heads=1, head_dim=8, max_context=64)))
    name = w.rng.choice((None, "fuzz/model", "", "llama-3.1-8b", "x" * 300, 4))
    copy = model.register(name)
    need(repr(kvcache.find_model(copy.name)) == repr(copy), "another model than the one that was registered")


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


@call("replay")
def replay(w):
    kvcache.replay([TraceRequest(40, 2, (w.number(1),))], 8, block_size=w.rng.choice((16, 32)))


@call("Stream.synchronize")
def synchronize(w):
    w.settle()


@call("Stream.handle")
def handle(w):
    with contextlib.suppress(kvcache.UnsupportedError):
        w.stream.handle


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


@call("Model.fields")
def fields(w):
    model = kvcache.find_model("llama-3.1-8b")
    need(all(getattr(model, name) is not None for name in dir(model) if not name.startswith("_")), "a field")
    repr(model)


@call("Model.memory")
@call("Memory.estimate")
def memory(w):
    model, block_size = kvcache.find_model("gemma-3-1b"), w.number(16)
    if w.rng.random() < 0.5:
        model.memory(w.rng.choice(("float16", "int9")), block_size=block_size, budget_bytes=w.number(1 << 30)).estimate()
        model.memory(memory_fraction=w.rng.choice((0.5, 2.0, -1.0))).estimate()
    else:
        held = model.memory(block_size=block_size, budget_bytes=1 << 22)  # some blocks: a manager for a whole memory takes long
        kvcache.Manager(w.rng.choice((0, 0, 0, 5)), max_requests=4, memory=w.rng.choice((held, held, held, 7))).close()


@call("native.pack_tokens")
def pack_tokens(w):
    _native.kvc_pack_tokens(w.array(w.ids(9)))


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
    live.commit(w.rng.choice((changing, w.array(np.array(tokens)))), w.number(r.info.num_tokens + w.rng.randrange(3)),
                *([w.number(r.info.num_tokens)] if w.rng.random() < 0.5 else []))


class Scheduled(_native.SlotAllocator):
    def _allocate_slots(self, *unused, **more):
        return "general"

    def _commit_watched(self, live, request, tokens, num_tokens, computed):
        live.commit(tokens, num_tokens, computed)


class Wanted:
    """A request of a scheduler, whose attributes are code."""

    num_in_flight_tokens = 0

    def __init__(self, live, tokens, act):
        self.live, self.tokens, self.act, self.request_id = live, tokens, act, "r"

    @property
    def num_computed_tokens(self):
        self.act()
        return len(self.tokens)

    @property
    def all_token_ids(self):
        self.act()
        return self.tokens


def scheduled_of(w):
    """A scheduler with a request that runs, and the request."""
    r, live = admitted_of(w)
    table = {"r": live}
    live.watched = w.rng.random() < 0.3
    tokens = [1] * (r.info.num_tokens + w.rng.randrange(6))
    if w.rng.random() < 0.3:
        tokens = w.h.as_changing_list(np.array(tokens))
    allocator = Scheduled(table, "empty", tuple, 64, w.rng.choice(((), (), [(w.number(5), 4)], [(5, 4), (0, 3)])), True, True, w.rng.choice((b"", b"", b"\0", b"\1\0", b"\x1f")))
    return allocator, Wanted(table, tokens, w.rng.choice((lambda: None, lambda: None, table.clear, mischief)))


@call("native.SlotAllocator.allocate_slots")
def allocate_slots(w):
    allocator, request = scheduled_of(w)
    allocator.allocate_slots(request, w.number(1), **w.rng.choice(({}, {"num_lookahead_tokens": w.number(1)})))


@call("native.SlotAllocator.cache_blocks")
def cache_blocks(w):
    allocator, request = scheduled_of(w)
    if w.rng.random() < 0.2:
        allocator.cache_blocks(num_computed_tokens=w.number(4), request=request)
    else:
        allocator.cache_blocks(request, w.number(4))


@call("render_metrics")
@call("read_memory")
@call("enable_latencies")
@call("read_latency")
def metrics(w):
    with kvcache.Manager(8, 4) as m:
        kvcache.enable_latencies(w.rng.choice((m, m, m, m, [m, m], (), (m, m.stats), None)))
        kvcache.read_latency(w.rng.choice((m, m, m, m, m, m, w.m, w.tier, None, 3)), w.rng.choice((*[kvcache.Latency.ADMIT, kvcache.Latency.STEP] * 3, kvcache.Latency.TIER_PUT, w.number(1))))
    some = w.rng.sample([w.m, *w.storages, w.tier, m, 3, None], w.rng.choice((1, 1, 1, 2, 3, w.rng.randrange(8))))
    name, value = w.rng.choice((*["a"] * 12, "state", "", "__a", "\0", "a b", 3)), w.rng.choice((*["x"] * 8, "\u00e9\"\\\n", "\udcff", "\0", b"x", "y" * 70000))
    need(kvcache.read_memory(some).slab_bytes >= 0, "a number")
    text = kvcache.render_metrics([(one, {name: value, "i": str(i)}) for i, one in enumerate(some)], vllm_names=w.number(1))
    need(text.endswith("# EOF\n"), "an end")
