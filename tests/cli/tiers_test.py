#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kvcache replay --tiers: what a pool has evicted comes back from tiers, by sizes alone or by bytes."""
import os
import tempfile

import command

SMALL = ("--generate", "--requests", 200, "--seed", 3, "--num-blocks", 3000)


class Tiers(command.CommandTest):
    def test_a_large_tier_makes_up_for_a_small_pool(self):
        plain = command.replay(*SMALL)
        large = command.replay("--generate", "--requests", 200, "--seed", 3, "--num-blocks", 400000)
        tiered = command.replay(*SMALL, "--tiers", "memory:?bytes=1TiB")
        self.assertGreater(tiered["hit_rate"], plain["hit_rate"])
        self.assertLessEqual(tiered["hit_rate"], large["hit_rate"] + 1e-9)
        self.assertGreater(tiered["loaded_tokens"], 0)
        self.assertEqual(tiered["tiers"][0]["failed_loads"], 0)
        self.assertEqual(tiered["tiers"][0]["loaded_bytes"], tiered["loaded_tokens"] // 16 * 2**21)

    def test_the_model_is_told_and_explains_what_is_saved(self):
        report = command.replay(*SMALL, "--tiers", "memory:?bytes=1TiB", "--compute-us", 50, "--tier-gb-per-s", "10", "--block-bytes", "1MiB")
        model = report["tier_model"]
        self.assertEqual((model["compute_us_per_token"], model["gb_per_s"], model["block_bytes"]), (50, "10", "1MiB"))
        saved = report["loaded_tokens"] * 50e-6 - report["tiers"][0]["loaded_bytes"] / 10e9
        self.assertAlmostEqual(report["ttft_saved_seconds"], saved, places=6)

    def test_a_second_tier_has_what_the_first_one_lost(self):
        one = command.replay(*SMALL, "--tiers", "memory:?bytes=4GiB")
        two = command.replay(*SMALL, "--tiers", "memory:?bytes=4GiB,slab:/nowhere?bytes=1TiB")
        self.assertGreaterEqual(two["hit_rate"], one["hit_rate"])
        self.assertGreater(two["tiers"][1]["hits"], 0)
        self.assertEqual(one["tiers"][0]["url"], "memory:?bytes=4GiB")

    def test_bytes_give_the_same_hits_as_sizes_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            url = "slab:" + os.path.join(folder, "slab") + "?bytes=64MiB"
            few = ("--generate", "--requests", 60, "--seed", 3, "--num-blocks", 2500, "--block-bytes", "4KiB")
            sizes = command.replay(*few, "--tiers", url)
            self.assertFalse(os.path.exists(os.path.join(folder, "slab")))
            real = command.replay(*few, "--tiers", url, "--tier-bytes")
            self.assertGreater(real["loaded_tokens"], 0)
            self.assertEqual(real["tiers"][0]["failed_loads"], 0)
            self.assertGreater(sizes["loaded_tokens"], 0)

    def test_a_model_with_windows_has_pages_of_each_group(self):
        few = ("--generate", "--requests", 60, "--seed", 3, "--num-blocks", 2500, "--model", "gemma-2-9b")
        plain = command.replay(*few)
        tiered = command.replay(*few, "--tiers", "memory:?bytes=4TiB")
        sizes = tiered["tier_model"]["block_bytes"]
        self.assertEqual(len(sizes), 2)
        self.assertGreater(tiered["loaded_tokens"], 0)
        self.assertGreater(tiered["hit_rate"], plain["hit_rate"])
        # All tokens in the group of full attention, and no more of the one with a window.
        self.assertGreater(tiered["tiers"][0]["loaded_bytes"], tiered["loaded_tokens"] // 16 * sizes[0])
        self.assertLessEqual(tiered["tiers"][0]["loaded_bytes"], tiered["loaded_tokens"] // 16 * sum(sizes))

    def test_bad_options_are_named(self):
        for options, text in ((("--tiers", "memory:"), "bytes is missing"), (("--tiers", "memory:?bytes=1GiB", "--tier-gb-per-s", "0"), "--tier-gb-per-s is 0"), (("--tiers", "memory:?bytes=1GiB", "--verify"), "leave one out"),
                              (("--tiers", "memory:?bytes=1GiB", "--model", "gemma-2-9b", "--block-bytes", "1MiB"), "--block-bytes"),
                              (("--tiers", "memory:?bytes=1GiB", "--model", "whisper-tiny"), "cross-attention")):
            code, _, err = command.run("replay", *SMALL, *options)
            self.assertEqual(code, 2, err)
            self.assertIn(text, err)


if __name__ == "__main__":
    command.main()
