#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Texts of wrong usage: they name what was given, what may be given, and what was probably meant; none has a name of a library."""
import os
import pty
import re
import subprocess
import unittest

import command

ALL = "info, replay, advise, simulate, generate, models, estimate, bench, inspect, checkpoint, route"
CASES = (
    ("", f"no command; give one of {ALL}"),
    ("replya x", "no command replya; did you mean replay?"),
    ("est", "no command est; did you mean estimate?"),
    ("xyz", f"no command xyz; give one of {ALL}"),
    ("plot trace.jsonl", "plot is a command of the Python package: python -m kvcache plot"),
    ("--json info", f"no option --json before the command, which is one of {ALL}"),
    ("replay --generate --num-block 3", "no option --num-block; did you mean --num-blocks?"),
    ("replay --generate --num_blocks=3", "no option --num_blocks=3; did you mean --num-blocks?"),
    ("replay --generate --verfy", "no option --verfy; did you mean --verify?"),
    ("bench copy --dtpe int8", "no option --dtpe; did you mean --dtype?"),
    ("models --frobnicate", "no option --frobnicate"),
    ("models llama", "one argument too many: llama"),
    ("bench atention", "WHAT is atention; it must be one of attention, step, store, gather, copy, swap-out, swap-in, checkpoint, tier, events, index; did you mean attention?"),
    ("bench", "WHAT is missing; it must be one of attention, step, store, gather, copy, swap-out, swap-in, checkpoint, tier, events, index"),
    ("estimate", "MODEL is missing"),
    ("estimate llama-3.1-8b --dtype int9", "--dtype is int9; it must be one of fp16, bf16, fp32, fp8, int8, int4; did you mean int8?"),
    ("replay --generate --block-size 0", "--block-size is 0; it must be from 1 to 1024"),
    ("replay --generate --num-blocks many", "--num-blocks is many; it must be from 1 to 2147483582"),
    ("replay --generate --num-blocks", "--num-blocks needs a value; it must be from 1 to 2147483582"),
    ("replay --generate --seed x", "--seed is x, which is no number"),
    ("replay --generate --seed 1 --seed 2", "--seed is given more than once"),
    ("replay x --generate", "TRACE excludes --generate: leave one out"),
    ("replay x --seed 3", "--seed requires --generate"),
)


class UsageTest(command.CommandTest):
    def test_wrong_usage_is_explained(self):
        for words, text in CASES:
            with self.subTest(words):
                result = command.run(*words.split())
                self.assert_refused(result)
                name = words.split()[0] if words.split()[:1] in (["replay"], ["bench"], ["models"], ["estimate"]) else ""
                self.assertEqual(result[2], f"kvcache: {text}\nRun '{' '.join(filter(None, ('kvcache', name)))} --help' for help.\n")

    def test_texts_of_failed_calls_have_no_names_of_the_library(self):
        for words in ("bench store --device abacus:0", "estimate lama", "info --backend abacus"):
            _, out, err = command.run(*words.split())
            self.assertNotRegex(out + err, r"KVC_ERROR|kvc_|std::|terminate", words)


class ProgressTest(command.CommandTest):
    """On a terminal a long replay says how far it is and how long it will take."""

    def watch(self, *arguments):
        """What the command writes to a terminal that is its standard error."""
        try:
            ours, theirs = pty.openpty()
        except OSError as error:
            self.skipTest(f"this system has no terminals: {error}")
        with subprocess.Popen([command.BINARY, *arguments], stdout=subprocess.DEVNULL, stderr=theirs) as process:
            os.close(theirs)
            text = b""
            while True:
                try:
                    piece = os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
                if not piece:
                    break
                text += piece
            self.assertEqual(process.wait(), 0)
        os.close(ours)
        return text.decode()

    def test_a_replay_shows_its_progress_on_a_terminal_alone(self):
        arguments = "replay --generate --requests 30000 --json".split()
        text = self.watch(*arguments)
        lines = re.findall(r"\r\x1b\[Kreplay: ([\d,]+) of 30,000 requests, \d+ live(?:, \d+:\d\d left)?(?=\r)", text)
        self.assertGreater(len(lines), 0, text[:500])
        done = [int(count.replace(",", "")) for count in lines]
        self.assertEqual(done, sorted(done))
        self.assertTrue(text.endswith("\r\x1b[K"), "the line is not removed")
        self.assertEqual(command.run("replay", "--generate", "--requests", "10")[2], "")
        self.assertIn("\r\x1b[Ksimulate: ", self.watch(*"simulate --generate --requests 4000 --rate 64".split()))


if __name__ == "__main__":
    command.main()
