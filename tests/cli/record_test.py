#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Logs of calls: a replay writes one, and another process with another hash seed makes its calls again."""
import json
import os
import tempfile

import command


class Record(command.CommandTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "calls.log")

    def record(self, *arguments):
        report = command.replay("--generate", "--requests", 60, "--seed", 3, "--record", self.path, *arguments)
        with open(self.path, "rb") as log:
            return report, log.read()

    def replayed(self, *arguments):
        code, out, err = command.run("replay", "--log", self.path, "--json", *arguments)
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def test_a_replay_is_the_same_with_a_log(self):
        plain = command.replay("--generate", "--requests", 60, "--seed", 3)
        report, _ = self.record()
        for key in ("cached_tokens", "evictions", "preemptions", "block_hits"):
            self.assertEqual(report[key], plain[key], key)

    def test_its_calls_give_the_same_results_in_every_process(self):
        for options in ((), ("--tables",), ("--num-blocks", 2000, "--policy", "frequency"), ("--num-blocks", 3000, "--hints", "oracle:1"), ("--verify",)):
            with self.subTest(options):
                self.record(*options)
                first, second = self.replayed(), self.replayed()
                self.assertEqual(first, second)
                self.assertGreater(first["calls"], 100)
                self.assertEqual((first["mismatches"], first["first_mismatch"], first["lost_calls"], first["text"]), (0, 0, 0, ""))
                self.assertRegex(first["digest"], "^[0-9a-f]{16}$")

    def test_equal_runs_have_equal_digests(self):
        self.record()
        digest = self.replayed()["digest"]
        self.record()
        self.assertEqual(self.replayed()["digest"], digest)
        self.record("--num-blocks", 2000)
        self.assertNotEqual(self.replayed()["digest"], digest)

    def test_as_a_table_and_from_standard_input(self):
        _, log = self.record()
        code, out, _ = command.run("replay", "--log", "-", stdin=log)
        self.assertEqual(code, 0)
        self.assertRegex(out, r"calls +[\d,]+ +of library 0\.3\.0\n +digest +[0-9a-f]{16}")

    def test_a_log_that_was_cut_or_changed_is_refused(self):
        _, log = self.record()
        self.assert_refused(command.run("replay", "--log", "-", stdin=log[:-1]), "(standard input): byte ", "the log ends 1 bytes before")
        self.assert_refused(command.run("replay", "--log", "-", stdin=log[:100] + bytes([log[100] ^ 1]) + log[101:]), "checksum")
        self.assert_refused(command.run("replay", "--log", "-", stdin=log[:8] + b"\7" + log[9:]), "format 7", "reads format 2")
        self.assert_refused(command.run("replay", "--log", "-", stdin=b""), "the log is empty")
        self.assert_refused(command.run("replay", "--log", "-", stdin=b"{}\n" * 40), "KVCLOG")

    def test_other_options_are_refused(self):
        self.record()
        self.assert_refused(command.run("replay", "--log", self.path, "--generate"), "--log")
        self.assert_refused(command.run("replay", "--log", os.path.join(self.path, "x")), "Not a directory")
        self.assert_refused(command.run("replay", "--log", os.path.dirname(self.path)), "is a directory")
        self.assert_refused(command.run("replay", "--generate", "--requests", 5, "--record", os.path.dirname(self.path)), "give a writable file")


if __name__ == "__main__":
    command.main()
