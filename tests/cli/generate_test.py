#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The synthetic trace: the same everywhere, well formed, and shaped like the trace of a chat service."""
import hashlib
import os
import tempfile
import unittest

import command


def nearest_rank(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


class Generate(unittest.TestCase):
    def test_equal_seeds_give_equal_bytes_on_every_platform(self):
        trace = command.generate("--requests", 50, "--seed", 1)
        self.assertEqual(trace, command.generate("--requests", 50, "--seed", 1))
        self.assertEqual(hashlib.sha256(trace).hexdigest(),
                         "f8e8db7dafeb5eb0db62856b7bca6d1ffcffdd923cb8471ff7efc6b76c169226")

    def test_another_seed_gives_another_trace(self):
        self.assertNotEqual(command.generate("--requests", 50, "--seed", 1),
                            command.generate("--requests", 50, "--seed", 2))

    def test_a_longer_trace_begins_with_the_shorter_one(self):
        self.assertTrue(command.generate("--requests", 200).startswith(command.generate("--requests", 60)))

    def test_a_file_gets_the_same_bytes_as_standard_output(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.jsonl")
            self.assertEqual(command.generate("--requests", 20, "-o", path), b"")
            with open(path, "rb") as file:
                self.assertEqual(file.read(), command.generate("--requests", 20))

    def test_ids_are_dense_and_each_follows_one_predecessor(self):
        requests = command.parse(command.generate("--requests", 2000, "--seed", 3))
        before, seen = {0: None}, set()
        for request in requests:
            ids = request["hash_ids"]
            self.assertEqual(len(ids), -(-request["input_length"] // command.HASH_BLOCK))
            self.assertEqual(ids[0], 0)
            for previous, this in zip(ids, ids[1:]):
                self.assertEqual(before.setdefault(this, previous), previous)
            seen.update(ids)
        self.assertEqual(seen, set(range(len(seen))))
        times = [request["timestamp"] for request in requests]
        self.assertEqual(times, sorted(times))

    def test_statistics_are_those_of_the_published_trace(self):
        for seed in (1, 2):
            requests = command.parse(command.generate("--requests", 8000, "--seed", seed))
            inputs = [request["input_length"] for request in requests]
            outputs = [request["output_length"] for request in requests]
            seen, hits, blocks = set(), 0, 0
            for request in requests:
                hits += sum(id in seen for id in request["hash_ids"])
                blocks += len(request["hash_ids"])
                seen.update(request["hash_ids"])
            for what, value, expected, share in (
                    ("mean input", sum(inputs) / len(inputs), 12035, 0.06),
                    ("median input", nearest_rank(inputs, 0.5), 6909, 0.06),
                    ("90 % input", nearest_rank(inputs, 0.9), 27367, 0.08),
                    ("mean output", sum(outputs) / len(outputs), 343, 0.06),
                    ("repeated blocks", hits / blocks, 0.366, 0.10)):
                self.assertLess(abs(value / expected - 1), share, f"{what} is {value}, seed {seed}")
            self.assertGreaterEqual(min(inputs), 891)
            self.assertLessEqual(max(inputs), 126195)
            self.assertLessEqual(max(outputs), 2000)


if __name__ == "__main__":
    command.main()
