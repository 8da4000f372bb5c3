# SPDX-License-Identifier: Apache-2.0
"""`kvcache route` from the outside: which worker it names for a prompt, by overlap and load, and that no line ends it but the one that should."""
import hashlib
import json
import os
import signal
import socket
import struct
import subprocess
import tempfile

import command

BLOCK = 4


def digests(tokens):
    """Of the full blocks of a prompt in the default namespace, as kvcache/events.h defines them."""
    parent = hashlib.sha256(b"kvcache namespace 1\0" + bytes(27)).digest()
    made = []
    for begin in range(0, len(tokens) - BLOCK + 1, BLOCK):
        parent = hashlib.sha256(struct.pack(f"<{BLOCK}i", *tokens[begin:begin + BLOCK]) + parent + struct.pack("<I", BLOCK)).digest()
        made.append(parent.hex())
    return made


def stored(tokens, first=0):
    return [{"kind": "stored", "sequence": first + i, "time_ns": 7, "digest": digest} for i, digest in enumerate(digests(tokens))]


class RouteTest(command.CommandTest):
    def start(self, *options):
        self.process = subprocess.Popen([command.BINARY, "route", "--block-size", str(BLOCK), *options], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.addCleanup(self.process.stdout.close)
        self.addCleanup(self.process.stderr.close)
        self.addCleanup(self.end)
        self.address = json.loads(self.process.stdout.readline())["listening"]
        self.connect()

    def connect(self):
        if self.address.startswith("unix:"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(self.address[5:])
        else:
            host, port = self.address.split(":")
            self.socket = socket.create_connection((host, int(port)))
        self.lines = self.socket.makefile("rb")
        self.addCleanup(self.socket.close)
        self.addCleanup(self.lines.close)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def send(self, line):
        self.socket.sendall((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")
        return json.loads(self.lines.readline())

    def ask(self, line):
        found = self.send(line)
        self.assertTrue(found.get("ok"), found)
        return found

    def refuse(self, line, *words):
        found = self.send(line)
        self.assertFalse(found["ok"])
        for word in words:
            self.assertIn(word, found["error"])

    def test_the_longest_prefix_wins_until_its_worker_has_too_much_to_do(self):
        self.start()
        prompt = list(range(40))
        for worker in (1, 2, 3):
            self.ask({"worker": worker, "name": f"engine-{worker}"})
        self.ask({"worker": 2, "events": stored(prompt)})
        self.ask({"worker": 3, "events": stored(prompt[:12])})
        self.assertEqual(self.ask({"tokens": prompt}), {"ok": True, "worker": 2, "matched": 10, "blocks": 10, "cost": 0.0})
        self.assertEqual(self.ask({"digests": digests(prompt)}), {"ok": True, "worker": 2, "matched": 10, "blocks": 10, "cost": 0.0})
        self.ask({"worker": 2, "load": 8})
        self.assertEqual(self.ask({"tokens": prompt}), {"ok": True, "worker": 3, "matched": 3, "blocks": 10, "cost": 7.0})
        self.ask({"worker": 3, "load": 2})
        self.assertEqual(self.ask({"tokens": prompt})["worker"], 2)
        self.assertEqual(self.ask({"tokens": [5] * 9})["worker"], 1)
        self.ask({"gone": 2})
        self.assertEqual(self.ask({"tokens": prompt})["worker"], 3)

    def test_a_block_that_must_be_loaded_costs_a_half(self):
        self.start()
        prompt = list(range(16))
        for worker in (1, 2):
            self.ask({"worker": worker})
        self.ask({"worker": 1, "events": stored(prompt), "medium": 1})
        self.ask({"worker": 2, "events": stored(prompt[:4])})
        self.assertEqual(self.ask({"tokens": prompt}), {"ok": True, "worker": 1, "matched": 4, "blocks": 4, "cost": 2.0})
        self.ask({"worker": 2, "events": stored(prompt)})
        self.assertEqual(self.ask({"tokens": prompt})["worker"], 2)

    def test_events_say_what_is_missing(self):
        self.start()
        self.ask({"worker": 1})
        self.assertEqual(self.ask({"worker": 1, "events": stored(range(8))}),
                         {"ok": True, "applied": 2, "ignored": 0, "next_sequence": 2, "is_stale": False})
        self.assertEqual(self.ask({"worker": 1, "events": stored(range(4), 5)})["is_stale"], True)
        self.assertEqual(self.ask({"worker": 1, "events": stored(range(8))})["ignored"], 2)
        removed = [{"kind": "removed", "sequence": i, "time_ns": 7, "digest": digests(range(8))[0]} for i in range(2, 6)]
        self.assertEqual(self.ask({"worker": 1, "events": removed})["is_stale"], False)
        self.assertEqual(self.ask({"tokens": list(range(8))})["matched"], 0)
        self.assertEqual(self.ask({"stats": True})["gaps"], 1)

    def test_a_namespace_or_all_may_be_cleared(self):
        self.start()
        self.ask({"worker": 1})
        for sequence, kind in ((2, "namespace_cleared"), (5, "all_cleared")):
            self.ask({"worker": 1, "events": stored(range(8), sequence - 2)})
            self.assertEqual(self.ask({"tokens": list(range(8))})["matched"], 2)
            self.ask({"worker": 1, "events": [{"kind": kind, "sequence": sequence, "namespace_id": 0}]})
            self.assertEqual(self.ask({"tokens": list(range(8))})["matched"], 0)

    def test_garbage_is_answered_and_the_connection_stays(self):
        self.start()
        self.refuse({"tokens": [1]}, "no worker")
        self.ask({"worker": 1})
        for line in (b"", b"{", b"[1]", b"null", b"\xff\xfe", b'{"tokens":' + b"[" * 5000, b"{}"):
            self.refuse(line)
        self.refuse({"worker": 1}, "worker 1", "remove it")
        self.refuse({"worker": -1}, "whole number")
        self.refuse({"worker": 9, "load": 1}, "no worker 9")
        self.refuse({"worker": 1, "load": "x"}, "load")
        self.refuse({"worker": 1, "load": -1}, "load")
        self.refuse({"worker": 1, "events": 5}, "no array")
        self.refuse({"worker": 1, "events": [{"kind": "lost", "sequence": 0}]}, "stored, removed, namespace_cleared or all_cleared")
        self.refuse({"worker": 1, "events": [{"kind": "stored", "sequence": 0, "digest": "ab"}]}, "64 hex digits")
        self.refuse({"worker": 1, "events": [], "medium": 9}, "medium is 9")
        self.refuse({"tokens": [1, -1]}, "token")
        self.refuse({"tokens": [2.5]}, "token")
        self.refuse({"digests": ["z" * 64]}, "digest")
        self.refuse({"gone": 5}, "no worker 5")
        self.assertEqual(self.ask({"tokens": [1, 2, 3, 4]})["worker"], 1)

    def test_lines_may_come_in_pieces_and_many_at_once(self):
        self.start()
        self.ask({"worker": 1})
        line = json.dumps({"tokens": list(range(50000))}).encode() + b"\n"
        for begin in range(0, len(line), 30001):
            self.socket.sendall(line[begin:begin + 30001])
        self.assertEqual(json.loads(self.lines.readline())["blocks"], 12500)
        self.socket.sendall(b'{"stats":true}\n' * 500)
        for _ in range(500):
            self.assertTrue(json.loads(self.lines.readline())["ok"])
        self.socket.sendall(b'{"stats":true}\n')
        self.socket.shutdown(socket.SHUT_WR)
        self.assertTrue(json.loads(self.lines.readline())["ok"])
        self.assertEqual(self.lines.readline(), b"")
        self.connect()
        self.assertEqual(self.ask({"stats": True})["num_workers"], 1)

    def test_it_ends_by_a_line_and_by_signals(self):
        self.start()
        self.assertTrue(self.ask({"stop": True})["ok"])
        self.assertEqual(self.process.wait(30), 0)
        for number in (signal.SIGINT, signal.SIGTERM):
            self.start()
            self.ask({"stats": True})
            self.process.send_signal(number)
            self.assertEqual(self.process.wait(30), 0)

    def test_a_path_is_removed_at_the_end(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "socket")
            self.start("--listen", "unix:" + path)
            self.ask({"worker": 1})
            self.assert_refused(command.run("route", "--listen", "unix:" + path), "in use")
            self.ask({"stop": True})
            self.assertEqual(self.process.wait(30), 0)
            self.assertFalse(os.path.exists(path))

    def test_other_machines_cannot_reach_it(self):
        for address in ("0.0.0.0:0", "localhost", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "unix:", "unix:" + "x" * 200, ":5"):
            self.assert_refused(command.run("route", "--listen", address), "--listen", "give")


if __name__ == "__main__":
    command.main()
