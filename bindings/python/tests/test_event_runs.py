# SPDX-License-Identifier: Apache-2.0
"""Runs of events as objects of a scheduler: compared with a conversion event by event, without vLLM."""
import os
import random
from typing import NamedTuple

import numpy as np
import pytest

import kvcache
from kvcache import _native

STORED, REMOVED = int(kvcache.EventKind.STORED), int(kvcache.EventKind.REMOVED)
ENDS = (("full", 1), ("window", 2))


class Stored(NamedTuple):
    hashes: list
    parent: object
    tokens: list
    size: int
    medium: str
    keys: list
    kind: str
    number: int


def removed(hashes, group):
    return "removed", hashes, group


def convert(records, tokens, int_hashes=True, keys=None, ends=ENDS, middle=(4, "gpu"), stored=Stored):
    return _native.runs_of_events(records, tokens, int_hashes, stored, removed, lambda: "cleared", middle, ends, keys)


def one_by_one(records, tokens, int_hashes, keys):
    """The same, an event at a time."""
    def hash_of(digest):
        return int.from_bytes(digest[-8:], "big") if int_hashes else digest

    made, before, first = [], None, 0
    for record in records:
        kind, group, count = int(record["kind"]), int(record["group"]), int(record["num_tokens"])
        ids, first = tokens[first : first + count].tolist(), first + count
        digest, offset = record["digest"].tobytes(), int(record["token_offset"])
        same = before is not None and (kind, group) == (before["kind"], before["group"])
        if kind == STORED:
            if not (same and record["parent_node"] == before["node"]):
                parent = hash_of(record["parent_digest"].tobytes()) if offset else None
                made.append(Stored([], parent, [], 4, "gpu", [], *ENDS[group]))
            made[-1].hashes.append(hash_of(digest))
            made[-1].tokens.extend(ids)
            made[-1].keys.extend(keys(offset, 1) if keys else [None])
        elif kind == REMOVED:
            if not same:
                made.append(("removed", [], group))
            made[-1][1].append(hash_of(digest))
        else:
            made.append("cleared")
        before = record
    return made


@pytest.mark.parametrize("int_hashes", (True, False))
def test_runs_are_those_of_the_events_one_by_one(int_hashes):
    rng = random.Random(int(os.environ.get("KVC_TEST_SEED", 1)))
    seen = set()
    with kvcache.Manager(24, 4, groups=[kvcache.Group(), kvcache.Group(window_tokens=8)], event_capacity=4096) as m:
        reader = m.events()
        for _ in range(150):
            for _ in range(rng.randrange(4)):
                start = rng.randrange(3)
                with m.allocate([start] + [rng.randrange(2) for _ in range(rng.randrange(1, 30))]) as r:
                    r.commit(r.num_tokens)
            if rng.random() < 0.1:
                m.reset_all()
            records, tokens = reader.poll()
            keys = rng.choice((None, lambda offset, count: [("salt", offset + 4 * i) for i in range(count)]))
            made = convert(records, tokens, int_hashes, keys)
            assert made == one_by_one(records, tokens, int_hashes, keys)
            seen |= {kind if isinstance(kind, str) else (type(kind).__name__, kind[0] if kind[0] == "removed" else len(kind[0]) > 1) for kind in made}
    assert {"cleared", ("tuple", "removed"), ("Stored", True), ("Stored", False)} <= seen


@pytest.fixture
def events():
    with kvcache.Manager(8, 4, event_capacity=64) as m, m.allocate(range(13)) as r:
        r.commit(13)
        yield m.events().poll()


def test_what_does_not_belong_together_is_refused(events):
    records, tokens = events
    assert len(records) == 3 and len(convert(records, tokens)) == 1
    with pytest.raises(ValueError, match="tokens has 11 elements; the events up to 2 have 12"):
        convert(records, tokens[:11])
    with pytest.raises(ValueError, match="events has 503 bytes; it must be whole records of 168 bytes"):
        convert(np.frombuffer(records.tobytes()[:-1], np.uint8), tokens)
    with pytest.raises(ValueError, match=r"no multiple of 8: pass x.copy\(\)"):
        convert(np.frombuffer(b" " + records.tobytes(), np.uint8)[1:], tokens)
    with pytest.raises(TypeError, match="tokens is int64; it must be int32"):
        convert(records, tokens.astype(np.int64))
    other = records.copy()
    other["group"] = 2
    with pytest.raises(ValueError, match=r"events\[0\] is of group 2; ends has 2"):
        convert(other, tokens)
    other["group"], other["kind"] = 0, 9
    with pytest.raises(ValueError, match=r"events\[0\] is of kind 9; an EventKind is wanted"):
        convert(other, tokens)
    with pytest.raises(TypeError, match=r"ends\[1\] is 7; it must be a tuple of at most 26 arguments"):
        convert(records, tokens, ends=((), 7))
    with pytest.raises(TypeError, match="middle has 29 arguments; at most 28"):
        convert(records, tokens, middle=(0,) * 29, ends=())
    assert len(convert(records, tokens, middle=(0,) * 28, ends=((),), stored=lambda *all: all)[0]) == 32
    for wrong in ((), (records, tokens), (records, tokens, True, Stored, removed, list, [], (), None)):
        with pytest.raises(TypeError):
            _native.runs_of_events(*wrong)


def test_an_exception_of_what_makes_the_objects_passes_through(events):
    class Refused(Exception):
        pass

    def refuse(*unused):
        raise Refused

    with pytest.raises(Refused):
        convert(*events, stored=refuse)
    with pytest.raises(Refused):
        convert(*events, keys=refuse)
