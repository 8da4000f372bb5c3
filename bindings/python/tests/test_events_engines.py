# SPDX-License-Identifier: Apache-2.0
"""Batches on the wire beside vLLM's own classes, hashes, publisher and replay. Needs msgspec, pyzmq, cbor2, the plug-in zmq, and the wheel of vLLM in
the folder KVC_ENGINE_WHEELS: scripts/integrations events."""
import os
import pathlib
import random
import sys
import time

import pytest

import kvcache
from test_publisher import contents, live

msgspec = pytest.importorskip("msgspec")
zmq = pytest.importorskip("zmq")
pytest.importorskip("cbor2")
FOLDER = os.environ.get("KVC_ENGINE_WHEELS")
if not FOLDER:
    pytest.skip("KVC_ENGINE_WHEELS names no folder with the wheel of vLLM", allow_module_level=True)
try:
    kvcache.open_plugin("zmq")
except kvcache.NotFoundError:
    pytest.skip("the plug-in zmq is not there; set KVC_PLUGIN_PATH", allow_module_level=True)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests" / "events"))
import engines  # noqa: E402

vllm = engines.vllm(engines.wheel("vllm", "0.33.0", FOLDER))
decode = msgspec.msgpack.Decoder(type=vllm.KVEventBatch).decode


class Subscriber:
    """Follows a publisher by SUB, and asks for what it misses by DEALER."""

    def __init__(self, publish, replay, loses=0.0):
        self.context = zmq.Context()
        self.sub, self.dealer = self.context.socket(zmq.SUB), self.context.socket(zmq.DEALER)
        self.sub.connect(publish)
        self.sub.subscribe("")
        self.dealer.connect(replay)
        self.next, self.blocks, self.replays = 0, set(), 0
        self.loses, self.rng = loses, random.Random(1)

    def close(self):
        self.context.destroy(linger=0)

    def take(self, sequence, payload):
        assert sequence == self.next
        self.next += 1
        for event in decode(payload).events:
            if isinstance(event, vllm.AllBlocksCleared):
                self.blocks.clear()
            elif isinstance(event, vllm.BlockStored):
                assert len(event.token_ids) == event.block_size * len(event.block_hashes)
                self.blocks |= {(event.group_idx or 0, h) for h in event.block_hashes}
            else:
                self.blocks -= {(event.group_idx or 0, h) for h in event.block_hashes}

    def replay(self, poll):
        self.replays += 1
        self.dealer.send_multipart((b"", self.next.to_bytes(8, "big")))
        while True:
            poll()
            if not self.dealer.poll(10):
                continue
            empty, topic, sequence, payload = self.dealer.recv_multipart()
            if sequence == b"\xff" * 8:
                assert (empty, topic, payload) == (b"", b"", b"")
                return
            if int.from_bytes(sequence, "big") >= self.next:
                self.take(int.from_bytes(sequence, "big"), payload)

    def read(self, poll):
        while self.sub.poll(0):
            topic, sequence, payload = self.sub.recv_multipart()
            assert len(sequence) == 8
            number = int.from_bytes(sequence, "big")
            if self.rng.random() < self.loses:
                continue
            if number > self.next:
                self.replay(poll)
            if number >= self.next:
                self.take(number, payload)


@pytest.fixture
def places(tmp_path):
    return f"ipc://{tmp_path}/pub", f"ipc://{tmp_path}/replay"


@pytest.mark.parametrize("loses", (0.0, 0.1))
def test_a_subscriber_with_the_classes_of_vllm_has_what_the_manager_has(places, loses):
    rng, subscriber = random.Random(2), Subscriber(*places, loses)
    with kvcache.Manager(40, 4, event_capacity=4096) as manager:
        with kvcache.Publisher(manager, f"zmq:{places[0]}?replay={places[1]}", max_blocks=4) as publisher:
            for _ in range(200):
                for _ in range(rng.randrange(8)):
                    live(rng, manager)
                publisher.poll()
                subscriber.read(publisher.poll)
            subscriber.replay(publisher.poll)
            assert subscriber.blocks == contents(manager)
            assert subscriber.next == publisher.stats().next_sequence
            assert publisher.stats().bad_requests == 0
    subscriber.close()


def test_the_same_subscriber_follows_the_publisher_of_vllm(places):
    """Otherwise the test above would show little."""
    theirs = vllm.ZmqEventPublisher(0, *places, topic="")
    subscriber = Subscriber(*places)
    subscriber.dealer.setsockopt(zmq.LINGER, 0)
    for i in range(20):
        theirs.publish(vllm.KVEventBatch(ts=1.0, events=[vllm.BlockStored(block_hashes=[i], parent_block_hash=None, token_ids=[1], block_size=1, lora_id=None,
                                                                         medium="GPU", lora_name=None)]))
    for _ in range(100):
        subscriber.replay(lambda: None)
        if subscriber.next == 20:
            break
        time.sleep(0.05)
    assert subscriber.blocks == {(0, i) for i in range(20)}
    subscriber.close()
    theirs.shutdown()


def test_hashes_are_those_of_vllm():
    root = vllm.root(vllm.default_seed)
    with kvcache.Manager(40, 16, event_capacity=256) as manager, kvcache.Publisher(manager, hash="vllm", bytes_hashes=True) as publisher:
        adapter = manager.namespace(adapter=b"sql")
        publisher.name_namespace(adapter, lora_name="sql", lora_path="/adapters/sql")
        tokens = [i * 7919 % 150000 for i in range(64)]
        expected = set()
        for namespace, keys in ((0, None), (adapter, (("lora", "sql", "/adapters/sql"),))):
            with manager.allocate(tokens, namespace=namespace) as request:
                request.commit(64)
            parent = root
            for i in range(4):
                parent = vllm.block_hash(parent, tokens[16 * i:16 * i + 16], keys)
                expected.add(parent)
        publisher.poll()
        told = set()
        for event in decode(publisher.read(0)[1]).events:
            if isinstance(event, vllm.BlockStored):
                told |= set(event.block_hashes)
        assert told == expected


def test_batches_of_vllm_are_encoded_alike():
    """What vLLM decodes, it encodes to the same bytes."""
    encode = msgspec.msgpack.Encoder().encode
    rng = random.Random(3)
    with kvcache.Manager(40, 4, event_capacity=4096) as manager, kvcache.Publisher(manager, max_blocks=8) as publisher:
        at = 0
        for _ in range(50):
            live(rng, manager)
            publisher.poll()
            while (read := publisher.read(at)) is not None:
                assert encode(decode(read[1])) == read[1]
                at += 1
    assert at > 10
