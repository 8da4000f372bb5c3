#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Broken traces and wrong usage: exit code 2, file and line in the text, nothing on standard output, never a crash."""
import os
import tempfile

import command

GOOD = b'{"timestamp": 0, "input_length": 1000, "output_length": 3, "hash_ids": [0, 1]}\n'
BAD_LINES = {
    b"{": "not JSON",
    b"hello": "not JSON",
    b"\xff\xfe\x00": "not JSON",
    b'{"input_length": 1000, "output_length": 3, "hash_ids": [0, 1]} x': "not JSON",
    b"[" * 100000: "nested deeper",
    b"7": "not a JSON object",
    b"[1, 2]": "not a JSON object",
    b"null": "not a JSON object",
    b"{}": 'no "input_length"',
    b'{"input_length": 1000, "hash_ids": [0, 1]}': 'no "output_length"',
    b'{"input_length": 1000, "output_length": 3}': 'no "hash_ids"',
    b'{"input_length": ' + b"[" * 1000000 + b"]" * 1000000 + b', "output_length": 3, "hash_ids": [0]}': "nested deeper than 64 levels",
    b'{"input_length": [1], "output_length": 3, "hash_ids": [0]}': "input_length is no number",
    b'{"input_length": -5, "output_length": 3, "hash_ids": [0]}': "input_length is -5",
    b'{"input_length": 0, "output_length": 3, "hash_ids": [0]}': "input_length is 0",
    b'{"input_length": 10.5, "output_length": 3, "hash_ids": [0]}': "input_length is 10.5",
    b'{"input_length": "10", "output_length": 3, "hash_ids": [0]}': "input_length is",
    b'{"input_length": 10, "output_length": -1, "hash_ids": [0]}': "output_length is -1",
    b'{"input_length": 10, "output_length": 99999999, "hash_ids": [0]}': "output_length is 99999999",
    b'{"input_length": 4294967297, "output_length": 3, "hash_ids": [0]}': "input_length is 4294967297",
    b'{"input_length": 1e999, "output_length": 3, "hash_ids": [0]}': "not JSON",
    b'{"input_length": 513, "output_length": 3, "hash_ids": [0]}': "needs 2",
    b'{"input_length": 16777216, "output_length": 3, "hash_ids": []}': "needs 32768",
    b'{"input_length": 10, "output_length": 3, "hash_ids": 0}': "hash_ids is not an array",
    b'{"input_length": 10, "output_length": 3, "hash_ids": [-1]}': "hash_ids[0] is -1",
    b'{"input_length": 10, "output_length": 3, "hash_ids": [null]}': "hash_ids[0] is null",
    b'{"input_length": 10, "output_length": 3, "hash_ids": [18446744073709551615]}': "hash_ids[0] is 18446744073709551615",
}


class BadInput(command.CommandTest):
    def test_a_bad_line_is_named_with_its_file_its_number_and_its_defect(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bad.jsonl")
            for line, defect in BAD_LINES.items():
                with open(path, "wb") as file:
                    file.write(GOOD + line + b"\n" + GOOD)
                self.assert_refused(command.run("replay", path), "bad.jsonl:2: ", defect, "; ")

    def test_no_prefix_of_a_line_crashes(self):
        for end in range(len(GOOD)):
            code, _, _ = command.run("replay", "-", stdin=GOOD[:end])
            self.assertEqual(code, 0 if end >= len(GOOD) - 1 else 2, GOOD[:end])

    def test_blank_lines_and_carriage_returns_are_no_defect(self):
        self.assertEqual(command.replay("-", stdin=b"\n" + GOOD.replace(b"\n", b"\r\n") + b"\r\n\n")["requests"], 1)

    def test_lines_after_the_last_wanted_one_are_not_read(self):
        self.assertEqual(command.replay("-", "--requests", 1, stdin=GOOD + b"{")["requests"], 1)

    def test_files_that_are_no_trace(self):
        self.assert_refused(command.run("replay", "-", stdin=b""), "no requests")
        self.assert_refused(command.run("replay", "-", stdin=b"\n\n"), "no requests")
        with tempfile.TemporaryDirectory() as folder:
            self.assert_refused(command.run("replay", folder), "is a directory")
            self.assert_refused(command.run("replay", os.path.join(folder, "none.jsonl")), "none.jsonl")
        self.assert_refused(command.run("replay", "/dev/zero"), "/dev/zero:1", "16 MiB")

    def test_wrong_usage(self):
        for arguments in ([], ["replay"], ["nonsense"], ["replay", "x", "--nonsense"], ["replay", "x", "--generate"],
                          ["replay", "x", "--seed", "1"], ["generate", "--requests", "1000001"], ["generate", "-o", "/nonexistent/folder/trace"]):
            self.assert_refused(command.run(*arguments))
        for option, value in (("--policy", "random"), ("--block-size", 0), ("--block-size", 1025), ("--num-blocks", 0),
                              ("--num-blocks", 2**31 - 1), ("--concurrency", 0), ("--requests", 0), ("--requests", -3),
                              ("--requests", 1000001), ("--policy-weight", 1)):
            self.assert_refused(command.run("replay", "--generate", option, value))
        self.assert_refused(command.run("replay", "--generate", "--retention", "16"), "--model")
        self.assert_refused(command.run("replay", "--generate", "--retention", "24", "--model", "gpt-oss-20b"), "--retention is 24", "multiple", "16")
        for policy, weight, limit in (("frequency", -1, "1000"), ("frequency", 1001, "1000"), ("frequency", "nan", "1000"),
                                      ("fragmentation", 1.5, "0 to 1"), ("fragmentation", "inf", "0 to 1"), ("lru", 0.5, "lru")):
            self.assert_refused(command.run("replay", "--generate", "--policy", policy, "--policy-weight", weight), "--policy-weight is", limit)
        for hints in ("oracle", "oracle:", "oracle:1.5", "oracle:-1", "oracle:nan", "oracle:0.5x", "0.9"):
            self.assert_refused(command.run("replay", "--generate", "--hints", hints), f"--hints is {hints};", "0 to 1")
        self.assert_refused(command.run("bench", "attention", "--queries", 17, "--context", 16), "--queries")

    def test_help_is_no_error(self):
        code, out, err = command.run("replay", "--help")
        self.assertEqual((code, err), (0, ""))
        for option in ("--requests", "--block-size", "--num-blocks", "--concurrency", "--commit-late",
                       "--json", "--verify", "--generate", "--seed", "--policy", "--policy-weight", "--optimal", "--hints", "--curve"):
            self.assertIn(option, out)


if __name__ == "__main__":
    command.main()
