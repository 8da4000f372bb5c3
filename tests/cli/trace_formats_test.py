#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces of Qwen-Bailian beside those of Mooncake: what is hit, and what is refused."""
import json

import command


def chat(number, parent, ids, **changes):
    """A request whose last block is half full."""
    line = {"chat_id": number, "parent_chat_id": parent, "timestamp": number * 1.5, "input_length": 16 * len(ids) - 8, "output_length": 3,
            "type": "text", "turn": 1, "hash_ids": ids}
    line.update(changes)
    return line


def text(*lines):
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


CHATS = [chat(0, -1, [1, 2, 3]), chat(1, 0, [1, 2, 3, 4, 5]), chat(2, -1, [9, 8]), chat(3, 1, [1, 2, 3, 4, 5, 6]), chat(4, -1, [1, 7, 7])]


class TraceFormats(command.CommandTest):
    def test_blocks_of_16_tokens_are_shared_by_their_ids(self):
        report = command.replay("-", "--verify", "--concurrency", 1, stdin=text(*CHATS))
        self.assertEqual(report["requests"], 5)
        self.assertEqual(report["prompt_tokens"], 40 + 72 + 24 + 88 + 40)
        self.assertEqual(report["cached_tokens"], 2 * 16 + 0 + 4 * 16 + 16)
        self.assertEqual(report["wrong_hits"], 0)

    def test_the_optimum_and_the_oracle_know_the_format(self):
        report = command.replay("-", "--optimal", "--hints", "oracle:1", "--concurrency", 1, stdin=text(*CHATS))
        self.assertEqual(report["optimal_hit_rate"], report["hit_rate"])

    def test_seconds_are_read(self):
        code, out, err = command.run("advise", "-", "--mode", "reactive", "--interval", 1, "--json", stdin=text(*CHATS))
        self.assertEqual(code, 0, err)
        self.assertEqual(len(json.loads(out)["log"]), 7)  # 0 s to 6 s

    def refused(self, *words, line=1, first=(), **changes):
        self.assert_refused(command.run("replay", "-", stdin=text(*first, chat(0, -1, [1, 2], **changes))), f":{line}: ", *words)

    def test_bad_lines_are_refused(self):
        self.refused("chat_id is -1", "give a whole number", chat_id=-1)
        self.refused("chat_id is \"x\"", chat_id="x")
        self.refused("parent_chat_id is -2", "give a whole number", parent_chat_id=-2)
        self.refused("parent_chat_id is null", parent_chat_id=None)
        self.refused("timestamp is -1", "give seconds from 0", timestamp=-1)
        self.refused("timestamp is \"now\"", timestamp="now")
        self.refused("hash_ids has 2 ids", "needs 3", "one id per 16 prompt tokens", input_length=33)
        self.refused("input_length is 0", input_length=0)
        self.refused("hash_ids is not an array", "one id per 16", hash_ids=5)
        self.refused("a request with chat_id after requests without", "Mooncake or Qwen-Bailian", line=2,
                     first=[{"input_length": 5, "output_length": 1, "hash_ids": [1]}])
        self.assert_refused(command.run("replay", "-", stdin=text(*CHATS, {"input_length": 5, "output_length": 1, "hash_ids": [1]})), ":6: ",
                            "no \"chat_id\" after requests with one")


if __name__ == "__main__":
    command.main()
