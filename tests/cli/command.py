# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command share: where it is, how it is run, and the prefix hits that a trace allows.

The binary is the first argument of a test or, without one, the environment variable KVC_COMMAND. Without either the
test is skipped (exit code 77).
"""
import json
import os
import subprocess
import sys
import unittest

SKIPPED = 77
BLOCK = 16
HASH_BLOCK = 512


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def main():
    """Runs the tests of the calling program."""
    if not BINARY or not os.access(BINARY, os.X_OK):
        skip("give the kvcache binary as first argument or in KVC_COMMAND")
    unittest.main(argv=sys.argv[:1])


def run(*arguments, stdin=b""):
    """(exit code, standard output, standard error)"""
    done = subprocess.run([BINARY, *map(str, arguments)], input=stdin, capture_output=True, timeout=300, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace")


def replay(*arguments, stdin=b""):
    """The JSON report of a replay that must succeed."""
    code, out, err = run("replay", "--json", *arguments, stdin=stdin)
    if code != 0:
        raise AssertionError(f"replay {arguments} ended with {code}: {err}")
    return json.loads(out)


class CommandTest(unittest.TestCase):
    def assert_refused(self, result, *words):
        """The command ended with 2, printed nothing and named all `words` among its errors."""
        code, out, err = result
        self.assertEqual(code, 2, err)
        self.assertEqual(out, "")
        for word in words:
            self.assertIn(word, err)


def generate(*arguments):
    """The bytes of a generated trace."""
    code, out, err = run("generate", *arguments)
    if code != 0:
        raise AssertionError(f"generate {arguments} ended with {code}: {err}")
    return out.encode()


def parse(trace):
    return [json.loads(line) for line in trace.splitlines()]


def possible_block_hits(requests):
    """Blocks that a replay hits if nothing is ever evicted and each request is done before the next one starts."""
    seen, hits = set(), 0
    for request in requests:
        length, ids = request["input_length"], request["hash_ids"]
        blocks = [(tuple(ids[:at // HASH_BLOCK + 1]), at) for at in range(0, length // BLOCK * BLOCK, BLOCK)]
        for block in blocks[:(length - 1) // BLOCK]:
            if block not in seen:
                break
            hits += 1
        seen.update(blocks)
    return hits


BINARY = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("KVC_COMMAND")
