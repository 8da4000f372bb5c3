#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The hit rates of the conversation trace of Mooncake, known from an independent program.

Reads traces/conversation_trace.jsonl in the folder that the environment variable KVC_SHARED_DATA names; is skipped
without it.
"""
import os
import unittest

import command

TRACE = os.path.join(os.environ.get("KVC_SHARED_DATA", ""), "traces", "conversation_trace.jsonl")
ONE_STEP = 0.0002


class KnownAnswers(unittest.TestCase):
    def assert_hit_rate(self, num_blocks, expected):
        report = command.replay(TRACE, "--requests", 2000, "--num-blocks", num_blocks, "--verify")
        self.assertLessEqual(abs(report["hit_rate"] - expected), ONE_STEP, report["hit_rate"])
        self.assertEqual((report["wrong_hits"], report["wrong_writes"]), (0, 0))
        self.assertEqual(report["prompt_tokens"], 27441774)
        self.assertEqual(report["output_tokens"], 704602)

    def test_conversation_trace_with_100_000_blocks(self):
        self.assert_hit_rate(100_000, 0.0645)

    def test_conversation_trace_with_1_000_000_blocks(self):
        self.assert_hit_rate(1_000_000, 0.2937)

    def test_unlimited_cache_hits_what_the_trace_allows(self):
        with open(TRACE, "rb") as file:
            requests = command.parse(b"".join(file.readline() for _ in range(400)))
        report = command.replay(TRACE, "--requests", 400, "--num-blocks", 600_000, "--concurrency", 1)
        self.assertEqual(report["evictions"], 0)
        self.assertEqual(report["block_hits"], command.possible_block_hits(requests))


if __name__ == "__main__":
    if not os.path.isfile(TRACE):
        command.skip("KVC_SHARED_DATA names no folder with traces/conversation_trace.jsonl")
    command.main()
