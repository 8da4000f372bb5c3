# SPDX-License-Identifier: Apache-2.0
"""Calls of Index: fed by the events of the world's manager, by garbage, and by its own dumps."""

import contextlib

import numpy as np

import kvcache
from world import BLOCK, call, need


def filled(w):
    index = kvcache.Index(max_blocks=100, num_media=2)
    index.add_worker(1, now_ns=1)
    with contextlib.suppress(kvcache.UnsupportedError):
        index.apply(1, w.m.events(0).poll()[0])
    return index


@call("Index")
@call("Index.add_worker")
@call("Index.remove_worker")
@call("Index.touch_worker")
@call("Index.expire")
@call("Index.workers")
@call("Index.worker")
@call("Index.stats")
def workers(w):
    index = kvcache.Index(max_blocks=100, max_workers=w.rng.choice((0, 1, 4)), num_media=w.number(2), ttl_ns=w.number(10))
    index.add_worker(w.number(1), w.rng.choice((None, "name", "x" * 64, "a\0b", 3)), w.number(1))
    index.touch_worker(w.number(1), w.number(5))
    need(len(index.worker(index.workers()[0]).num_blocks) >= 1, "media")
    need(index.stats.num_workers == 1, "one worker")
    index.expire(w.number(100))
    index.remove_worker(w.number(1))


@call("Index.apply")
@call("Index.begin_resync")
@call("Index.end_resync")
def apply(w):
    index = filled(w)
    events = w.m.events(0).poll()[0]
    index.apply(w.number(1), w.rng.choice((events, w.array(np.zeros(4, events.dtype)), list(w.m.events(0))[:3], 5, None, "x")), w.number(0), w.number(1))
    index.begin_resync(1, w.rng.choice((None, 0, 1, 9, "x")))
    index.end_resync(1, w.number(7), w.rng.choice((None, 0, 1)))


@call("Index.match")
@call("Index.match_tokens")
@call("prefix_digests")
@call("namespace_root")
def match(w):
    index, tokens = filled(w), w.tokens()
    found = index.match_tokens(tokens, w.rng.choice((BLOCK, BLOCK, 0, 2000)), w.rng.choice((None, kvcache.namespace_root(), bytes(31), 3)))
    need(found.blocks.shape == (len(found.workers), 3), "rows")
    digests = kvcache.prefix_digests(tokens, BLOCK, w.rng.choice((None, w.array(np.zeros(32, np.uint8)))))
    need(digests.shape[1] == 32, "digests")
    index.match(w.rng.choice((digests, w.array(digests), [bytes(32)], 3)))
    need(len(kvcache.namespace_root(w.rng.choice((None, b"", b"m", 3)), tenant=w.rng.choice((None, b"t")))) == 32, "root")


@call("Index.dump")
@call("Index.load")
def dump(w):
    index, other = filled(w), kvcache.Index(max_blocks=100, num_media=2)
    made = index.dump()
    other.load(w.rng.choice((made, made, made[:-1], bytes(100), w.array(np.frombuffer(made, np.uint8).copy()), None)))
    need(other.dump() == made, "the same")
