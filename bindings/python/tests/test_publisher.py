# SPDX-License-Identifier: Apache-2.0
"""What a Publisher publishes is what the manager has, as each router reads it."""
import random

import pytest

import consumers
import kvcache


def contents(manager, first=False):
    """(group, hash) of all that can be found."""
    out = set()
    for event in manager.prefixes():
        part = event.digest[:8] if first else event.digest[-8:]
        out.add((event.group, int.from_bytes(part, "big")))
    return out


def live(rng, manager):
    kind = rng.randrange(10)
    if kind < 7:
        tokens = [rng.randrange(3)] * (4 * rng.randrange(4)) + [100 + rng.randrange(6)] * rng.randrange(1, 20)
        try:
            with manager.allocate(tokens) as request:
                request.commit(len(tokens))
        except kvcache.NoSpaceError:
            pass
    elif kind < 9:
        manager.evict(rng.randrange(8))
    else:
        manager.reset_all()


def follow(publisher, routers, next_batch):
    while True:
        read = publisher.read(next_batch)
        if read is None:
            return next_batch
        number, payload = read
        assert number == next_batch
        for router in routers:
            router.apply(payload)
        next_batch += 1


@pytest.mark.parametrize("arrays", (False, True))
def test_each_router_has_what_the_manager_has(arrays):
    rng = random.Random(1)
    routers = [kind() for kind in consumers.ALL if kind.arrays or not arrays]
    with kvcache.Manager(40, 4, event_capacity=4096) as manager, kvcache.Publisher(manager, arrays=arrays, max_blocks=8) as publisher:
        next_batch = 0
        for _ in range(150):
            for _ in range(rng.randrange(12)):
                live(rng, manager)
            publisher.poll()
            next_batch = follow(publisher, routers, next_batch)
            expected = contents(manager)
            for router in routers:
                assert router.blocks == expected, type(router).__name__
        assert publisher.stats().next_sequence == next_batch > 10
        assert all(router.orphans == 0 for router in routers if isinstance(router, consumers.LlmD))


def test_bytes_are_for_those_who_agree_on_the_part():
    with kvcache.Manager(16, 4, event_capacity=64) as manager, kvcache.Publisher(manager, bytes_hashes=True) as publisher:
        with manager.allocate([1] * 8) as request:
            request.commit(8)
        publisher.poll()
        last, first, integers = consumers.LlmD(), consumers.AIBrix(), consumers.Dynamo()
        follow(publisher, (last, first), 0)
        assert last.blocks == contents(manager)
        assert first.blocks == contents(manager, first=True)
        with pytest.raises(consumers.Refused, match="the hash"):
            follow(publisher, (integers,), 0)


def test_a_rank_of_nil_is_refused_by_those_who_want_one():
    with kvcache.Manager(16, 4, event_capacity=64) as manager, kvcache.Publisher(manager, rank=None) as publisher:
        publisher.poll()
        follow(publisher, (consumers.Dynamo(), consumers.LlmD()), 0)
        with pytest.raises(consumers.Refused, match="the rank"):
            follow(publisher, (consumers.AIBrix(),), 0)


def test_names_reach_the_wire():
    with kvcache.Manager(16, 4, event_capacity=64) as manager, kvcache.Publisher(manager, medium="CPU", rank=3, hash="vllm") as publisher:
        tenant = manager.namespace(adapter=b"sql")
        publisher.name_namespace(tenant, lora_name="sql", lora_path="/adapters/sql")
        with manager.allocate([1] * 8, namespace=tenant) as request:
            request.commit(8)
        publisher.poll()
        time, events, rank = consumers.unpack(publisher.read(0)[1])
        assert rank == 3 and time > 1.7e9
        assert events[0] == {"type": "AllBlocksCleared"}
        stored = events[1]
        assert (stored["lora_name"], stored["medium"], stored["extra_keys"], stored["block_size"]) == ("sql", "CPU", [["sql"], ["sql"]], 4)


def test_it_keeps_its_manager():
    manager = kvcache.Manager(16, 4, event_capacity=64)
    publisher = kvcache.Publisher(manager)
    manager.close()
    assert publisher.poll() == 1
    publisher.close()
    publisher.close()
    with pytest.raises(ValueError, match="the publisher is closed"):
        publisher.poll()


def test_refuses_with_a_text():
    with kvcache.Manager(16, 4) as manager:
        with pytest.raises(kvcache.UnsupportedError, match="event_capacity"):
            kvcache.Publisher(manager)
        with pytest.raises(ValueError, match="hash is 'md5'; it must be one of 'digest', 'vllm', 'sglang'"):
            kvcache.Publisher(manager, hash="md5")
        with pytest.raises(TypeError, match="manager is NoneType"):
            kvcache.Publisher(None)
