# SPDX-License-Identifier: Apache-2.0
"""`kvcache bench index` on small indexes: what it says of them, and that every answer was right."""
import json

import command

KEYS = ("bench", "hardware", "blocks", "workers", "rounds", "block_ops_per_s", "applied_per_s", "bytes_per_block_worker",
        "resident_bytes_per_block_worker", "shared_bytes_per_block_worker", "prompt_blocks", "prompt_workers", "p50_us", "p99_us",
        "wall_p99_us", "p50_tokens_us", "p99_tokens_us", "wrong_matches")
SMALL = ("--blocks", 20000, "--workers", 3, "--prompt-workers", 20, "--prompt-tokens", 4800, "--seconds", 1)


class IndexBenchTest(command.CommandTest):
    def test_json_has_every_figure(self):
        code, out, err = command.run("bench", "index", "--json", *SMALL)
        self.assertEqual(code, 0, err)
        found = json.loads(out)
        self.assertEqual(tuple(found), KEYS)
        self.assertEqual((found["bench"], found["blocks"], found["workers"], found["prompt_blocks"], found["prompt_workers"]),
                         ("index", 20000, 3, 300, 20))
        self.assertEqual(found["wrong_matches"], 0)
        self.assertGreaterEqual(found["rounds"], 3)
        for key in KEYS[5:]:
            if key != "wrong_matches":
                self.assertGreater(found[key], 0, key)
        self.assertLess(found["shared_bytes_per_block_worker"], found["bytes_per_block_worker"])
        self.assertLess(found["p50_us"], found["p50_tokens_us"])

    def test_text_has_them_too(self):
        code, out, err = command.run("bench", "index", *SMALL)
        self.assertEqual(code, 0, err)
        for word in ("20,000 blocks", "3 workers", "million/s", "p99", "0 wrong answers"):
            self.assertIn(word, out)

    def test_what_it_cannot_measure_is_refused(self):
        self.assert_refused(command.run("bench", "index", "--blocks", 10), "--blocks", "1,000")
        self.assert_refused(command.run("bench", "index", "--prompt-tokens", 16), "--prompt-tokens", "1,024")


if __name__ == "__main__":
    command.main()
